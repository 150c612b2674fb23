"""Ranks, Kendall's τ and the t-test by their definitions, written plainly."""

import itertools
import math

import numpy as np
import pytest

from embedbench.array_types import Floats
from embedbench.reports.compare_learners import ComparisonStudy
from embedbench.reports.comparison_tables import spread_over_orders
from embedbench.scores.mean_intervals import t_quantile


def plain_ranks(scores: Floats) -> Floats:
    """Of each learner: one more than are better, and half of those that are as good."""
    above = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)  # (blocks, k)
    same = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
    ranks: Floats = (above + (same + 1) / 2).mean(axis=0)
    return ranks


def plain_tau(a: Floats, b: Floats) -> float:
    """Concordant less discordant pairs, over the root of the pairs that are no ties."""
    agree = a_ties = b_ties = pairs = 0
    for i, j in itertools.combinations(range(len(a)), 2):
        pairs += 1
        a_ties += a[i] == a[j]
        b_ties += b[i] == b[j]
        agree += int(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]))
    size = math.sqrt((pairs - a_ties) * (pairs - b_ties))
    return agree / size if size else math.nan


@pytest.mark.parametrize("seed", range(20))
def test_ranks_and_tau(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (6, 5)).astype(float)  # with ties: (orders, learners)
    by_learner = {
        f"l{i}": {(f"o{o}", "0"): float(v) for o, v in enumerate(values)}
        for i, values in enumerate(scores.T)
    }
    found = spread_over_orders(ComparisonStudy("toy", "final_accuracy", by_learner)).data
    ranks = np.array([list(entry["ranks"].values()) for entry in found["learners"]])
    np.testing.assert_allclose(ranks.mean(axis=1), plain_ranks(scores), rtol=1e-12)
    for (a, b), tau in zip(itertools.combinations(scores, 2), found["tau"].values(), strict=True):
        expected = plain_tau(a, b)
        assert tau is None if math.isnan(expected) else tau == pytest.approx(expected, rel=1e-12)


def test_the_quantile() -> None:
    """Of tables: 12.706, 4.303, 2.776; and Φ⁻¹(0.975) for many."""
    assert [round(t_quantile(n), 3) for n in (2, 3, 5)] == [12.706, 4.303, 2.776]
    assert t_quantile(10**7) == pytest.approx(1.959964, abs=1e-6)
