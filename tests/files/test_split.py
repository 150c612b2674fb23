"""Splits: exact counts, no group on both sides, the same for every team."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.files.train_test_split import hash_split, make_split, read_split_list


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fraction", [0.1, 0.35, 0.5])
def test_groups_never_straddle_and_their_number_is_exact(seed: int, fraction: float) -> None:
    rng = np.random.default_rng(seed)
    groups = [f"speaker {g}" for g in rng.integers(0, 60, 2000)]
    ids = [str(row) for row in range(2000)]
    split = hash_split(groups, fraction, ids)
    test = {group for group, part in zip(groups, split, strict=True) if part == TEST}
    train = {group for group, part in zip(groups, split, strict=True) if part == TRAIN}
    assert not test & train
    assert len(test) == int(fraction * len(set(groups)) + 0.5)
    # oracle: the groups whose SHA-256 is lowest
    ranked = sorted(set(groups), key=lambda g: hashlib.sha256(g.encode()).hexdigest())
    assert test == set(ranked[: len(test)])
    order = rng.permutation(2000)
    shuffled = hash_split([groups[i] for i in order], fraction, [ids[i] for i in order])
    np.testing.assert_array_equal(shuffled, split[order])


def test_without_groups_every_sample_is_its_own() -> None:
    ids = [f"{row:05d}" for row in range(1000)]
    split = make_split(None, ids)
    assert (split == TEST).sum() == 300
    np.testing.assert_array_equal(split, hash_split(ids, 0.3, ids))
    assert (make_split("0.0001", ids) == TEST).sum() == 1
    assert (make_split("0.9999", ids) == TRAIN).sum() == 1


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.2, 30.0, float("nan")])
def test_fractions_outside_zero_and_one_are_refused(fraction: float) -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        hash_split(None, fraction, ["a", "b"])


def test_groups_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(UserError, match="of one group"):
        hash_split(["x", "x"], 0.3, ["a", "b"])
    with pytest.raises(UserError, match="1 groups for 2 samples"):
        hash_split(["x"], 0.3, ["a", "b"])


@pytest.mark.parametrize(
    "text",
    [
        "b,test\na,train\nc/1,val\n",
        "\ufeffsample_id,split\na,train\nb,test\n\nc/1,val\n",
        "a\ttrain\nb\ttest\nc/1\tval",
        '"a",train\r\n"b", test\r\nc/1,val\r\n',
    ],
)
def test_a_list_file_says_where_each_sample_goes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "split.csv"
    path.write_bytes(text.encode())
    assert make_split(str(path), ["a", "b", "c/1"]).tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,train\n", r"no split for 1 of 2 samples, the first 'b'"),
        ("a,train\nb,test\nz,test\n", r"line 3: no sample 'z'"),
        ("a,train\na,test\nb,test\n", r"line 2: sample 'a' is listed twice"),
        ("a,training\nb,test\n", r"line 1: expected sample_id,train\|val\|test"),
        ("a\nb\n", r"line 1: expected"),
    ],
)
def test_bad_list_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "split.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_split_list(path, ["a", "b"])


def test_a_choice_that_is_neither_number_nor_file_is_refused() -> None:
    with pytest.raises(UserError, match=r"neither a fraction such as 0\.3 nor"):
        make_split("speaker", ["a", "b"])
