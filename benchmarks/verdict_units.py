"""How often verdicts are wrong about what they count: groups, a big group, discrete scores, collapses.

    python benchmarks/verdict_units.py [--tables 4000]

Simulated tables of k learners of equal worth, judged as before the change (*before*) and by
`embedbench.scores.learner_verdicts` (*now*). A learner named beforehand may be called behind in 5 %
of the tables and three Monte-Carlo errors. Parts:

- groups: 40 groups of ten test samples that differ in difficulty, and learners in what they do
  with a group; before: one imported row, so that all count samples.
- big: the same with groups of unequal size; before: all G groups count as G.
- discrete: a test sample of N, on which the seeds alone decide (`--over seeds`), each score the
  nearest multiple of 1/N; before: equal differences are proof of a standard error of 0.
- collapse: one steady learner, and others whose runs fall to .1 with a probability p and are
  otherwise so good that all means are equal. The rule is the same; who is marked is new.
"""

import argparse
import itertools
from collections.abc import Sequence

import numpy as np

from embedbench.array_types import Floats
from embedbench.scores.collapsed_runs import find_collapsed
from embedbench.scores.learner_verdicts import LEVEL, SampleShare, subtract_rows
from embedbench.scores.metric_jackknife import pair_variances

SIZES = {
    "40 of 10": [10] * 40,
    "one of 34 %": [206] + [10] * 40,
    "one of 50 %": [400] + [10] * 40,
    "one of 80 %": [1600] + [10] * 40,
    "two of 40 %": [400, 400] + [5] * 40,
    "three of 30 %": [300] * 3 + [5] * 20,
    "one of 50 %, five others": [100] + [20] * 5,
}


def is_behind(values: Floats, sample: SampleShare | None, alike: bool) -> bool:
    """Whether the first row is behind."""
    proof = np.ones((len(values), len(values)), dtype=np.bool_) if alike else None
    return bool((subtract_rows(values, sample, alike=proof).behind_by_least()[0] > 0).any())


def share(right: Floats, sizes: Floats, *, effective: bool) -> SampleShare:
    """The test sample's share, of (k, n, G) right answers in groups of these sizes."""
    total = right.sum(axis=-1, keepdims=True)
    left_out = (total - right) / (sizes.sum() - sizes)
    counted = sizes.sum() ** 2 / (sizes**2).sum() if effective else len(sizes)
    return SampleShare(pair_variances(left_out), len(sizes), counted)


def draw_answers(rng: np.random.Generator, k: int, n: int, sizes: Sequence[int]) -> list[Floats]:
    """Of each group (k, n, size) right or wrong: learners differ in groups, and a little by seed."""
    drawn = []
    for size in sizes:
        hard = rng.standard_normal()
        mine = 0.7 * rng.standard_normal((k, 1, 1)) + 0.2 * rng.standard_normal((k, n, 1))
        each = rng.standard_normal((1, 1, size))  # samples differ, too
        drawn.append((rng.random((k, n, size)) < 1 / (1 + np.exp(-1 - hard - mine - each))) * 1.0)
    return drawn


def rate_groups(tables: int) -> None:
    """Groups against samples, and groups of unequal size."""
    print("\n| test sample | k, seeds | before | now |\n|---|---|---|---|")
    for name, k, n in itertools.product(SIZES, (2, 9), (1, 5)):
        rng = np.random.default_rng([k, n])
        sizes = np.array(SIZES[name], dtype=float)
        wrong = np.zeros(2)
        for _ in range(tables):
            answers = draw_answers(rng, k, n, SIZES[name])
            right = np.stack([each.sum(axis=-1) for each in answers], axis=-1)
            values = right.sum(axis=-1) / sizes.sum()
            if name == "40 of 10":
                single = np.concatenate(answers, axis=-1)
                before = share(single, np.ones(single.shape[-1]), effective=False)
            else:
                before = share(right, sizes, effective=False)
            now = share(right, sizes, effective=True)
            wrong += [is_behind(values, before, True), is_behind(values, now, False)]
        print(f"| {name} | {k}, {n} | {percents(wrong / tables)} |")


def rate_discrete(tables: int) -> None:
    """Scores that are multiples of 1 / N."""
    print("\n| sd of a score, in test samples | k, seeds | before | now |\n|---|---|---|---|")
    for sd, k, n in itertools.product((0.2, 0.5, 1.0, 3.0), (2, 9), (3, 5)):
        rng = np.random.default_rng([k, n])
        wrong = np.zeros(2)
        for _ in range(tables):
            middle = rng.random()  # where the scores lie between two multiples
            values = np.round(middle + sd * rng.standard_normal((k, n)))
            wrong += [is_behind(values, None, True), is_behind(values, None, False)]
        print(f"| {sd} | {k}, {n} | {percents(wrong / tables)} |")


def rate_collapse(tables: int) -> None:
    """A steady learner, and others that collapse now and then."""
    print("\n| p, k, seeds | steady row behind | a collapsing row behind | of the wrong, marked |")
    print("|---|---|---|---|")
    for p, k, n in itertools.product((0.1, 0.2, 0.4), (2, 5), (3, 5, 10)):
        rng = np.random.default_rng([k, n])
        steady, other, marked = 0, 0, 0
        good = (0.6 - 0.1 * p) / (1 - p)
        for _ in range(tables):
            values = good + 0.01 * rng.standard_normal((k, n))
            values[rng.random((k, n)) < p] = 0.1
            values[0] = 0.6 + 0.01 * rng.standard_normal(n)
            behind = (subtract_rows(values).behind_by_least() > 0).any(axis=1)
            steady, other = steady + behind[0], other + behind[1]
            marked += behind[0] and any(find_collapsed(row, 0.1) for row in values)
        rates = percents(np.array([steady, other, 0]) / tables).rpartition(" | ")[0]
        print(f"| {p}, {k}, {n} | {rates} | {100 * marked / max(steady, 1):.0f} |")


def percents(rates: Floats) -> str:
    """Some rates in percent, as cells."""
    return " | ".join(f"{100 * rate:.1f}" for rate in rates)


def main() -> None:
    """Print all parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=4000)
    tables = parser.parse_args().tables
    largest = LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / tables)
    print(f"{tables} tables each; at most {100 * largest:.1f} % of them")
    rate_discrete(tables)
    rate_collapse(tables)
    rate_groups(tables)


if __name__ == "__main__":
    main()
