"""Stratified splits: exact shares, no group on both sides, and sentences on lopsided ones."""

from collections import defaultdict

import numpy as np
import pytest

from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.files.train_test_split import (
    describe_lopsided,
    hash_split,
    make_split,
    split_rule,
    stratify_groups,
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.75])
def test_every_class_has_its_share_exactly(seed: int, fraction: float) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice(12, 500, p=rng.dirichlet(np.ones(12)))
    ids = [f"{row:05d}" for row in range(500)]
    split = make_split(str(fraction), ids, None, labels)
    for c in np.unique(labels):
        n, test = int((labels == c).sum()), int((split[labels == c] == TEST).sum())
        rounded = int(fraction * n + 0.5)
        assert test == (0 if n == 1 else min(max(rounded, 1), n - 1))
    assert set(split.tolist()) == {TRAIN, TEST}
    order = rng.permutation(500)
    shuffled = make_split(str(fraction), [ids[i] for i in order], None, labels[order])
    np.testing.assert_array_equal(shuffled, split[order])


@pytest.mark.parametrize("seed", range(3))
def test_groups_stay_whole_and_classes_come_closer_than_by_hash(seed: int) -> None:
    """30 speakers, each with some of 8 words; by hash, whole words may lack a side."""
    rng = np.random.default_rng(seed)
    speakers = rng.integers(0, 30, 600)
    labels = (speakers % 4 * 2 + rng.integers(0, 2, 600)).astype(np.int64)
    groups, ids = [f"s{s}" for s in speakers], [str(row) for row in range(600)]
    split = make_split("0.3", ids, groups, labels)
    sides = defaultdict(set)
    for group, part in zip(groups, split.tolist(), strict=True):
        sides[group].add(part)
    assert {len(parts) for parts in sides.values()} == {1}

    def off(split: np.ndarray) -> float:
        shares = [(split[labels == c] == TEST).mean() for c in range(8)]
        return float(np.square(np.array(shares) - 0.3).sum())

    assert off(split) < off(hash_split(groups, 0.3, ids))
    assert max(abs((split[labels == c] == TEST).mean() - 0.3) for c in range(8)) < 0.15


@pytest.mark.parametrize("seed", range(5))
def test_no_change_of_one_group_would_be_better(seed: int) -> None:
    """The sum over classes of ((in test - wanted) / n)², +1 for a class on one side, naively."""
    rng = np.random.default_rng(seed)
    groups = [f"g{g}" for g in rng.integers(0, 15, 120)]
    labels = rng.integers(0, 5, 120)

    def cost(test: set[str]) -> float:
        total = 0.0
        for c in range(5):
            mine = [
                group in test for group, label in zip(groups, labels, strict=True) if label == c
            ]
            n, there = len(mine), sum(mine)
            wanted = min(max(int(0.3 * n + 0.5), 1), n - 1)
            total += ((there - wanted) / n) ** 2 + (there in (0, n))
        return total

    split = stratify_groups(groups, 0.3, labels)
    test = {group for group, part in zip(groups, split, strict=True) if part == TEST}
    best = min(cost(test ^ {group}) for group in set(groups))
    assert cost(test) <= best + 1e-9
    assert cost(test) < 0.1


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.95])
def test_two_groups_are_never_on_one_side(fraction: float) -> None:
    groups = ["a"] * 50 + ["b"] * 50
    labels = np.array([0, 1] * 50)
    split = stratify_groups(groups, fraction, labels)
    assert sorted({split[0], split[99]}) == [TRAIN, TEST]


def test_a_list_cannot_be_stratified() -> None:
    with pytest.raises(UserError, match="--stratify belongs to a hash split"):
        make_split("list.csv", ["a", "b"], None, np.zeros(2, np.int64))
    with pytest.raises(UserError, match="of one group"):
        make_split("0.3", ["a", "b"], ["x", "x"], np.zeros(2, np.int64))


def test_the_rule_says_so() -> None:
    assert split_rule("0.3", "stem", stratify=True)["stratified"] is True
    assert "stratified" not in split_rule("0.3", "stem")


def test_lopsided_by_hand() -> None:
    """a: 9 train, 1 test; b: 5 test; c: 4 train, 2 val; d: 7 and 3; e has no sample."""
    labels = np.repeat([0, 1, 2, 3], [10, 5, 6, 10])
    split = np.array([TRAIN] * 9 + [TEST] * 6 + [TRAIN] * 4 + [VAL] * 2 + [TRAIN] * 7 + [TEST] * 3)
    split, names = split.astype(np.uint8), ["a", "b", "c", "d", "e"]
    both = (
        "the split is lopsided: 1 of 4 classes (first 'b') has no training samples; "
        "1 of 4 classes (first 'c') has no test samples"
    )
    assert describe_lopsided(split, labels, names, {}) == f"{both}."
    assert describe_lopsided(split, labels, names, {"test_fraction": 0.3}) == (
        f"{both}; 1 of 4 classes (first 'a') has a share of test samples far from 30 % "
        "(of 'a': 10 %). --stratify keeps the shares of classes."
    )
    assert (
        describe_lopsided(split, labels, names, {"test_fraction": 0.25, "stratified": True})
        == f"{both}."
    )
    fair = labels == 3
    assert describe_lopsided(split[fair], labels[fair], names, {"test_fraction": 0.3}) == ""
