"""Names of parts in any spelling, and what several spellings of one name become."""

import numpy as np
import pytest
from file_helpers import refusal, says

from embedbench.errors import UserError
from embedbench.files.known_names import (
    describe_spelling,
    one_spelling,
    read_split,
    resembles_part,
    split_role,
    split_roles,
)
from embedbench.files.sample_metadata import TEST, TRAIN, VAL


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("TRAIN", TRAIN),
        (" Training ", TRAIN),
        ("training_set", TRAIN),
        ("Train Set", TRAIN),
        ("trainset", TRAIN),
        ("train-00003-of-00010", TRAIN),
        ("train2017", TRAIN),
        ("Val", VAL),
        ("valid", VAL),
        ("validation-2012", VAL),
        ("DEV", VAL),
        ("Testing", TEST),
        ("test_images", TEST),
        ("test.0", TEST),
        ("ｔｅｓｔ", TEST),  # full-width letters
        ("eval", None),
        ("test1b", None),
        ("contest", None),
        ("trains", None),
        ("", None),
    ],
)
def test_the_role_of_a_name(name: str, role: int | None) -> None:
    assert split_role(name) == role


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["Train", "Eval"], [TRAIN, TEST]),
        (["train", "val", "evaluation"], [TRAIN, VAL, TEST]),
        (["train", "eval", "test"], [TRAIN, VAL, TEST]),
        (["train", "holdout"], [TRAIN, TEST]),
        (["train", "holdout", "test"], [TRAIN, None, TEST]),  # which of the two, nobody said
        (["train", "eval", "holdout"], [TRAIN, None, None]),
        (["trainval", "test"], [TRAIN, TEST]),
        (["trainval", "train", "val", "test"], [None, TRAIN, VAL, TEST]),
        (["eval", "cats"], [None, None]),
    ],
)
def test_roles_beside_each_other(names: list[str], roles: list[int | None]) -> None:
    assert list(split_roles(names).values()) == roles


@pytest.mark.parametrize("name", ["seg_train", "PublicTest", "test1", "hold-out", "devTest"])
def test_a_name_that_resembles_a_part(name: str) -> None:
    assert resembles_part(name)


@pytest.mark.parametrize("name", ["train", "Test Set", "contest", "trains", "developer", "cat"])
def test_a_name_that_resembles_none(name: str) -> None:
    assert not resembles_part(name)


def test_a_split_column_of_texts() -> None:
    values = np.array(["Train", "TEST ", "validation", "train", "dev"])
    assert read_split(values, "split").tolist() == [TRAIN, TEST, VAL, TRAIN, VAL]


def test_strange_values_of_a_split_column_are_named() -> None:
    values = np.array(["train", "fold1", "query"])
    said = refusal(read_split, values, "column split")
    assert said.startswith("column split holds 'fold1', 'query'; expected")


def test_a_split_column_of_other_numbers() -> None:
    with pytest.raises(
        UserError,
        check=says(what="split holds 3; expected 0 (train), 1 (val) or 2 (test), or their names"),
    ):
        read_split(np.array([0, 1, 3]), "split")


def test_names_in_two_forms_are_one() -> None:
    names = ["caf\xe9", "cafe\u0301", "tea", "tea "]
    assert one_spelling(names) == {
        "caf\xe9": "caf\xe9",
        "cafe\u0301": "caf\xe9",
        "tea": "tea",
        "tea ": "tea",
    }


@pytest.mark.parametrize("names", [["cafe\u0301", "tea "], ["01", "1", "001"], ["Cat", "cat"]])
def test_names_that_look_like_no_other_stay(names: list[str]) -> None:
    assert one_spelling(names) == dict(zip(names, names, strict=True))


def test_spellings_are_described() -> None:
    said = describe_spelling(["caf\xe9", "cafe\u0301", "Cat", "cat", "tea"], "classes")
    assert said == (
        r"classes 'cafe\u0301' and 'caf\xe9' look alike and are one; "
        "classes 'Cat' and 'cat' look alike and are kept apart"
    )
