"""Import of npz and npy files, of MNIST's, and of raw pixels."""

import gzip
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import make_features, refusal, says

from embedbench.errors import UserError
from embedbench.files.formats.mnist_idx import read_idx
from embedbench.files.import_features import import_file
from embedbench.files.sample_metadata import TEST


def save(path: Path, **arrays: Any) -> Path:
    """Save a small npz with features and labels unless others are given."""
    rng = np.random.default_rng(0)
    given = {"features": make_features(30), "labels": rng.permutation(np.arange(30) % 3)}
    np.savez(path, **{k: v for k, v in {**given, **arrays}.items() if v is not None})
    return path


def write_idx(directory: Path, *, packed: bool = True, dots: bool = False) -> dict[str, Any]:
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


def test_npz_with_the_least_it_needs(tmp_path: Path) -> None:
    file = import_file(save(tmp_path / "a.npz"), tmp_path / "a.h5")
    assert file.sample_ids[[0, 29]].tolist() == ["00000", "00029"]
    assert file.classes == ("0", "1", "2")
    assert (file.split == TEST).sum() == 9  # 0.3 of 30
    assert file.provenance["split"] == {"rule": "hash", "test_fraction": 0.3, "group": "sample"}
    np.testing.assert_array_equal(file.read(), make_features(30))
    # an unknown backbone is known by its features
    b = import_file(save(tmp_path / "b.npz"), tmp_path / "b.h5", split="0.5")
    c = import_file(save(tmp_path / "c.npz", features=make_features(30, seed=1)), tmp_path / "c.h5")
    assert file.digests["recipe"] == b.digests["recipe"] != c.digests["recipe"]


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
    labels = np.array([1, 0, 2] * 10)
    other = save(tmp_path / "b.npz", groups=speaker, labels=names[labels], names=names)
    again = import_file(other, tmp_path / "b.h5", split="0.35")
    assert again.classes == file.classes
    assert again.labels.tolist() == labels.tolist()
    np.testing.assert_array_equal(again.split, file.split)
    assert again.provenance["split"] == {**rule, "group": "groups"}
    with pytest.raises(UserError, check=says(got="speeker", expected="speaker")):
        import_file(src, tmp_path / "c.h5", group="speeker")


def test_npz_with_splits_names_and_ids(tmp_path: Path) -> None:
    labels = np.array(["dog", "cat"] * 15)
    parts = np.array(["train"] * 20 + ["val"] * 4 + ["test"] * 6)
    src = save(tmp_path / "a.npz", labels=labels, split=parts)
    file = import_file(src, tmp_path / "a.h5")
    assert file.classes == ("cat", "dog")
    assert file.labels.tolist() == [1, 0] * 15
    assert np.bincount(file.split).tolist() == [20, 4, 6]
    ids = file.sample_ids[[0, 20, 24, 29]].tolist()
    assert ids == ["train/00000", "val/00000", "test/00000", "test/00005"]
    said: list[str] = []
    other = import_file(src, tmp_path / "b.h5", group="labels", split="0.3", notify=said.append)
    assert "lopsided" in said[-1]
    assert "--stratify" in said[-1]
    assert set(other.labels[other.split == TEST].tolist()) in ({0}, {1})
    n = np.arange(30)
    third = import_file(save(src, split=n % 3, ids=n + 100, labels=n % 3 * 10), tmp_path / "c.h5")
    assert third.classes == ("0", "10", "20")
    assert third.labels.tolist() == [0, 1, 2] * 10
    assert third.split[:4].tolist() == [0, 1, 2, 0]
    assert third.sample_ids[0] == "100"


def test_a_folder_of_npy_files(tmp_path: Path) -> None:
    labels, out = np.arange(30) % 3, tmp_path / "c.h5"
    np.save(tmp_path / "features.npy", make_features(30))
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "split.npy", labels)
    np.save(tmp_path / "ids.npy", np.array([f"x{row}" for row in range(30)]))
    folder = import_file(tmp_path, tmp_path / "b.h5")
    np.testing.assert_array_equal(folder.read(), make_features(30))
    np.testing.assert_array_equal(folder.split, labels)
    assert folder.sample_ids[29] == "x29"
    assert "give them: --labels F" in refusal(import_file, tmp_path / "features.npy", out)
    assert "unknown key of" in refusal(import_file, tmp_path, out, labels="labels.npy")
    np.save(tmp_path / "labels.npy", labels[1:])
    assert "features and 29 labels" in refusal(import_file, tmp_path, out)


@pytest.mark.parametrize(("packed", "dots"), [(True, False), (False, True)])
def test_idx(tmp_path: Path, packed: bool, dots: bool) -> None:
    held = write_idx(tmp_path / "mnist", packed=packed, dots=dots)
    samples, images = read_idx(tmp_path / "mnist")
    np.testing.assert_array_equal(images, np.concatenate([held["train"][0], held["t10k"][0]]))
    file = import_file(tmp_path / "mnist", tmp_path / "m.h5")
    assert file.digests["samples"] == samples.digest()
    ids = file.sample_ids[[0, 19, 20, 26]].tolist()
    assert ids == ["train/00000", "train/00019", "test/00000", "test/00006"]
    assert np.bincount(file.split).tolist() == [20, 0, 7]
    assert file.labels.tolist() == [*range(10), *range(10), *range(7)]
    assert file.classes == tuple("0123456789")
    expected = images.reshape(27, 20).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(file.read(), expected)
    assert file.provenance["backbone"]["name"] == "pixels"
    assert file.provenance["split"] == {"rule": "official"}


TWO, SIZE = bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 1]), struct.pack(">2I", 5, 4)  # labels, other images


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Path.unlink, "has no t10k-images-idx3-ubyte"),
        (lambda p: p.write_bytes(p.read_bytes()[:-1]), "cut short"),
        (lambda p: p.write_bytes(p.read_bytes()[:9]), "cannot be read"),
        (lambda p: p.write_bytes(b"\0\0\x0d" + p.read_bytes()[3:]), "not hold bytes"),
        (lambda p: p.rename(f"{p}.gz"), "cannot be read"),
        (lambda p: p.with_name("t10k-labels-idx1-ubyte").write_bytes(TWO), "not belong together"),
        (lambda p: p.write_bytes(p.read_bytes()[:8] + SIZE + p.read_bytes()[16:]), "not belong"),
    ],
)
def test_broken_idx_files_are_named(tmp_path: Path, change: Any, message: str) -> None:
    write_idx(tmp_path / "mnist", packed=False)
    change(tmp_path / "mnist/t10k-images-idx3-ubyte")
    assert message in refusal(import_file, tmp_path / "mnist", tmp_path / "m.h5")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": None}, "it holds labels"),
        ({"labels": np.full(30, 0.5)}, "sample, not float64"),
        ({"labels": np.zeros((30, 2), int)}, "of shape (30, 2)"),
        ({"labels": np.arange(30) - 1}, "label -1 is negative"),
        ({"labels": np.arange(30), "names": np.array(["a", "b"])}, "label 29 of sample"),
        ({"labels": np.array(["a", "x"] * 15), "names": np.array(["a", "b"])}, "unknown label 'x'"),
        ({"split": np.array(["train", "tets"] * 15)}, "split holds 'tets'"),
        ({"split": np.zeros(30)}, "split must be 0 (train)"),
        ({"split": np.arange(30) % 3 - 1}, "split holds -1; expected 0"),
        ({"ids": np.arange(30) // 2}, "in train (row 1)"),
        ({"features": np.arange(30)[:, None]}, "not int64"),
        ({"features": np.full((30, 2), np.nan)}, "row 0 of features"),
        ({"names": np.array([object()])}, "which are a pickle and would run code"),
        ({"provenance": np.array("{")}, "provenance is not"),
        ({"provenance": np.array('{"x": "\\ud800"}')}, "be plain JSON"),
        ({"labels": np.array(1)}, "labels is int64"),
        ({"ids": np.full((30, 2), "a")}, "ids is <U1"),
        ({"ids": np.array([b"a", b"\xff", b"c"])}, "'utf-8' codec"),
        ({"layer/b": np.array(1.0)}, "layer/b is float64"),
        ({"time": np.zeros((30, 2))}, "time is float64"),
    ],
)
def test_bad_npz_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    assert message in refusal(import_file, save(tmp_path / "a.npz", **arrays), tmp_path / "a.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz"]


def test_other_sources_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("no zip")
    (tmp_path / "a.arff").write_text("1,2")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo.npz")
    cases = dict.fromkeys(("a.arff", "empty", "fifo.npz"), "nothing that import")
    cases |= {"a.npz": "cannot be read", "none.npz": "there is no file or folder"}
    for name, message in cases.items():
        assert message in refusal(import_file, tmp_path / name, tmp_path / "a.h5")


def stored(path: Path, x: Any, how: str) -> Path:
    """x under `features` and classes under `labels`: a directory of npy files, or an npz file."""
    arrays = {"features": x, "labels": np.arange(len(x)) % 3}
    if how == "npy":
        path.mkdir()
        for name, values in arrays.items():
            np.save(path / f"{name}.npy", values)
        return path
    {"npz": np.savez, "packed": np.savez_compressed}[how](f"{path}.npz", **arrays)
    return Path(f"{path}.npz")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("how", ["npy", "npz", "packed"])
def test_rows_and_digests_are_alike_however_stored(tmp_path: Path, how: str, dtype: str) -> None:
    x = make_features(2500).astype(dtype)
    made = import_file(stored(tmp_path / "a", x, how), tmp_path / "a.h5")
    by_columns = np.asfortranarray(x)
    other = import_file(stored(tmp_path / "b", by_columns, how), tmp_path / "b.h5")
    assert made.digests == other.digests
    np.testing.assert_array_equal(made.read(), x.astype(np.float32))
    assert made.dtype == (np.float16 if dtype == "float16" else np.float32)


def test_a_damaged_member_is_one_sentence(tmp_path: Path) -> None:
    path = stored(tmp_path / "a", make_features(2500), "npz")
    data = bytearray(path.read_bytes())
    data[data.index(b"features.npy") + 30_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.npz .*\(BadZipFile: Bad CRC-32"):
        import_file(path, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()
