"""Files of others in which rows, columns and labels were easily taken for others, in silence."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
from file_helpers import make_features, refusal
from safetensors.numpy import save_file

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.formats.feature_columns import is_code
from embedbench.files.import_features import import_file
from embedbench.storage import user_cache

N, D = 12, 5
X = make_features(N, D)
Y = np.arange(N) % 3
NAMES = np.array(["jay", "owl", "wren"])
TEXTS = NAMES[Y]
IDS = [f"{row:02d}.wav" for row in range(N)]
COLUMNS = [f"f{k}" for k in range(D)]
SHUFFLED = np.random.default_rng(3).permutation(N)
SPLIT = np.array(["train"] * 8 + ["test"] * 4)
TRAIN, VAL, TEST = 0, 1, 2


def imported(folder: Path, src: Any, **options: Any) -> tuple[EmbeddingFile, str]:
    """The file, and all that was said."""
    said: list[str] = []
    file = import_file(src, folder / "ours.h5", notify=said.append, **options)
    return file, " ".join(said)


def rows(file: EmbeddingFile) -> list[list[float]]:
    features: list[list[float]] = file.read().astype(np.float32).tolist()
    return features


def class_names(file: EmbeddingFile) -> list[str]:
    return [file.classes[label] for label in file.labels]


def theirs(folder: Path) -> Path:
    made = folder / "theirs"
    made.mkdir()
    return made


def frame(order: Sequence[int] = range(N)) -> pd.DataFrame:
    return pd.DataFrame(X, columns=COLUMNS).iloc[list(order)]


def labels(order: Sequence[int] = range(N)) -> pd.DataFrame:
    return pd.DataFrame({"species": TEXTS}).iloc[list(order)]


# --- the index that pandas and R write ---


@pytest.mark.parametrize("index", [range(N), SHUFFLED])
def test_the_index_of_two_tables_is_neither_feature_nor_label(tmp_path: Path, index: Any) -> None:
    folder = theirs(tmp_path)
    frame(index).to_csv(folder / "X.csv")
    labels(index).to_csv(folder / "y.csv")
    file, _ = imported(tmp_path, folder)
    read = pd.read_csv(folder / "X.csv", index_col=0).to_numpy(np.float32)
    assert (rows(file), class_names(file)) == (read.tolist(), TEXTS[index].tolist())


def test_tables_of_other_orders_are_joined_by_their_index(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame(SHUFFLED).to_csv(folder / "X.csv")
    labels(SHUFFLED[::-1]).to_csv(folder / "y.csv")
    file, said = imported(tmp_path, folder)
    assert class_names(file) == TEXTS[SHUFFLED].tolist()
    assert "y.csv is in another order than X.csv, and was joined by unnamed 1." in said


def test_an_index_beside_one_that_counts_rows_is_refused(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame(SHUFFLED).to_csv(folder / "X.csv")
    labels(SHUFFLED).reset_index(drop=True).to_csv(folder / "y.csv")
    said = refusal(import_file, folder, tmp_path / "a.h5")
    assert "one counts the rows, and one names those of an earlier table" in said


def test_tables_with_ids_are_joined_by_them(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(id=IDS).to_csv(folder / "X.csv", index=False)
    labels().assign(id=IDS).iloc[::-1].to_csv(folder / "y.csv", index=False)
    file, _ = imported(tmp_path, folder)
    assert class_names(file) == TEXTS.tolist()
    assert file.sample_ids.tolist() == IDS


def test_tables_with_other_ids_are_refused(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(id=IDS).to_csv(folder / "X.csv", index=False)
    labels().assign(id=[name[:-4] for name in IDS]).to_csv(folder / "y.csv", index=False)
    said = refusal(import_file, folder, tmp_path / "a.h5")
    assert "y.csv has no row '00.wav' in id" in said


def test_parts_of_scikit_learn_with_their_index(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    parts = {"train": SHUFFLED[:8], "test": SHUFFLED[8:]}
    for part, order in parts.items():
        frame(order).to_csv(folder / f"X_{part}.csv")
        labels(order).to_csv(folder / f"y_{part}.csv")
    file, _ = imported(tmp_path, folder)
    assert (rows(file), class_names(file)) == (X[SHUFFLED].tolist(), TEXTS[SHUFFLED].tolist())


def test_labels_without_a_name_beside_features(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().to_csv(folder / "X.csv", index=False)
    (folder / "y.csv").write_text("\n".join(TEXTS))
    file, _ = imported(tmp_path, folder)
    assert class_names(file) == TEXTS.tolist()


def test_labels_among_the_features_beside_them_are_none(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(label=Y).to_csv(folder / "X.csv", index=False)
    pd.DataFrame({"label": Y}).to_csv(folder / "y.csv", index=False)
    file, said = imported(tmp_path, folder)
    assert rows(file) == X.tolist()
    assert "left out label of X.csv (the labels)" in said


def test_tables_with_texts_of_one_name_are_joined_by_them(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(clip=IDS).to_csv(folder / "embeddings.csv")
    labels().assign(clip=IDS).iloc[::-1].reset_index(drop=True).to_csv(folder / "labels.csv")
    file, _ = imported(tmp_path, folder)
    assert class_names(file) == TEXTS.tolist()


def test_split_and_ids_beside_the_labels_go_with_them(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    np.save(folder / "embeddings.npy", X)
    labels().assign(id=IDS, split=SPLIT).to_csv(folder / "labels.csv", index=False)
    file, _ = imported(tmp_path, [folder / "embeddings.npy", folder / "labels.csv"])
    assert (file.sample_ids.tolist(), file.split.tolist()) == (IDS, [TRAIN] * 8 + [TEST] * 4)
    assert class_names(file) == TEXTS.tolist()


def test_labels_and_paths_without_names_beside_features(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    pd.DataFrame(X).to_csv(folder / "features.csv", header=False, index=False)
    pd.DataFrame({0: Y, 1: IDS}).to_csv(folder / "labels.csv", header=False, index=False)
    file, _ = imported(tmp_path, folder)
    assert class_names(file) == [str(label) for label in Y]


def test_a_code_of_the_labels_is_no_feature(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=list("abcde")).assign(label=TEXTS, code=Y * 10)
    table.to_csv(tmp_path / "a.csv", index=False)
    file, said = imported(tmp_path, tmp_path / "a.csv")
    assert rows(file) == X.tolist()
    assert "left out code" in said


def test_a_code_of_the_labels_of_another_file_is_no_feature(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=list("abcde")).assign(code=Y * 10)
    table.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "l.txt").write_text("\n".join(TEXTS))
    file, _ = imported(tmp_path, tmp_path / "a.csv", labels=str(tmp_path / "l.txt"))
    assert rows(file) == X.tolist()


@pytest.mark.parametrize(
    ("rows_of", "says"), [([2] * 5, False), ([3, 2, 2, 2, 2], True), ([3, 3], True), ([9], False)]
)
def test_numbers_are_a_code_where_classes_have_more_than_two_rows(
    rows_of: list[int], says: bool
) -> None:
    labels = np.repeat(np.arange(len(rows_of)), rows_of)
    assert is_code(10 - labels, labels) is says


@pytest.mark.parametrize("fold", ["fold", "is_train"])
def test_folds_and_marks_of_parts_are_no_features(tmp_path: Path, fold: str) -> None:
    table = pd.DataFrame(X, columns=list("abcde")).assign(label=TEXTS)
    table[fold] = np.arange(N) % 2
    table.to_csv(tmp_path / "a.csv", index=False)
    assert rows(imported(tmp_path, tmp_path / "a.csv")[0]) == X.tolist()


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE")])
def test_marks_of_parts_in_words_are_the_split(tmp_path: Path, words: tuple[str, str]) -> None:
    train = np.where(SPLIT == "train", *words)
    frame().assign(label=TEXTS, is_train=train).to_csv(tmp_path / "a.csv", index=False)
    file, _ = imported(tmp_path, tmp_path / "a.csv")
    assert file.split.tolist() == [TRAIN] * 8 + [TEST] * 4


def test_names_of_columns_as_numpy_writes_them(tmp_path: Path) -> None:
    head = ",".join([*COLUMNS, "label"])
    np.savetxt(tmp_path / "a.csv", np.c_[X, Y], delimiter=",", header=head)
    file, _ = imported(tmp_path, tmp_path / "a.csv")
    assert rows(file) == X.tolist()


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", "__index_level_0__"])
def test_a_shuffled_index_is_no_feature(tmp_path: Path, name: str) -> None:
    table = pd.DataFrame(X, columns=list("abcde")).assign(label=TEXTS)
    table.insert(0, name, SHUFFLED * 7)
    table.to_csv(tmp_path / "a.csv", index=False)
    file, _ = imported(tmp_path, tmp_path / "a.csv")
    assert rows(file) == X.tolist()


def test_a_first_column_that_counts_rows_is_no_feature(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=list("abcde")).assign(label=TEXTS)
    table.insert(0, "PassengerNo", np.arange(1, N + 1))
    table.to_csv(tmp_path / "a.csv", index=False)
    file, said = imported(tmp_path, tmp_path / "a.csv")
    assert rows(file) == X.tolist()
    assert "left out PassengerNo" in said


def test_a_first_column_that_counts_rows_of_a_table_without_names(tmp_path: Path) -> None:
    pd.DataFrame(X).assign(label=Y).to_csv(tmp_path / "a.csv", header=False)
    file, _ = imported(tmp_path, tmp_path / "a.csv")
    assert (rows(file), class_names(file)) == (X.tolist(), [str(label) for label in Y])


def test_names_of_rows_as_r_writes_them_are_ids(tmp_path: Path) -> None:
    frame().assign(label=TEXTS, index=IDS).set_index("index").to_csv(
        tmp_path / "a.csv", index_label="", quoting=2
    )
    file, said = imported(tmp_path, tmp_path / "a.csv")
    assert file.sample_ids.tolist() == IDS
    assert "ids from the first column, which has no name" in said


def test_an_index_of_parquet_is_no_feature(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=list("abcde")).assign(label=pd.Categorical(TEXTS))
    table.iloc[SHUFFLED].to_parquet(tmp_path / "a.parquet")
    file, _ = imported(tmp_path, tmp_path / "a.parquet")
    assert (rows(file), class_names(file)) == (X[SHUFFLED].tolist(), TEXTS[SHUFFLED].tolist())


def test_a_series_of_pandas_without_a_name_beside_features(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().to_csv(folder / "X.csv")
    pd.Series(Y).to_csv(folder / "y.csv")
    assert class_names(imported(tmp_path, folder)[0]) == [str(label) for label in Y]


def test_a_count_of_rows_that_is_called_as_the_features_is_none(tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=[f"V{k + 2}" for k in range(D)]).assign(label=TEXTS)
    table.insert(0, "V1", np.arange(1, N + 1))
    table.to_csv(tmp_path / "a.csv", index=False)
    assert rows(imported(tmp_path, tmp_path / "a.csv")[0]) == X.tolist()


def test_pixels_by_row_and_column_are_the_features(tmp_path: Path) -> None:
    names = [f"{row}x{column}" for row in (1, 2, 3) for column in (1, 2)]
    pixels = np.arange(N * 6).reshape(N, 6) % 255
    pd.DataFrame(pixels, columns=names).assign(label=Y).to_csv(tmp_path / "a.csv", index=False)
    assert rows(imported(tmp_path, tmp_path / "a.csv")[0]) == pixels.tolist()


def test_a_code_of_the_labels_beside_features_is_none(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(code=Y * 10).to_csv(folder / "X.csv", index=False)
    labels().to_csv(folder / "y.csv", index=False)
    file, said = imported(tmp_path, folder)
    assert rows(file) == X.tolist()
    assert "left out code of X.csv" in said


def test_groups_beside_features_are_none(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(group=np.arange(N) // 2).to_csv(folder / "X.csv", index=False)
    labels().to_csv(folder / "y.csv", index=False)
    file, _ = imported(tmp_path, folder)
    assert rows(file) == X.tolist()
    assert file.columns["group"].tolist() == [str(row // 2) for row in range(N)]


# --- columns of other orders and names ---


def test_features_of_two_files_are_joined_by_name(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(label=TEXTS).to_csv(folder / "a.csv", index=False)
    frame()[COLUMNS[::-1]].assign(label=TEXTS).to_csv(folder / "b.csv", index=False)
    file, said = imported(tmp_path, folder)
    assert rows(file) == X.tolist() * 2
    assert "b.csv: its features are in another order than those of a.csv" in said


def test_features_of_parts_are_joined_by_name(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    for part, columns in (("train", COLUMNS), ("test", COLUMNS[::-1])):
        frame()[columns].to_csv(folder / f"X_{part}.csv", index=False)
        labels().to_csv(folder / f"y_{part}.csv", index=False)
    file, _ = imported(tmp_path, folder)
    assert rows(file) == X[:, ::-1].tolist() * 2  # as in X_test.csv


def test_of_other_features_three_are_named(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(label=TEXTS).to_csv(folder / "a.csv", index=False)
    frame().add_prefix("g").assign(label=TEXTS).to_csv(folder / "b.csv", index=False)
    said = refusal(import_file, folder, tmp_path / "a.h5")
    assert "it has gf0, gf1, gf2 and 2 more and lacks f0, f1, f2 and 2 more; give all" in said


def test_features_of_parts_in_one_order_have_no_remark(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    for part in ("train", "test"):
        frame().to_csv(folder / f"X_{part}.csv", index=False)
        labels().to_csv(folder / f"y_{part}.csv", index=False)
    assert "in another order" not in imported(tmp_path, folder)[1]


@pytest.mark.parametrize("names", [("{}", "y{}"), ("X_{}", "y_{}")])
def test_features_of_other_names_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = theirs(tmp_path)
    for part, prefix in (("train", "f"), ("test", "g")):
        table = pd.DataFrame(X).add_prefix(prefix)
        if names[0] == "{}":
            table["label"] = TEXTS
        else:
            labels().to_csv(folder / f"y_{part}.csv", index=False)
        table.to_csv(folder / f"{names[0].format(part)}.csv", index=False)
    said = refusal(import_file, folder, tmp_path / "a.h5")
    assert "g0, g1, g2" in said


# --- a file of labels ---


def listed(folder: Path, **columns: Any) -> dict[str, str]:
    table = pd.DataFrame({"label": TEXTS} | columns).iloc[::-1]
    table.to_csv(folder / "labels.csv", index=False)
    return {"labels": str(folder / "labels.csv")}


def test_split_and_groups_of_a_list_go_with_its_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS)
    options = listed(tmp_path, id=IDS, split=SPLIT, group=Y // 2, time=np.arange(N))
    file, said = imported(tmp_path, tmp_path / "a.npz", **options)
    assert file.split.tolist() == [TRAIN] * 8 + [TEST] * 4
    assert file.columns["group"].tolist() == [str(name) for name in Y // 2]
    assert file.columns["time"].tolist() == list(range(N))
    assert "split from split" in said


def test_a_named_column_of_a_list_is_the_groups(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS)
    options = listed(tmp_path, id=IDS, singer=NAMES[Y // 2])
    file, _ = imported(tmp_path, tmp_path / "a.npz", group="singer", **options)
    assert file.columns["group"].tolist() == NAMES[Y // 2].tolist()


def test_other_columns_of_a_list_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS, split=SPLIT)
    options = listed(tmp_path, id=IDS, split=SPLIT, weight=Y / 2)
    _, said = imported(tmp_path, tmp_path / "a.npz", **options)
    assert "left out split of labels.csv (a.npz has its own); left out weight of labels.csv" in said


def test_ids_of_a_list_in_order_are_the_ids(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    file, _ = imported(tmp_path, tmp_path / "a.npy", **listed(tmp_path, file=IDS))
    assert file.sample_ids.tolist() == IDS[::-1]


@pytest.mark.parametrize("names", [[f"{name}.png" for name in IDS], IDS[:5] + ["x"] * 7])
def test_ids_that_do_not_meet_are_refused(tmp_path: Path, names: list[str]) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS)
    unique = [f"{name}{row if name == 'x' else ''}" for row, name in enumerate(names)]
    options = listed(tmp_path, id=unique)
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5", **options)
    assert f"{5 if 'x5' in unique else 0} of 12 rows are found by them; write both alike" in said


def test_an_id_that_a_list_has_twice_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS)
    lines = [f"{name},owl" for name in [*IDS, IDS[3]]]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *lines]))
    labels = str(tmp_path / "labels.csv")
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5", labels=labels)
    assert said.endswith("labels.csv: id has '03.wav' twice; list it once")


def test_ids_without_a_known_name_that_do_not_meet_are_refused(tmp_path: Path) -> None:
    frame().assign(clip=IDS).to_csv(tmp_path / "a.csv", index=False)
    options = listed(tmp_path, recording=[name[:-4] for name in IDS])
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5", **options)
    assert "labels.csv has recording such as '11', and" in said


def test_numbers_of_lines_are_no_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS)
    labels().to_csv(tmp_path / "labels.csv", index_label="id")
    file, said = imported(tmp_path, tmp_path / "a.npz", labels=str(tmp_path / "labels.csv"))
    assert class_names(file) == TEXTS.tolist()
    assert "in the order of the rows" in said


def test_a_column_of_both_that_repeats_is_no_id(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, split=SPLIT)
    labels().assign(split=SPLIT).rename(columns={"species": "label"}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    file, _ = imported(tmp_path, tmp_path / "a.npz", labels=str(tmp_path / "labels.csv"))
    assert class_names(file) == TEXTS.tolist()


def test_an_empty_cell_of_another_column_of_a_list(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS)
    options = listed(tmp_path, id=IDS, note=["", *TEXTS[1:]])
    file, said = imported(tmp_path, tmp_path / "a.npz", **options)
    assert class_names(file) == TEXTS.tolist()
    assert "note has no value in line 13)" in said


@pytest.mark.parametrize("option", ["labels", "columns", "split"])
def test_a_list_that_changes_while_it_is_used_is_refused(
    tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "a.npz", X=X, ids=IDS, **({} if option == "labels" else {"y": TEXTS}))
    heads = {"labels": "id,label", "columns": "sample_id,group", "split": "sample_id,split"}
    lines = [f"{name},{part}" for name, part in zip(IDS, SPLIT, strict=True)]
    (tmp_path / "list.csv").write_text("\n".join([heads[option], *lines]))
    seen = user_cache.check_identities

    def change_first(path: Path, identities: dict[str, str]) -> None:
        with (tmp_path / "list.csv").open("a") as file:
            file.write("\n")
        seen(path, identities)

    monkeypatch.setattr(user_cache, "check_identities", change_first)
    options = {option: str(tmp_path / "list.csv")}
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5", **options)
    assert "list.csv changed while it was read" in said


# --- one value that is wrong ---


def with_cell(value: Any, **columns: Any) -> pd.DataFrame:
    table = frame().astype(object)
    table.iloc[4, 2] = value
    return table.assign(age=np.arange(N) + 20, label=TEXTS, **columns)


@pytest.mark.parametrize("value", ["?", "NA", "1,5", " "])
@pytest.mark.parametrize("named", [COLUMNS, list("vwxyz")])
def test_a_value_that_is_no_number_is_named(tmp_path: Path, value: str, named: list[str]) -> None:
    table = with_cell(value).rename(columns=dict(zip(COLUMNS, named, strict=True)))
    table.to_csv(tmp_path / "a.csv", index=False)
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")
    assert f"{named[2]} is {value!r} in line 6, and a number in most others" in said


@pytest.mark.parametrize("features", ["f", "f*", "f0,f1,f2"])
def test_a_value_that_is_no_number_of_named_features(tmp_path: Path, features: str) -> None:
    with_cell("?").to_csv(tmp_path / "a.csv", index=False)
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5", features=features)
    assert "f2 is '?' in line 6, and a number in most others" in said


def test_a_value_that_is_no_number_in_a_column_that_is_not_needed(tmp_path: Path) -> None:
    ticket = ["A/5", *map(str, range(1, N))]
    frame().assign(ticket=ticket, label=TEXTS).to_csv(tmp_path / "a.csv", index=False)
    assert rows(imported(tmp_path, tmp_path / "a.csv")[0]) == X.tolist()


@pytest.mark.parametrize("value", [np.nan, "a word"])
def test_a_column_of_features_without_numbers_is_named(tmp_path: Path, value: Any) -> None:
    frame().assign(f2=value, age=Y, label=TEXTS).to_csv(tmp_path / "a.csv", index=False)
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")
    assert "f2 holds no numbers (" in said


@pytest.mark.parametrize("orient", ["split", "records"])
def test_an_entry_with_a_value_that_is_no_number_is_named(tmp_path: Path, orient: Any) -> None:
    with_cell("?").to_json(tmp_path / "a.json", orient=orient)
    said = refusal(import_file, tmp_path / "a.json", tmp_path / "a.h5")
    assert "in entry 5, and a number in most others" in said


def test_a_record_with_a_value_that_is_no_number_is_named(tmp_path: Path) -> None:
    with_cell("?").to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    said = refusal(import_file, tmp_path / "a.jsonl", tmp_path / "a.h5")
    assert "f2 is '\"?\"' in line 5, and a number in most others" in said


@pytest.mark.parametrize("value", ["error", [1.0, "?"], None])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_value_that_is_no_list_is_named(tmp_path: Path, value: Any, suffix: str) -> None:
    lists: list[Any] = [json.dumps(row) if suffix == ".csv" else row for row in X.tolist()]
    lists[4] = str(value or "") if suffix == ".csv" else value
    table = pd.DataFrame({"embedding": lists, "age": Y + 20.5, "height": Y * 2.5, "label": TEXTS})
    if suffix == ".csv":
        table.to_csv(tmp_path / "a.csv", index=False)
    else:
        table.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    said = refusal(import_file, tmp_path / f"a{suffix}", tmp_path / "a.h5")
    assert re.search("embedding.* in (line 6|line 5|row 4)", said)


def test_an_embedding_that_is_one_text_is_not_replaced_by_other_columns(tmp_path: Path) -> None:
    texts = [" ".join(map(str, row)) for row in X]
    table = pd.DataFrame({"embedding": texts, "age": Y + 20.5, "height": Y * 2.5, "label": TEXTS})
    table.to_csv(tmp_path / "a.csv", index=False)
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")
    assert "embedding holds no numbers (texts), and is called as the features are" in said


def test_a_missing_value_of_parquet_is_named(tmp_path: Path) -> None:
    table = frame().astype(object)
    table.iloc[4, 2] = None
    table.astype("Float64").assign(age=Y, label=TEXTS).to_parquet(tmp_path / "a.parquet")
    said = refusal(import_file, tmp_path / "a.parquet", tmp_path / "a.h5")
    assert "f2 has 1 rows without a value, the first of them row 4" in said


# --- columns that nobody needs ---


def test_lists_of_several_lengths_beside_the_features(tmp_path: Path) -> None:
    records = [
        {"embedding": row, "label": label, "tokens": [1] * (at + 1)}
        for at, (row, label) in enumerate(zip(X.tolist(), TEXTS.tolist(), strict=True))
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    file, said = imported(tmp_path, tmp_path / "a.jsonl")
    assert rows(file) == X.tolist()
    assert "left out tokens" in said


def test_lists_of_which_half_have_another_length_are_no_features(tmp_path: Path) -> None:
    table = frame().assign(label=TEXTS, tokens=["[1]", "[1, 2]"] * 6)
    table.to_csv(tmp_path / "a.csv", index=False)
    assert "left out tokens (lists of several lengths)" in imported(tmp_path, tmp_path / "a.csv")[1]


def test_lists_of_texts_beside_the_features(tmp_path: Path) -> None:
    frame().assign(tags="['a', 'b']", label=TEXTS).to_csv(tmp_path / "a.csv", index=False)
    file, said = imported(tmp_path, tmp_path / "a.csv")
    assert rows(file) == X.tolist()
    assert "left out tags" in said


def test_times_and_lists_beside_columns_of_parquet(tmp_path: Path) -> None:
    table = frame().assign(label=TEXTS, at=pd.Timestamp("2024-01-01"), tags=[["a"]] * N)
    table.to_parquet(tmp_path / "a.parquet")
    file, said = imported(tmp_path, tmp_path / "a.parquet")
    assert rows(file) == X.tolist()
    assert "left out at (timestamp" in said


# --- what a source says of its parts ---


def test_rows_for_validation_of_a_file_for_training_stay(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    parts = ["train"] * 8 + ["val"] * 4
    frame().assign(label=TEXTS, split=parts).to_csv(folder / "train.csv", index=False)
    frame().assign(label=TEXTS).to_csv(folder / "test.csv", index=False)
    file, said = imported(tmp_path, folder)
    assert sorted(file.split.tolist()) == [TRAIN] * 8 + [VAL] * 4 + [TEST] * 12
    assert "split from the names of the files and split" in said


def test_a_part_that_its_file_is_not_called_is_refused(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    frame().assign(label=TEXTS, split=SPLIT).to_csv(folder / "train.csv", index=False)
    frame().assign(label=TEXTS, split="test").to_csv(folder / "test.csv", index=False)
    said = refusal(import_file, folder, tmp_path / "a.h5")
    assert "train.csv: split says test in 4 rows, and the file is called train" in said


@pytest.mark.parametrize("name", ["features_{}", "{}_embeddings", "{}"])
def test_parts_by_the_names_of_their_features(tmp_path: Path, name: str) -> None:
    folder = theirs(tmp_path)
    for part in ("test", "train"):
        frame().assign(label=TEXTS).to_csv(folder / f"{name.format(part)}.csv", index=False)
    file, _ = imported(tmp_path, folder)
    assert file.split.tolist() == [TEST] * N + [TRAIN] * N


# --- what numbers are counted from ---


def test_rows_of_matlab_that_have_a_0_are_all_counted_from_0(tmp_path: Path) -> None:
    parts = {"train_idx": np.arange(1, N - 1), "test_idx": np.array([0, N - 1])}
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y, **parts})
    file, _ = imported(tmp_path, tmp_path / "a.mat")
    assert file.split.tolist() == [TEST] + [TRAIN] * (N - 2) + [TEST]


def test_labels_of_parts_are_counted_alike(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    few = Y < 2
    scipy.io.savemat(folder / "train.mat", {"X": X, "y": Y + 1, "class_names": list(NAMES)})
    scipy.io.savemat(
        folder / "test.mat", {"X": X[few], "y": Y[few] + 1, "class_names": list(NAMES)}
    )
    file, _ = imported(tmp_path, folder)
    tested = [name for name, part in zip(class_names(file), file.split, strict=True) if part]
    assert tested == TEXTS[few].tolist()


def test_labels_of_parts_are_counted_from_0_where_one_shows_it(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    np.savez(folder / "train.npz", X=X, y=Y, classes=NAMES)
    np.savez(folder / "test.npz", X=X, y=Y % 2 + 1, classes=NAMES)  # 1 and 2 of three names
    file, said = imported(tmp_path, folder)
    tested = [name for name, part in zip(class_names(file), file.split, strict=True) if part]
    assert tested == NAMES[Y % 2 + 1].tolist()
    assert "counted from" not in said


def test_labels_that_may_be_counted_from_1_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y % 2 + 1, classes=NAMES)
    file, said = imported(tmp_path, tmp_path / "a.npz")
    assert class_names(file) == NAMES[Y % 2 + 1].tolist()
    assert "classes has 3 names: they are counted from 0, so that label 1 is class 'owl'" in said


def write_parts(folder: Path, train: Any, test: Any) -> Path:
    np.savez(folder / "a.npz", X_train=X, y_train=train, X_test=X, y_test=test)
    return folder / "a.npz"


def write_domains(folder: Path, train: Any, test: Any) -> Path:
    np.savez(theirs(folder) / "amazon.npz", X=X, y=train)
    np.savez(folder / "theirs/dslr.npz", X=X, y=test)
    return folder / "theirs"


@pytest.mark.parametrize("write", [write_parts, write_domains])
def test_labels_from_1_beside_labels_from_0_are_refused(tmp_path: Path, write: Any) -> None:
    src = write(tmp_path, Y + 1, Y)
    said = refusal(import_file, src, tmp_path / "a.h5")
    assert "run from 1 to 3, and those of" in said


def test_names_of_classes_beside_numbers_are_refused(tmp_path: Path) -> None:
    src = write_domains(tmp_path, TEXTS, Y)
    said = refusal(import_file, src, tmp_path / "a.h5")
    assert "amazon.npz have names, such as 'jay', and those of" in said


# --- numbers and names ---


def test_groups_and_ids_are_as_they_are_written(tmp_path: Path) -> None:
    ids = [f"12345678901234567{row:02d}" for row in range(N)]
    groups = np.array(["1.1", "1.10", "1.2"])[Y]
    frame().assign(id=ids, group=groups, label=TEXTS).to_csv(tmp_path / "a.csv", index=False)
    file, _ = imported(tmp_path, tmp_path / "a.csv")
    assert file.sample_ids.tolist() == ids
    assert file.columns["group"].tolist() == groups.tolist()


def test_named_groups_are_as_they_are_written(tmp_path: Path) -> None:
    groups = np.array(["1.1", "1.10", "1.2"])[Y]
    frame().assign(session=groups, label=TEXTS).to_csv(tmp_path / "a.csv", index=False)
    file, _ = imported(tmp_path, tmp_path / "a.csv", group="session")
    assert file.columns["group"].tolist() == groups.tolist()


def test_long_ids_of_json_are_as_they_are_written(tmp_path: Path) -> None:
    ids = [12345678901234567890 + row for row in range(N)]
    frame().assign(id=ids, label=TEXTS).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    file, _ = imported(tmp_path, tmp_path / "a.jsonl")
    assert file.sample_ids.tolist() == [str(number) for number in ids]


@pytest.mark.parametrize("orient", ["columns", "split", "index", "records"])
def test_tables_of_json_as_pandas_writes_them(tmp_path: Path, orient: Any) -> None:
    frame().assign(label=TEXTS).set_axis(IDS).to_json(tmp_path / "a.json", orient=orient)
    file, _ = imported(tmp_path, tmp_path / "a.json")
    ids = IDS if orient != "records" else [f"{row:05d}" for row in range(N)]
    assert (rows(file), class_names(file)) == (X.tolist(), TEXTS.tolist())
    assert file.sample_ids.tolist() == ids


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"columns": ["x"], "index": [0], "data": [1]}, "data has other rows than index and"),
        ({"columns": ["x", "x"], "index": [0], "data": [[1, 2]]}, "has two columns of one name"),
        ({"label": {"a": 1}, "x": {"b": 2}}, "x has other rows than the first column"),
    ],
)
def test_a_broken_table_of_pandas_in_json_is_refused(
    tmp_path: Path, data: Any, sentence: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(data))
    assert sentence in refusal(import_file, tmp_path / "a.json", tmp_path / "a.h5")


def test_names_of_classes_as_scikit_learn_calls_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", data=X, target=Y, target_names=NAMES)
    assert class_names(imported(tmp_path, tmp_path / "a.npz")[0]) == TEXTS.tolist()


@pytest.mark.parametrize("columns", [["genre", "clip"], ["clip", "genre"]])
def test_labels_before_or_after_what_names_the_rows(tmp_path: Path, columns: list[str]) -> None:
    np.save(tmp_path / "a.npy", X)
    table = pd.DataFrame({"genre": TEXTS, "clip": IDS})[columns]
    table.to_csv(tmp_path / "l.csv", index=False)
    file, _ = imported(tmp_path, tmp_path / "a.npy", labels=str(tmp_path / "l.csv"))
    assert class_names(file) == TEXTS.tolist()


def test_labels_are_found_by_texts_before_an_index(tmp_path: Path) -> None:
    frame().assign(clip=IDS).to_csv(tmp_path / "a.csv")
    table = labels().assign(clip=IDS).iloc[::-1].reset_index(drop=True)
    table.rename(columns={"species": "label"}).to_csv(tmp_path / "l.csv")
    file, said = imported(tmp_path, tmp_path / "a.csv", labels=str(tmp_path / "l.csv"))
    assert class_names(file) == TEXTS.tolist()
    assert "l.csv by clip." in said


def test_the_first_of_too_many_labels_is_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "l.txt").write_text("\n".join([*TEXTS, "jay"]))
    options = {"labels": str(tmp_path / "l.txt")}
    said = refusal(import_file, tmp_path / "a.npy", tmp_path / "a.h5", **options)
    assert "has 12 rows of features and 13 labels; give one label per row" in said


def test_the_first_line_of_a_list_without_names_is_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    pairs = zip([*IDS, "x.wav"], [*TEXTS, "jay"], strict=True)
    lines = [f"{name},{label}" for name, label in pairs]
    (tmp_path / "l.csv").write_text("\n".join(lines))
    options = {"labels": str(tmp_path / "l.csv")}
    said = refusal(import_file, tmp_path / "a.npy", tmp_path / "a.h5", **options)
    assert "has 12 rows of features and 13 labels; give one label per row" in said


def test_a_split_beside_labels_without_a_known_name_is_no_label(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    labels().assign(split=SPLIT).to_csv(tmp_path / "l.csv", index=False)
    file, _ = imported(tmp_path, tmp_path / "a.npy", labels=str(tmp_path / "l.csv"))
    assert class_names(file) == TEXTS.tolist()


def test_a_mark_of_matlab_is_the_split(tmp_path: Path) -> None:
    mark = (SPLIT == "train").astype(np.uint8)
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y, "istrain": mark})
    file, _ = imported(tmp_path, tmp_path / "a.mat")
    assert file.split.tolist() == [TRAIN] * 8 + [TEST] * 4


def test_a_key_of_json_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a.png": [1.5, 2], "b.png": [3, 4], "a.png": [5, 6]}')
    said = refusal(import_file, tmp_path / "a.json", tmp_path / "a.h5")
    assert "a.json has the key 'a.png' twice in one record; keep one" in said


def test_whole_numbers_of_a_text_are_features(tmp_path: Path) -> None:
    pixels = np.arange(N * D).reshape(N, D) % 256
    pd.DataFrame(pixels).add_prefix("pixel").assign(label=Y).to_csv(tmp_path / "a.csv", index=False)
    file, said = imported(tmp_path, tmp_path / "a.csv")
    assert rows(file) == pixels.tolist()
    assert "the features are whole numbers, and are read as real ones." in said


def test_a_folder_of_safetensors_is_read(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    for part in ("train", "test"):
        save_file({"features": X, "labels": Y}, folder / f"{part}.safetensors")
    file, _ = imported(tmp_path, folder)
    assert file.split.tolist() == [TEST] * N + [TRAIN] * N
