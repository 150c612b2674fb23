"""Import of Parquet, safetensors, torch files, saved data sets, and parts kept apart."""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file as save_safetensors
from safetensors.torch import save_file as save_torch_tensors

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.formats import lazy_arrays
from embedbench.files.import_features import import_file
from embedbench.networks.weights import load_weights
from embedbench.storage import load_torch_file, untrusted_files

N, D = 2500, 3  # more than two batches of rows


def features(n: int = N, d: int = D) -> NDArray[np.float32]:
    return np.random.default_rng(n).normal(size=(n, d)).astype(np.float32)


LABELS = np.arange(N) % 4


def check(file: EmbeddingFile, x: NDArray[Any], labels: NDArray[Any] = LABELS) -> None:
    assert np.array_equal(file.read(), x)
    assert np.array_equal(file.labels, labels)


# --- safetensors


def test_safetensors(tmp_path: Path) -> None:
    for seed in range(3):
        x = features(N + seed)
        labels = np.random.default_rng(seed).integers(0, 4, N + seed)
        save_safetensors({"embeddings": x, "y": labels}, tmp_path / "a.safetensors")
        file = import_file(tmp_path / "a.safetensors", tmp_path / "a.h5", overwrite=True)
        check(file, x, labels)


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    x = torch.from_numpy(features()).bfloat16()
    data = {"features": x, "labels": torch.from_numpy(LABELS)}
    save_torch_tensors(data, tmp_path / "a.safetensors")
    torch.save(data, tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pt"):
        file = import_file(tmp_path / name, tmp_path / "a.h5", overwrite=True)
        check(file, x.float().numpy())


def test_safetensors_that_declare_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_safetensors({"features": features(), "labels": LABELS}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(UserError, match=r"cannot be read \(.*write it again as safetensors"):
        import_file(path, tmp_path / "a.h5")
    path.write_bytes((2**60).to_bytes(8, "little") + whole[8:])
    with pytest.raises(UserError, match=r"cannot be read \(.*write it again as safetensors"):
        import_file(path, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


# --- torch files


def test_torch_files(tmp_path: Path) -> None:
    x = torch.from_numpy(features()).double()
    data = {"X": x, "y": torch.from_numpy(LABELS), "classes": ["a", "b", "c", "d"], "note": "hm"}
    torch.save(data, tmp_path / "a.pt")
    file = import_file(tmp_path / "a.pt", tmp_path / "a.h5")
    check(file, features())
    assert file.classes == ("a", "b", "c", "d")


def test_one_tensor_has_no_labels(tmp_path: Path) -> None:
    torch.save(torch.zeros(3, 2), tmp_path / "a.pt")
    with pytest.raises(UserError, match="must hold 'features' and 'labels', and it holds features"):
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('code of a file has run')",))


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    """In torch's zip, and alone; it is not run."""
    torch.save({"features": torch.zeros(3, 2), "labels": Evil()}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Evil()))
    for name in ("a.pt", "b.pt"):
        with pytest.raises(UserError, match=r"save a dictionary of tensors with torch\.save"):
            import_file(tmp_path / name, tmp_path / "a.h5")


def test_a_tensor_that_is_larger_than_its_file(tmp_path: Path) -> None:
    torch.save(
        {"features": torch.zeros(1, 1).expand(2**40, 64), "labels": torch.zeros(1)},
        tmp_path / "a.pt",
    )
    with pytest.raises(UserError, match="declares 281,474,976,710,656 bytes of values"):
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")


@pytest.mark.filterwarnings("ignore:Validating sparse")
def test_a_sparse_tensor_is_refused(tmp_path: Path) -> None:
    torch.save({"features": torch.eye(3).to_sparse(), "labels": torch.arange(3)}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="'features' is no plain tensor"):
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")


def test_a_torch_file_that_unpacks_to_much_more(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(2**30))
    with pytest.raises(UserError, match="declares more than its bytes can hold"):
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")


ZEROS = torch.zeros(3, 2)
# Tensors and lists that are no table, and a part of what is said of them.
ODD: dict[str, tuple[dict[str, Any], str]] = {
    "meta": ({"features": ZEROS.to("meta")}, "'features' is no plain tensor"),
    "negative bit": ({"features": torch._neg_view(ZEROS)}, "'features' is no plain tensor"),
    "bits8": ({"features": ZEROS.byte().view(torch.bits8)}, "but torch.bits8; save it as float32"),
    "float4": ({"features": ZEROS.byte().view(torch.float4_e2m1fn_x2)}, "but torch.float4"),
    "complex": ({"features": ZEROS + 1j}, "but torch.complex64"),
    "rows of nothing": ({"features": torch.zeros(1, 0).expand(2**50, 0)}, "declares 1,125,899,"),
    "half a character": ({"labels": ["a", "\ud800", "c"]}, "labels has a text that is not Unicode"),
    "a long text": (
        {"labels": ["a" * 10**6, *["b"] * 10**5]},
        "labels has a text of 1,000,000 characters; at most 512",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_table_of_a_torch_file(tmp_path: Path, what: str) -> None:
    values, sentence = ODD[what]
    torch.save({"features": ZEROS, "labels": torch.arange(3), **values}, tmp_path / "a.pt")
    with pytest.raises(UserError) as error:
        import_file(tmp_path / "a.pt", tmp_path / "a.h5")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def torch_zip(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/version", "3\n")
    return path


def crash(path: Path) -> Path:
    """A tuple nested so deep that its hash, as a key, runs out of the stack; 150 kB."""
    return torch_zip(path, b"\x80\x02}" + b")" + b"\x85" * 150_000 + b"K\x01s.")


def test_a_torch_file_that_crashes_a_process(tmp_path: Path) -> None:
    """It is not this one; and a process that has ended is replaced for the next file."""
    path = crash(tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt cannot be read \(torch crashes\)"):
        import_file(path, tmp_path / "a.h5")
    with pytest.raises(UserError, match=r"a\.pt cannot be read as weights"):
        load_weights(torch.nn.Linear(2, 2), path, {"architecture": "linear"})
    torch.save({"X": torch.from_numpy(features()), "y": torch.from_numpy(LABELS)}, path)
    check(import_file(path, tmp_path / "a.h5"), features())


def test_a_torch_file_is_opened_here_only_if_its_content_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    opened: list[str] = []
    load = untrusted_files.load_tensors
    monkeypatch.setattr(
        untrusted_files, "load_tensors", lambda path: (opened.append(path), load(path))[1]
    )
    asked: list[Path] = []
    ask = load_torch_file._examiner.ask
    monkeypatch.setattr(
        load_torch_file._examiner, "ask", lambda path: (asked.append(path), ask(path))[1]
    )
    torch.save({"x": ZEROS}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes((tmp_path / "a.pt").read_bytes())
    for name in ("a.pt", "b.pt"):
        assert load_torch_file.load(tmp_path / name, "save it again")["x"].shape == (3, 2)
    assert (len(asked), len(opened)) == (1, 2)
    monkeypatch.setattr(load_torch_file._examiner, "ask", lambda path: {"sha256": "0" * 64})
    torch.save({"y": ZEROS}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="it has changed"):
        load_torch_file.load(tmp_path / "a.pt", "save it again")
    assert len(opened) == 2


# --- parts kept apart


def test_training_and_test_arrays_are_joined(tmp_path: Path) -> None:
    x, cut = features(), N - 100
    arrays = {
        "X_train": x[:cut],
        "y_train": LABELS[:cut],
        "X_test": x[cut:],
        "y_test": LABELS[cut:],
    }
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "npy").mkdir()
    for key, values in arrays.items():
        np.save(tmp_path / "npy" / f"{key}.npy", values)
    torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, tmp_path / "a.pt")
    files = [
        import_file(tmp_path / name, tmp_path / f"{i}.h5")
        for i, name in enumerate(("a.npz", "npy", "a.pt"))
    ]
    for file in files:
        check(file, x)
        assert file.split.tolist() == [0] * cut + [2] * 100
        assert file.sample_ids[cut] == "test/00000"
        assert file.digests == files[0].digests


def test_parts_must_belong_together(tmp_path: Path) -> None:
    arrays = {"X_train": features(9), "y_train": LABELS[:9], "X_test": features(5, 4)}
    np.savez(tmp_path / "a.npz", **arrays, y_test=LABELS[:5])
    with pytest.raises(UserError, match=r"rows have the shapes \[\(3,\), \(4,\)\]"):
        import_file(tmp_path / "a.npz", tmp_path / "a.h5")
    np.savez(tmp_path / "b.npz", **{**arrays, "X_test": features(5)}, y_test=LABELS[:4])
    with pytest.raises(UserError, match="y_test has not 5 rows"):
        import_file(tmp_path / "b.npz", tmp_path / "a.h5")


def test_slices_of_joined_tables() -> None:
    """Against slices of the whole, for all begins and ends."""
    for seed in range(3):
        x = features(seed + 9)
        whole = lazy_arrays.join_tables([x[:2], x[2:2], x[2:7], x[7:]], "x")
        for first in range(len(x) + 1):
            for end in range(first, len(x) + 1):
                assert np.array_equal(whole[first:end], x[first:end])


# --- Parquet and saved data sets


def parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, **options)
    return path


def test_parquet_with_a_column_of_lists(tmp_path: Path) -> None:
    x = features()
    columns = {
        "embedding": list(x),
        "label": [f"class {k}" for k in LABELS],
        "id": [f"s{row}" for row in range(N)],
        "split": ["train", "validation", "test", "train", "test"] * (N // 5),
        "domain": ["a", "b"] * (N // 2),
        "time": np.arange(N) / 2,
        "text": ["not read " * 100] * N,
    }
    src = parquet(tmp_path / "a.parquet", columns, row_group_size=700)
    file = import_file(src, tmp_path / "a.h5")
    check(file, x)
    assert file.classes == ("class 0", "class 1", "class 2", "class 3")
    assert file.sample_ids[7] == "s7"
    assert file.split[:5].tolist() == [0, 1, 2, 0, 2]
    assert file.columns["domain"][:3].tolist() == ["a", "b", "a"]
    assert file.columns["time"][3] == 1.5


def test_parquet_with_many_numeric_columns(tmp_path: Path) -> None:
    x = features()
    columns = {"f0": x[:, 0], "speaker": LABELS // 2, "f1": x[:, 1].astype(float), "word": LABELS}
    src = parquet(tmp_path / "a.parquet", columns)
    options: dict[str, Any] = {"features": "f*", "labels": "word", "group": "speaker"}
    file = import_file(src, tmp_path / "a.h5", **options, split="0.5")
    check(file, x[:, :2])
    assert len(set(zip((LABELS // 2).tolist(), file.split.tolist(), strict=True))) == 2
    with pytest.raises(UserError, match=r"unknown key of .* 'wrod'\. Did you mean 'word'?"):
        import_file(src, tmp_path / "b.h5", features="f*", labels="wrod")
    with pytest.raises(UserError, match=r"unknown key of .* 'g\*'"):
        import_file(src, tmp_path / "b.h5", features="g*", labels="word")


def test_categories_keep_their_order(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    names = pa.DictionaryArray.from_arrays([1, 0, 1], ["zebra", "ant"])
    src = parquet(tmp_path / "a.parquet", {"features": list(features(3)), "label": names})
    file = import_file(src, tmp_path / "a.h5", split="0.5")
    assert (file.classes, file.labels.tolist()) == (("zebra", "ant"), [1, 0, 1])


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    x = features()
    for name, a, b in (
        ("test-0-of-1", 2000, N),
        ("train-0-of-2", 0, 900),
        ("train-1-of-2", 900, 2000),
    ):
        columns = {"features": list(x[a:b]), "label": LABELS[a:b]}
        parquet(tmp_path / f"{name}.parquet", columns)
    file = import_file(tmp_path, tmp_path / "a.h5")
    check(file, np.concatenate([x[2000:], x[:2000]]), np.r_[LABELS[2000:], LABELS[:2000]])
    assert file.split.tolist() == [2] * 500 + [0] * 2000


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"label": [0, 1]}, "must hold 'features' and 'labels', and it holds label"),
        ({"features": [[1.0], [1.0, 2.0]], "label": [0, 1]}, "has 2 values in row 1 and 1"),
        ({"features": [[1.0], None], "label": [0, 1]}, "none of them missing"),
        ({"features": [["a"], ["b"]], "label": [0, 1]}, "lists of numbers"),
        ({"features": [[1.0], [2.0]], "label": [0, None]}, "1 rows without a value"),
        ({"features": [[1.0], [2.0]], "label": [0.5, 1.5]}, "one integer or text per sample"),
        ({"features": [[1.0], [2.0]], "label": [[0], [1]]}, "label is float32 of shape"),
        ({"features": [[1.0], [2.0]], "label": ["a", "b" * 600]}, "a text of 600 characters"),
        ({"features": [[1.0], [np.nan]], "label": [0, 1]}, "NaN"),
        ({"features": [[1.0], [2.0]], "label": [0, 1], "split": ["train", "tst"]}, "unknown split"),
    ],
)
def test_bad_parquet(tmp_path: Path, columns: dict[str, Any], sentence: str) -> None:
    src = parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(UserError, match=sentence):
        import_file(src, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


def test_parquet_that_is_none_or_declares_too_much(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(UserError, match="cannot be read"):
        import_file(tmp_path / "a.parquet", tmp_path / "a.h5")
    zeros = pa.array(np.zeros(2**26 + 2**20, np.int8))
    src = parquet(tmp_path / "b.parquet", {"f": zeros}, compression="zstd")
    assert src.stat().st_size < 2**20
    with pytest.raises(UserError, match="declares 545,259,520 bytes, more than its"):
        import_file(src, tmp_path / "a.h5", features="f*", labels="f")


def test_a_saved_data_set(tmp_path: Path) -> None:
    """Written as `datasets` 5 writes it: state.json, dataset_info.json, Arrow streams."""
    pa = pytest.importorskip("pyarrow")
    x = features()
    info = {"label": {"names": ["w", "x", "y", "a"], "_type": "ClassLabel"}}
    meta = {b"huggingface": json.dumps({"info": {"features": info}}).encode()}
    (tmp_path / "set").mkdir()
    listed = json.dumps({"splits": ["train", "test"]})
    (tmp_path / "set" / "dataset_dict.json").write_text(listed)
    for split, a, b in (("train", 0, 2000), ("test", 2000, N)):
        folder = tmp_path / "set" / split
        folder.mkdir()
        table = pa.table({"embedding": list(x[a:b]), "label": LABELS[a:b]})
        table = table.replace_schema_metadata(meta)
        with pa.ipc.new_stream(str(folder / "data-0.arrow"), table.schema) as stream:
            stream.write_table(table, 333)
        state = {"_data_files": [{"filename": "data-0.arrow"}]}
        (folder / "state.json").write_text(json.dumps(state))
    file = import_file(tmp_path / "set", tmp_path / "a.h5")
    check(file, x)
    assert file.classes == ("w", "x", "y", "a")
    assert file.split.tolist() == [0] * 2000 + [2] * 500
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["../set"]}')
    with pytest.raises(UserError, match="names a place outside its folder"):
        import_file(tmp_path / "set", tmp_path / "b.h5")


def test_what_datasets_saves(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    x = features(40)
    kinds = datasets.Features(
        {
            "embedding": datasets.Sequence(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=["no", "yes"]),
        }
    )
    values = {"embedding": list(x), "label": (LABELS[:40] % 2).tolist()}
    made = datasets.Dataset.from_dict(values, features=kinds)
    made.train_test_split(test_size=10, shuffle=False).save_to_disk(str(tmp_path / "set"))
    file = import_file(tmp_path / "set", tmp_path / "a.h5")
    check(file, x, LABELS[:40] % 2)
    assert (file.classes, int((file.split == 2).sum())) == (("no", "yes"), 10)
    made.to_parquet(str(tmp_path / "a.parquet"))
    assert import_file(tmp_path / "a.parquet", tmp_path / "b.h5").classes == ("no", "yes")


def test_without_pyarrow_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"needs pyarrow; .*embedbench-cl\[parquet\]"):
        import_file(tmp_path / "a.parquet", tmp_path / "a.h5")


def test_all_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No slice of a table is longer than a block."""
    from embedbench.files import hdf5_layout

    longest: list[int] = []
    first = lazy_arrays.SlicedTable.__getitem__

    def seen(self: lazy_arrays.SlicedTable, rows: slice) -> NDArray[Any]:
        out = first(self, rows)
        longest.append(len(out) if out.ndim > 1 else 0)
        return out

    monkeypatch.setattr(lazy_arrays.SlicedTable, "__getitem__", seen)
    save_safetensors({"features": features(), "labels": LABELS}, tmp_path / "a.safetensors")
    torch.save({"X": torch.from_numpy(features()), "y": torch.arange(N)}, tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pt"):
        longest.clear()
        import_file(tmp_path / name, tmp_path / f"{name}.h5")
        assert max(longest) == hdf5_layout.BLOCK


# --- hostile texts, names and rows


def of_classes(names: list[str], column: str = "labels") -> dict[bytes, bytes]:
    """The metadata by which `datasets` names the values of a column."""
    feature = {"_type": "ClassLabel", "names": names}
    return {b"huggingface": json.dumps({"info": {"features": {column: feature}}}).encode()}


LONG = ["a" * 10**6, *map(str, range(10**5))]
# Columns and metadata of a Parquet file of 30 rows, and what is said of them.
HOSTILE: dict[str, tuple[dict[str, Any], dict[bytes, bytes], str]] = {
    "no first row": ({"features": [None, *[[1.0, 2.0]] * 29]}, {}, "none of them missing"),
    "few names": ({}, of_classes(["a", "b"]), "labels holds 2, and names 2 values"),
    "no label": ({"labels": [-1, 0, 1] * 10}, of_classes(["a", "b"]), "labels holds -1, and names"),
    "few names of groups": ({"group": [5] * 30}, of_classes(["a"], "group"), "group holds 5"),
    "long names": ({}, of_classes(LONG), "a text of 1,000,000 characters"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_parquet_file(tmp_path: Path, what: str) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns, metadata, sentence = HOSTILE[what]
    table = pa.table({"features": [[1.0, 2.0]] * 30, "labels": [0, 1, 2] * 10, **columns})
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    with pytest.raises(UserError) as error:
        import_file(tmp_path / "a.parquet", tmp_path / "a.h5")
    assert sentence in str(error.value)


def test_parquet_with_a_long_text_in_a_dictionary_or_brackets_for_metadata(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"features": [[1.0, 2.0]] * 30, "labels": [0, 1, 2] * 10})
    path, brackets = tmp_path / "a.parquet", {b"huggingface": b"[" * 200_000}
    pq.write_table(table.replace_schema_metadata(brackets), path)
    assert import_file(path, tmp_path / "a.h5").classes == ("0", "1", "2")
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 10, pa.int32()), pa.array(LONG))
    pq.write_table(table.set_column(1, "labels", labels), path)
    with pytest.raises(UserError, match="labels has a text of 1,000,000 characters"):
        import_file(path, tmp_path / "b.h5")


@pytest.mark.parametrize("kind", ["U6000", "S6000"])
def test_npz_with_room_for_long_texts(tmp_path: Path, kind: str) -> None:
    ids = np.arange(30).astype("U8").astype(kind)
    np.savez_compressed(tmp_path / "a.npz", features=np.eye(30), labels=np.arange(30), ids=ids)
    with pytest.raises(UserError, match="it has texts of 6,000 characters; at most 512"):
        import_file(tmp_path / "a.npz", tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("names", "sentence"), [(LONG, "1,000,000 characters"), (["\ud800"], "is not Unicode")]
)
def test_hostile_texts_of_safetensors(tmp_path: Path, names: list[str], sentence: str) -> None:
    tensors = {"features": np.eye(3), "labels": np.arange(3)}
    save_safetensors(tensors, tmp_path / "a.safetensors", {"classes": json.dumps(names)})
    with pytest.raises(UserError, match=sentence):
        import_file(tmp_path / "a.safetensors", tmp_path / "a.h5")
