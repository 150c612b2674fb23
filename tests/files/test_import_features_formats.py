"""Import of Parquet, safetensors, torch files, saved data sets, and parts kept apart."""

import json
import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import make_features, refusal, says
from pickled import Hostile
from safetensors.numpy import save_file as save_safetensors
from safetensors.torch import save_file as save_torch_tensors

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.formats import arrow_files
from embedbench.files.import_features import import_file
from embedbench.storage import load_torch_file, untrusted_files, user_cache

N, D = 2500, 3  # more than two batches of rows
X, LABELS = make_features(N, D), np.arange(N) % 4
LONG = ["a" * 10**6, *map(str, range(10**5))]  # an array of them has no room in memory


def check(file: EmbeddingFile, x: Any = X, labels: Any = LABELS) -> None:
    assert np.array_equal(file.read(), x)
    assert np.array_equal(file.labels, labels)


def test_tensors_of_other_types_become_float32(tmp_path: Path) -> None:
    x = torch.from_numpy(X).bfloat16()
    data = {"embeddings": x, "y": torch.from_numpy(LABELS)}
    save_torch_tensors(data, tmp_path / "a.safetensors")
    torch.save(data, tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pt"):
        file = import_file(tmp_path / name, tmp_path / "a.h5", overwrite=True)
        check(file, x.float().numpy())
    data |= {"X": torch.from_numpy(X).double(), "classes": [*"abc", "d" * 512], "note": data}
    del data["embeddings"]
    torch.save(data, tmp_path / "a.pt")
    file = import_file(tmp_path / "a.pt", tmp_path / "a.h5", overwrite=True)
    check(file)
    assert file.classes == ("a", "b", "c", "d" * 512)


def test_metadata_that_is_not_read_is_named(tmp_path: Path) -> None:
    data = {"features": X, "labels": LABELS}
    save_safetensors(data, tmp_path / "a.safetensors", {"format": "pt", "author": "me"})
    said = list[str]()
    import_file(tmp_path / "a.safetensors", tmp_path / "a.h5", notify=said.append)
    assert "left out author (in its metadata)" in " ".join(said)


def test_safetensors_that_declare_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_safetensors({"features": X, "labels": LABELS}, path)
    whole = path.read_bytes()
    for data in (whole[:-8], (2**60).to_bytes(8, "little") + whole[8:]):
        path.write_bytes(data)
        assert "again as safetensors" in refusal(import_file, path, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    mark, path = tmp_path / "its code has run", tmp_path / "a.pt"
    torch.save({"features": torch.zeros(3, 2), "labels": Hostile(mark)}, path)
    assert "dictionary of tensors" in refusal(import_file, path, tmp_path / "a.h5")
    path.write_bytes(pickle.dumps(Hostile(mark)))
    assert "dictionary of tensors" in refusal(import_file, path, tmp_path / "a.h5")
    assert not mark.exists()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"")
        archive.infolist()[0].file_size = 2**30  # as its directory says
    assert "declares more than" in refusal(import_file, path, tmp_path / "a.h5")


ZEROS = torch.zeros(3, 2)
NESTED = torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(4, 4)])
MANY = ZEROS[:1, :1].expand(2**40, 64)
# Tensors and lists that are no table, and a part of what is said of them.
ODD: dict[str, tuple[dict[str, Any], str]] = {
    "one tensor alone": ({"labels": None}, "and no labels; give them"),
    "larger than it is": ({"features": MANY}, "281,474,976,710,656 bytes"),
    "rows of nothing": ({"features": torch.zeros(1, 0).expand(2**50, 0)}, "declares 1,125,899,"),
    "sparse": ({"features": ZEROS.to_sparse()}, "'features' is no"),
    "nested": ({"features": NESTED}, "'features' is no"),
    "nested label": ({"labels": NESTED}, "'labels' is no"),
    "float8": ({"features": ZEROS.to(torch.float8_e5m2)}, "but torch.float8_e5m2"),
    "meta": ({"features": ZEROS.to("meta")}, "'features' is no"),
    "negative bit": ({"features": torch._neg_view(ZEROS)}, "'features' is no"),
    "bits8": ({"features": ZEROS.byte().view(torch.bits8)}, "but torch.bits8"),
    "complex": ({"features": ZEROS + 1j}, "but torch.complex64"),
    "one label": ({"labels": ["a"]}, "features and 1 labels"),
    "half a character": ({"labels": ["a", "\ud800", "c"]}, "not Unicode"),
    "a long text": ({"labels": LONG}, "text of 1,000,000"),
}


@pytest.mark.filterwarnings("ignore:Validating sparse")
@pytest.mark.parametrize("what", ODD)
def test_what_is_no_table_of_a_torch_file(tmp_path: Path, what: str) -> None:
    values, sentence = ODD[what]
    torch.save({"features": ZEROS, "labels": torch.arange(3), **values}, tmp_path / "a.pt")
    assert sentence in refusal(import_file, tmp_path / "a.pt", tmp_path / "a.h5")


NO_TENSORS: dict[str, tuple[Any, str]] = {
    "a module": (torch.nn.Linear(2, 2), r"holds an object, torch\.nn\.modules\.linear\.Linear"),
    "a set of paths": ({"x": Path("a")}, "holds an object, pathlib"),
}


@pytest.mark.parametrize("what", NO_TENSORS)
def test_an_object_of_torch_is_named(tmp_path: Path, what: str) -> None:
    """And torch's own advice on how to run its code, with signs for a terminal, is left out."""
    value, sentence = NO_TENSORS[what]
    torch.save(value, tmp_path / "a.pt")
    with pytest.raises(UserError, match=sentence) as raised:
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"junk\n", b"\x80\x04", bytes(100)])
def test_bytes_that_are_no_file_of_torch(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(
        UserError, match=r"a\.pt cannot be read \(it is damaged, or no|it holds more"
    ):
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")


def test_torch_files_open_once_they_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that crashes a process crashes another than this one."""
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(user_cache, "FRESH", 0.0)
    asked, ask, path = [], untrusted_files.ask, tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as archive:
        # a tuple nested so deep that its hash, as a key, runs out of the stack; 150 kB
        archive.writestr("a/data.pkl", b"\x80\x02}" + b")" + b"\x85" * 150_000 + b"K\x01s.")
        archive.writestr("a/version", "3\n")
    assert "(torch crashes)" in refusal(load_torch_file.load, path, "save it again")
    monkeypatch.setattr(untrusted_files, "ask", lambda *a: (asked.append(a), ask(*a))[1])
    torch.save({"x": ZEROS}, path)
    for _ in range(2):
        assert load_torch_file.load(path, "save it again")["x"].shape == (3, 2)
    assert len(asked) == 1
    monkeypatch.setattr(untrusted_files, "ask", lambda *_: torch.save({"z": ZEROS}, path))
    torch.save({"y": ZEROS}, path)
    assert "it has changed" in refusal(load_torch_file.load, path, "save it again")


def test_training_and_test_arrays_are_joined(tmp_path: Path) -> None:
    cut, test = slice(N - 100), slice(N - 100, N)
    arrays = {"X_train": X[cut], "y_train": LABELS[cut], "X_test": X[test], "y_test": LABELS[test]}
    np.savez(tmp_path / "a.npz", **arrays, classes=np.array(list("wxyz")))
    (tmp_path / "npy").mkdir()
    for key, values in arrays.items():
        np.save(tmp_path / "npy" / f"{key}.npy", values)
    torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, tmp_path / "a.pt")
    for name, classes in (("a.npz", "wxyz"), ("npy", "0123"), ("a.pt", "0123")):
        file = import_file(tmp_path / name, tmp_path / "a.h5", overwrite=True)
        check(file)
        assert file.split.tolist() == [0] * (N - 100) + [2] * 100
        assert file.sample_ids[N - 100] == "test/00000"
        assert file.classes == tuple(classes)


def test_parts_must_belong_together(tmp_path: Path) -> None:
    src, out = tmp_path / "a.npz", tmp_path / "a.h5"
    arrays = {"X_train": X[:9], "y_train": LABELS[:9], "X_test": X[:5, :2]}
    np.savez(src, **arrays, y_test=LABELS[:5])
    assert "a row of X_train has 3 values, and one of X_test has 2 values" in refusal(
        import_file, src, out
    )
    np.savez(src, **{**arrays, "X_test": X[:5]}, y_test=LABELS[:4])
    assert "X_test has 5 rows, and y_test has 4;" in refusal(import_file, src, out)


def parquet(
    path: Path, columns: dict[str, Any], metadata: dict[bytes, bytes] | None = None, **options: Any
) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path, **options)
    return path


def of_classes(names: Any, column: str = "label") -> dict[bytes, bytes]:
    """The metadata by which `datasets` names the values of a column."""
    feature = {"_type": "ClassLabel", "names": names}
    return {b"huggingface": json.dumps({"info": {"features": {column: feature}}}).encode()}


def test_parquet_with_a_column_of_lists(tmp_path: Path) -> None:
    columns = {
        "rows": list(X),
        "word": [f"class {k}" for k in LABELS],
        "id": [f"s{row}" for row in range(N)],
        "split": ["train", "validation", "test", "train", "test"] * (N // 5),
        "domain": ["a", "b"] * (N // 2),
        "time": np.arange(N) / 2,
        "text": ["not read " * 100] * N,
    }
    src = parquet(tmp_path / "a.parquet", columns, row_group_size=700)
    file = import_file(src, tmp_path / "a.h5", features="rows", labels="word")
    check(file)
    assert file.classes == ("class 0", "class 1", "class 2", "class 3")
    assert file.sample_ids.tolist() == columns["id"]
    assert file.split[:5].tolist() == [0, 1, 2, 0, 2]
    assert file.columns["domain"].tolist() == columns["domain"]
    np.testing.assert_array_equal(file.columns["time"], columns["time"])
    with pytest.raises(UserError, check=says(got="wrod", expected="word")):
        import_file(src, tmp_path / "b.h5", features="rows", labels="wrod")
    pa = pytest.importorskip("pyarrow")
    for rows in ([[1.0, 2.0]], []):
        parquet(src, {"rows": pa.array(rows, pa.list_(pa.float32()))})
        assert arrow_files.read_parquet(src)["rows"].tolist() == rows


def test_a_shard_that_the_others_count_is_named(tmp_path: Path) -> None:
    for shard in (0, 2):
        columns = {"features": list(X[:9]), "label": LABELS[:9]}
        parquet(tmp_path / f"train-0000{shard}-of-00003.parquet", columns)
    not_read = arrow_files.read_parquet(tmp_path).not_read
    assert not_read == ["train-00001-of-00003.parquet (not there)"]


def test_one_number_is_one_class_in_all_files(tmp_path: Path) -> None:
    for part, names in (("train", ["cat", "dog"]), ("test", ["dog", "cat"])):
        columns = {"features": list(X[:2]), "label": [0, 1]}
        parquet(tmp_path / f"{part}.parquet", columns, of_classes(names))
    assert "train.parquet: its metadata names the classes of label otherwise than" in refusal(
        import_file, tmp_path, tmp_path / "a.h5"
    )


def test_a_folder_of_parquet_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"test-0-of-1": (2000, N), "train-0-of-2": (0, 900), "train-1-of-2": (900, 2000)}
    for name, (a, b) in rows.items():
        parquet(tmp_path / f"{name}.parquet", {"features": list(X[a:b]), "label": LABELS[a:b]})
    file = import_file(tmp_path, tmp_path / "a.h5")
    check(file, np.concatenate([X[2000:], X[:2000]]), np.r_[LABELS[2000:], LABELS[:2000]])
    assert file.split.tolist() == [2] * 500 + [0] * 2000
    columns = arrow_files.read_parquet(tmp_path)
    assert len(columns) == len(list(columns)) == 3
    parquet(tmp_path / "val.parquet", {"features": list(X[:9]), "labels": LABELS[:9]})
    assert "other columns than" in refusal(import_file, tmp_path, tmp_path / "b.h5")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refusal(import_file, tmp_path, tmp_path / "b.h5")
    assert "needs pyarrow" in said
    assert "embedbench-cl[parquet]" in said


def test_categories_and_brackets_for_metadata(tmp_path: Path) -> None:
    pa, out = pytest.importorskip("pyarrow"), tmp_path / "a.h5"
    names = pa.DictionaryArray.from_arrays([1, 0, 1], ["zebra", "ant"])  # keep their order
    src = parquet(tmp_path / "a.parquet", {"features": list(X[:3]), "label": names})
    file = import_file(src, out, split="0.5")
    assert file.classes == ("zebra", "ant")
    assert file.labels.tolist() == [1, 0, 1]
    brackets = {b"huggingface": b"[" * 200_000}
    for metadata in (brackets, of_classes(None), of_classes("abc"), of_classes(["a", "b", 3])):
        parquet(src, {"features": FIRST, "label": [0, 1, 2]}, metadata)
        assert import_file(src, out, overwrite=True).classes == ("0", "1", "2")
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(LONG))
    parquet(src, {"features": FIRST, "label": labels})
    assert "text of 1,000,000" in refusal(import_file, src, tmp_path / "b.h5")
    labels = pa.DictionaryArray.from_arrays([0, None, 1], ["a", None])
    for name, said in (("features", "label has 2 rows"), ("label", "two columns of")):
        table = pa.table([pa.array(FIRST), labels], [name, "label"])
        with pa.ipc.new_stream(str(tmp_path / "data.arrow"), table.schema) as stream:
            stream.write_table(table)
        assert said in refusal(import_file, tmp_path, tmp_path / "b.h5")


FIRST = [[1.0], [2.0], [3.0]]  # columns that take the place of good ones, metadata, what is said
BAD_PARQUET: dict[str, tuple[dict[str, Any], dict[bytes, bytes], str]] = {
    "no features": ({"features": None}, {}, "must hold 'features'"),
    "another width": ({"features": [[1.0], [1.0, 2.0], [3.0]]}, {}, "2 values in row 1"),
    "no row": ({"features": [[1.0], None, [1.0]]}, {}, "of them missing"),
    "lists of texts": ({"features": [["a"], ["b"], ["c"]]}, {}, "lists of numbers"),
    "no label": ({"label": [0, None, 1]}, {}, "1 rows without"),
    "labels between": ({"label": [0.5, 1.5, 1.0]}, {}, "one integer or"),
    "dates": ({"label": np.arange(3).astype("<M8[s]")}, {}, "one number or"),
    "a long label": ({"label": ["a", "b" * 512, "b" * 513]}, {}, "text of 513"),
    "few names": ({}, of_classes(["a", "b"]), "label holds 2,"),
    "a label of -1": ({"label": [-1, 0, 1]}, of_classes(["a", "b"]), "label holds -1,"),
    "few names of groups": ({"group": [5] * 3}, of_classes(["a"], "group"), "group holds 5"),
    "long names": ({}, of_classes(LONG), "text of 1,000,000"),
}


@pytest.mark.parametrize("case", BAD_PARQUET)
def test_bad_parquet(tmp_path: Path, case: str) -> None:
    changes, metadata, sentence = BAD_PARQUET[case]
    columns = {"features": FIRST, "label": [0, 1, 2], **changes}
    columns = {name: values for name, values in columns.items() if values is not None}
    src = parquet(tmp_path / "a.parquet", columns, metadata)
    assert sentence in refusal(import_file, src, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


def test_parquet_that_is_none_or_declares_too_much(tmp_path: Path) -> None:
    src, zeros = tmp_path / "a.parquet", {"f": np.zeros(2**20)}

    def said() -> str:
        return refusal(import_file, src, tmp_path / "a.h5", features="f", labels="f")

    src.write_bytes(b"PAR1 nothing PAR1")
    assert "cannot be read" in said()
    parquet(src, zeros, compression="zstd", use_dictionary=False)
    assert "bytes, more than" in said()
    parquet(src, zeros, compression="zstd")  # small, until it is unpacked
    assert "declares more rows" in said()
    parquet(src, {"f": list(np.zeros((64, 2**16), np.float32))}, compression="zstd")
    assert "f is larger" in said()


def test_what_datasets_saves(tmp_path: Path) -> None:
    datasets, root = pytest.importorskip("datasets"), tmp_path / "set"
    x, labels = X[:40], LABELS[:40] % 2
    label = datasets.ClassLabel(names=["no", "yes"])
    kinds = {"embedding": datasets.Sequence(datasets.Value("float32")), "label": label}
    values = {"embedding": list(x), "label": labels.tolist()}
    made = datasets.Dataset.from_dict(values, features=datasets.Features(kinds))
    made.train_test_split(test_size=10, shuffle=False).save_to_disk(str(root))
    file = import_file(root, tmp_path / "a.h5")
    rows = np.r_[30:40, :30]  # folders in the order of their names
    check(file, x[rows], labels[rows])
    assert file.classes == ("no", "yes")
    assert file.split.tolist() == [2] * 10 + [0] * 30
    made.to_parquet(str(tmp_path / "a.parquet"))
    assert import_file(tmp_path / "a.parquet", tmp_path / "b.h5").classes == ("no", "yes")
    (root / "train").rename(root / "trian")
    with pytest.raises(UserError, check=says(got="trian", expected="train")):
        import_file(root, tmp_path / "c.h5")


def in_two_files(folder: Path, names: tuple[str, str], **columns: Any) -> Path:
    """A folder of two Parquet files, of 30 and of 10 rows."""
    folder.mkdir()
    tables = {"features": list(X[:40]), "label": LABELS[:40], **columns}
    for name, rows in zip(names, (slice(30), slice(30, 40)), strict=True):
        parquet(folder / name, {key: values[rows] for key, values in tables.items()})
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("Train-00000-of-00001.parquet", "Validation-00000-of-00001.PARQUET"),
        ("training.parquet", "val.pq"),
        ("train_set.parquet", "valid.parquet"),
        ("train2017.parquet", "val2017.parquet"),
    ],
)
def test_files_of_parts_in_any_spelling(tmp_path: Path, names: tuple[str, str]) -> None:
    file = import_file(in_two_files(tmp_path / "in", names), tmp_path / "a.h5")
    assert file.split.tolist() == [0] * 30 + [1] * 10


def test_a_file_beside_parts_that_is_none(tmp_path: Path) -> None:
    src = in_two_files(tmp_path / "in", ("train.parquet", "extra.parquet"))
    with pytest.raises(UserError, check=says(what=f"unknown split of {src}", got="extra")):
        import_file(src, tmp_path / "a.h5")


def test_a_column_against_the_names_of_files(tmp_path: Path) -> None:
    split = ["train"] * 25 + ["test"] * 15
    src = in_two_files(tmp_path / "in", ("train.parquet", "test.parquet"), split=split)
    assert "names of the files in 5 rows" in refusal(import_file, src, tmp_path / "a.h5")


def test_columns_of_a_table_are_named_when_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    columns = {"features": list(X[:40]), "label": LABELS[:40], "height": X[:40, 0]}
    columns |= {"Split": ["Train", "TEST"] * 20, "ID": [f"a{row}" for row in range(40)]}
    src = parquet(tmp_path / "a.parquet", columns)
    file = import_file(src, tmp_path / "a.h5", notify=said.append)
    assert file.split.tolist() == [0, 2] * 20
    assert file.sample_ids.tolist() == columns["ID"]
    assert said[0] == (
        "took 40 samples of 4 classes; split (official): 20 train, 20 test; no groups; features "
        "from features, labels from label, ids from ID, split from Split; left out height."
    )


def test_dictionaries_in_a_torch_file(tmp_path: Path) -> None:
    said: list[str] = []
    x, y = torch.from_numpy(X[:40]), torch.from_numpy(LABELS[:40])
    parts = {"train": {"x": x[:30], "y": y[:30]}, "test": {"x": x[30:], "y": y[30:]}}
    torch.save({**parts, "note": {"by": None}}, tmp_path / "a.pt")
    file = import_file(tmp_path / "a.pt", tmp_path / "a.h5", notify=said.append)
    check(file, X[:40], LABELS[:40])
    assert file.split.tolist() == [0] * 30 + [2] * 10
    assert "left out note/by (a NoneType, no tensor and no list of texts)" in said[0]


def test_row_numbers_in_a_dictionary(tmp_path: Path) -> None:
    rows = {"train": torch.arange(0, 40, 2), "test": torch.arange(1, 40, 2)}
    data = {"features": torch.from_numpy(X[:40]), "labels": torch.from_numpy(LABELS[:40])}
    torch.save(data | {"split_idx": rows}, tmp_path / "a.pt")
    assert import_file(tmp_path / "a.pt", tmp_path / "a.h5").split.tolist() == [0, 2] * 20


def test_other_files_of_a_folder_are_named(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/features.npy", X[:40])
    np.save(tmp_path / "in/labels.npy", LABELS[:40])
    (tmp_path / "in/split.txt").write_text("train")
    import_file(tmp_path / "in", tmp_path / "a.h5", notify=said.append)
    assert "left out split.txt (not read)" in said[0]


@pytest.mark.parametrize("how", ["a file", "a folder"])
def test_a_source_that_is_replaced_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Columns are read one by one: labels may be of one file, and features of another."""
    (tmp_path / "in").mkdir()
    path, other = tmp_path / "in/train-0.parquet", tmp_path / "other.parquet"
    parquet(path, {"features": list(X), "label": LABELS})
    parquet(other, {"features": list(X[::-1]), "label": LABELS[::-1]})
    read = arrow_files.Columns.__getitem__

    def replacing(self: Any, name: str) -> Any:
        values = read(self, name)
        if other.exists():
            os.replace(other, path)
        return values

    monkeypatch.setattr(arrow_files.Columns, "__getitem__", replacing)
    source = path if how == "a file" else tmp_path / "in"
    with pytest.raises(UserError, check=says(what=f"{source} changed while it was read")):
        import_file(source, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


def test_what_is_written_beside_the_source_meanwhile_is_no_change(tmp_path: Path) -> None:
    parquet(tmp_path / "train-0.parquet", {"features": list(X), "label": LABELS})
    assert import_file(tmp_path, tmp_path / "a.h5").shape == X.shape
