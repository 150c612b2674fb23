"""Exports as npz, safetensors and Parquet, read back with the libraries of others."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from file_helpers import damage, make_features, refusal, written
from image_files import pixel_file
from numpy.typing import NDArray
from safetensors import safe_open

from embedbench.files import export_features
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.export_features import export_file
from embedbench.files.import_features import import_file


@pytest.fixture(params=[np.float32, np.float16])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> EmbeddingFile:
    n = 2501  # three blocks, and an odd number of bytes in `split`
    columns: dict[str, NDArray[np.generic]] = {
        "domain": np.array(["ärt", "photo"])[np.arange(n) % 2],
        "time": np.arange(n) / 8,
    }
    layers = {
        "b": make_features(n, 2, seed=1).astype(np.float16),
        "block.2": make_features(n, 1),
    }
    features = make_features(n).astype(request.param)
    return written(tmp_path / "a.h5", n, features, layers=layers, columns=columns)


def stored(file: EmbeddingFile, table: str) -> NDArray[np.generic]:
    return np.concatenate([rows for _, rows in file.blocks(table)])


def test_npz(file: EmbeddingFile, tmp_path: Path) -> None:
    with np.load(export_file(file.path, tmp_path / "a.npz")) as held:
        np.testing.assert_array_equal(held["features"], stored(file, "features"))
        np.testing.assert_array_equal(held["layer/block.2"], stored(file, "layers/block.2"))
        assert held["features"].dtype == file.dtype
        assert held["sample_ids"].tolist() == file.sample_ids.tolist()
        assert held["classes"].tolist() == list(file.classes)


def test_safetensors(file: EmbeddingFile, tmp_path: Path) -> None:
    out = export_file(file.path, tmp_path / "a.safetensors")
    expected = {
        "features": stored(file, "features"),
        "layer/b": stored(file, "layers/b"),
        "layer/block.2": stored(file, "layers/block.2"),
        "time": file.column("time"),
        "labels": file.labels,
        "split": file.split,
        "parents": file.parents,
    }
    with safe_open(out, "np") as tensors:
        assert set(tensors.keys()) == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(tensors.get_tensor(name), values)
        assert tensors.get_tensor("features").dtype == file.dtype
        texts = {name: json.loads(text) for name, text in tensors.metadata().items()}
    assert texts == {
        "sample_ids": file.sample_ids.tolist(),
        "classes": list(file.classes),
        "domain": file.column("domain").tolist(),
        "provenance": file.provenance,
    }
    length = int.from_bytes(out.read_bytes()[:8], "little")
    head = json.loads(out.read_bytes()[8 : 8 + length])
    del head["__metadata__"]
    sizes = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "U8": 1}
    assert length % 8 == 0
    assert all(t["data_offsets"][0] % sizes[t["dtype"]] == 0 for t in head.values())


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_images(tmp_path: Path, ending: str) -> None:
    file = pixel_file(tmp_path)
    again = import_file(export_file(file.path, tmp_path / f"p.{ending}"), tmp_path / "again.h5")
    assert again.digests == file.digests
    np.testing.assert_array_equal(again.images(), file.images())


def test_too_many_names_for_safetensors(
    file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 90e6 < export_features._MOST_TEXT < 100e6
    out = export_file(file.path, tmp_path / "a.safetensors")
    with safe_open(out, "np") as tensors:
        texts = sum(len(text.encode()) for text in tensors.metadata().values())
    monkeypatch.setattr(export_features, "_MOST_TEXT", texts)
    export_file(file.path, out, overwrite=True).unlink()
    monkeypatch.setattr(export_features, "_MOST_TEXT", texts - 1)
    assert "at most 100 MB of text" in refusal(export_file, file.path, out)
    assert not out.exists()


def test_parquet(file: EmbeddingFile, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = export_file(file.path, tmp_path / "a.parquet")
    assert parquet.ParquetFile(out).num_row_groups == 3
    table = parquet.read_table(out)
    assert table.column_names == [
        *("features", "layer/b", "layer/block.2", "labels", "class", "split", "sample_ids"),
        *("domain", "time"),
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
    assert about["parents"] == file.parents.tolist()


def test_parquet_of_images_and_without_pyarrow(
    file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert "Parquet needs pyarrow" in refusal(export_file, file.path, tmp_path / "a.parquet")
    pytest.importorskip("pyarrow")
    images = pixel_file(tmp_path).path
    assert "holds images" in refusal(export_file, images, tmp_path / "p.parquet")


@pytest.mark.parametrize("ending", ["npz", "safetensors", "parquet"])
def test_import_reads_it_back(file: EmbeddingFile, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    out = export_file(file.path, tmp_path / f"a.{ending}")
    back = import_file(out, tmp_path / "b.h5")
    same = {"content", "columns"} if ending == "parquet" else set(file.digests)  # no hierarchy
    assert {key: back.digests[key] for key in same} == {key: file.digests[key] for key in same}
    assert back.classes[:3] == file.classes[:3]
    assert back.layers == file.layers
    assert back.sample_ids.tolist() == file.sample_ids.tolist()
    np.testing.assert_array_equal(back.split, file.split)
    if ending != "parquet":
        assert back.provenance == {**file.provenance, "split": {"rule": "official"}}


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_a_damaged_file_leaves_nothing(file: EmbeddingFile, tmp_path: Path, ending: str) -> None:
    damage(file.path, "features", 1030)
    assert "rows 1024-2047" in refusal(export_file, file.path, tmp_path / f"a.{ending}")
    assert list(tmp_path.iterdir()) == [file.path]


def test_other_names_and_files_that_are_there(tmp_path: Path) -> None:
    path, out = written(tmp_path / "a.h5", 9).path, tmp_path / "a.npz"
    assert f"name it {out}" in refusal(export_file, path, tmp_path / "a.mat")
    out.write_text("mine")
    assert "exists" in refusal(export_file, path, out)
    export_file(path, out, overwrite=True)
    assert np.load(out)["labels"].shape == (9,)
