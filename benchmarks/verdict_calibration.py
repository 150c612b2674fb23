"""How often the verdict on a table is wrong, and what it sees.

    python benchmarks/verdict_calibration.py [--tables 2000]

Simulated tables of k learners and n seeds, judged by `embedbench.scores.learner_verdicts`. The
score of a row is its true mean + what the seeds do + what the test sample does. In every cell the
true best, of several equal ones one named beforehand, must be called behind in at most 5 % of the
tables and three Monte-Carlo errors. A cell is:

- k = 3, 9, 25 learners; n = 3, 5, 10 seeds; one best, two, or all equal; others are 2, 5 and 20
  points lower, in turn.
- Variances of the rows over seeds in the ratio 1, 6 or 40, rising evenly on a log scale, the best
  at either end; geometric mean of the standard deviations 2 points; correlated by seed 0 or .8.
- Residuals over seeds normal, or resampled from the committed runs with ten seeds
  (docs/results/data/kemker2018-mlp.json): each row has those of one column, smoothed by a normal
  kernel of Silverman's width.
- A test sample of 20, 200 or 2,000 groups of one to nine samples each, right or wrong: groups
  differ in difficulty, and rows in what they do with a group. Its share of the variance of a row's
  mean is 0, a half, or all (learners that no seed changes).
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import scipy

from embedbench.array_types import Floats
from embedbench.scores.learner_verdicts import LEVEL, Differences, subtract_rows
from embedbench.scores.metric_jackknife import pair_variances

DOCS = Path(__file__).resolve().parents[1] / "docs"
GAPS = (5.0, 2.0, 20.0)  # points that the others are below the best, in turn
SD = 2.0  # points, geometric mean over rows
CHUNK = 100  # tables at a time: their arrays fit into the processor's cache
SEEN = 0.9  # least share of 20 points that must be seen with one ratio and five seeds or more


@dataclass(frozen=True)
class Cell:
    """One kind of table; `groups` is 0 where there is no test sample, `share` its part."""

    k: int
    n: int
    bests: int
    ratio: float
    is_wide: bool  # the best has the largest variance, not the smallest
    correlation: float
    residuals: str
    groups: int
    share: float


def make_cells() -> Iterator[Cell]:
    """Every combination; where the test sample has all of the variance, seeds decide nothing."""
    variances = [(1.0, False), *itertools.product((6.0, 40.0), (False, True))]
    for k, residuals in itertools.product((3, 9, 25), ("normal", "resampled")):
        for n, (ratio, wide), c in itertools.product((3, 5, 10), variances, (0.0, 0.8)):
            for bests, groups in itertools.product((1, 2, k), (0, 20, 200, 2000)):
                share = 0.5 if groups else 0.0
                yield Cell(k, n, bests, ratio, wide, c, residuals, groups, share)
    for k, groups in itertools.product((3, 9, 25), (20, 200, 2000)):
        for bests in (1, 2, k):
            yield Cell(k, 3, bests, 1.0, False, 0.0, "normal", groups, 1.0)


@cache
def committed_residuals() -> Floats:
    """(columns, 10) residuals over ten seeds, each column with variance 1."""
    data = json.loads((DOCS / "results/data/kemker2018-mlp.json").read_text(encoding="utf-8"))
    columns = [
        np.array(value["ours"]["values"])
        for table in data["tables"]
        for row in table["rows"]
        for value in row["values"].values()
        if len((value.get("ours") or {"values": ()})["values"]) >= 10
    ]
    return np.array([(x - x.mean()) / x.std() for x in columns if x.std() > 1e-4])


def draw_residuals(rng: np.random.Generator, kind: str, shape: tuple[int, int, int]) -> Floats:
    """(tables, k, n) with mean 0 and variance 1."""
    if kind == "normal":
        return rng.standard_normal(shape)
    source = committed_residuals()
    column = rng.integers(len(source), size=(*shape[:2], 1))
    x = source[column, rng.integers(source.shape[1], size=shape)]
    width = 0.9 * source.shape[1] ** -0.2
    return (x + width * rng.standard_normal(shape)) / np.sqrt(1 + width**2)


@cache
def draw_test_samples(k: int, groups: int, tables: int) -> tuple[Floats, Floats]:
    """(tables, k) scores on a test sample less the true ones, and (tables, k, k) `pair_variances`.

    All rows have the same true score; the standard deviation of a score is 1.
    """
    rng = np.random.default_rng([k, groups])
    scores, variances = np.empty((tables, k)), np.empty((tables, k, k))
    for t in range(tables):
        size = rng.integers(1, 10, groups)
        hard = rng.standard_normal(groups) + 0.7 * rng.standard_normal((k, groups))
        right = rng.binomial(size, 1 / (1 + np.exp(-1 - hard)))
        total = right.sum(axis=1, keepdims=True)
        scores[t] = total[:, 0] / size.sum()
        variances[t] = pair_variances(((total - right) / (size.sum() - size))[:, None])
    scale = scores.std()
    return (scores - scores.mean()) / scale, variances / scale**2


def true_gaps(cell: Cell) -> Floats:
    """(k,) how far each row's true mean is below the best; the best rows come first."""
    gaps = np.roll(np.resize(GAPS, cell.k), 1 - cell.bests)
    gaps[: cell.bests] = 0
    return gaps


def draw_tables(cell: Cell, tables: int, rng: np.random.Generator) -> Iterator[Differences]:
    """The differences of all pairs of rows, in points, for some tables at a time."""
    gaps = true_gaps(cell)
    spread = SD * cell.ratio ** np.linspace(-0.25, 0.25, cell.k)
    spread = (spread[::-1] if cell.is_wide else spread)[:, None]
    for start in range(0, tables, CHUNK):
        rows = slice(start, start + CHUNK)
        x = np.zeros((min(CHUNK, tables - start), cell.k, cell.n)) - gaps[:, None]
        if cell.share < 1:
            mine = draw_residuals(rng, cell.residuals, x.shape)
            common = draw_residuals(rng, cell.residuals, (len(x), 1, cell.n))
            c = cell.correlation
            x += spread * (np.sqrt(1 - c) * mine + np.sqrt(c) * common)
        variances = None
        if cell.groups:
            scores, variances = draw_test_samples(cell.k, cell.groups, tables)
            sd = SD * np.sqrt(cell.share / (1 - cell.share) / cell.n if cell.share < 1 else 1)
            x += sd * scores[rows, :, None]
            variances = sd**2 * variances[rows]
        yield subtract_rows(x, variances, cell.groups)


@dataclass(frozen=True)
class Outcome:
    """Shares of tables: the named best is behind, any best is; and of rows, by gap, that are."""

    cell: Cell
    best: float
    any_best: float
    power: dict[float, float]


def judge_cell(cell: Cell, tables: int, seed: int) -> Outcome:
    """Draw the tables of a cell and count verdicts."""
    rng = np.random.default_rng(seed)
    gaps = true_gaps(cell)
    chunks = draw_tables(cell, tables, rng)
    behind = np.concatenate([(c.behind_by_least() > 0).any(axis=-1) for c in chunks])
    tied = behind[:, : cell.bests]
    power = {g: float(behind[:, gaps == g].mean()) for g in GAPS if (gaps == g).any()}
    return Outcome(cell, float(tied[:, 0].mean()), float(tied.any(axis=1).mean()), power)


def largest_rate(tables: int) -> float:
    """5 % and three Monte-Carlo errors."""
    return float(LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / tables))


def format_range(values: list[float]) -> str:
    """The least and the largest of some shares."""
    low, high = (round(100 * f(values)) for f in (min, max))
    return f"{low}" if low == high else f"{low}–{high}"


def report_levels(outcomes: list[Outcome], tables: int) -> bool:
    """Print a line for each k and n, the worst cells, and what fails; whether all cells hold."""
    bad = [o for o in outcomes if o.best > largest_rate(tables)]
    blind = [
        o for o in outcomes if o.cell.ratio == 1 and o.cell.n >= 5 and o.power.get(20.0, 1) < SEEN
    ]
    print(
        f"\n{len(outcomes)} cells of {tables} tables; at most {100 * largest_rate(tables):.2f} %.\n"
    )
    print(
        "| k, n | cells | best called behind, most %: normal | resampled | with a test sample "
        "| any of two, of all equal: most % | 2 points seen, % | 5 | 20 |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for k, n in itertools.product((3, 9, 25), (3, 5, 10)):
        these = [o for o in outcomes if (o.cell.k, o.cell.n) == (k, n)]
        plain = [o for o in these if not o.cell.groups]
        most = [
            max(o.best for o in plain if o.cell.residuals == "normal"),
            max(o.best for o in plain if o.cell.residuals == "resampled"),
            max(o.best for o in these if o.cell.groups),
        ]
        ties = [max(o.any_best for o in these if o.cell.bests == b) for b in (2, k)]
        seen = [format_range([o.power[g] for o in these if g in o.power]) for g in sorted(GAPS)]
        print(
            f"| {k}, {n} | {len(these)} | "
            + " | ".join(f"{100 * m:.1f}" for m in most)
            + f" | {100 * ties[0]:.0f}, {100 * ties[1]:.0f} | "
            + " | ".join(seen)
            + " |"
        )
    for o in sorted(outcomes, key=lambda o: -o.best)[:5]:
        print(f"worst: {100 * o.best:.2f} % in {o.cell}")
    for o in (*bad, *blind):
        print(f"FAILS: {100 * o.best:.2f} %, seen {o.power}, {o.cell}")
    return not bad and not blind


def main() -> None:
    """Print the table; exit with 1 where a cell misses its aim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=2000)
    tables = parser.parse_args().tables
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}")
    outcomes = [judge_cell(cell, tables, i) for i, cell in enumerate(make_cells())]
    sys.exit(not report_levels(outcomes, tables))


if __name__ == "__main__":
    main()
