"""Ratios of the times of sides that do the same work."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.15  # cores; a round during which other processes used more is measured again
TRIES = 3  # per round
sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))  # makers of data


@dataclass(frozen=True)
class Rounds:
    """Seconds of several sides that were run in turn.

    Parameters
    ----------
    times : list of list of float
        Seconds: one list per side, one entry per round.
    disturbed : int
        Rounds that were kept although other processes were busy.
    """

    times: list[list[float]]
    disturbed: int

    def median(self, side: int) -> float:
        """Median seconds of a side."""
        return statistics.median(self.times[side])

    def best(self, side: int) -> float:
        """Seconds of a side's fastest round; disturbances can only make a round slower."""
        return min(self.times[side])

    def ratio(self, side: int, other: int) -> float:
        """Median over the rounds of a side's time divided by another's."""
        pairs = zip(self.times[side], self.times[other], strict=True)
        return statistics.median(a / b for a, b in pairs)


def in_turn(
    sides: Sequence[Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Rounds:
    """Time all sides in turn, `repeats` times; the order alternates from round to round.

    `clock` returns seconds, of the day or of this process's processors. A round during which other
    processes used more than `BUSY` cores is repeated, up to `TRIES` times in all; the one with the
    least disturbance counts.
    """
    kept, disturbed = [], 0
    for i in range(repeats):
        tries = []
        for _ in range(TRIES):
            began, others = time.perf_counter(), _others()
            order = range(len(sides)) if i % 2 == 0 else reversed(range(len(sides)))
            times = {side: _seconds(sides[side], clock) for side in order}
            share = (_others() - others) / (time.perf_counter() - began)
            tries.append((share, [times[side] for side in range(len(sides))]))
            seconds = ", ".join(f"{t:.2f} s" for t in tries[-1][1])
            note(f"round {i + 1}: {seconds}; others used {share:.2f} cores")
            if share <= BUSY:
                break
        share, best = min(tries)
        disturbed += share > BUSY
        kept.append(best)
    return Rounds([list(side) for side in zip(*kept, strict=True)], disturbed)


def _seconds(f: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    f()
    return clock() - began


def _others() -> float:
    """CPU seconds of other processes since the machine started; 0 if unknown."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    fields = [int(v) for v in stat.read_text().split("\n")[0].split()[1:9]]
    del fields[3:5]  # idle, and waiting for a disk
    return sum(fields) / os.sysconf("SC_CLK_TCK") - time.process_time()


def parse_options(doc: str, repeats: int, threads: int) -> argparse.ArgumentParser:
    """The options of a script, to which it adds its own."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("file", nargs="?", help="MNIST as an embedding file; default: synthetic")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=threads)
    return parser


def print_row(*cells: object) -> None:
    """A row of a Markdown table; times with two digits."""
    texts = (f"{c:.2f}" if isinstance(c, float) else str(c) for c in cells)
    print(f"| {' | '.join(texts)} |", flush=True)


def print_head(*names: str) -> None:
    """The first two lines of a Markdown table."""
    print_row(*names)
    print("|---" * len(names) + "|", flush=True)


def note(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)
