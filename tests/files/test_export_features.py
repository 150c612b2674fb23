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
    layers = {"b": make_features(n, 2, seed=1).astype(np.float16), "block.2": make_features(n, 1)}
    features = make_features(n).astype(request.param)
    return written(tmp_path / "a.h5", n, features, layers=layers, columns=columns)


def stored(file: EmbeddingFile, table: str) -> NDArray[np.generic]:
    return np.concatenate([rows for _, rows in file.blocks(table)])


def test_safetensors(file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        metadata = tensors.metadata()
    texts = {
        "sample_ids": file.sample_ids.tolist(),
        "classes": list(file.classes),
        "domain": file.column("domain").tolist(),
        "provenance": file.provenance,
    }
    assert metadata == {k: json.dumps(text, ensure_ascii=False) for k, text in texts.items()}
    assert 90e6 < export_features._MOST_TEXT < 100e6
    most = sum(len(text.encode()) for text in metadata.values())
    monkeypatch.setattr(export_features, "_MOST_TEXT", most)
    export_file(file.path, out, overwrite=True).unlink()
    monkeypatch.setattr(export_features, "_MOST_TEXT", most - 1)
    assert "at most 100 MB of text" in refusal(export_file, file.path, out)
    assert not out.exists()


def test_parquet(file: EmbeddingFile, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = export_file(file.path, tmp_path / "a.parquet")
    assert parquet.ParquetFile(out).num_row_groups == 3
    table = parquet.read_table(out)
    features = table["features"].combine_chunks().values.to_numpy().reshape(-1, 5)
    assert features.dtype == file.dtype
    np.testing.assert_array_equal(features, stored(file, "features"))
    assert table.column_names[:3] == ["features", "layer/b", "layer/block.2"]
    assert table.drop_columns(table.column_names[:3]).to_pydict() == {
        "labels": file.labels.tolist(),
        "class": [file.classes[label] for label in file.labels],
        "split": [("train", "val", "test")[number] for number in file.split],
        "sample_ids": file.sample_ids.tolist(),
        **{name: values.tolist() for name, values in file.columns.items()},
    }
    assert json.loads(table.schema.metadata[b"embedbench"]) == {
        "classes": list(file.classes),
        "digests": file.digests,
        "parents": file.parents.tolist(),
        "provenance": file.provenance,
    }


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
        images = pixel_file(tmp_path)
        out = export_file(images.path, tmp_path / f"p.{ending}")
        assert import_file(out, tmp_path / "p2.h5").digests == images.digests


def test_what_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = written(tmp_path / "a.h5", 1100).path, tmp_path / "a.npz"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert "Parquet needs pyarrow" in refusal(export_file, path, tmp_path / "a.parquet")
    assert f"name it {out}" in refusal(export_file, path, tmp_path / "a.mat")
    out.write_text("mine")
    assert "exists" in refusal(export_file, path, out)
    export_file(path, out, overwrite=True)
    assert np.load(out)["labels"].shape == (1100,)
    damage(path, "features", 1030)
    for ending in ("safetensors", "parquet"):
        assert "rows 1024-1099" in refusal(export_file, path, tmp_path / f"b.{ending}")
    images = pixel_file(tmp_path).path
    assert "holds images" in refusal(export_file, images, tmp_path / "p.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "a.npz", "p.h5"]
