"""Runs far below the others of their row."""

import math

import pytest

from embedbench.scores.collapsed_runs import find_collapsed


@pytest.mark.parametrize(
    ("scores", "chance", "found"),
    [
        ((0.80, 0.12, 0.79, 0.81), 0.1, [1]),
        ((0.80, 0.44, 0.79), 0.1, [1]),  # the middle between chance and .79 is .445
        ((0.80, 0.45, 0.79), 0.1, []),
        ((0.12, 0.80), 0.1, []),  # of two none can be said to be far
        ((0.06, 0.028, 0.07), 0.025, []),  # near chance: less than five points below
        ((0.100, 0.048, 0.110), 0.025, [1]),  # at five points and more
        ((0.100, 0.052, 0.110), 0.025, []),
        ((0.80, 0.39, 0.79), math.nan, [1]),
        ((0.80, 0.1, 0.1), 0.1, []),  # most runs are so
        ((), 0.1, []),
    ],
)
def test_what_is_far_below(scores: tuple[float, ...], chance: float, found: list[int]) -> None:
    assert find_collapsed(scores, chance) == found
