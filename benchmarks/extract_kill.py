"""Kill -9 an extraction at random moments, resume it, and compare with an uninterrupted one.

    python benchmarks/extract_kill.py SOURCE [--kills 20] [--size 96] [--seed 0]

Any moment counts, from the start of the process to the renaming of the finished file.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from embedbench.files.file import EmbeddingFile

CODE = """
import sys, warnings
from embedbench.extract import extract
warnings.simplefilter("ignore")
seen = []
extract(sys.argv[1], sys.argv[2], backbone="tf_efficientnet_lite0", weights="shipped",
        size=int(sys.argv[3]), progress=lambda done, total: seen.append(done))
print(seen[0])
"""


def start(source: str, out: Path, size: int) -> subprocess.Popen[str]:
    """Start an extraction in a process of its own."""
    command = [sys.executable, "-c", CODE, source, str(out), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> int:
    """Wait for an extraction; return how many images it found already done."""
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"an extraction ended with {process.returncode}")
    return int(said)


def main() -> None:
    """Kill, resume, compare; one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    same = 0
    with tempfile.TemporaryDirectory() as directory:
        whole, out = Path(directory) / "whole.h5", Path(directory) / "out.h5"
        began = time.perf_counter()
        finish(start(args.source, whole, args.size))
        seconds = time.perf_counter() - began
        expected = EmbeddingFile.open(whole)
        print(f"uninterrupted: {expected.shape[0]} rows in {seconds:.1f} s", flush=True)
        number = 0
        while number < args.kills:
            moment = rng.uniform(0, seconds)
            process = start(args.source, out, args.size)
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
            if out.exists():  # it was faster than the first time: no kill
                out.unlink()
                continue
            number += 1
            found = finish(start(args.source, out, args.size))
            file = EmbeddingFile.open(out)
            equal = file.digests == expected.digests and not file.damaged_rows()
            same += equal
            print(
                f"{number:2d}. killed after {moment:5.1f} s, resumed at image {found}: "
                f"content {'identical' if equal else 'DIFFERS'}",
                flush=True,
            )
            out.unlink()
    print(f"{same} of {args.kills} identical")


if __name__ == "__main__":
    main()
