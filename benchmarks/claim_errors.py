"""How often a true claim is refused and a false one accepted, by simulation.

python benchmarks/claim_errors.py prints the table of docs/judging.md; `--tables 2000` is quicker.
Runs of one seed share an effect of that seed, as they do on one stream. A claim says of k + 1
learners that the first is above each of the others. It is *just true* where all are alike (the
hardest case: no test may refuse it more often than its level), *true* where the first is ahead by
some standard deviations of a difference, and *false* where one of the others is alike and the rest
far below (nothing may be accepted more often than the level), or ahead of it.
"""

import argparse
import itertools
from collections.abc import Callable

import numpy as np

from embedbench.array_types import Floats
from embedbench.reports.contrasts import Contrast, Number, OneTest

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
FAR = 10.0  # standard deviations of a run
CASES = ("all alike", "ahead by 2 sd", "one alike, the rest far below", "one ahead by 2 sd")


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal residuals."""
    return rng.standard_normal(shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Residuals with a long lower tail, as where a few runs learn badly; sd 1."""
    return 1 - rng.exponential(size=shape)


def gaps_of(case: str, k: int) -> Floats:
    """(k,) how far the first learner is above each other one, in sd of a run."""
    if case == "all alike":
        return np.zeros(k)
    if case == "ahead by 2 sd":
        return np.full(k, 2.0)
    gaps = np.full(k, FAR)
    gaps[0] = 0.0 if case == "one alike, the rest far below" else -2.0
    return gaps


def make_test(
    rng: np.random.Generator, draw: Draw, gaps: Floats, runs: int, tables: int, *, paired: bool
) -> OneTest:
    """The claim on simulated tables."""
    shared = normal(rng, (tables, 1, runs)) if paired else np.zeros((tables, 1, runs))
    values = draw(rng, (tables, len(gaps) + 1, runs)) + shared
    first = Number.of_runs("first", range(runs), values[:, 0], "")
    contrasts: list[Contrast] = []
    for i, gap in enumerate(gaps, 1):
        seeds = range(runs) if paired else range(100 * i, 100 * i + runs)
        other = Number.of_runs("other", seeds, values[:, i] - gap, "")
        contrasts.append((first - other).above(0))
    return OneTest(contrasts)


def rates(test: OneTest) -> str:
    """Refused and accepted, in percent of tables."""
    return f"{100 * test.fails.mean():.1f} / {100 * test.holds.mean():.1f}"


def refused_before(test: OneTest) -> str:
    """Refused by the earlier rule: one contrast at 2.5 %, however many there are."""
    below = test.margins <= -test.halves(shared=False)
    return f"{100 * below.any(axis=0).mean():.1f}"


def main() -> None:
    """Print a row for each number of contrasts, of runs and kind of residuals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=20_000)
    tables = parser.parse_args().tables
    print("| residuals | pairs | k | runs | " + " | ".join(CASES) + " | all alike, before |")
    print("|" + "---|" * (5 + len(CASES)))
    rng = np.random.default_rng(0)
    kinds = itertools.product((normal, skewed), (True, False), (1, 5, 20), (3, 5, 10))
    for draw, paired, k, runs in kinds:
        tests = [
            make_test(rng, draw, gaps_of(case, k), runs, tables, paired=paired) for case in CASES
        ]
        cells = [rates(test) for test in tests]
        names = [draw.__name__, "by seed" if paired else "none", str(k), str(runs)]
        print("| " + " | ".join([*names, *cells, refused_before(tests[0])]) + " |")


if __name__ == "__main__":
    main()
