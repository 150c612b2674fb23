"""Exports as safetensors and Parquet, read back with the libraries of others."""

import json
from pathlib import Path

import numpy as np
import pytest
from file_helpers import PROVENANCE, flip, make_features, make_samples, span
from image_files import pixel_file
from numpy.typing import NDArray
from safetensors import safe_open

from embedbench.errors import UserError
from embedbench.files import export_features
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file
from embedbench.files.write_file import write_file


@pytest.fixture(params=[np.float32, np.float16])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> EmbeddingFile:
    n = 2501  # three blocks, and an odd number of bytes in `split`
    columns: dict[str, NDArray[np.generic]] = {
        "domain": np.array(["ärt", "photo"])[np.arange(n) % 2],
        "time": np.arange(n) / 8,
    }
    features = make_features(n).astype(request.param)
    layers = {"b": make_features(n, 2, seed=1).astype(np.float16)}
    samples = make_samples(n)
    return write_file(
        tmp_path / "a.h5", samples, features, PROVENANCE, layers=layers, columns=columns
    )


def stored(file: EmbeddingFile, table: str) -> NDArray[np.generic]:
    return np.concatenate([rows for _, rows in file.blocks(table)])


def test_safetensors(file: EmbeddingFile, tmp_path: Path) -> None:
    out = export_file(file.path, tmp_path / "a.safetensors")
    with safe_open(out, "np") as tensors:
        names = {"features", "layer/b", "labels", "split", "parents", "time"}
        assert set(tensors.keys()) == names
        features = tensors.get_tensor("features")
        assert features.dtype == file.dtype
        np.testing.assert_array_equal(features, stored(file, "features"))
        np.testing.assert_array_equal(tensors.get_tensor("layer/b"), stored(file, "layers/b"))
        np.testing.assert_array_equal(tensors.get_tensor("labels"), file.labels)
        np.testing.assert_array_equal(tensors.get_tensor("split"), file.split)
        np.testing.assert_array_equal(tensors.get_tensor("time"), file.column("time"))
        texts = tensors.metadata()
    assert json.loads(texts["sample_ids"]) == file.sample_ids.tolist()
    assert json.loads(texts["classes"]) == list(file.classes)
    assert json.loads(texts["domain"]) == file.column("domain").tolist()
    assert json.loads(texts["provenance"]) == file.provenance
    length = int.from_bytes(out.read_bytes()[:8], "little")
    head = json.loads(out.read_bytes()[8 : 8 + length])
    del head["__metadata__"]
    sizes = {"F64": 8, "F32": 4, "I32": 4, "F16": 2, "U8": 1}
    assert length % 8 == 0
    assert all(t["data_offsets"][0] % sizes[t["dtype"]] == 0 for t in head.values())


def test_safetensors_of_images(tmp_path: Path) -> None:
    file = pixel_file(tmp_path)
    with safe_open(export_file(file.path, tmp_path / "p.safetensors"), "np") as tensors:
        np.testing.assert_array_equal(tensors.get_tensor("features"), file.images())


def test_too_many_names_for_safetensors(
    file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_features, "_MOST_HEADER", 1000)
    with pytest.raises(UserError, match=r"holds at most 100 MB of text; write \.parquet"):
        export_file(file.path, tmp_path / "a.safetensors")
    assert not (tmp_path / "a.safetensors").exists()


def test_parquet(file: EmbeddingFile, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = export_file(file.path, tmp_path / "a.parquet")
    assert parquet.ParquetFile(out).num_row_groups == 3
    table = parquet.read_table(out)
    assert table.column_names == [
        *("features", "layer/b", "labels", "class", "split", "sample_ids", "domain", "time")
    ]
    features = table["features"].combine_chunks().values.to_numpy().reshape(-1, 5)
    assert features.dtype == file.dtype
    np.testing.assert_array_equal(features, stored(file, "features"))
    np.testing.assert_array_equal(table["labels"].to_numpy(), file.labels)
    assert table["class"].to_pylist() == [file.classes[label] for label in file.labels]
    assert set(zip(table["split"].to_pylist(), file.split.tolist(), strict=True)) == {
        *(("train", 0), ("val", 1), ("test", 2))
    }
    assert table["sample_ids"].to_pylist() == file.sample_ids.tolist()
    assert table["time"].to_pylist() == file.column("time").tolist()
    about = json.loads(table.schema.metadata[b"embedbench"])
    assert about["classes"] == list(file.classes)
    assert about["digests"] == file.digests


def test_parquet_of_images_and_without_pyarrow(
    file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UserError, match="Parquet needs pyarrow"):
        export_file(file.path, tmp_path / "a.parquet")
    monkeypatch.undo()
    pytest.importorskip("pyarrow")
    with pytest.raises(UserError, match="holds images"):
        export_file(pixel_file(tmp_path).path, tmp_path / "p.parquet")


@pytest.mark.parametrize("ending", ["npz", "safetensors", "parquet"])
def test_import_reads_it_back(file: EmbeddingFile, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    out = export_file(file.path, tmp_path / f"a.{ending}")
    back = import_file(out, tmp_path / "b.h5")
    same = {"content", "columns"} if ending == "parquet" else set(file.digests)  # no hierarchy
    assert {key: back.digests[key] for key in same} == {key: file.digests[key] for key in same}
    assert back.classes[:3] == file.classes[:3]
    assert back.sample_ids.tolist() == file.sample_ids.tolist()
    np.testing.assert_array_equal(back.split, file.split)


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_a_damaged_file_leaves_nothing(file: EmbeddingFile, tmp_path: Path, ending: str) -> None:
    flip(file.path, span(file.path, "features")[0])
    with pytest.raises(UserError, match="rows 0-1023"):
        export_file(file.path, tmp_path / f"a.{ending}")
    assert not list(tmp_path.glob(f"*a.{ending}*"))
