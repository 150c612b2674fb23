"""Group rules, and the search for one image in two splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from embedbench.errors import UserError
from embedbench.extract.source import Source
from embedbench.extract.sources import open_source
from embedbench.extract.splits import across, choose_split, groups, pairs_text
from embedbench.files.samples import TEST, TRAIN

VENDORS = ("noto", "twemoji", "other")


def emoji(n: int, official: bool = False) -> Source:
    ids = tuple(f"s/c/e{i}_1f.{vendor}.png" for i in range(n) for vendor in VENDORS)
    split = np.full(len(ids), TRAIN, np.uint8) if official else None
    labels = np.zeros(len(ids), np.int64)
    return Source("emoji", ids, labels, ("c",), np.array([-1]), lambda i: b"", split)


@pytest.mark.parametrize("n", [10, 57, 500])
def test_drawings_of_one_emoji_never_straddle(n: int) -> None:
    source = emoji(n)
    split, rule = choose_split(source, None, None)
    assert rule == {"rule": "hash", "test_fraction": 0.3, "group": "stem"}
    per_emoji = split.reshape(n, len(VENDORS))
    assert (per_emoji == per_emoji[:, :1]).all()
    assert abs((per_emoji[:, 0] == TEST).sum() - 0.3 * n) <= 0.5


def test_a_vendor_more_or_less_moves_no_emoji() -> None:
    ids = open_source("demo").ids
    split, _ = choose_split(open_source("demo"), "0.3", None)
    both = tuple(id_.replace(".noto.", f".{v}.") for id_ in ids for v in ("noto", "twemoji"))
    source = Source("x", both, np.zeros(len(both), int), ("c",), np.array([-1]), lambda i: b"")
    assert choose_split(source, "0.3", "stem")[0][::2].tolist() == split.tolist()


def test_which_rule_counts(tmp_path: Path) -> None:
    official = emoji(20, official=True)
    assert choose_split(official, None, None)[1] == {"rule": "official"}
    assert choose_split(official, "0.5", None)[1]["test_fraction"] == 0.5
    listed = tmp_path / "split.csv"
    listed.write_text("".join(f"{name},test\n" for name in official.ids))
    split, rule = choose_split(official, str(listed), None)
    assert rule == {"rule": "list file"}
    assert (split == TEST).all()
    with pytest.raises(UserError, match="--group belongs to a hash split"):
        choose_split(official, str(listed), "stem")


def test_rules_by_hand() -> None:
    ids = ["v1.2/a_01.x.jpg", "v1.2/a_01.y.jpg", "w/b_02.jpg"]
    assert groups(ids, "stem") == ["v1.2/a_01", "v1.2/a_01", "w/b_02"]
    assert groups(ids, "parent") == ["v1.2", "v1.2", "w"]
    assert groups(ids, "[ab]_[0-9]+") == ["a_01", "a_01", "b_02"]
    assert groups(ids, "([ab])_") == ["a", "a", "b"]
    with pytest.raises(UserError, match=r"matches nothing in sample 'w/b_02\.jpg'"):
        groups(ids, "^v")
    with pytest.raises(UserError, match="no regular expression"):
        groups(ids, "(")


@pytest.mark.parametrize("seed", range(5))
def test_across_against_a_naive_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    digests = np.zeros((n, 16), np.uint8)
    digests[:, rng.integers(16)] = rng.integers(0, 25, n)
    split = rng.integers(0, 3, n).astype(np.uint8)
    ids = [f"i{i}" for i in range(n)]
    found = across(digests, ids, split)
    expected = {
        b
        for b in range(n)
        if any((digests[a] == digests[b]).all() and split[a] < split[b] for a in range(n))
    }
    assert {int(b[1:]) for _, b in found} == expected
    for a, b in found:
        i, j = int(a[1:]), int(b[1:])
        assert (digests[i] == digests[j]).all()
        assert split[i] < split[j]
    if found:
        sentence = pairs_text(found, ids, split, "images")
        assert sentence.startswith(f"{len(found)} images are in two splits")
        assert "Remove one of each pair" in sentence
        assert "--group" in sentence
