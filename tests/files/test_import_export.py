"""Import and export: what other formats hold comes in, and out again without loss."""

import gzip
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import PROVENANCE, flip, make_features, make_samples, span

from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.export_features import export_file
from embedbench.files.formats.mnist_idx import read_idx
from embedbench.files.import_features import import_file
from embedbench.files.raw_pixels import pixels
from embedbench.files.sample_metadata import TEST
from embedbench.files.write_file import write_file
from embedbench.protocols.incremental_class import IncrementalClass


def save(path: Path, **arrays: Any) -> Path:
    """Save a small npz with features and labels unless others are given."""
    rng = np.random.default_rng(0)
    given = {"features": make_features(30), "labels": rng.permutation(np.arange(30) % 3)}
    np.savez(path, **{k: v for k, v in {**given, **arrays}.items() if v is not None})
    return path


def write_idx(directory: Path, *, packed: bool = True, dots: bool = False) -> dict[str, Any]:
    """Write four small IDX files; return what they hold."""
    rng = np.random.default_rng(0)
    held: dict[str, Any] = {}
    directory.mkdir(exist_ok=True)
    for prefix, n in (("train", 20), ("t10k", 7)):
        images = rng.integers(0, 256, (n, 4, 5)).astype(np.uint8)
        labels = (np.arange(n) % 10).astype(np.uint8)
        held[prefix] = (images, labels)
        for what, values in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
            name = f"{prefix}-{what.replace('-idx', '.idx') if dots else what}-ubyte"
            data = head + values.tobytes()
            path = directory / (name + ".gz" * packed)
            path.write_bytes(gzip.compress(data) if packed else data)
    return held


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_export_and_import_lose_nothing(tmp_path: Path, dtype: type) -> None:
    samples, features = make_samples(2500), make_features(2500).astype(dtype)
    layers = {
        "block-8": make_features(2500, 3, seed=1),
        "b.2": make_features(2500, 1).astype(dtype),
    }
    a = write_file(tmp_path / "a.h5", samples, features, PROVENANCE, layers=layers)
    export_file(a.path, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as held:
        np.testing.assert_array_equal(held["features"], features)
        np.testing.assert_array_equal(held["layer/block-8"], layers["block-8"])
        assert held["features"].dtype == dtype
        assert held["sample_ids"].tolist() == samples.ids.tolist()
        assert held["classes"].tolist() == list(samples.classes)
    b = import_file(tmp_path / "a.npz", tmp_path / "b.h5")
    assert b.digests == a.digests
    assert b.layers == a.layers
    assert b.provenance == {**a.provenance, "split": {"rule": "official"}}


def test_export_refuses_damage_and_leaves_nothing(tmp_path: Path) -> None:
    write_file(tmp_path / "a.h5", make_samples(2500), make_features(2500), PROVENANCE)
    start, size = span(tmp_path / "a.h5", "features")
    flip(tmp_path / "a.h5", start + 2000 * size)
    with pytest.raises(DamagedFileError, match="rows 1024-2047"):
        export_file(tmp_path / "a.h5", tmp_path / "a.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5"]


def test_export_refuses_other_names_and_files_that_are_there(tmp_path: Path) -> None:
    write_file(tmp_path / "a.h5", make_samples(9), make_features(9), PROVENANCE)
    with pytest.raises(UserError, match=r"name it .*a\.npz"):
        export_file(tmp_path / "a.h5", tmp_path / "a.mat")
    (tmp_path / "a.npz").write_text("mine")
    with pytest.raises(UserError, match="exists"):
        export_file(tmp_path / "a.h5", tmp_path / "a.npz")
    export_file(tmp_path / "a.h5", tmp_path / "a.npz", overwrite=True)
    assert np.load(tmp_path / "a.npz")["labels"].shape == (9,)


def test_npz_with_the_least_it_needs(tmp_path: Path) -> None:
    file = import_file(save(tmp_path / "a.npz"), tmp_path / "a.h5")
    assert file.sample_ids[[0, 29]].tolist() == ["00000", "00029"]
    assert file.classes == ("0", "1", "2")
    assert (file.split == TEST).sum() == 9  # 0.3 of 30
    np.testing.assert_array_equal(file.read(), make_features(30))


def test_npz_grouped_by_a_key_of_its_own(tmp_path: Path) -> None:
    """The shape of a speech set: float16, names, speakers; split by speaker."""
    speaker = np.array([f"voice {row % 10}" for row in range(30)])
    features = make_features(30).astype(np.float16)
    names = np.array(["yes", "no", "bäh"])
    src = save(tmp_path / "a.npz", features=features, class_names=names, speaker=speaker)
    file = import_file(src, tmp_path / "a.h5", group="speaker", split="0.35")
    assert file.dtype == np.float16
    assert file.classes == ("yes", "no", "bäh")
    test = set(speaker[file.split == TEST])
    assert len(test) == 4  # 0.35 of 10 voices, rounded half up
    assert not test & set(speaker[file.split != TEST])
    rule = {"rule": "hash", "test_fraction": 0.35, "group": "speaker"}
    assert file.provenance["split"] == rule
    again = import_file(save(tmp_path / "b.npz", groups=speaker), tmp_path / "b.h5", split="0.35")
    np.testing.assert_array_equal(again.split, file.split)
    with pytest.raises(UserError, match=r"'speeker'\. Did you mean 'speaker'"):
        import_file(src, tmp_path / "c.h5", group="speeker")


def test_npz_with_splits_names_and_ids(tmp_path: Path) -> None:
    labels = np.array(["dog", "cat"] * 15)
    parts = np.array(["train"] * 20 + ["val"] * 4 + ["test"] * 6)
    src = save(tmp_path / "a.npz", labels=labels, split=parts)
    file = import_file(src, tmp_path / "a.h5")
    assert file.classes == ("cat", "dog")
    assert file.labels[:2].tolist() == [1, 0]
    assert np.bincount(file.split).tolist() == [20, 4, 6]
    assert file.sample_ids[[0, 20, 24, 29]].tolist() == [
        "train/00000", "val/00000", "test/00000", "test/00005",
    ]  # fmt: skip
    with pytest.raises(UserError, match="has its own split"):
        import_file(src, tmp_path / "b.h5", group="labels")
    other = import_file(src, tmp_path / "b.h5", group="labels", split="0.5")
    assert set(other.labels[other.split == TEST].tolist()) in ({0}, {1})
    numbers = save(tmp_path / "c.npz", split=np.arange(30) % 3, ids=np.arange(30) + 100)
    third = import_file(numbers, tmp_path / "c.h5")
    assert third.split[:4].tolist() == [0, 1, 2, 0]
    assert third.sample_ids[0] == "100"


def test_labels_with_gaps_name_themselves(tmp_path: Path) -> None:
    file = import_file(save(tmp_path / "a.npz", labels=np.arange(30) % 3 * 10), tmp_path / "a.h5")
    assert file.classes == ("0", "10", "20")
    assert file.labels[:4].tolist() == [0, 1, 2, 0]


def test_text_labels_follow_the_given_names(tmp_path: Path) -> None:
    labels = np.array(["b", "a", "c"] * 10)
    src = save(tmp_path / "a.npz", labels=labels, names=np.array(["c", "b", "a"]))
    assert import_file(src, tmp_path / "a.h5").labels[:3].tolist() == [1, 2, 0]


def test_float64_becomes_float32(tmp_path: Path) -> None:
    file = import_file(save(tmp_path / "a.npz", features=np.eye(30)), tmp_path / "a.h5")
    assert file.dtype == np.float32


def test_unknown_backbones_have_different_recipes(tmp_path: Path) -> None:
    a = import_file(save(tmp_path / "a.npz"), tmp_path / "a.h5")
    b = import_file(save(tmp_path / "b.npz"), tmp_path / "b.h5", split="0.5")
    c = import_file(save(tmp_path / "c.npz", features=make_features(30, seed=1)), tmp_path / "c.h5")
    assert a.digests["recipe"] == b.digests["recipe"] != c.digests["recipe"]


def test_npy_pair_and_directory(tmp_path: Path) -> None:
    labels = np.arange(30) % 3
    np.save(tmp_path / "features.npy", make_features(30))
    np.save(tmp_path / "labels.npy", labels)
    pair = import_file(tmp_path / "features.npy", tmp_path / "a.h5", labels=tmp_path / "labels.npy")
    np.testing.assert_array_equal(pair.read(), make_features(30))
    np.save(tmp_path / "split.npy", labels)
    np.save(tmp_path / "ids.npy", np.array([f"x{row}" for row in range(30)]))
    folder = import_file(tmp_path, tmp_path / "b.h5")
    np.testing.assert_array_equal(folder.split, labels)
    assert folder.sample_ids[29] == "x29"
    with pytest.raises(UserError, match="--labels"):
        import_file(tmp_path / "features.npy", tmp_path / "c.h5")
    with pytest.raises(UserError, match="unknown key of"):
        import_file(tmp_path, tmp_path / "c.h5", labels=tmp_path / "labels.npy")


def test_labels_that_do_not_go_with_an_npy_file(tmp_path: Path) -> None:
    """A FIFO would be waited for."""
    src, labels = tmp_path / "features.npy", tmp_path / "labels.npy"
    np.save(src, make_features(30))
    with pytest.raises(UserError, match=r"there is no file .*--labels names the labels' npy file"):
        import_file(src, tmp_path / "a.h5", labels=labels)
    os.mkfifo(labels)
    with pytest.raises(UserError, match="there is no file"):
        import_file(src, tmp_path / "a.h5", labels=labels)
    labels.unlink()
    np.save(labels, np.arange(29) % 3)
    with pytest.raises(UserError, match="has 30 rows of features and 29 labels; give one label"):
        import_file(src, tmp_path / "a.h5", labels=labels)


@pytest.mark.parametrize(("packed", "dots"), [(True, False), (False, False), (False, True)])
def test_idx(tmp_path: Path, packed: bool, dots: bool) -> None:
    held = write_idx(tmp_path / "mnist", packed=packed, dots=dots)
    samples, images = read_idx(tmp_path / "mnist")
    np.testing.assert_array_equal(images[:20], held["train"][0])
    np.testing.assert_array_equal(images[20:], held["t10k"][0])
    file = import_file(tmp_path / "mnist", tmp_path / "m.h5")
    assert file.digests["samples"] == samples.digest()
    assert file.sample_ids[[0, 19, 20, 26]].tolist() == [
        "train/00000", "train/00019", "test/00000", "test/00006",
    ]  # fmt: skip
    assert np.bincount(file.split).tolist() == [20, 0, 7]
    assert file.labels.tolist() == [*range(10), *range(10), *range(7)]
    assert file.classes == tuple("0123456789")
    x = file.read()
    assert x.shape == (27, 20)
    for row, column in ((0, 0), (3, 19), (26, 7)):
        value = images[row, column // 5, column % 5]
        assert x[row, column] == np.float32(value) / np.float32(255)
    np.testing.assert_array_equal(x, pixels(images))
    assert file.provenance["backbone"]["name"] == "pixels"
    assert file.provenance["split"] == {"rule": "official"}


def test_broken_idx_files_are_named(tmp_path: Path) -> None:
    directory = tmp_path / "mnist"
    name = "t10k-images-idx3-ubyte"

    def broken(change: Any, message: str) -> None:
        write_idx(directory, packed=False)
        change(directory / name)
        with pytest.raises(UserError, match=message):
            import_file(directory, tmp_path / "m.h5")
        for path in directory.iterdir():
            path.unlink()

    def relabel(path: Path) -> None:
        labels = directory / "t10k-labels-idx1-ubyte"
        labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 1]))

    broken(lambda p: p.unlink(), f"has no {name}")
    broken(lambda p: p.write_bytes(p.read_bytes()[:-1]), "cut short")
    broken(lambda p: p.write_bytes(p.read_bytes()[:9]), "cannot be read")
    broken(lambda p: p.write_bytes(b"\0\0\x0d" + p.read_bytes()[3:]), "does not hold bytes")
    broken(lambda p: p.rename(p.with_name(name + ".gz")), "cannot be read")
    broken(relabel, "do not belong together")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": None}, "must hold 'features' and 'labels', and it holds labels"),
        ({"labels": None}, "must hold"),
        ({"labels": np.zeros(30)}, "labels must be one integer or text per sample, not float64"),
        ({"labels": np.zeros((30, 2), int)}, r"of shape \(30, 2\)"),
        ({"labels": np.arange(30) - 1}, "label -1 is negative"),
        ({"labels": np.arange(29)}, "29"),
        ({"labels": np.arange(30), "names": np.array(["a", "b"])}, "label 29 .* out of range"),
        ({"labels": np.array(["a", "x"] * 15), "names": np.array(["a", "b"])}, "unknown label 'x'"),
        ({"split": np.array(["train", "dev"] * 15)}, "unknown split 'dev'"),
        ({"split": np.arange(30)}, "split must hold 0"),
        ({"ids": np.arange(30) // 2}, "is in rows 0 and 1"),
        ({"features": np.arange(30)[:, None]}, "features must be .* not int64"),
        ({"features": np.full((30, 2), np.nan)}, "row 0 of features .* NaN"),
        ({"names": np.array([object()])}, "save plain numeric and text arrays"),
        ({"provenance": np.array("{")}, "provenance is not JSON"),
    ],
)
def test_bad_npz_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_file(save(tmp_path / "a.npz", **arrays), tmp_path / "a.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz"]


def test_other_sources_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("no zip")
    (tmp_path / "a.csv").write_text("1,2")
    (tmp_path / "empty").mkdir()
    cases = {
        "a.npz": "cannot be read",
        "a.csv": "nothing that import reads; give an npz,",
        "empty": "nothing that import reads",
        "none.npz": "there is no",
    }
    for name, message in cases.items():
        with pytest.raises(UserError, match=message):
            import_file(tmp_path / name, tmp_path / "a.h5")


def test_import_overwrites_only_when_asked(tmp_path: Path) -> None:
    src = save(tmp_path / "a.npz")
    import_file(src, tmp_path / "a.h5")
    with pytest.raises(UserError, match="exists"):
        import_file(src, tmp_path / "a.h5")
    import_file(src, tmp_path / "a.h5", overwrite=True)
    assert EmbeddingFile.open(tmp_path / "a.h5").shape == (30, 5)


@pytest.mark.parametrize("form", ["bytes", "rows of bytes", "rows", "images"])
def test_pixels_of_an_npz_are_those_of_extract(tmp_path: Path, form: str) -> None:
    """Values between 0 and 1 with the name of the backbone, which a stream then leaves unscaled."""
    images = np.random.default_rng(0).integers(0, 256, (30, 4, 3, 1), dtype=np.uint8)
    values = pixels(images)
    given = {
        "bytes": images,
        "rows of bytes": images.reshape(30, 12).astype(np.int64),
        "rows": values.astype(np.float64),
        "images": values.reshape(images.shape),
    }[form]
    np.savez(tmp_path / "a.npz", features=given, labels=np.arange(30) % 3)
    file = import_file(tmp_path / "a.npz", tmp_path / "a.h5", backbone="pixels", split="0.3")
    np.testing.assert_array_equal(file.read(), values)
    assert file.provenance["backbone"]["name"] == "pixels"
    assert IncrementalClass().build([file], seed=0).scale == "none"
    if form == "rows":
        plain = import_file(tmp_path / "a.npz", tmp_path / "b.h5", split="0.3")
        scaled = IncrementalClass(scale_least=0).build([plain], seed=0)
        assert scaled.scale == "standard"


@pytest.mark.parametrize(
    ("factor", "backbone", "message"),
    [
        (16, "pixels", "from 0 to 16; pixels are bytes or between 0 and 1, so divide them first"),
        (-1, "pixels", "from -1 to 0; pixels are bytes or between 0 and 1"),
        (np.nan, "pixels", "from nan to nan; pixels are bytes"),
        (
            1,
            "resnet50",
            "takes pixels, for raw values, got 'resnet50'; name",
        ),
    ],
)
def test_what_is_no_pixels_is_refused(
    tmp_path: Path, factor: float, backbone: str, message: str
) -> None:
    x = np.linspace(0, 1, 60).reshape(30, 2) * factor
    np.savez(tmp_path / "a.npz", features=x, labels=np.arange(30) % 3)
    with pytest.raises(UserError, match=message):
        import_file(tmp_path / "a.npz", tmp_path / "a.h5", backbone=backbone)
    assert not (tmp_path / "a.h5").exists()
