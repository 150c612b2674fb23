"""What `import` says of groups of a list, of rows that lie otherwise or twice, and of numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import refusal, says
from import_cases import BASE, FILES, ORDER, TEST, TRAIN, VOICES, N, X, Y, imported

from embedbench.errors import UserError
from embedbench.files.import_features import import_file


def listing(folder: Path, groups: Any) -> Path:
    """A list of the column `group` for the rows of `BASE`."""
    lines = [f"{row:05d},{group}" for row, group in enumerate(groups)]
    path = folder / "meta.csv"
    path.write_text("\n".join(["sample_id,group", *lines]))
    return path


def test_groups_of_a_list_stay_in_one_part_of_a_split_that_is_made(tmp_path: Path) -> None:
    """And not those of the source, which they replace."""
    arrays = BASE | {"group": np.array(["front", "back"])[Y % 2]}
    _, tables, _ = imported(tmp_path, arrays, columns=listing(tmp_path, VOICES))
    test = tables["split"] == TEST
    assert not {*VOICES[test]} & {*VOICES[~test]}


def test_where_groups_of_a_list_are_from_is_said(tmp_path: Path) -> None:
    path = listing(tmp_path, VOICES)
    said = imported(tmp_path, BASE | {"group": VOICES}, columns=path)[2]
    assert f"groups from {path}; left out group (the groups are those of {path})" in said


def test_groups_of_a_list_are_one_in_two_normal_forms(tmp_path: Path) -> None:
    groups = np.array(["caf\xe9", "cafe\u0301", "tea"])[np.arange(N) % 3]
    _, tables, _ = imported(tmp_path, BASE, columns=listing(tmp_path, groups))
    test = tables["split"] == TEST
    mixed = np.arange(N) % 3 < 2
    assert len({*test[mixed]}) == 1


def test_a_rule_for_the_split_goes_before_groups_of_a_list(tmp_path: Path) -> None:
    arrays = BASE | {"speaker": VOICES}
    path = listing(tmp_path, FILES)
    _, tables, _ = imported(tmp_path, arrays, columns=path, group="speaker")
    test = tables["split"] == TEST
    assert not {*VOICES[test]} & {*VOICES[~test]}
    assert tables["group"] == FILES.tolist()


def test_a_column_that_a_list_replaces_is_named(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    lines = [f"{row:05d},{row}" for row in range(N)]
    path.write_text("\n".join(["sample_id,time", *lines]))
    said = imported(tmp_path, BASE | {"time": np.zeros(N)}, columns=path)[2]
    assert f"left out time ({path} has another)" in said


# --- rows in another order, and rows that are there twice ---

SHUFFLED = FILES[ORDER]


@pytest.mark.parametrize(
    ("more", "phrase"),
    [
        ({"ids": FILES, "label_ids": SHUFFLED}, "label_ids (the values of ids, in another order)"),
        ({"ids": FILES, "train_ids": SHUFFLED}, "train_ids (the values of ids, in another order)"),
        (
            {"feature_ids": FILES, "label_ids": SHUFFLED},
            "label_ids (the values of feature_ids, in another order)",
        ),
        ({"ids": np.arange(N), "rows": ORDER}, "rows (all row numbers, in another order)"),
        (
            {"ids": np.arange(N) + 7, "rowIds": ORDER + 7},
            "rowIds (the values of ids, in another order)",
        ),
    ],
)
def test_why_a_list_in_another_order_is_left_out(tmp_path: Path, more: Any, phrase: str) -> None:
    assert f"left out {phrase}" in imported(tmp_path, BASE | more)[2].replace("feature_ids; ", "")


def test_that_labels_may_be_in_another_order_is_said(tmp_path: Path) -> None:
    said = imported(tmp_path, BASE | {"ids": FILES, "label_ids": SHUFFLED})[2]
    assert said.startswith("label_ids has the values of ids in another order, and features")


@pytest.mark.parametrize(
    "more",
    [
        {"ids": FILES, "files": FILES},
        {"ids": FILES, "names": np.array(list("abcd"))},
        {"index": np.arange(N)},
        {"ids": FILES, "candidates": SHUFFLED},
    ],
)
def test_lists_in_the_same_order_and_others_are_no_matter(tmp_path: Path, more: Any) -> None:
    assert "another order" not in imported(tmp_path, BASE | more)[2]


def test_equal_rows_in_two_splits_are_said(tmp_path: Path) -> None:
    twice = X.copy()
    twice[[35, 36]] = X[[3, 0]]
    split = np.repeat([TRAIN, TEST], [30, 10])
    said = imported(tmp_path, BASE | {"features": twice, "split": split, "ids": FILES})[2]
    assert (
        "2 rows of features are in two splits with the same content: img_000.jpg (train) = "
        "img_036.jpg (test); img_003.jpg (train) = img_035.jpg (test)"
    ) in said


def test_equal_rows_in_two_classes_are_said(tmp_path: Path) -> None:
    twice = X.copy()
    twice[5] = X[0]
    split = np.zeros(N, int)
    split[9] = TEST
    said = imported(tmp_path, BASE | {"features": twice, "split": split, "ids": FILES})[2]
    assert (
        "1 rows of features are in two classes with the same content: img_000.jpg (0) = "
        "img_005.jpg (1)"
    ) in said


def test_equal_rows_of_one_class_and_split_are_no_matter(tmp_path: Path) -> None:
    twice = X.copy()
    twice[4] = X[0]
    split = np.repeat([TRAIN, TEST], [30, 10])
    said = imported(tmp_path, BASE | {"features": twice, "split": split})[2]
    assert "the same content" not in said


# --- numbers ---


@pytest.mark.filterwarnings("error")
def test_a_number_that_float32_cannot_hold_is_refused(tmp_path: Path) -> None:
    table = X.astype(np.float64)
    table[7, 2] = -1e39
    np.savez(tmp_path / "a.npz", **(BASE | {"features": table}))
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5")
    assert "features has -1e+39 in row 7, and float32 ends at 3.4e+38; scale" in said


@pytest.mark.filterwarnings("error")
def test_an_infinite_number_is_still_called_so(tmp_path: Path) -> None:
    table = X.astype(np.float64)
    table[7, 2] = np.inf
    np.savez(tmp_path / "a.npz", **(BASE | {"features": table}))
    assert "row 7 of features" in refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5")


# --- what goes in elsewhere ---

ELSEWHERE = {
    "texts.csv": "texts and their labels go in by `extract`",
    "texts.txt": "texts and their labels go in by `extract`",
    "cat.png": "images and sounds go in by `extract`",
    "photos/cat/1.JPG": "images and sounds go in by `extract`",
    "x.arff": "give an npz, npy, mat, HDF5, CSV",
    "x.xlsx": "save it as CSV",
    "x.csv.gz": "unpack it",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_way_of_a_source_that_import_does_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"text\na dog\n")
    given = tmp_path / name.partition("/")[0]
    assert ELSEWHERE[name] in refusal(import_file, given, tmp_path / "a.h5")


def test_a_path_that_is_not_there_is_said_alone(tmp_path: Path) -> None:
    path = tmp_path / "none.npz"
    fault = f"there is no file or folder '{path}'"
    with pytest.raises(UserError, check=says(what=fault, remedy="correct the path")):
        import_file(path, tmp_path / "a.h5")


def test_groups_that_a_split_by_other_groups_parts_are_said(tmp_path: Path) -> None:
    arrays = BASE | {"speaker": VOICES}
    path = listing(tmp_path, np.arange(N) // 8)
    said = imported(tmp_path, arrays, columns=path, group="speaker")[2]
    assert "The split keeps groups by speaker whole, as --group asks, not these." in said
