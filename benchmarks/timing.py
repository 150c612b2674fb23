"""Times of two sides that do the same work, as ratios; and the rate of this machine's products."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.15  # cores; a pair of runs during which other processes used more is measured again
TRIES = 4  # per pair


@dataclass(frozen=True)
class Pairs:
    """Seconds of side A and side B, run in turn: A B, B A, A B, …

    Parameters
    ----------
    a, b : seconds, one a pair
    disturbed : pairs that were kept although other processes were busy
    """

    a: list[float]
    b: list[float]
    disturbed: int

    @property
    def medians(self) -> tuple[float, float]:
        """Median seconds of A and of B."""
        return statistics.median(self.a), statistics.median(self.b)

    @property
    def ratio(self) -> float:
        """Median over the pairs of A's time divided by B's."""
        return statistics.median(a / b for a, b in zip(self.a, self.b, strict=True))


def in_turn(a: Callable[[], object], b: Callable[[], object], repeats: int) -> Pairs:
    """Time both sides `repeats` times in turn, each pair in the other order than the one before."""
    made = Pairs([], [], 0)
    disturbed = 0
    for i in range(repeats):
        for _attempt in range(TRIES):
            began, others = time.perf_counter(), _others()
            if i % 2 == 0:
                times = _seconds(a), _seconds(b)
            else:
                times = _seconds(b), _seconds(a)
                times = times[1], times[0]
            share = (_others() - others) / (time.perf_counter() - began)
            note(f"pair {i + 1}: {times[0]:.2f} s, {times[1]:.2f} s, others used {share:.2f} cores")
            if share <= BUSY:
                break
        disturbed += share > BUSY
        made.a.append(times[0])
        made.b.append(times[1])
    return Pairs(made.a, made.b, disturbed)


def _seconds(f: Callable[[], object]) -> float:
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


def _others() -> float:
    """CPU seconds that other processes have used since the machine started; 0 where unknown."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    fields = [int(v) for v in stat.read_text().split("\n")[0].split()[1:]]
    user, nice, system, _idle, _wait, irq, soft, steal = fields[:8]
    busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def gemm_rate(batch: int, n_inputs: int, units: int) -> float:
    """FLOP/s of the product (batch, n_inputs) @ (n_inputs, units), float32, best of 20 rounds."""
    import torch

    a, b = torch.rand(batch, n_inputs), torch.rand(n_inputs, units)
    rounds = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(10):
            torch.mm(a, b)
        rounds.append((time.perf_counter() - began) / 10)
    return 2 * batch * n_inputs * units / min(rounds)


def mlp_flops(n_inputs: int, units: int, n_outputs: int) -> tuple[int, int]:
    """FLOP of the products of a 2-hidden-layer MLP, per sample: forward, and forward + backward.

    The backward pass forms the gradient of every weight, and of every layer's input but the first.
    """
    first = n_inputs * units
    weights = first + units * units + units * n_outputs
    return 2 * weights, 2 * (3 * weights - first)


def note(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)
