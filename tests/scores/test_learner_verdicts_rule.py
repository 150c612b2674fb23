"""The rule of docs/metrics.md, "The rule of the verdicts", made again from that text by loops.

Answers go through stored runs and the report; here are their numbers by NumPy means and scipy's t.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pinned_runs import write_run
from scipy import stats

from embedbench.array_types import Ints
from embedbench.config.run_seeds import Seeds
from embedbench.reports.compare_learners import judge
from embedbench.reports.tables_from_runs import collect
from embedbench.scores.learner_verdicts import RowVerdict
from embedbench.scores.predictions import Predictions

ALPHA = 0.05
NAMES = ("ncm", "slda", "ewc", "knn")


class Table(NamedTuple):
    """Answers of every learner and seed to one test sample."""

    y: Ints
    group: Ints
    answers: dict[str, dict[int, Ints]]  # learner → seed → (n,)


def draw(seed: int) -> Table:
    """Four learners; the last has fewer seeds, the first answers the same with all of them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 60))
    y = np.concatenate([np.arange(3), rng.choice(3, n - 3, p=[0.6, 0.3, 0.1])])
    group = np.concatenate([np.zeros(n // 3, np.int64), rng.integers(1, 9, n - n // 3)])
    answers: dict[str, dict[int, Ints]] = {}
    for k, name in enumerate(NAMES):
        each = {}
        for s in range(2 if k == 3 else 4):
            wrong = rng.random(n) < 0.1 + 0.2 * k
            each[s] = np.where(wrong, (y + 1) % 3, y)
        answers[name] = dict.fromkeys(each, each[0]) if k == 0 else each
    return Table(y, group, answers)


def score(y: Ints, answer: Ints) -> float:
    """The mean over classes of the share of their samples that are right."""
    return float(np.mean([np.mean(answer[y == c] == c) for c in np.unique(y)]))


class Rule:
    """The numbered steps of the page."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def x(self, i: str, s: int, rest: Any = slice(None)) -> float:
        return score(self.table.y[rest], self.table.answers[i][s][rest])

    def seeds(self, i: str, j: str) -> list[int]:
        return [s for s in self.table.answers[i] if s in self.table.answers[j]]

    def d(self, i: str, j: str, rest: Any = slice(None)) -> float:
        """Step 1."""
        each = [self.x(j, s, rest) - self.x(i, s, rest) for s in self.seeds(i, j)]
        return sum(each) / len(each)

    def seed_share(self, i: str, j: str) -> tuple[float, float] | None:
        """Step 2: s²/n and its degrees of freedom."""
        each = [self.x(j, s) - self.x(i, s) for s in self.seeds(i, j)]
        n, mean = len(each), sum(each) / len(each)
        share = sum((d - mean) ** 2 for d in each) / (n - 1) / n
        return (share, n - 1) if share > 1e-24 else None  # no two learners have equal answers

    def left_out(self, i: str, j: str, seeds: list[int]) -> Iterator[float]:
        for g in np.unique(self.table.group):
            rest = self.table.group != g
            each = [self.x(j, s, rest) - self.x(i, s, rest) for s in seeds]
            yield sum(each) / len(each)

    def v(self, i: str, j: str, seeds: list[int]) -> float:
        each = list(self.left_out(i, j, seeds))
        mean = sum(each) / len(each)
        return (len(each) - 1) / len(each) * sum((d - mean) ** 2 for d in each)

    def effective(self) -> float:
        """Step 3: G*."""
        y, group = self.table.y, self.table.group
        classes = len(np.unique(y))
        total = 0.0
        for g in np.unique(group):
            w = sum(1 / (classes * sum(y == c)) for c in y[group == g])
            total += w**2
        return 1 / total

    def half(self, i: str, j: str, p: float) -> float:
        """Step 4."""
        square = stats.t.isf(p, self.effective() - 1) ** 2 * self.v(i, j, self.seeds(i, j))
        if known := self.seed_share(i, j):
            square += stats.t.isf(p, known[1]) ** 2 * known[0]
        return math.sqrt(square)

    def interval(self, i: str) -> tuple[float, float]:
        """Steps 5 and 6."""
        p = ALPHA / len(NAMES)
        ends = [(self.d(i, j), self.half(i, j, p)) for j in NAMES if j != i]
        return max(d - h for d, h in ends), max(d + h for d, h in ends)

    def ranks(self, i: str) -> tuple[int, int, int]:
        """Step 7: the rank of the mean, and the ends of those left open."""
        p = ALPHA / len(NAMES)
        means = {j: np.mean([self.x(j, s) for s in self.table.answers[j]]) for j in NAMES}
        rank = 1 + sum(means[j] > means[i] + 1e-12 for j in NAMES)
        others = [j for j in NAMES if j != i]
        first = 1 + sum(self.d(i, j) - self.half(i, j, p) > 0 for j in others)
        last = len(NAMES) - sum(self.d(j, i) - self.half(j, i, p) > 0 for j in others)
        return rank, min(first, rank), max(last, rank)

    def could_be_seen(self, i: str) -> tuple[float, float]:
        """Step 8: with these seeds, and with any number."""
        p = ALPHA / len(NAMES)
        j = max((j for j in NAMES if j != i), key=lambda j: self.d(i, j))
        seeds = self.seeds(i, j)
        n, single = len(seeds), [self.v(i, j, [s]) for s in seeds]
        v = (n * self.v(i, j, seeds) - sum(single) / n) / (n - 1)
        return self.half(i, j, p), stats.t.isf(p, self.effective() - 1) * math.sqrt(max(v, 0))


def store(table: Table, root: Path) -> None:
    """One session and one moment; the answers of `ewc` hold no groups."""
    n = len(table.y)
    for name, each in table.answers.items():
        for seed, answer in each.items():
            plain = {
                "ids": np.arange(n), "y": table.y, "eval_set": np.zeros(n, dtype=np.int64),
                "set_classes": np.ones((1, 3), dtype=np.bool_), "session": np.zeros(1, np.int64),
                "samples_seen": np.ones(1, np.int64), "seen": np.ones((1, 3), dtype=np.bool_),
                "answer": answer[None].astype(np.int32), "within": answer[None].astype(np.int32),
            }  # fmt: skip
            full = {
                "rank": (answer != table.y)[None].astype(np.uint16),
                "score": np.zeros((1, n), dtype=np.float32),
                "group": table.group,
            }
            p = Predictions(**plain) if name == "ewc" else Predictions(**plain, **full)
            changes: dict[str, Any] = {} if name == "ewc" else {"answers": "full"}
            changes |= {"seed": seed, "seeds": vars(Seeds.of(seed))}
            write_run(root, f"stream-1/{name}/seed-{seed}", p, learner=name, **changes)


@pytest.fixture(scope="module", params=range(3))
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Rule, dict[str, RowVerdict]]:
    """The rule from the text, and the verdicts of a report."""
    table = draw(request.param)
    root = tmp_path_factory.mktemp("runs")
    store(table, root)
    rows = collect(root, metrics=["class_accuracy"])
    verdicts = [verdict for verdict in judge(rows).rows if verdict is not None]
    return Rule(table), dict(zip([row.label for row in rows], verdicts, strict=True))


Made = tuple[Rule, dict[str, RowVerdict]]


@pytest.mark.parametrize("name", NAMES)
def test_intervals(made: Made, name: str) -> None:
    rule, verdicts = made
    row = verdicts[name]
    assert (row.behind_by_least, row.behind_by_most) == pytest.approx(rule.interval(name))


@pytest.mark.parametrize("name", NAMES)
def test_who_is_behind_and_ranks(made: Made, name: str) -> None:
    rule, verdicts = made
    row = verdicts[name]
    assert row.ranks is not None
    assert (row.behind, row.rank, *row.ranks) == (rule.interval(name)[0] > 0, *rule.ranks(name))


@pytest.mark.parametrize("name", NAMES)
def test_what_could_have_been_seen(made: Made, name: str) -> None:
    rule, verdicts = made
    row = verdicts[name]
    found = (row.detectable, row.detectable_any_seeds)
    assert found == pytest.approx(rule.could_be_seen(name))


def test_groups_are_those_of_the_text(made: Made) -> None:
    rule, verdicts = made
    assert verdicts["ewc"].effective_groups == pytest.approx(rule.effective())
