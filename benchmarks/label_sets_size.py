"""Bytes and seconds of the predictions of IIRC-ImageNet-full: 1,083 classes, 35 sessions.

    python benchmarks/label_sets_size.py [--samples 50000]

The answers are random: one to four labels among the classes seen. There are as many test as
post-task validation samples. Peak memory is that of the whole process, which holds the answers,
writes them, reads them again and scores them.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from embedbench.scores import label_set_scores
from embedbench.scores.label_set_predictions import LabelSets, pack

CLASSES, SESSIONS, CHUNK = 1083, 35, 8192


def answers(n: int, seen: int, draw: np.random.Generator) -> np.ndarray:
    """Packed random answers, (n, ⌈C/8⌉) uint8."""
    parts = []
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        labels = np.zeros((rows, CLASSES), dtype=np.bool_)
        for _ in range(4):
            labels[np.arange(rows), draw.integers(0, seen, rows)] = True
        parts.append(pack(labels))
    return np.concatenate(parts)


def main() -> None:
    """Print one line per step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    n = 2 * parser.parse_args().samples
    draw = np.random.default_rng(0)
    order = np.array_split(np.arange(CLASSES), SESSIONS)
    introduces = np.zeros((SESSIONS, CLASSES), dtype=np.bool_)
    for session, classes in enumerate(order):
        introduces[session, classes] = True
    given = np.empty((SESSIONS, n, -(-CLASSES // 8)), dtype=np.uint8)
    for session, classes in enumerate(order):
        given[session] = answers(n, int(classes[-1]) + 1, draw)
    made = LabelSets(
        ids=np.arange(n),
        split=np.arange(n) % 2,
        y=answers(n, CLASSES, draw),
        introduces=introduces,
        parents=np.concatenate([np.full(85, -1), np.arange(CLASSES - 85) % 85]),
        session=np.arange(SESSIONS),
        samples_seen=np.arange(1, SESSIONS + 1),
        seen=np.cumsum(introduces, axis=0) > 0,
        answer=given,
        undecided=np.zeros(SESSIONS, dtype=np.int64),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.h5"
        for what, step in (
            ("written", lambda: made.save(path)),
            ("scores", lambda: label_set_scores.matrices(made)),
            ("curves", lambda: label_set_scores.curves(made)),
        ):
            began = time.perf_counter()
            step()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            print(f"{what}: {time.perf_counter() - began:.0f} s, peak {peak:,.0f} MB", flush=True)
        print(f"file: {path.stat().st_size / 1e6:.0f} MB, of {given.nbytes / 1e6:.0f} MB in memory")


if __name__ == "__main__":
    main()
