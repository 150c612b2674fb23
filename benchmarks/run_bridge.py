"""From frozen to full: one stream, the same learners, on embeddings and on the images themselves.

    python benchmarks/run_bridge.py MNIST EMOJI --out OUT

MNIST is the folder of its four IDX files; the first 3,000 training and 1,000 test images are used.
EMOJI is a folder of class folders. Both are extracted with the shipped backbone and as images. The
streams are digits in five sessions of two classes, emoji in twelve sessions, and digits with
permuted pixels. In the last one the embeddings are the pixels themselves, one row per image,
because only these can be permuted like the images. Learners, their settings and epochs are the same
on both sides; only the trunk differs. Finished work is kept, so the command can be resumed.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import subprocess
import sys
from pathlib import Path

LEARNERS = "finetune,er,lwf,icarl,lucir,bic,joint"
IDX = {"images-idx3-ubyte": 16, "labels-idx1-ubyte": 8}  # bytes before the values
COUNTS = {"train": 3000, "t10k": 1000}


def cut(source: Path, out: Path) -> None:
    """Write the first images and labels of MNIST's files."""
    out.mkdir(parents=True, exist_ok=True)
    for part, n in COUNTS.items():
        for kind, head in IDX.items():
            name = f"{part}-{kind}"
            data = gzip.decompress((source / f"{name}.gz").read_bytes())
            whole = struct.unpack(">i", data[4:8])[0]
            size = (len(data) - head) // whole
            short = data[:4] + struct.pack(">i", n) + data[8:head] + data[head:][: n * size]
            (out / name).write_bytes(short)


def embedbench(*words: object) -> None:
    """Print a command, and run it."""
    print("$ embedbench", *words, flush=True)
    subprocess.run([Path(sys.executable).parent / "embedbench", *map(str, words)], check=True)


def extracted(source: Path, out: Path, *words: object) -> Path:
    """The file of a source and a backbone; it is made unless it exists."""
    if not out.exists():
        embedbench("extract", source, "--backbone", *words, "--out", out)
    return out


def main() -> None:
    """Extract, run, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mnist", type=Path)
    parser.add_argument("emoji", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--trunk", default="resnet8")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    numbers, lite0 = args.out / "digits", ("tf_efficientnet_lite0", "--weights", "shipped")
    cut(args.mnist, numbers)
    digits = extracted(numbers, args.out / "digits.h5", *lite0)
    flat = extracted(numbers, args.out / "digits-flat.h5", "pixels", "--size", 28)
    square = extracted(numbers, args.out / "digits-28.h5", "none", "--size", 28)
    emoji = extracted(args.emoji, args.out / "emoji.h5", *lite0)
    small = extracted(args.emoji, args.out / "emoji-32.h5", "none", "--size", 32)
    classes = ("--protocol", "incremental-class", "--order", "random")
    twos = ("--set", "protocol.base=2", "--set", "protocol.step=2")
    fours = ("--set", "protocol.base=44", "--set", "protocol.step=4")
    permuted = ("--protocol", "permutation", "--set", "protocol.sessions=3")
    streams = {
        "digits": ((digits, square), (*classes, *twos)),
        "emoji": ((emoji, small), (*classes, *fours)),
        "permuted": ((flat, square), permuted),
    }
    alike = ("batch_size=64", "lr=0.001", "optimiser=adam", "stop.rule=epochs")
    shared = [*alike, f"stop.epochs={args.epochs}"]
    memory = [f"er.memory.{s}" for s in ("select=random", "total=none", "per_class=20")]
    items = [*shared, *(f"offline.mlp.{s}" for s in shared), *memory]
    items.append("protocol.observe_batch=0")  # er learns whole sessions, as the others
    settings = [word for item in items for word in ("--set", item)]
    for name, (files, protocol) in streams.items():
        for path, trunk in zip(files, ((), ("--trunk", args.trunk)), strict=True):
            embedbench(
                "run", path, *protocol, "--learner", LEARNERS, *trunk, *settings,
                "--seeds", args.seeds, "--jobs", args.jobs, "--device", args.device,
                "--out", args.out / f"{name}-runs", "--quiet",
            )  # fmt: skip
        embedbench("report", args.out / f"{name}-runs", "--bridge")


if __name__ == "__main__":
    main()
