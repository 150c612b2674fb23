"""Ranks, Kendall's τ and the t-test by their definitions, written plainly."""

import itertools
import math

import numpy as np
import pytest

from embedbench.array_types import Floats
from embedbench.reports.comparison_results import average_ranks, kendall_tau
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
    scores = rng.integers(0, 4, (6, 5)).astype(float)  # with ties
    np.testing.assert_allclose(average_ranks(scores), plain_ranks(scores), rtol=1e-12)
    for a, b in itertools.combinations(scores, 2):
        np.testing.assert_allclose(kendall_tau(a, b), plain_tau(a, b), rtol=1e-12)


@pytest.mark.parametrize("a", [[], [0.5], [1.0, 1.0, 1.0]])
def test_a_tau_that_is_not_defined(a: list[float]) -> None:
    assert math.isnan(kendall_tau(a, a))


def test_the_quantile() -> None:
    """Of tables: 12.706, 4.303, 2.776; and Φ⁻¹(0.975) for many."""
    assert [round(t_quantile(n), 3) for n in (2, 3, 5)] == [12.706, 4.303, 2.776]
    assert t_quantile(10**7) == pytest.approx(1.959964, abs=1e-6)
