"""What `import` takes odd keys for: each file is read beside it with plain h5py and numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import refusal
from import_cases import (
    BASE,
    FILES,
    FIRST,
    ORDER,
    SECOND,
    TEST,
    THIRD,
    TRAIN,
    VOICES,
    N,
    X,
    Y,
    imported,
)

from embedbench.files.import_features import import_file
from embedbench.files.missing_arrays import reshape_way


def mask(rows: Any) -> Any:
    return np.isin(np.arange(N), rows)


def parts(first: Any = FIRST, second: Any = SECOND, third: Any = THIRD) -> Any:
    """The split (N,) whose rows are these."""
    split = np.full(N, 9)
    for part, rows in enumerate((first, second, third)):
        split[rows] = part
    return split


# --- which rows are which part ---

WHOLE = parts()
TWO = parts(np.r_[FIRST, SECOND], [])
ROWS: dict[str, tuple[dict[str, Any], Any]] = {
    "row numbers": ({"train_idx": np.r_[FIRST, SECOND], "test_idx": THIRD}, TWO),
    "row numbers of three": (
        {"train_index": FIRST, "val_index": SECOND, "test_index": THIRD},
        WHOLE,
    ),
    "the part behind": ({"idx_train": FIRST, "idx_valid": SECOND, "idx_test": THIRD}, WHOLE),
    "capitals": ({"trainIdx": FIRST, "ValIdx": SECOND, "TestIdx": THIRD}, WHOLE),
    "masks": (
        {"train_mask": mask(FIRST), "val_mask": mask(SECOND), "test_mask": mask(THIRD)},
        WHOLE,
    ),
    "masks of 0 and 1": (
        {"train_mask": mask(np.r_[FIRST, SECOND]).astype("u1"), "test_mask": mask(THIRD) * 1},
        TWO,
    ),
    "a graph's": (
        {
            f"split_idx/{k}": v
            for k, v in zip(("train", "valid", "test"), (FIRST, SECOND, THIRD), strict=True)
        },
        WHOLE,
    ),
    "bare names": ({"train": FIRST, "val": SECOND, "test": THIRD}, WHOLE),
    "test rows alone": ({"test_idx": THIRD}, TWO),
    "is_train alone": ({"is_train": mask(np.r_[FIRST, SECOND])}, TWO),
    "eval beside train": ({"train_idx": np.r_[FIRST, SECOND], "eval_idx": THIRD}, TWO),
    "a text a row": ({"split": np.array(["Train", "VALID ", "testing"])[WHOLE]}, WHOLE),
    "another key": ({"subset": np.array(["train", "dev", "test"])[WHOLE]}, WHOLE),
    "another case": ({"Split": np.array(["TRAIN", "VAL", "TEST"])[WHOLE]}, WHOLE),
    "numbers under another key": ({"split_id": WHOLE}, WHOLE),
    "ids of the parts": (
        {"ids": FILES, "train_ids": FILES[np.r_[FIRST, SECOND]], "test_ids": FILES[THIRD]},
        TWO,
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_the_split_that_a_file_says(tmp_path: Path, case: str) -> None:
    more, expected = ROWS[case]
    _, tables, _ = imported(tmp_path, BASE | more)
    assert tables["split"].tolist() == expected.tolist()


@pytest.mark.parametrize("case", ROWS)
def test_rows_stay_where_they_are_whatever_says_the_split(tmp_path: Path, case: str) -> None:
    _, tables, _ = imported(tmp_path, BASE | ROWS[case][0])
    np.testing.assert_array_equal(tables["features"], X)


@pytest.mark.parametrize("case", ROWS)
def test_where_the_split_is_from_is_said(tmp_path: Path, case: str) -> None:
    more, _ = ROWS[case]
    keys = [key for key in more if key != "ids"]
    file, _, said = imported(tmp_path, BASE | more)
    assert f"split from {', '.join(keys)}" in said
    assert file.provenance["split"] == {"rule": "official"}


def test_rows_of_no_part_are_left_out_and_counted(tmp_path: Path) -> None:
    keys = {"train_mask": mask(FIRST), "test_mask": mask(THIRD)}
    _, tables, said = imported(tmp_path, BASE | keys | {"time": np.arange(N) / 4})
    kept = np.sort(np.r_[FIRST, THIRD])
    np.testing.assert_array_equal(tables["features"], X[kept])
    assert tables["labels"].tolist() == (kept % 4).tolist()
    assert tables["split"].tolist() == parts()[kept].tolist()
    assert "left out 6 of 40 rows, which are in none of train_mask, test_mask" in said


def test_that_the_other_rows_are_train_is_said(tmp_path: Path) -> None:
    said = imported(tmp_path, BASE | {"test_idx": THIRD})[2]
    assert "the 30 rows that test_idx does not name are train" in said


LOSSES = {"train_loss": np.ones(30), "val_loss": np.ones(10), "test_acc": np.array(0.9)}
BY_HASH = {
    "loss curves": LOSSES,
    "one train_id a row": {"train_id": np.arange(N) % 7},
    "a ratio": {"train_split": np.array(0.8), "test_split": np.array(0.2)},
    "a subset that names no part": {"subset": np.array(["a", "b"])[Y % 2]},
    "one part alone": {"subset": np.full(N, "train")},
    "folds": {"fold": np.arange(N) % 5},
    "numbers that are no split": {"part": np.arange(N) % 3},
}


@pytest.mark.parametrize("case", BY_HASH)
def test_what_is_no_split_is_left_out_and_named(tmp_path: Path, case: str) -> None:
    file, _, said = imported(tmp_path, BASE | BY_HASH[case])
    assert file.provenance["split"] == {"rule": "hash", "test_fraction": 0.3, "group": "sample"}
    left = said.partition("left out ")[2]
    assert all(key in left for key in BY_HASH[case])


NO_WHOLE = {"features": None, "labels": None}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "out of range": ({"train_idx": FIRST, "test_idx": THIRD + 30}, "features have rows 0 to 39"),
    "from 1 on": ({"train_idx": FIRST + 1, "test_idx": np.r_[THIRD, 39] + 1}, "count from 1"),
    "in two parts": ({"train_idx": FIRST, "test_idx": FIRST[:5]}, "in train too"),
    "twice": ({"test_idx": np.r_[THIRD, THIRD[0]]}, "twice"),
    "several splits": ({"train_mask": np.ones((N, 10), bool)}, "keep one split"),
    "a short mask": ({"train_mask": np.ones(30, bool)}, "marks 30 rows"),
    "no numbers": ({"train_idx": FIRST / 2, "test_idx": THIRD / 2}, "row numbers or a mask"),
    "two of one part": ({"val_idx": FIRST, "valid_idx": THIRD}, "both val"),
    "two kinds": ({"test_idx": THIRD, "test_mask": mask(FIRST)}, "both say which rows are test"),
    "an open word": ({"train_idx": FIRST, "test_idx": SECOND, "holdout_idx": THIRD}, "any part"),
    "ids or numbers": ({"ids": ORDER, "train_id": FIRST, "test_id": THIRD}, "these differ"),
    "strange parts": ({"split": np.array(["train", "fold2"])[Y % 2]}, "holds 'fold2'"),
    "a part without labels": (
        {"X_train": X, "y_train": Y, "X_test": X, "features": None, "labels": None},
        "X_test has no labels beside it",
    ),
    "whole tables in another order than their parts": (
        {"X_train": X[FIRST], "y_train": Y[FIRST], "X_test": X[THIRD], "y_test": Y[THIRD]},
        "features is there beside X_train, X_test, and its rows are others, or in another order",
    ),
    "labels of the other part": (
        {
            "X_train": X[:30],
            "y_train": Y[30:],
            "X_test": X[30:],
            "y_test": Y[:30],
            "features": None,
            "labels": None,
        },
        "X_train has 30 rows, and y_train has 10;",
    ),
    "parts of other widths": (
        {"X_train": X, "y_train": Y, "X_test": X[:, :3], "y_test": Y} | NO_WHOLE,
        "a row of X_train has 6 values, and one of X_test has 3 values; give all parts",
    ),
    "parts of pictures of other sizes": (
        {
            "X_train": np.zeros((4, 8, 8, 3), np.uint8),
            "y_train": Y[:4],
            "X_test": np.zeros((4, 9, 8, 3), np.uint8),
            "y_test": Y[:4],
        }
        | NO_WHOLE,
        "a row of X_train has 8 × 8 × 3, and one of X_test has 9 × 8 × 3",
    ),
    "parts with labels of other kinds": (
        {"X_train": X, "y_train": Y, "X_test": X, "y_test": Y.astype(str)} | NO_WHOLE,
        "y_train holds whole numbers, and y_test holds texts",
    ),
    "layers of other widths": (
        {"X_train": X, "y_train": Y, "X_test": X, "y_test": Y}
        | {"layer/a_train": X, "layer/a_test": X[:, :2]}
        | NO_WHOLE,
        "a row of layer/a_train has 6 values, and one of layer/a_test has 2 values",
    ),
    "names of files or of classes": (
        {"labels": np.arange(N), "names": FILES},
        "call it class_names, or sample_ids",
    ),
    "names of features": ({"names": np.array(list("abcdef"))}, "feature_names if not"),
    "one class a row": ({"classes": np.array(list("abcd"))[Y]}, "--labels classes"),
    "positions or values": ({"classes": np.array([3, 2, 1, 0])}, "may be the class 0 of classes"),
    "ids of another length": ({"ids": np.arange(4)}, "ids has 4 values"),
    "groups of another length": ({"groups": np.arange(4)}, "groups has 4 values"),
    "one-hot labels": (
        {"labels": np.eye(4)[Y]},
        "labels is float64 of shape (40, 4); expected one value a row; give one class a sample; of "
        "rows with a 1 at the class, labels.argmax(axis=1)",
    ),
    "features without labels": (
        {"labels": None},
        "holds features (40 rows of 6 values, from features) and no labels; give them: --labels F",
    ),
    "labels without features": (
        {"features": None},
        "it holds labels, and no features; name the key: --features KEY",
    ),
    "neither": (
        NO_WHOLE | {"clip": X},
        "holds features (40 rows of 6 values, from clip) and no labels; give them: --labels FILE",
    ),
    "features in one row": ({"features": X.ravel()}, "give one row a sample, as numbers"),
    "labels between": ({"labels": Y / 2}, "one integer or text per sample"),
    "labels of yes and no": ({"labels": Y > 1}, "one integer or text per sample"),
    "a group without a name": ({"groups": np.where(Y > 2, np.nan, Y)}, "groups has NaN in row 3"),
    "an empty label": ({"labels": np.array(["a", ""])[Y % 2]}, "is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_may_be_two_things_is_refused(tmp_path: Path, case: str) -> None:
    more, sentence = REFUSED[case]
    arrays = {key: value for key, value in (BASE | more).items() if value is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    assert sentence in refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5")


# --- parts that are kept apart ---


def apart(form: str, **values: Any) -> dict[str, Any]:
    """Arrays cut into 30 rows for training and 10 test rows, named by a form."""
    cut = {}
    for name, table in values.items():
        cut[form.format(name, "train")] = table[:30]
        cut[form.format(name, "test")] = table[30:]
    return cut


APART = {
    "usual": apart("{}_{}", X=X, y=Y),
    "words": apart("{1}_{0}", features=X, labels=Y),
    "no line between": apart("{}{}", X=X, y=Y),
    "folders": apart("{1}/{0}", features=X, labels=Y),
    "loss curves beside": apart("{}_{}", X=X, y=Y) | LOSSES,
    "eval": {"X_train": X[:30], "y_train": Y[:30], "X_eval": X[30:], "y_eval": Y[30:]},
    "whole tables beside": apart("{}_{}", X=X, y=Y) | {"X": X[::-1], "y": Y},
    "capitals": {"X_Train": X[:30], "Y_Train": Y[:30], "X_Test": X[30:], "Y_Test": Y[30:]},
}


@pytest.mark.parametrize("case", APART)
def test_parts_that_are_kept_apart(tmp_path: Path, case: str) -> None:
    _, tables, _ = imported(tmp_path, APART[case])
    np.testing.assert_array_equal(tables["features"], X)
    assert tables["labels"].tolist() == Y.tolist()
    assert tables["split"].tolist() == [TRAIN] * 30 + [TEST] * 10


def test_ids_and_groups_of_parts_go_with_them(tmp_path: Path) -> None:
    arrays = apart("{}_{}", X=X, y=Y, ids=FILES, group=VOICES)
    _, tables, _ = imported(tmp_path, arrays)
    assert tables["ids"].tolist() == FILES.tolist()
    assert tables["group"] == VOICES.tolist()


# --- names of classes and of files ---


def test_names_of_files_are_ids_and_no_classes(tmp_path: Path) -> None:
    _, tables, said = imported(tmp_path, BASE | {"names": FILES})
    assert tables["classes"] == ["0", "1", "2", "3"]
    assert tables["ids"].tolist() == FILES.tolist()
    assert "ids from names" in said


@pytest.mark.parametrize("key", ["filenames", "paths", "File Name"])
def test_names_of_files_are_ids(tmp_path: Path, key: str) -> None:
    _, tables, _ = imported(tmp_path, BASE | {key: FILES})
    assert tables["ids"].tolist() == FILES.tolist()


def test_names_of_files_that_repeat_are_no_ids(tmp_path: Path) -> None:
    _, tables, said = imported(tmp_path, BASE | {"paths": FILES[Y]})
    assert tables["ids"][:2].tolist() == ["00000", "00001"]
    assert "left out paths (not different enough for ids)" in said


def test_as_many_names_as_classes_are_theirs(tmp_path: Path) -> None:
    _, tables, said = imported(tmp_path, BASE | {"names": np.array(list("wxyz"))})
    assert tables["classes"] == ["w", "x", "y", "z"]
    assert "classes from names" in said


def test_names_without_samples_are_counted(tmp_path: Path) -> None:
    said = imported(tmp_path, BASE | {"class_names": np.array(list("stuvwxyz"))})[2]
    assert "of 8 classes (4 of them without a sample)" in said


def test_numbers_that_can_only_be_values_are_looked_up(tmp_path: Path) -> None:
    arrays = {"labels": np.array([12, 3, 9, 40])[Y], "classes": np.array([3, 9, 12, 40])}
    _, tables, _ = imported(tmp_path, BASE | arrays)
    names = np.array(tables["classes"])[tables["labels"]]
    assert names.tolist() == np.array(["12", "3", "9", "40"])[Y].tolist()


def test_that_labels_are_positions_is_said(tmp_path: Path) -> None:
    """As ImageFolder of torchvision sorts folders called 0 to 11."""
    names = np.array(sorted(map(str, range(12))))
    _, tables, said = imported(tmp_path, BASE | {"labels": np.arange(N) % 12, "classes": names})
    assert tables["labels"][:12].tolist() == list(range(12))
    assert "labels are positions in classes: label 2 is class '10'" in said


@pytest.mark.parametrize(
    ("texts", "classes"),
    [
        (["01", "1", "001", "10"], ["001", "01", "1", "10"]),
        (["caf\xe9", "cafe\u0301", "tea", "tea "], ["caf\xe9", "tea"]),
        (["cafe\u0301", "b", "c", "d"], ["b", "c", "cafe\u0301", "d"]),
        (["None", "nan", "NA", "null"], ["NA", "None", "nan", "null"]),
        (["Cat", "cat", "dog", "Dog"], ["Cat", "Dog", "cat", "dog"]),
    ],
)
def test_texts_of_labels(tmp_path: Path, texts: list[str], classes: list[str]) -> None:
    _, tables, _ = imported(tmp_path, BASE | {"labels": np.array(texts)[Y]})
    assert tables["classes"] == classes


@pytest.mark.parametrize(
    ("texts", "phrase"),
    [
        (["caf\xe9", "cafe\u0301"], r"'cafe\u0301' and 'caf\xe9' look alike and are one"),
        (["nan", "b"], "class 'nan' is a name here"),
        (["Cat", "cat"], "'Cat' and 'cat' look alike and are kept apart"),
        (["1", "01"], "'01' and '1' look alike and are kept apart"),
    ],
)
def test_what_is_said_of_texts(tmp_path: Path, texts: list[str], phrase: str) -> None:
    assert phrase in imported(tmp_path, BASE | {"labels": np.array(texts)[Y % 2]})[2]


# --- several candidates ---


def test_the_first_of_several_tables_is_taken_and_the_others_named(tmp_path: Path) -> None:
    _, tables, said = imported(tmp_path, BASE | {"X": X + 1, "y": Y + 1})
    np.testing.assert_array_equal(tables["features"], X)
    assert "left out X (features are features); left out y (labels are labels)" in said


def test_a_list_of_texts_is_no_table_of_features(tmp_path: Path) -> None:
    arrays = {"features": np.array(list("abcdef")), "X": X, "labels": np.arange(4), "y": Y}
    _, tables, said = imported(tmp_path, arrays)
    np.testing.assert_array_equal(tables["features"], X)
    assert tables["labels"].tolist() == Y.tolist()
    assert "features from X, labels from y" in said


# --- groups ---


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({"groups": VOICES}, {}),
        ({"speaker": VOICES}, {"group": "speaker"}),
        ({"speaker": VOICES, "split": WHOLE}, {"group": "speaker"}),
        ({"groups": VOICES, "train_idx": FIRST, "val_idx": SECOND, "test_idx": THIRD}, {}),
        ({"speaker": VOICES, "group": FILES}, {"group": "speaker"}),
        ({"ids": VOICES.astype("U9") + FILES}, {"group": "^(voice .)"}),
    ],
)
def test_groups_are_stored(tmp_path: Path, more: Any, options: Any) -> None:
    _, tables, said = imported(tmp_path, BASE | more, **options)
    assert [name[:7] for name in tables["group"]] == VOICES.tolist()
    assert "5 groups" in said


def test_groups_stay_in_one_part_of_a_split_that_is_made(tmp_path: Path) -> None:
    _, tables, _ = imported(tmp_path, BASE | {"groups": VOICES})
    test = tables["split"] == TEST
    assert not {*VOICES[test]} & {*VOICES[~test]}


def test_a_group_changes_no_official_split(tmp_path: Path) -> None:
    arrays = BASE | {"speaker": VOICES, "split": WHOLE}
    file, tables, said = imported(tmp_path, arrays, group="speaker")
    assert tables["split"].tolist() == WHOLE.tolist()
    assert file.provenance["split"] == {"rule": "official"}
    test, others = {*VOICES[WHOLE == TEST]}, {*VOICES[WHOLE != TEST]}
    assert f"{len(test & others)} of 5 groups" in said
    assert "are in test and in another part too" in said


def test_split_and_group_replace_an_official_split_and_say_so(tmp_path: Path) -> None:
    arrays = BASE | {"speaker": VOICES, "split": WHOLE}
    file, _, said = imported(tmp_path, arrays, group="speaker", split="0.3")
    assert file.provenance["split"]["group"] == "speaker"
    assert "its own split is replaced" in said


def test_a_list_with_semicolons(tmp_path: Path) -> None:
    lines = [f"{row:05d};{VOICES[row]};{row / 4}" for row in range(N)]
    path = tmp_path / "meta.csv"
    path.write_bytes("\r\n".join(["\ufeffSample_ID;group;time", *lines]).encode())
    _, tables, _ = imported(tmp_path, BASE, columns=path)
    assert tables["group"] == VOICES.tolist()


def test_zeros_and_ones_of_a_split_are_read_as_the_page_says_and_said(tmp_path: Path) -> None:
    said = imported(tmp_path, BASE | {"split": Y % 2})[2]
    assert "split holds no 2: 0 is train and 1 is val, and no row is test" in said


def test_that_a_rule_reads_running_numbers_is_said(tmp_path: Path) -> None:
    assert "--group reads running numbers" in imported(tmp_path, BASE, group="stem")[2]


def test_row_numbers_beside_a_split_are_named(tmp_path: Path) -> None:
    said = imported(tmp_path, BASE | {"split": WHOLE, "train_idx": FIRST})[2]
    assert "left out train_idx (the split is from split)" in said


def test_of_two_keys_of_groups_the_one_with_a_value_a_row_is_taken(tmp_path: Path) -> None:
    arrays = BASE | {"groups": np.array(["ann", "bob"]), "group": VOICES}
    _, tables, said = imported(tmp_path, arrays)
    assert tables["group"] == VOICES.tolist()
    assert "left out groups" in said


@pytest.mark.parametrize(
    ("shape", "way"),
    [
        ((4, 2), "y.argmax(axis=1)"),
        ((4, 1), "flatten it"),
        ((4,), "convert it to whole n"),
    ],
)
def test_labels_of_another_shape_are_told_the_way(shape: tuple[int, ...], way: str) -> None:
    assert way in reshape_way("y", np.zeros(shape), table=False)
