"""Group rules, and the search for one image in two splits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from embedbench.errors import UserError
from embedbench.extract.domain_group_time import choose_split
from embedbench.extract.pipeline import extract
from embedbench.extract.source import Source
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.files.train_test_split import groups

VENDORS = ("noto", "twemoji", "other")


def emoji(n: int, official: bool = False) -> Source:
    ids = tuple(f"s/c/e{i}_1f.{vendor}.png" for i in range(n) for vendor in VENDORS)
    split = np.full(len(ids), TRAIN, np.uint8) if official else None
    labels = np.zeros(len(ids), np.int64)
    return Source("emoji", ids, labels, ("c",), np.array([-1]), lambda i: b"", split)


def test_drawings_of_one_emoji_never_straddle() -> None:
    """And a vendor more or less moves no emoji."""
    source = emoji(57)
    split, rule = choose_split(source, None, None, stratify=False)
    assert rule == {"rule": "hash", "test_fraction": 0.3, "group": "stem"}
    per_emoji = split.reshape(57, len(VENDORS))
    assert (per_emoji == per_emoji[:, :1]).all()
    assert (per_emoji[:, 0] == TEST).sum() == round(0.3 * 57)
    alone = replace(source, ids=source.ids[::3], labels=source.labels[::3])
    again, _ = choose_split(alone, "0.3", "stem", stratify=False)
    assert again.tolist() == split[::3].tolist()


@pytest.mark.parametrize(("each", "stratified"), [(49, True), (50, False)])
def test_few_samples_a_class_are_split_by_class(each: int, stratified: bool) -> None:
    """Two classes of `each` samples on average; what the user says counts more."""
    ids = tuple(f"{i:03d}.png" for i in range(2 * each))
    labels = np.repeat([0, 1], [each - 20, each + 20])
    source = Source("x", ids, labels, ("a", "b"), np.array([-1, -1]), lambda i: b"")
    split, rule = choose_split(source, None, None)
    assert rule.get("stratified", False) is stratified
    for choice in (True, False):
        rows, made = choose_split(source, None, None, stratify=choice)
        assert made.get("stratified", False) is choice
        assert (rows.tolist() == split.tolist()) is (choice is stratified)


def test_a_lopsided_split_is_made_again_without_the_images(tmp_path: Path) -> None:
    """By export and import: the same rows, each class with its share, stems whole."""
    for c, number in (("c", 60), ("d", 12)):
        (tmp_path / "in" / c).mkdir(parents=True)
        for i in range(number):
            image = Image.new("RGB", (4, 4), (5 * i, i, ord(c)))
            image.save(tmp_path / "in" / c / f"{i // 2:03d}.{i % 2}.png")
    options: dict[str, Any] = {"backbone": "pixels", "size": 2, "stratify": False, "split": "0.2"}
    old = extract(str(tmp_path / "in"), tmp_path / "a.h5", **options)
    arrays = export_file(old.path, tmp_path / "a.npz")
    new = import_file(arrays, tmp_path / "b.h5", split="0.2", group="stem", stratify=True)
    for digest in ("recipe", "content"):
        assert old.digests[digest] == new.digests[digest]
    assert [(new.split[new.labels == c] == TEST).sum() for c in (0, 1)] == [12, 2]
    stems = {id_[:5] for id_ in new.sample_ids[new.split == TEST]}
    assert not stems & {id_[:5] for id_ in new.sample_ids[new.split == TRAIN]}
    assert new.provenance["split"] == {**old.provenance["split"], "stratified": True}
    assert "same_content_in_two_splits" not in new.provenance  # it was of the old split


def test_which_rule_counts(tmp_path: Path) -> None:
    official = emoji(20, official=True)
    assert choose_split(official, None, None)[1] == {"rule": "official"}
    assert choose_split(official, "0.5", None)[1]["test_fraction"] == 0.5
    assert choose_split(official, None, "stem")[1] == {"rule": "official"}
    assert choose_split(official, "0.3", "stem")[1]["rule"] == "hash"
    assert choose_split(official, None, None, stratify=True)[1]["rule"] == "hash"
    listed = tmp_path / "split.csv"
    listed.write_text("".join(f"{name},test\n" for name in official.ids))
    split, rule = choose_split(official, str(listed), None)
    assert rule == {"rule": "list file"}
    assert split.tolist() == [TEST] * 60
    assert choose_split(official, str(listed), "stem")[1] == rule


def test_rules_by_hand() -> None:
    ids = ["v1.2/a_01.x.jpg", "v1.2/a_01.y.jpg", "w/b_02.jpg"]
    assert groups(ids, "stem") == ["v1.2/a_01", "v1.2/a_01", "w/b_02"]
    assert groups(ids, "parent") == ["v1.2", "v1.2", "w"]
    assert groups(ids, "[ab]_[0-9]+") == ["a_01", "a_01", "b_02"]
    assert groups(ids, "([ab])_") == ["a", "a", "b"]


def of_two_parts(folder: Path) -> Path:
    """An official split in which the stems 0 to 3 are in train and 2 to 5 in test."""
    for part, stems in (("train", range(4)), ("test", range(2, 6))):
        (folder / part / "c").mkdir(parents=True)
        for stem in stems:
            image = Image.new("RGB", (4, 4), (40 * stem, len(part), 9))
            image.save(folder / part / "c" / f"s{stem}.{part}.png")
    return folder


def test_groups_of_an_official_split_are_stored_and_change_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    source = str(of_two_parts(tmp_path / "in"))
    options: dict[str, Any] = {"backbone": "pixels", "size": 2, "notify": said.append}
    plain = extract(source, tmp_path / "a.h5", **options)
    file = extract(source, tmp_path / "b.h5", group="(s[0-9])", **options)
    assert file.digests | {"columns": ""} == plain.digests | {"columns": ""}
    assert file.provenance["split"] == {"rule": "official"}
    assert file.column("group").tolist() == [id_.split("/")[-1][:2] for id_ in file.sample_ids]
    assert any("2 of 6 groups ('s2') are in test and in another part too" in s for s in said)


def test_groups_that_are_whole_by_default_are_no_column(tmp_path: Path) -> None:
    """So that an extraction has the digests that it had."""
    source = str(of_two_parts(tmp_path / "in"))
    options: dict[str, Any] = {"backbone": "pixels", "size": 2, "notify": lambda _: None}
    file = extract(source, tmp_path / "a.h5", split="0.3", **options)
    assert file.provenance["split"]["group"] == "stem"
    assert not file.columns


def test_groups_of_a_split_by_hash_are_stored(tmp_path: Path) -> None:
    source = str(of_two_parts(tmp_path / "in"))
    options: dict[str, Any] = {"backbone": "pixels", "size": 2, "notify": lambda _: None}
    file = extract(source, tmp_path / "a.h5", split="0.3", group="(s[0-9])", **options)
    groups = file.column("group")
    assert len(set(groups.tolist())) == 6
    assert not {*groups[file.split == TEST]} & {*groups[file.split == TRAIN]}


def test_a_group_without_a_name_is_refused_before_the_work() -> None:
    with pytest.raises(UserError, match=r"'\(v\?\)' takes no text out of sample 'a'"):
        groups(["a"], "(v?)")
