"""Folders that are parts, classes, both or neither: the split and the classes that come of them."""

import unicodedata
from pathlib import Path

import pytest
from hostile_sources import image, split_of

from embedbench.errors import UserError
from embedbench.extract.domain_group_time import add_columns
from embedbench.extract.open_source import open_source
from embedbench.extract.source import Source
from embedbench.files.sample_metadata import TEST, TRAIN, VAL

NAMES = {TRAIN: "train", VAL: "val", TEST: "test"}


def opened(root: Path, paths: str) -> Source:
    """Open a folder of these paths, each the file of an image."""
    for number, path in enumerate(paths.split()):
        (root / f"{path}.png").parent.mkdir(parents=True, exist_ok=True)
        (root / f"{path}.png").write_bytes(image(value=number))
    return open_source(str(root))


def rows(source: Source) -> str:
    """Return each sample's class, and its part where there is a split, in order of the ids."""
    parts = [""] * len(source.ids)
    if source.split is not None:
        parts = [f":{NAMES[part]}" for part in split_of(source)]
    names = [source.classes[label] for label in source.labels]
    return " ".join(name + part for name, part in zip(names, parts, strict=True))


# The paths in order, and the class and part of each one that is taken, worked out by hand.
OFFICIAL = {
    "capitals at the start": ("Testing/a/1 Training/a/2 Training/b/3", "a:test a:train b:train"),
    "all capitals": ("TEST/a/1 TRAIN/a/2", "a:test a:train"),
    "mixed capitals": ("tEsT/a/1 trAIN/a/2", "a:test a:train"),
    "years": ("train2017/a/1 val2017/a/2", "a:train a:test"),
    "sets": ("test_set/a/1 training_set/a/2", "a:test a:train"),
    "words with a gap": ("Test-Images/a/1 Train-Images/a/2", "a:test a:train"),
    "evaluation beside validation": (
        "evaluation/a/1 training/a/2 validation/a/3",
        "a:test a:train a:val",
    ),
    "holdout": ("holdout/a/1 train/a/2", "a:test a:train"),
    "trainval": ("test/a/1 trainval/a/2", "a:test a:train"),
    "two of one part": ("Train/a/1 test/a/2 train/a/3", "a:train a:test a:train"),
    "below one folder": ("set/test/a/1 set/train/a/2", "a:test a:train"),
    "below two folders": ("x/set/Test/a/1 x/set/Train/a/2", "a:test a:train"),
    "twice, as archives have it": (
        "Test/Test/a/1 Test/Test/b/2 Train/Train/a/3",
        "a:test b:test a:train",
    ),
    "in each class": ("a/test/1 a/train/2 b/test/3 b/train/4", "a:test a:train b:test b:train"),
    "in each class, one without": ("a/test/1 a/train/2 b/train/4", "a:test a:train b:train"),
    "in each domain": ("art/test/a/1 art/train/b/2 pen/train/c/3", "a:test b:train c:train"),
    "test alone, in capitals": ("TEST/a/1 TEST/b/2", "a:test b:test"),
    "hierarchy below": ("Test/pet/a/1 Train/pet/a/2 Train/pet/b/3", "a:test a:train b:train"),
}


@pytest.mark.parametrize("what", OFFICIAL)
def test_the_official_split_is_taken(tmp_path: Path, what: str) -> None:
    paths, expected = OFFICIAL[what]
    assert rows(opened(tmp_path, paths)) == expected


# Paths, the rows that are taken, and what is said of the folder beside the parts.
BESIDE = {
    "extra": ("extra/a/1 test/a/2 train/a/3", "1 files in extra"),
    "notes": ("__notes/1 test/a/2 train/a/3", "1 files in __notes"),
    "unlabelled, flat": ("test/a/2 train/a/3 unlabeled/4 unlabeled/5", "2 files in unlabeled"),
    "capitals": ("Other/a/1 Test/a/2 Train/a/3", "1 files in Other, which is no part beside Test"),
    "masks": ("ground_truth/a/1 test/a/2 train/a/3", "1 files in ground_truth"),
}


@pytest.mark.parametrize("what", BESIDE)
def test_a_folder_beside_the_parts_is_left_out(tmp_path: Path, what: str) -> None:
    paths, _ = BESIDE[what]
    assert rows(opened(tmp_path, paths)) == "a:test a:train"


@pytest.mark.parametrize("what", BESIDE)
def test_a_folder_beside_the_parts_is_named(tmp_path: Path, what: str) -> None:
    paths, phrase = BESIDE[what]
    (said,) = opened(tmp_path, paths).left_out
    assert said.startswith(phrase)


# Paths whose folders are classes, and what is said because their names are those of parts.
CLASSES = {
    "classes called train and test": ("car/1 test/2 train/3", "test, train beside other folders"),
    "train alone": ("train/a/1 train/b/2", "train alone is no split"),
    "train beside a class": ("cat/1 train/a/2", "train beside other folders"),
    "two words among many": (
        "a/1 b/1 bullet_train/1 c/1 test_tube/1",
        "bullet_train, test_tube beside other folders",
    ),
}


@pytest.mark.parametrize("what", CLASSES)
def test_classes_that_are_called_as_parts_get_a_line(tmp_path: Path, what: str) -> None:
    paths, line = CLASSES[what]
    source = opened(tmp_path, paths)
    assert source.split is None
    assert source.remark.startswith(f"{tmp_path}: {line}")


def test_one_class_with_such_a_word_gets_no_line(tmp_path: Path) -> None:
    assert opened(tmp_path, "bullet_train/1 cat/2").remark == ""


REFUSED = {
    "a part without classes": ("test/1 train/a/2", "test/1.png .* lies in no class folder"),
    "parts in some classes": ("a/test/1 a/train/2 b/3", "a in .* test and train, but files in b"),
    "masks in the class": ("a/masks/1 a/test/2 a/train/3 b/train/4", "files in a/masks lie in no"),
    "words that cannot be read": ("seg_test/a/1 seg_train/a/2", "may be the parts of a split"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_decided_is_refused(tmp_path: Path, what: str) -> None:
    paths, sentence = REFUSED[what]
    with pytest.raises(UserError, match=sentence):
        opened(tmp_path, paths)


def test_what_the_folders_were_taken_for_is_said(tmp_path: Path) -> None:
    source = opened(tmp_path, "Testing/a/1 Training/a/2")
    assert source.remark == f"{tmp_path}: the folder Testing is test, Training is train."


def test_the_usual_names_need_no_line(tmp_path: Path) -> None:
    assert opened(tmp_path, "test/a/1 train/a/2").remark == ""


def test_domains_above_parts_are_domains(tmp_path: Path) -> None:
    source = opened(tmp_path, "art/test/a/1 art/train/b/2 pen/train/a/3")
    changed = add_columns(source, domain="folder")
    assert changed.columns["domain"].tolist() == ["art", "art", "pen"]
    assert rows(changed) == "a:test b:train a:train"


# --- one name in two spellings, and names that look alike ---


def forms(name: str) -> tuple[str, str]:
    return unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)


@pytest.mark.parametrize("name", ["café", "Ångström", "한국", "Việt"])
def test_two_unicode_forms_are_one_class(tmp_path: Path, name: str) -> None:
    composed, parted = forms(name)
    source = opened(tmp_path, f"test/{parted}/1 train/{composed}/2")
    assert rows(source) == f"{composed}:test {composed}:train"
    assert f"{parted!a} and {composed!a} look alike and are one" in source.remark


def test_one_form_alone_stays_as_it_is(tmp_path: Path) -> None:
    _, parted = forms("café")
    source = opened(tmp_path, f"{parted}/1 tea/2")
    assert source.classes == (parted, "tea")
    assert source.remark == ""


def test_two_forms_of_a_folder_above_are_one(tmp_path: Path) -> None:
    composed, parted = forms("été")
    source = opened(tmp_path, f"{composed}/a/1 {parted}/b/2")
    assert source.classes == ("a", "b", composed)
    assert source.parents.tolist() == [2, 2, -1]


@pytest.mark.parametrize("pair", ["Cat cat", "01 1", "hot-dog hot_dog", "fish ﬁsh", "x y"])
def test_names_that_look_alike_are_two_classes_aloud(tmp_path: Path, pair: str) -> None:
    first, second = pair.split()
    source = opened(tmp_path, f"{first}/1 {second}/2")
    assert source.classes == (first, second)
    assert ("look alike" in source.remark) == (pair != "x y")


def test_a_gap_at_the_end_is_said(tmp_path: Path) -> None:
    for folder in ("cat", "cat "):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.png").write_bytes(image())
    assert "'cat' and 'cat '" in open_source(str(tmp_path)).remark


def test_names_that_differ_in_gaps_around_them_are_one_class(tmp_path: Path) -> None:
    for folder in ("cat", "cat ", "dog"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.png").write_bytes(image())
    assert open_source(str(tmp_path)).classes == ("cat", "dog")


def test_two_forms_in_two_folders_are_one_name(tmp_path: Path) -> None:
    composed, parted = forms("café")
    source = opened(tmp_path, f"x/{composed}/1 y/{parted}/2")
    assert source.classes == (f"x/{composed}", f"y/{composed}", "x", "y")


def test_a_folder_called_as_others_write_nothing_is_said(tmp_path: Path) -> None:
    assert opened(tmp_path, "none/1 tea/2").remark.endswith(
        ": class 'none' is a name here, and no missing value."
    )
