"""Splits: exact counts and shares, no group on both sides, the same for every team."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import refusal

from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.files.train_test_split import describe_lopsided, make_split, small, split_rule


@pytest.mark.parametrize(("seed", "fraction"), [(0, 0.1), (1, 0.35)])
def test_groups_never_straddle_and_their_number_is_exact(seed: int, fraction: float) -> None:
    rng = np.random.default_rng(seed)
    groups = [f"speaker {g}" for g in rng.integers(0, 60, 2000)]
    ids = [str(row) for row in range(2000)]
    split = make_split(str(fraction), ids, groups)
    # oracle: the groups whose SHA-256 is lowest
    ranked = sorted(set(groups), key=lambda g: hashlib.sha256(g.encode()).hexdigest())
    test = ranked[: int(fraction * len(ranked) + 0.5)]
    assert split.tolist() == [TEST if group in test else TRAIN for group in groups]
    order = rng.permutation(2000)
    shuffled = make_split(str(fraction), [ids[i] for i in order], [groups[i] for i in order])
    np.testing.assert_array_equal(shuffled, split[order])


def test_without_groups_every_sample_is_its_own() -> None:
    ids = [f"{row:05d}" for row in range(1000)]
    split = make_split(None, ids)
    assert (split == TEST).sum() == 300
    np.testing.assert_array_equal(split, make_split("0.3", ids, ids))
    assert (make_split("0.0001", ids) == TEST).sum() == 1
    assert (make_split("0.9999", ids) == TRAIN).sum() == 1
    for fraction, classes in (("0.05", None), ("0.95", np.zeros(2, np.int64))):
        assert sorted(make_split(fraction, ["a", "b"], None, classes).tolist()) == [TRAIN, TEST]


@pytest.mark.parametrize(
    ("choice", "groups", "classes", "message"),
    [
        *((choice, None, None, "the test fraction") for choice in ("0", "1.0", "nan")),
        ("0.3", ["x", "x"], None, "of one group"),
        ("0.3", ["x"], None, "1 groups for 2 samples"),
        ("list.csv", None, np.zeros(2, np.int64), "--stratify belongs to a test fraction"),
        ("speaker", None, None, "neither a fraction such as 0.3 nor"),
    ],
)
def test_refused_splits(choice: str, groups: list[str] | None, classes: Any, message: str) -> None:
    assert message in refusal(make_split, choice, ["a", "b"], groups, classes)


def test_a_list_file_says_where_each_sample_goes(tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    for text in (
        "b,test\na,train\nc/1,val\n",
        "\ufeffsample_id,split\na,train\nb,test\n\nc/1,val\n",
        "a\ttrain\nb\ttest\nc/1\tval",
        '"a",train\r\n"b", test\r\nc/1,val\r\n',
    ):
        path.write_bytes(text.encode())
        assert make_split(str(path), ["a", "b", "c/1"]).tolist() == [TRAIN, TEST, VAL]
    for data, message in {
        b"a,trian\nb,test\n": "holds 'trian'; expected 0 (train)",
        b"a\nb\n": "line 1: expected",
        b"\xff\xfe": "give a text file in UTF-8",
        b'"' + b"a" * 200_000: "CSV",
    }.items():
        path.write_bytes(data)
        assert message in refusal(make_split, str(path), ["a", "b"])


@pytest.mark.parametrize(("seed", "fraction"), [(31, 0.1), (31, 0.95)])  # classes of 1, 2, 3
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
def test_no_change_of_one_group_would_be_better(seed: int) -> None:
    """The sum over classes of ((in test - wanted) / n)², +1 for a class on one side, naively."""
    rng = np.random.default_rng(seed)
    groups = [f"g{g}" for g in rng.integers(0, 15, 120)]
    labels = rng.integers(0, 5, 120)

    def cost(test: set[str]) -> float:
        total = 0.0
        for c in range(5):
            mine = [group in test for group, y in zip(groups, labels, strict=True) if y == c]
            n, there = len(mine), sum(mine)
            wanted = min(max(int(0.3 * n + 0.5), 1), n - 1)
            total += ((there - wanted) / n) ** 2 + (there in (0, n))
        return total

    split = make_split("0.3", list(map(str, range(120))), groups, labels)
    test = {group for group, part in zip(groups, split, strict=True) if part == TEST}
    assert split.tolist() == [TEST if group in test else TRAIN for group in groups]
    assert cost(test) <= min(cost(test ^ {group}) for group in set(groups)) + 1e-9
    assert cost(test) < 0.1


def test_lopsided_by_hand() -> None:
    """a: 9 train, 1 test; b: 1 test; c: 4 train, 2 val; d: 7 and 3; e has no sample."""
    labels = np.repeat([0, 1, 2, 3], [10, 1, 6, 10])
    split = np.array([TRAIN] * 9 + [TEST] * 2 + [TRAIN] * 4 + [VAL] * 2 + [TRAIN] * 7 + [TEST] * 3)
    split, names = split.astype(np.uint8), ["a", "b", "c", "d", "e"]
    both = (
        "the split is lopsided: 1 of 4 classes lack training samples ('b'); "
        "1 of 4 classes lack test samples ('c')."
    )
    assert describe_lopsided(split, labels, names, {}) == both
    by_hash = describe_lopsided(split, labels, names, split_rule("0.3", "stem"))
    assert by_hash.startswith(f"{both} --stratify keeps the shares of classes")
    stratified = split_rule("0.25", "stem", stratify=True)
    assert describe_lopsided(split, labels, names, stratified) == both
    fair = labels == 3
    assert describe_lopsided(split[fair], labels[fair], names, {"test_fraction": 0.3}) == ""
    assert [small(np.arange(n) % 2) for n in (99, 100)] == [True, False]
