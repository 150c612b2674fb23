"""Kill -9 an extraction at random moments, resume it, and compare with an uninterrupted one.

    python benchmarks/extract_kill.py SOURCE [--kills 20] [--size 96] [--seed 0]

The moments lie between the start of the process and the renaming of the finished file.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from embedbench.files.embedding_file import EmbeddingFile

CODE = """
import sys, warnings
from embedbench.extract import extract
warnings.simplefilter("ignore")
seen = []
extract(sys.argv[1], sys.argv[2], backbone="tf_efficientnet_lite0", weights="shipped",
        size=int(sys.argv[3]), device=sys.argv[4],
        progress=lambda done, total: seen.append(done))
print(seen[0])
"""


def start(source: str, out: Path, size: int, device: str) -> subprocess.Popen[str]:
    """Start an extraction in a separate process."""
    command = [sys.executable, "-c", CODE, source, str(out), str(size), device]
    here = str(Path(__file__).parent.parent)
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def finish(process: subprocess.Popen[str]) -> int:
    """Wait for an extraction; return how many images were done before it."""
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"an extraction ended with {process.returncode}")
    return int(said)


@dataclass(frozen=True)
class Kill:
    """One killed extraction.

    Parameters
    ----------
    moment : float
        Seconds after which it was killed.
    resumed_at : int
        Image at which it resumed.
    same : bool
        Whether it then made the same file.
    """

    moment: float
    resumed_at: int
    same: bool


def kills(
    source: str, n: int, *, size: int, seed: int = 0, device: str = "auto", earliest: float = 0.0
) -> Iterator[Kill]:
    """Kill and resume an extraction `n` times; each is compared with an uninterrupted one.

    Parameters
    ----------
    earliest : float
        Share of the time of an uninterrupted extraction before which none is killed.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        whole, out = Path(directory) / "whole.h5", Path(directory) / "out.h5"
        began = time.perf_counter()
        finish(start(source, whole, size, device))
        seconds = time.perf_counter() - began
        expected = EmbeddingFile.open(whole)
        print(f"uninterrupted: {expected.shape[0]} rows in {seconds:.1f} s", flush=True)
        number = 0
        while number < n:
            moment = rng.uniform(earliest * seconds, seconds)
            process = start(source, out, size, device)
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
            if out.exists():  # it finished before the kill
                out.unlink()
                continue
            number += 1
            resumed_at = finish(start(source, out, size, device))
            file = EmbeddingFile.open(out)
            yield Kill(
                moment, resumed_at, file.digests == expected.digests and not file.damaged_rows()
            )
            out.unlink()


def main() -> None:
    """Kill, resume, compare; one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    same = 0
    results = kills(args.source, args.kills, size=args.size, seed=args.seed, device=args.device)
    for number, kill in enumerate(results, 1):
        same += kill.same
        print(
            f"{number:2d}. killed after {kill.moment:5.1f} s, resumed at image {kill.resumed_at}: "
            f"content {'identical' if kill.same else 'DIFFERS'}",
            flush=True,
        )
    print(f"{same} of {args.kills} identical")


if __name__ == "__main__":
    main()
