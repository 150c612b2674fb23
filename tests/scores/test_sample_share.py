"""The test sample's share: the closed forms against the scorer without each group's samples."""

import math
from dataclasses import replace

import numpy as np
import pytest
import toy

from embedbench.array_types import Floats
from embedbench.scores.metric_jackknife import (
    LeftOut,
    leave_out_final,
    leave_out_means,
    pair_variances,
    share_of_rows,
)


def test_groups_are_those_of_all_runs() -> None:
    """Without "b" .2 and .4, without "a" .3 in the first run; the second lacks "a"."""
    one = LeftOut(np.array(["a", "b"]), np.array([0.3, 0.2, 0.25]))
    other = LeftOut(np.array(["b"]), np.array([0.4, 0.5]))
    variances, n = share_of_rows([[[one]], [[other]]])
    assert (n, variances is None) == (2, False)
    # differences .2 without "a", .2 without "b"; the first row alone .3, .2: mean .25
    np.testing.assert_allclose(variances, [[0.0025, 0], [0, 0.0025]], atol=1e-15)
    assert share_of_rows([[[]], [[]]]) == (None, 0)


def test_a_class_that_is_one_group_leaves_with_it() -> None:
    """Recalls 1, 1/2 and 0; groups are the classes: the means of the two others."""
    right, y = np.array([[1.0, 1, 1, 0, 0, 0]]), np.array([0, 0, 1, 1, 2, 2])
    result = leave_out_means(right, np.ones((1, 6), dtype=np.bool_), y, y, 4)
    np.testing.assert_allclose(result, [[0.25, 0.5, 0.75, 0.5]])  # group 3 has no samples
    nothing = leave_out_means(right, np.array([[True, True, *[False] * 4]]), y, y, 3)
    np.testing.assert_array_equal(nothing, [[math.nan, 1, 1]])


def test_answers_that_another_tool_did_not_give_have_no_share() -> None:
    p = toy.random_predictions(0)
    p = replace(p, within=np.full_like(p.within, -1))
    assert np.isnan(leave_out_final(p, np.arange(len(p.y)), len(p.y), "within_accuracy")).all()


@pytest.mark.parametrize("seed", range(2))
def test_with_groups_of_one_size_it_is_the_variance_of_a_cluster_sample(seed: int) -> None:
    """v = G / (G - 1) Σ (S_g - n_g m)² / N², of the differences of two rows, one group a time."""
    rng = np.random.default_rng(seed)
    n_groups, size = 7, 4
    groups = rng.permutation(np.repeat(np.arange(n_groups), size))
    right = rng.integers(0, 2, (2, n_groups * size)).astype(float)
    counts, one = np.ones_like(right, dtype=np.bool_), np.zeros(right.shape[1], dtype=np.int64)
    left_out = leave_out_means(right, counts, one, groups, n_groups)
    d = right[0] - right[1]
    expected = (
        sum((d[groups == g].sum() - size * d.mean()) ** 2 for g in range(n_groups))
        * n_groups
        / (n_groups - 1)
        / len(d) ** 2
    )
    assert pair_variances(left_out[:, None])[0, 1] == pytest.approx(expected, rel=1e-9)


def naive_variance(a: Floats, b: Floats) -> float:
    """Of two rows (n, G): mean over the seeds of both, then the jackknife's sum."""
    total, seeds = np.zeros(a.shape[1]), 0
    for x, y in zip(a, b, strict=True):
        if not (np.isnan(x).any() or np.isnan(y).any()):
            total, seeds = total + x - y, seeds + 1
    if not seeds:
        return math.nan
    d = total / seeds
    return float(sum((v - d.mean()) ** 2 for v in d) * (len(d) - 1) / len(d))


@pytest.mark.parametrize("seed", range(10))
def test_pairs_with_missing_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left_out = rng.normal(0.5, 0.01, (6, 3, 9))
    left_out[rng.random((6, 3)) < 0.4] = math.nan
    result = pair_variances(left_out)
    for i, j in np.ndindex(6, 6):
        other = np.zeros((3, 9)) if i == j else left_out[j]
        expected = naive_variance(left_out[i], other)
        assert result[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-18, nan_ok=True)


def test_the_share_is_the_variance_over_test_samples() -> None:
    """400 samples of 60 groups of unequal size: within four standard errors of √(2/400)."""
    rng = np.random.default_rng(0)
    scores, shares = [], []
    for _ in range(400):
        groups = np.repeat(np.arange(60), rng.integers(1, 10, 60))
        chance = 1 / (1 + np.exp(-rng.normal(0.5, 1, (60, 2))))[groups].T
        right = (rng.random(chance.shape) < chance).astype(float)
        counts, one = np.ones_like(right, dtype=np.bool_), np.zeros(len(groups), dtype=np.int64)
        shares.append(
            pair_variances(leave_out_means(right, counts, one, groups, 60)[:, None])[0, 1]
        )
        scores.append(right[0].mean() - right[1].mean())
    assert np.mean(shares) == pytest.approx(np.var(scores), rel=4 * math.sqrt(2 / 400))
