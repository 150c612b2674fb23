"""What `import` says of feature files of others: labels to be given, traps, what is refused."""

import json
import pickle
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch
from file_helpers import make_features, refusal
from pickled import Hostile
from stranger_files import write_mat73

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.import_features import import_file
from embedbench.files.source_readers import SOURCES
from embedbench.storage import untrusted_files

N, D = 12, 5
X = make_features(N, D)
Y = np.arange(N) % 3
TEXTS = np.array(["jay", "owl", "wren"])[Y]
TITLES = [f"song {row}" for row in range(N)]


def imported(folder: Path, src: Any, **options: Any) -> tuple[EmbeddingFile, str]:
    """The file, and all that was said."""
    said: list[str] = []
    file = import_file(src, folder / "ours.h5", notify=said.append, **options)
    return file, " ".join(said)


def class_names(file: EmbeddingFile) -> list[str]:
    return [file.classes[label] for label in file.labels]


# --- labels in a file of their own ---


def write_songs(folder: Path) -> Path:
    table = pd.DataFrame(X).add_prefix("f")
    table.insert(0, "title", TITLES)
    table.to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


def test_features_without_labels_say_how_to_give_them(tmp_path: Path) -> None:
    said = refusal(import_file, write_songs(tmp_path), tmp_path / "a.h5")
    assert "12 rows of 5 values, from 5 columns (f0 to f4)) and no labels; it also holds" in said
    assert "give them: --labels FILE (one label a row in order, or lines of id and label)" in said


def many(count: int) -> list[str]:
    return [f"k{row:02}" for row in range(count)]


def listed(names: list[str], most: int) -> str:
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def test_of_what_is_no_label_ten_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, **dict.fromkeys(many(12), np.zeros(3)))
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5")
    assert f"no labels; it also holds {listed(many(12), 10)}; give them" in said


def test_of_the_weights_of_a_network_three_are_named(tmp_path: Path) -> None:
    names = [f"{name}.weight" for name in many(5)]
    np.savez(tmp_path / "a.npz", **dict.fromkeys(names, X))
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5")
    assert f"the weights of a network ({listed(names, 3)}) and no features" in said


def test_of_texts_without_features_ten_columns_are_named(tmp_path: Path) -> None:
    table = pd.DataFrame(dict.fromkeys(many(12), TITLES))
    table.to_csv(tmp_path / "a.csv", index=False)
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")
    assert f"holds no features, but {listed(many(12), 10)}" in said


def test_of_columns_that_are_no_labels_ten_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    table = pd.DataFrame(dict.fromkeys(many(12), TEXTS))
    table.to_csv(tmp_path / "l.csv", index=False)
    options = {"labels": str(tmp_path / "l.csv")}
    said = refusal(import_file, tmp_path / "a.npy", tmp_path / "a.h5", **options)
    assert f"holds {', '.join(many(10))}, and none of them is called label" in said


def test_of_arrays_that_are_left_out_ten_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y, **dict.fromkeys(many(12), np.zeros(3)))
    assert f"left out {listed(many(12), 10)}" in imported(tmp_path, tmp_path / "a.npz")[1]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros(N), "no split: float64 of shape (12,)"),
        (np.zeros(N, int), "no split: int64 of shape (12,)"),
        (np.array(["train", "test"]), "no split: <U5 of shape (2,)"),
        (np.array(["train"] * N), "no split: all rows are train"),
        (np.array(["a", "b"] * 6), "no split: subset holds 'a', 'b'; expected 0 (train), 1 (val)"),
    ],
)
def test_what_may_be_a_split_and_is_none_says_why(tmp_path: Path, values: Any, reason: str) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y, subset=values)
    assert f"left out subset ({reason}" in imported(tmp_path, tmp_path / "a.npz")[1]


def test_whole_numbers_of_a_split_are_one_where_its_name_says_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y, data_split=[0, 2] * 6)
    assert imported(tmp_path, tmp_path / "a.npz")[0].split.tolist() == [0, 2] * 6


def test_of_parts_that_are_none_ten_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y, split=many(N))
    said = refusal(import_file, tmp_path / "a.npz", tmp_path / "a.h5")
    assert f"split holds {listed([repr(name) for name in many(N)], 10)}; expected 0" in said


@pytest.mark.parametrize(
    ("rows", "classes", "names_rows"),
    [(19, 19, False), (20, 20, True), (20, 19, True), (20, 18, False), (40, 36, False)],
)
def test_labels_name_the_rows_where_nine_tenths_of_twenty_differ(
    tmp_path: Path, rows: int, classes: int, names_rows: bool
) -> None:
    labels = [f"c{row % classes}" for row in range(rows)]
    np.savez(tmp_path / "a.npz", X=make_features(rows, D), y=labels)
    with pytest.raises(UserError, match="they name the rows") if names_rows else nullcontext():
        import_file(tmp_path / "a.npz", tmp_path / "a.h5")


def test_of_classes_that_look_alike_ten_pairs_are_named(tmp_path: Path) -> None:
    names = [name for letter in "abcdefghijkl" for name in (letter, letter.upper())]
    np.savez(tmp_path / "a.npz", X=make_features(3 * len(names), D), y=names * 3)
    pairs = [f"'{letter.upper()}' and '{letter}'" for letter in "abcdefghijkl"]
    said = imported(tmp_path, tmp_path / "a.npz")[1]
    assert f"class {listed(pairs, 10)} look alike and are kept apart" in said


BOTH = list(zip(TITLES, TEXTS.tolist(), strict=True))
LABEL_FILES = {
    "lines of id and label without names": ("l.csv", [f"{t},{y}" for t, y in BOTH]),
    "with names": ("l.csv", ["title,genre", *(f"{t},{y}" for t, y in BOTH)]),
    "in another order": ("l.tsv", [f"{t}\t{y}" for t, y in BOTH[::-1]]),
    "one a line": ("l.txt", TEXTS.tolist()),
    "one a line, with spaces": ("l.txt", [f"{label} bird" for label in TEXTS]),
    "one a line below a name": ("l.csv", ["label", *TEXTS]),
    "JSON by id": ("l.json", [json.dumps(dict(BOTH))]),
    "a list of JSON": ("l.json", [json.dumps(TEXTS.tolist())]),
}


@pytest.mark.parametrize("case", LABEL_FILES)
def test_labels_of_a_file(tmp_path: Path, case: str) -> None:
    name, lines = LABEL_FILES[case]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    file, _ = imported(tmp_path, write_songs(tmp_path), labels=str(tmp_path / name))
    assert [name.removesuffix(" bird") for name in class_names(file)] == TEXTS.tolist()


def test_labels_by_id_stand_for_several_rows(tmp_path: Path) -> None:
    table = pd.DataFrame(X).add_prefix("f").assign(file=[f"{row // 4}.wav" for row in range(N)])
    table.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "l.csv").write_text("2.wav,wren\n0.wav,jay\n1.wav,owl\n3.wav,crow\n")
    file, said = imported(tmp_path, tmp_path / "a.csv", labels=str(tmp_path / "l.csv"))
    assert class_names(file) == ["jay"] * 4 + ["owl"] * 4 + ["wren"] * 4
    assert "by column 1; 1 of its lines are of no row of" in said


def test_labels_that_lack_an_id_are_refused(tmp_path: Path) -> None:
    lines = [f"{title},{label}" for title, label in zip(TITLES, TEXTS, strict=True)]
    (tmp_path / "l.csv").write_text("\n".join(["title,label", *lines[1:]]))
    options = {"labels": str(tmp_path / "l.csv")}
    said = refusal(import_file, write_songs(tmp_path), tmp_path / "a.h5", **options)
    assert "has no label for 1 of 12 rows, the first of 'song 0'; add them" in said


def test_labels_of_another_number_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "l.npy", Y[1:])
    options = {"labels": str(tmp_path / "l.npy")}
    said = refusal(import_file, tmp_path / "a.npy", tmp_path / "a.h5", **options)
    assert "has 12 rows of features and 11 labels; give one label per row" in said


# --- numbering ---


def test_labels_from_1_on_are_said_to_be_moved(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y[:, None] + 1.0})
    file, said = imported(tmp_path, tmp_path / "a.mat")
    assert file.classes == ("1", "2", "3")
    assert "labels run from 1 to 3, and classes are numbered from 0: class '1' has the" in said


def test_labels_from_1_on_are_positions_in_names(tmp_path: Path) -> None:
    names = np.array(["jay", "owl", "wren"])
    np.savez(tmp_path / "a.npz", features=X, labels=Y + 1, class_names=names)
    file, said = imported(tmp_path, tmp_path / "a.npz")
    assert class_names(file) == TEXTS.tolist()
    assert "labels are counted from 1 in class_names: label 1 is class 'jay', number 0." in said


def test_labels_from_0_on_stay_positions(tmp_path: Path) -> None:
    names = np.array(["jay", "owl", "wren", "crow"])  # a name more than labels: not from 1
    np.savez(tmp_path / "a.npz", features=X, labels=Y + 1, class_names=names)
    file, _ = imported(tmp_path, tmp_path / "a.npz")
    assert class_names(file) == np.array(["owl", "wren", "crow"])[Y].tolist()


# --- several files ---


def test_classes_of_domains_are_those_of_one_name(tmp_path: Path) -> None:
    for name, labels in (("art", ["cat", "dog"]), ("photo", ["ant", "dog"])):
        np.savez(tmp_path / f"{name}.npz", X=X[:2], y=np.array(labels))
    file, _ = imported(tmp_path, [tmp_path / "art.npz", tmp_path / "photo.npz"], split="0.5")
    assert class_names(file) == ["cat", "dog", "ant", "dog"]
    assert file.classes == ("ant", "cat", "dog")


def test_domains_of_other_widths_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    np.savez(tmp_path / "b.npz", X=X[:, :3], y=Y)
    said = refusal(import_file, [tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "a.h5")
    assert "give files of one layout, or import them one by one" in said


# --- what is refused ---


def test_a_state_dict_is_told_apart(tmp_path: Path) -> None:
    torch.save({"0.weight": torch.zeros(4, 3), "0.bias": torch.zeros(4)}, tmp_path / "a.pt")
    said = refusal(import_file, tmp_path / "a.pt", tmp_path / "a.h5")
    assert "holds the weights of a network (0.weight, 0.bias) and no features" in said


def test_a_tensor_of_three_axes_is_refused_before_labels_are_asked_for(tmp_path: Path) -> None:
    torch.save(torch.zeros(5, 7, 3), tmp_path / "a.pt")
    said = refusal(import_file, tmp_path / "a.pt", tmp_path / "a.h5")
    assert "features is float32 of shape (5, 7, 3); expected (N, D)" in said


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("labels", [Y, Y[:, None]])
def test_a_pair_of_tensors_is_features_and_labels(
    tmp_path: Path, turned: bool, labels: Any
) -> None:
    pair = (torch.tensor(X), torch.tensor(labels))
    torch.save(pair[::-1] if turned else pair, tmp_path / "a.pt")
    file, said = imported(tmp_path, tmp_path / "a.pt")
    assert "the one with one value a row is read as the labels" in said
    np.testing.assert_array_equal(file.read(), X)
    np.testing.assert_array_equal(file.labels, Y)


def test_pairs_of_parts_are_features_and_labels(tmp_path: Path) -> None:
    parts = {"train": slice(0, 8), "test": slice(8, N)}
    pairs = {name: (torch.tensor(X[at]), torch.tensor(Y[at])) for name, at in parts.items()}
    torch.save(pairs, tmp_path / "a.pt")
    file, _ = imported(tmp_path, tmp_path / "a.pt")
    np.testing.assert_array_equal(file.labels, Y)
    np.testing.assert_array_equal(file.split, [0] * 8 + [2] * 4)


UNNAMED = {
    "two tables": [torch.tensor(X), torch.tensor(X)],
    "of other lengths": [torch.tensor(X), torch.tensor(Y[1:])],
    "a tensor a row": list(torch.tensor(X)),
}


@pytest.mark.parametrize("held", UNNAMED.values(), ids=UNNAMED)
def test_a_list_of_tensors_without_names_is_refused(tmp_path: Path, held: Any) -> None:
    torch.save(held, tmp_path / "a.pt")
    said = refusal(import_file, tmp_path / "a.pt", tmp_path / "a.h5")
    assert "without a name for any; save them by name: torch.save({'features'" in said


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_structured_array_is_refused_with_lines_that_convert_it(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [(f"f{k}", "f4") for k in range(D)]
    table = np.zeros(N, dtype=[*columns, ("species", "i4")])
    for k in range(D):
        table[f"f{k}"] = X[:, k]
    table["species"] = Y
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "a.npz", data=table)
    said = refusal(import_file, tmp_path / f"a{suffix}", tmp_path / "a.h5")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall("`(.*?)`", said)), {})
    file, _ = imported(tmp_path, tmp_path / "a-plain.npz")
    np.testing.assert_array_equal(file.read(), X)
    np.testing.assert_array_equal(file.labels, Y)


@pytest.mark.parametrize("name", ["a.pkl", "a.pickle", "a.joblib"])
def test_a_pickle_is_not_run_and_its_conversion_is_said(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "its code has run"
    (tmp_path / name).write_bytes(pickle.dumps(Hostile(mark)))
    said = refusal(import_file, tmp_path / name, tmp_path / "a.h5")
    assert "convert it by these two lines" in said
    assert not mark.exists()


def test_an_array_of_objects_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "its code has run"
    np.save(tmp_path / "a.npy", np.array([Hostile(mark)], object), allow_pickle=True)
    said = refusal(import_file, tmp_path / "a.npy", tmp_path / "a.h5")
    assert "allow_pickle=True" in said
    assert not mark.exists()


@pytest.mark.parametrize("name", ["a.index", "a.faiss"])
def test_an_index_of_faiss_is_told_how_to_convert(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"IxF2")
    said = refusal(import_file, tmp_path / name, tmp_path / "a.h5")
    assert f"d = faiss.read_index('{name}')` and `np.save('a.npy', d.reconstruct_n(0" in said


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("a.xlsx", "is a spreadsheet; save it as CSV"), ("a.tar", "is packed; unpack it first")],
)
def test_what_another_program_reads_is_told_how(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    assert refusal(import_file, tmp_path / name, tmp_path / "a.h5").endswith(sentence)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("a.pkl", "`import pickle, numpy as np; d = pickle.load(open('a.pkl', 'rb'))` and "),
        ("a.joblib", "`import joblib, numpy as np; d = joblib.load('a.joblib')` and "),
    ],
)
def test_a_pickle_is_converted_by_two_lines(tmp_path: Path, name: str, load: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert load in refusal(import_file, tmp_path / name, tmp_path / "a.h5")


def test_what_nothing_reads_is_told_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.odd").write_bytes(b"odd")
    said = refusal(import_file, tmp_path / "a.odd", tmp_path / "a.h5")
    assert said == f"{tmp_path}/a.odd is nothing that import reads; {SOURCES}"


def test_a_folder_of_pictures_is_told_of_extract(tmp_path: Path) -> None:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(b"")
    said = refusal(import_file, tmp_path / "photos", tmp_path / "a.h5")
    assert "images and sounds go in by `extract`" in said


def test_an_embedding_file_is_one_already(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    import_file(tmp_path / "a.npz", tmp_path / "a.h5")
    said = refusal(import_file, tmp_path / "a.h5", tmp_path / "b.h5")
    assert "is an embedding file already" in said


TABLES = {
    "a line with a value too many": ("f0,f1,label\n1,2,a\n1,2,3,b\n", "line 3 has 4 values"),
    "a feature that is missing": ("f0,f1,label\n1,2,a\n1,,b\n", "f1 has no value in line 3"),
    "a label that is missing": ("f0,f1,label\n1,2,a\n1,2,\n", "label has no value in line 3"),
    "two stems of one length": ("a0,a1,b0,b1,y\n1,2,3,4,c\n1,2,3,5,d\n", "--features a"),
    "a list that was cut": ('embedding,y\n"[1 2 ... 3]",c\n', "was cut by '...'"),
    "a list of other things": (
        'embedding,y\n"[1, 2]",c\n"[3, 4]",c\n"[5, x]",d\n',
        "the list in row 2 holds other things than numbers",
    ),
    "lists of other lengths": ('embedding,y\n"[1, 2]",c\n"[1]",d\n', "1 values in row 1 and 2"),
    "names alone": ("f0,f1,label\n", "has no row of values"),
    "nothing": ("", "is empty"),
}


@pytest.mark.parametrize("case", TABLES)
def test_what_is_wrong_with_a_table(tmp_path: Path, case: str) -> None:
    text, sentence = TABLES[case]
    (tmp_path / "a.csv").write_text(text)
    assert sentence in refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")


# --- HDF5 of strangers: the gate ---


def test_a_link_to_another_file_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["labels"] = Y
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = X
        file["labels"] = h5py.ExternalLink("secret.h5", "labels")
    said = refusal(import_file, tmp_path / "a.h5", tmp_path / "b.h5")
    assert "'/labels' is a link to another place" in said


def test_a_table_of_other_tables_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = X
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("secret.h5", "x", X.shape)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("features", layout)
        file["labels"] = Y
    said = refusal(import_file, tmp_path / "a.h5", tmp_path / "b.h5")
    assert "'/features' takes its values from other tables" in said


def test_values_in_another_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(X.tobytes())
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", X.shape, "f4", external=str(tmp_path / "raw"))
    said = refusal(import_file, tmp_path / "a.h5", tmp_path / "b.h5")
    assert "'/features' keeps its values in another file" in said


def test_texts_that_are_one_long_text_many_times_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["labels"] = ["a" * 4000, *["b" * 4000] * 3]
    whole = (tmp_path / "a.h5").read_bytes()
    with h5py.File(tmp_path / "a.h5") as file:
        at = file["labels"].id.get_offset()
    with open(tmp_path / "a.h5", "r+b") as raw:  # all refer to the first
        raw.seek(at)
        raw.write(whole[at : at + 16] * 4)
    with h5py.File(tmp_path / "a.h5") as file, open(tmp_path / "a.h5", "rb") as source:
        assert file["labels"][3] == b"a" * 4000
        monkeypatch.setattr(untrusted_files, "too_large", lambda declared, there: declared > 9000)
        # its timer ends the process that asks; here that is the one of the tests
        monkeypatch.setattr(untrusted_files, "alive", lambda *_: None)
        with pytest.raises(untrusted_files.RefusedError, match="longer than its bytes can hold"):
            untrusted_files.check(file, source, foreign=True)


def test_a_block_of_bytes_that_is_not_of_matlab_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["features"] = X
    said = refusal(import_file, tmp_path / "a.h5", tmp_path / "b.h5")
    assert "is not an HDF5 file" in said


def test_a_damaged_mat_file_is_refused(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y}, do_compression=True)
    whole = (tmp_path / "a.mat").read_bytes()
    (tmp_path / "a.mat").write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in refusal(import_file, tmp_path / "a.mat", tmp_path / "a.h5")


# --- MATLAB counts from 1 ---


def test_rows_of_matlab_are_counted_from_1(tmp_path: Path) -> None:
    train = np.array([1, 2, 3, 4, 5, 6, 7, 8])
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y, "train_idx": train})
    file, said = imported(tmp_path, tmp_path / "a.mat")
    assert file.split.tolist() == [0] * 8 + [2] * 4
    assert "train_idx counts rows from 1, as MATLAB does." in said


def test_parts_of_matlab_are_counted_from_1(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y, "split": Y[:, None] + 1.0})
    file, _ = imported(tmp_path, tmp_path / "a.mat")
    assert file.split.tolist() == Y.tolist()


def test_parts_of_matlab_that_may_be_val_or_test_are_refused(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y, "split": Y % 2 + 1})
    said = refusal(import_file, tmp_path / "a.mat", tmp_path / "a.h5")
    assert "split holds no 0 and not all of 1, 2 and 3" in said


def test_other_files_of_a_folder_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("art", "photo"):
        scipy.io.savemat(folder / f"{name}.mat", {"X": X, "y": Y})
    (folder / "README").write_text("by us")
    file, said = imported(tmp_path, folder)
    assert sorted({*file.columns["domain"].tolist()}) == ["art", "photo"]
    assert "left out README (not read)" in said


def test_two_domains_of_one_file_are_both_taken(tmp_path: Path) -> None:
    data = {"Xs": X[:5], "Ys": Y[:5] + 1, "Xt": X[5:], "Yt": Y[5:] + 1, "note": X}
    scipy.io.savemat(tmp_path / "a.mat", data)
    file, said = imported(tmp_path, tmp_path / "a.mat")
    assert "left out note." in said
    assert np.array_equal(file.read(), X)
    assert file.columns["domain"].tolist() == ["source"] * 5 + ["target"] * 7


def test_labels_in_order_are_for_one_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", X=X)
    np.save(tmp_path / "l.npy", Y)
    files, labels = [tmp_path / "a.npz", tmp_path / "b.npz"], str(tmp_path / "l.npy")
    said = refusal(import_file, files, tmp_path / "a.h5", labels=labels)
    assert "give lines of id and label, or import the files one by one" in said


def test_numbers_with_a_decimal_comma_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("f0;f1;label\n0,5;1,5;a\n0,3;1,2;b\n")
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")
    assert "f0 holds numbers with a decimal comma; write them with a point" in said


def test_labels_alone_are_no_source(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", Y)
    said = refusal(import_file, tmp_path / "y.npy", tmp_path / "a.h5")
    assert "import the file of the features, with --labels" in said


def test_a_reference_of_matlab_to_anywhere_is_not_followed(tmp_path: Path) -> None:
    write_mat73(tmp_path / "a.mat")
    with h5py.File(tmp_path / "a.mat") as file:
        at = file["classes"].id.get_offset()
    with open(tmp_path / "a.mat", "r+b") as raw:
        raw.seek(at)
        raw.write((7).to_bytes(8, "little"))
    file, said = imported(tmp_path, tmp_path / "a.mat")
    assert file.classes == ("1", "2", "3")
    assert "classes (neither numbers nor texts)" in said


def test_a_mat_file_that_ends_the_process_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "y": Y})
    monkeypatch.setattr(untrusted_files, "ask", lambda kind, path: {"ended": "crashes"})
    said = refusal(import_file, tmp_path / "a.mat", tmp_path / "a.h5")
    assert "cannot be read (scipy crashes)" in said


# --- names of rows are no classes ---


@pytest.mark.parametrize("labels", ["words.txt", "words.npy", "nearly.txt"])
def test_labels_that_name_the_rows_are_refused(labels: str, tmp_path: Path) -> None:
    words = [f"word-{row}" for row in range(40)]
    (tmp_path / "words.txt").write_text("\n".join(words))
    (tmp_path / "nearly.txt").write_text("\n".join(["word-1", *words[1:]]))
    np.save(tmp_path / "words.npy", np.arange(40) + 1000)
    np.save(tmp_path / "x.npy", make_features(40, D))
    said = refusal(
        import_file, tmp_path / "x.npy", tmp_path / "a.h5", labels=str(tmp_path / labels)
    )
    assert "different labels for 40 rows" in said
    assert "they name the rows, and are no classes; give labels that several rows share" in said


def test_ids_in_the_column_of_the_labels_are_refused(tmp_path: Path) -> None:
    table = pd.DataFrame(make_features(40, D)).add_prefix("f")
    table["label"] = [f"img_{row}.png" for row in range(40)]
    table.to_csv(tmp_path / "a.csv", index=False)
    said = refusal(import_file, tmp_path / "a.csv", tmp_path / "a.h5")
    assert "label has 40 different labels for 40 rows, such as 'img_0.png' and 'img_1.png'" in said


def test_two_samples_a_class_are_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=make_features(40, D), y=np.arange(40) // 2)
    assert len(imported(tmp_path, tmp_path / "a.npz")[0].classes) == 20


def headless(folder: Path, table: Any) -> str:
    np.savetxt(folder / "a.tsv", table, delimiter="\t")
    return str(refusal(import_file, folder / "a.tsv", folder / "a.h5"))


def test_columns_of_features_alone_are_not_proposed_as_labels(tmp_path: Path) -> None:
    said = headless(tmp_path, X)
    assert said.endswith("--labels FILE (one label a row in order, or lines of id and label)")


def test_the_column_of_whole_numbers_is_proposed_as_labels(tmp_path: Path) -> None:
    said = headless(tmp_path, np.column_stack([X, Y]))
    assert said.endswith(f"--labels 'column {D + 1}' if this one, of whole numbers, holds them")


def test_of_columns_that_are_all_of_whole_numbers_none_is_proposed(tmp_path: Path) -> None:
    said = headless(tmp_path, np.round(X * 100))
    assert said.endswith("--labels 'column N' if the Nth one of these columns holds them")
