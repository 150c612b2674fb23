"""Feature files as other people write them, each read by another library beside `import`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
from file_helpers import make_features
from stranger_files import write_mat73

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.import_features import import_file

N, D = 12, 5
X = make_features(N, D)
NAMES = np.array(["jay", "owl", "wren"])
Y = np.arange(N) % 3
TEXTS = NAMES[Y]
IDS = [f"{row:03d}.wav" for row in range(N)]
TRAIN, TEST = 0, 2


@dataclass
class Case:
    """What a layout must become.

    Parameters
    ----------
    read : array
        (N, D) the features as another library reads them from the same file.
    classes : sequence of str
        The class of each sample.
    """

    paths: Any
    read: Any
    classes: Any = field(default_factory=TEXTS.tolist)
    ids: Any = None
    split: Any = None
    columns: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def as_texts(values: Any) -> list[str]:
    return [str(value) for value in values]


# --- tables of text ---


def csv_of_numbered_columns(folder: Path) -> Case:
    table = pd.DataFrame(X, columns=[f"f{k}" for k in range(D)])
    table.insert(0, "id", IDS)
    table["label"], table["speaker"], table["time"] = TEXTS, Y // 2, np.arange(N) / 4
    table.to_csv(folder / "a.csv", index=False)
    read = pd.read_csv(folder / "a.csv")
    columns = {"time": np.arange(N) / 4, "group": as_texts(read["speaker"])}
    options = {"group": "speaker", "split": "0.25"}
    return Case(
        folder / "a.csv", read.filter(regex=r"^f\d"), ids=IDS, columns=columns, options=options
    )


def csv_as_pandas_writes_it(folder: Path) -> Case:
    table = pd.DataFrame(X)  # an index, and columns called 0, 1, 2, …
    table["label"] = Y + 1
    table.to_csv(folder / "a.csv")
    read = pd.read_csv(folder / "a.csv", index_col=0)
    return Case(folder / "a.csv", read.iloc[:, :D], as_texts(read["label"]))


def csv_without_names(folder: Path) -> Case:
    pd.DataFrame(X).assign(y=TEXTS).to_csv(folder / "a.csv", header=False, index=False)
    read = pd.read_csv(folder / "a.csv", header=None)
    return Case(folder / "a.csv", read.iloc[:, :D], read[D].tolist())


def csv_without_names_labels_first(folder: Path) -> Case:
    pd.DataFrame(X).to_csv(folder / "x.csv", header=False, index=False)
    table = pd.read_csv(folder / "x.csv", header=None)
    table.insert(0, "y", Y + 1)
    (folder / "x.csv").unlink()
    table.to_csv(folder / "a.csv", header=False, index=False)
    return Case(folder / "a.csv", table.iloc[:, 1:], as_texts(Y + 1))


def csv_of_measurements(folder: Path) -> Case:
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width", "mass"]
    pd.DataFrame(X, columns=names).assign(species=TEXTS).to_csv(folder / "a.csv", index=False)
    read = pd.read_csv(folder / "a.csv")
    return Case(folder / "a.csv", read[names], options={"labels": "species"})


def csv_of_lists(folder: Path) -> Case:
    table = pd.DataFrame({"text": ["a, b " * 200] * N, "embedding": X.tolist(), "label": TEXTS})
    table.to_csv(folder / "a.csv", index=False)
    read = pd.read_csv(folder / "a.csv")["embedding"].map(json.loads)
    return Case(folder / "a.csv", np.array(read.tolist()))


def csv_of_codes(folder: Path) -> Case:
    codes = np.array(["01", "1", "NA"])[Y]
    pd.DataFrame(X).add_prefix("x").assign(label=codes).to_csv(folder / "a.csv", index=False)
    read = pd.read_csv(folder / "a.csv", dtype={"label": str}, keep_default_na=False)
    return Case(folder / "a.csv", read.iloc[:, :D], read["label"].tolist())


def csv_with_semicolons(folder: Path) -> Case:
    pd.DataFrame(X).add_prefix("dim_").assign(label=TEXTS).to_csv(
        folder / "a.csv", sep=";", index=False
    )
    return Case(folder / "a.csv", pd.read_csv(folder / "a.csv", sep=";").iloc[:, :D])


def tsv_of_a_projector(folder: Path) -> Case:
    np.savetxt(folder / "vectors.tsv", X, delimiter="\t")
    (folder / "metadata.tsv").write_text("\n".join(TEXTS) + "\n")
    read = np.loadtxt(folder / "vectors.tsv", delimiter="\t")
    options = {"labels": str(folder / "metadata.tsv")}
    return Case(folder / "vectors.tsv", read, options=options)


def txt_of_numpy(folder: Path) -> Case:
    np.savetxt(folder / "a.txt", X)
    np.savetxt(folder / "y.txt", Y + 1, fmt="%d")
    options = {"labels": str(folder / "y.txt")}
    return Case(folder / "a.txt", np.loadtxt(folder / "a.txt"), as_texts(Y + 1), options=options)


def csv_files_of_parts(folder: Path) -> Case:
    table = pd.DataFrame(X).add_prefix("f").assign(label=TEXTS)
    table[:8].to_csv(folder / "birds_train.csv", index=False)
    table[8:].to_csv(folder / "birds_test.csv", index=False)
    read = pd.concat([pd.read_csv(folder / f"birds_{p}.csv") for p in ("test", "train")])
    order = [*range(8, 12), *range(8)]
    split = [TEST] * 4 + [TRAIN] * 8
    return Case(folder, read.iloc[:, :D], TEXTS[order].tolist(), split=split)


def csv_files_of_arrays(folder: Path) -> Case:
    for part, rows in (("train", slice(8)), ("test", slice(8, None))):
        pd.DataFrame(X[rows]).to_csv(folder / f"X_{part}.csv", header=False, index=False)
        pd.DataFrame(TEXTS[rows]).to_csv(folder / f"y_{part}.csv", header=["label"], index=False)
    read = pd.concat([pd.read_csv(folder / f"X_{p}.csv", header=None) for p in ("train", "test")])
    return Case(folder, read, split=[TRAIN] * 8 + [TEST] * 4)


# --- JSON ---


def json_records(folder: Path) -> Case:
    rows = [
        {"id": i, "embedding": x, "meta": {"label": y}, "domain": "photo"}
        for i, x, y in zip(IDS, X.tolist(), TEXTS.tolist(), strict=True)
    ]
    (folder / "a.json").write_text(json.dumps(rows))
    read = np.stack(pd.read_json(folder / "a.json")["embedding"].to_numpy())
    options = {"labels": "meta/label"}
    return Case(
        folder / "a.json", read, ids=IDS, columns={"domain": ["photo"] * N}, options=options
    )


def json_lines(folder: Path) -> Case:
    table = pd.DataFrame({"vector": X.tolist(), "label": Y + 1})
    table.to_json(folder / "a.jsonl", orient="records", lines=True, double_precision=15)
    read = pd.read_json(folder / "a.jsonl", lines=True)
    return Case(folder / "a.jsonl", np.stack(read["vector"].to_numpy()), as_texts(read["label"]))


def json_by_id(folder: Path) -> Case:
    (folder / "a.json").write_text(json.dumps(dict(zip(IDS, X.tolist(), strict=True))))
    backwards = dict(zip(IDS[::-1], TEXTS[::-1].tolist(), strict=True))
    (folder / "labels.json").write_text(json.dumps(backwards))
    read = np.array([*json.loads((folder / "a.json").read_text()).values()])
    return Case(folder / "a.json", read, ids=IDS, options={"labels": str(folder / "labels.json")})


def json_of_columns(folder: Path) -> Case:
    (folder / "a.json").write_text(json.dumps({"X": X.tolist(), "y": Y.tolist()}))
    read = json.loads((folder / "a.json").read_text())
    return Case(folder / "a.json", np.array(read["X"]), as_texts(read["y"]))


# --- MATLAB ---


def mat_of_surf(folder: Path) -> Case:
    scipy.io.savemat(folder / "a.mat", {"fts": X.astype(float), "labels": Y[:, None] + 1.0})
    read = scipy.io.loadmat(folder / "a.mat")
    return Case(folder / "a.mat", read["fts"], as_texts(read["labels"].ravel().astype(int)))


def mat_of_columns_and_cells(folder: Path) -> Case:
    names = np.array(NAMES.tolist(), object)
    ids = np.array(IDS, object)[:, None]
    data = {"fea": X.T, "gnd": Y[None] + 1, "class_names": names, "ids": ids, "note": "by us"}
    scipy.io.savemat(folder / "a.mat", data, do_compression=True)
    return Case(folder / "a.mat", scipy.io.loadmat(folder / "a.mat")["fea"].T, ids=IDS)


def mat_of_cells_of_vectors(folder: Path) -> Case:
    cells = np.empty(N, object)
    cells[:] = list(X)
    scipy.io.savemat(folder / "a.mat", {"features": cells, "labels": Y + 1})
    read = scipy.io.loadmat(folder / "a.mat")["features"].ravel()
    return Case(folder / "a.mat", np.concatenate(read.tolist()), as_texts(Y + 1))


def mat_of_a_structure(folder: Path) -> Case:
    scipy.io.savemat(folder / "a.mat", {"set": {"X": scipy.sparse.csc_array(X), "y": Y}})
    read = scipy.io.loadmat(folder / "a.mat", simplify_cells=True)["set"]["X"].toarray()
    return Case(folder / "a.mat", read, as_texts(Y))


def mat_of_parts_in_structures(folder: Path) -> Case:
    parts = {"train": {"X": X[:8], "y": Y[:8]}, "test": {"X": X[8:], "y": Y[8:]}}
    scipy.io.savemat(folder / "a.mat", {"data": parts})
    read = scipy.io.loadmat(folder / "a.mat", simplify_cells=True)["data"]
    read = np.concatenate([read["train"]["X"], read["test"]["X"]])
    return Case(folder / "a.mat", read, as_texts(Y), split=[TRAIN] * 8 + [TEST] * 4)


def mat_of_res101(folder: Path) -> Case:
    """Features in columns, labels from 1, names of files, as sets of zero-shot learning have."""
    files = np.array(IDS, object)[:, None]
    data = {"features": X.T, "labels": Y[:, None] + 1.0, "image_files": files}
    scipy.io.savemat(folder / "a.mat", data)
    read = scipy.io.loadmat(folder / "a.mat")["features"].T
    return Case(folder / "a.mat", read, as_texts(Y + 1), ids=IDS)


def txt_of_word_vectors(folder: Path) -> Case:
    words = [f"word{row}" for row in range(N)]
    lines = [f"{word} {' '.join(map(str, x))}" for word, x in zip(words, X.tolist(), strict=True)]
    (folder / "a.txt").write_text("\n".join(lines))
    kinds = [f"{word} {label}" for word, label in zip(words, TEXTS, strict=True)]
    (folder / "kinds.txt").write_text("\n".join(kinds[::-1]))
    read = pd.read_csv(folder / "a.txt", sep=" ", header=None, index_col=0)
    options = {"labels": str(folder / "kinds.txt")}
    return Case(folder / "a.txt", read, ids=words, options=options)


def csv_of_texts_of_numpy(folder: Path) -> Case:
    lists = [str([np.float64(value) for value in x]) for x in X]  # [np.float64(0.1), …]
    table = pd.DataFrame({"id": IDS, "embedding": lists, "label": TEXTS})
    table.to_csv(folder / "a.tsv", sep="\t", index=False)
    return Case(folder / "a.tsv", X, ids=IDS)


def mat_of_source_and_target(folder: Path) -> Case:
    for name, rows in (("dslr", slice(4)), ("webcam", slice(4, None))):
        data = {"Xt": X[rows], "Yt": Y[rows, None] + 1}
        scipy.io.savemat(folder / f"office_{name}_surf.mat", data)
    files = sorted(folder.iterdir())
    read = np.concatenate([scipy.io.loadmat(file)["Xt"] for file in files])
    ids = [f"dslr/{row:05d}" for row in range(4)] + [f"webcam/{row:05d}" for row in range(8)]
    columns = {"domain": ["dslr"] * 4 + ["webcam"] * 8}
    return Case(files, read, as_texts(Y + 1), ids=ids, columns=columns)


def mat_of_version_73(folder: Path) -> Case:
    write_mat73(folder / "a.mat")
    with h5py.File(folder / "a.mat") as file:
        return Case(folder / "a.mat", file["fts"][()].T)


# --- HDF5, NumPy, Parquet ---


def hdf5_of_h5py(folder: Path) -> Case:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("features", data=X, chunks=(5, 2), compression="lzf", fletcher32=True)
        file["labels"] = TEXTS.tolist()  # texts of any length, h5py's own way
        file["filenames"] = IDS
        file["is_train"] = np.arange(N) < 9  # marks
        file["table"] = np.zeros(N, [("a", "f4"), ("b", "i4")])
        file["config"] = "a text"
    with h5py.File(folder / "a.h5") as file:
        split = [TRAIN] * 9 + [TEST] * 3
        return Case(folder / "a.h5", file["features"][()], ids=IDS, split=split)


def hdf5_of_groups(folder: Path) -> Case:
    with h5py.File(folder / "a.hdf5", "w") as file:
        for part, rows in (("train", slice(8)), ("test", slice(8, None))):
            file[f"{part}/features"] = X[rows]
            file[f"{part}/labels"] = Y[rows, None]
    with h5py.File(folder / "a.hdf5") as file:
        read = np.concatenate([file["train/features"][()], file["test/features"][()]])
    return Case(folder / "a.hdf5", read, as_texts(Y), split=[TRAIN] * 8 + [TEST] * 4)


def npy_files_with_one_beginning(folder: Path) -> Case:
    for part, rows in (("train", slice(8)), ("test", slice(8, None))):
        np.save(folder / f"clip_{part}_features.npy", X[rows].astype(np.float16))
        np.save(folder / f"clip_{part}_labels.npy", Y[rows, None])
    read = np.concatenate([np.load(folder / f"clip_{p}_features.npy") for p in ("train", "test")])
    return Case(folder, read, as_texts(Y), split=[TRAIN] * 8 + [TEST] * 4)


def npy_alone(folder: Path) -> Case:
    np.save(folder / "embeddings.npy", X)
    np.save(folder / "labels_of_mine.npy", Y + 1.0)
    options = {"labels": str(folder / "labels_of_mine.npy")}
    return Case(folder / "embeddings.npy", X, as_texts(Y + 1), options=options)


def npz_without_names(folder: Path) -> Case:
    np.savez(folder / "a.npz", X, Y)
    return Case(folder / "a.npz", np.load(folder / "a.npz")["arr_0"], as_texts(Y))


def parquet_of_columns(folder: Path) -> Case:
    table = pd.DataFrame(X).add_prefix("emb_").assign(label=TEXTS)
    table.to_parquet(folder / "a.parquet")
    return Case(folder / "a.parquet", pd.read_parquet(folder / "a.parquet").iloc[:, :D])


def parquet_with_labels_by_title(folder: Path) -> Case:
    pq.write_table(pa.table({"title": IDS, "embedding": X.tolist()}), folder / "a.parquet")
    labels = pd.DataFrame({"title": IDS, "genre": TEXTS})[::-1]
    labels.to_csv(folder / "genres.csv", index=False)
    read = np.stack(pd.read_parquet(folder / "a.parquet")["embedding"].to_numpy())
    return Case(folder / "a.parquet", read, options={"labels": str(folder / "genres.csv")})


LAYOUTS: list[Callable[[Path], Case]] = [
    csv_of_numbered_columns,
    csv_as_pandas_writes_it,
    csv_without_names,
    csv_without_names_labels_first,
    csv_of_measurements,
    csv_of_lists,
    csv_of_codes,
    csv_with_semicolons,
    tsv_of_a_projector,
    txt_of_numpy,
    txt_of_word_vectors,
    csv_of_texts_of_numpy,
    csv_files_of_parts,
    csv_files_of_arrays,
    json_records,
    json_lines,
    json_by_id,
    json_of_columns,
    mat_of_surf,
    mat_of_columns_and_cells,
    mat_of_cells_of_vectors,
    mat_of_a_structure,
    mat_of_parts_in_structures,
    mat_of_res101,
    mat_of_source_and_target,
    mat_of_version_73,
    hdf5_of_h5py,
    hdf5_of_groups,
    npy_files_with_one_beginning,
    npy_alone,
    npz_without_names,
    parquet_of_columns,
    parquet_with_labels_by_title,
]


@pytest.fixture(params=LAYOUTS, ids=lambda layout: str(layout.__name__))
def both(request: Any, tmp_path: Path) -> tuple[Case, EmbeddingFile]:
    """A layout, and the file that `import` makes of it."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    case = request.param(folder)
    return case, import_file(case.paths, tmp_path / "ours.h5", **case.options)


def test_the_layout_is_read_as_by_another_library(both: tuple[Case, EmbeddingFile]) -> None:
    case, file = both
    ours = {
        "features": file.read().astype(np.float32).tolist(),
        "classes": [file.classes[label] for label in file.labels],
        "ids": None if case.ids is None else file.sample_ids.tolist(),
        "split": None if case.split is None else file.split.tolist(),
        "columns": {name: file.columns[name].tolist() for name in case.columns},
    }
    theirs = {
        "features": np.asarray(case.read).astype(np.float32).tolist(),
        "classes": list(case.classes),
        "ids": case.ids,
        "split": case.split,
        "columns": {name: list(values) for name, values in case.columns.items()},
    }
    assert ours == theirs
