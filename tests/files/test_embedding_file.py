"""The embedding file: what was written comes back, and no damage passes unnoticed.

The golden file was made once, by `write_file`, and is never made again.
"""

import os
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from file_helpers import (
    PROVENANCE,
    damage,
    foreign_write,
    make_features,
    make_samples,
    refusal,
    says,
    written,
)

from embedbench.errors import DamagedFileError, UserError
from embedbench.files import integrity_checks
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file

GOLDEN = Path(__file__).parents[1] / "golden" / "v1.0.h5"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of 2,500 rows (two whole blocks and a part) with one layer."""
    layer = make_features(width=3, seed=1).astype(np.float16)
    return written(tmp_path / "a.h5", layers={"block-8": layer}).path


@pytest.mark.parametrize("n", [1, 1024, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("compress", [False, True])
def test_what_was_written_comes_back(tmp_path: Path, n: int, dtype: type, compress: bool) -> None:
    samples, features = make_samples(n), make_features(n, seed=n).astype(dtype)
    layers = {f"b{i}": make_features(n, i, seed=i).astype(np.float16) for i in (1, 2)}
    written(tmp_path / "a.h5", n, features, layers=layers, compress=compress)
    file = EmbeddingFile.open(tmp_path / "a.h5")
    assert file.shape == (n, 5)
    assert file.dtype == dtype
    assert file.layers == {"b1": 1, "b2": 2}
    for name in ("ids", "labels", "split", "parents"):
        np.testing.assert_array_equal(getattr(file.samples, name), getattr(samples, name))
    assert file.classes == samples.classes
    assert file.samples.n_leaves == 3
    assert file.provenance["backbone"] == PROVENANCE["backbone"]
    assert repr(file) == f"<a.h5: {n:,} samples of 3 classes, embedding>"
    whole = file.read(["b2", "b1"])
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(whole, np.hstack([features, layers["b2"], layers["b1"]]))
    np.testing.assert_array_equal(file.read(embedding="b2"), layers["b2"])
    assert integrity_checks.damaged_rows(file.path) == []


def test_a_file_written_from_the_spec_alone_is_the_same(tmp_path: Path) -> None:
    """The digests, block and metadata checksums are what the specification says, recomputed."""
    samples, features = make_samples(1500, 1), make_features(1500, seed=1)
    foreign_write(tmp_path / "f.h5", samples, features)
    write_file(tmp_path / "o.h5", samples, features, PROVENANCE)
    foreign, own = EmbeddingFile.open(tmp_path / "f.h5"), EmbeddingFile.open(tmp_path / "o.h5")
    assert foreign.digests == own.digests
    np.testing.assert_array_equal(foreign.read(), own.read())


def test_digests_cover_what_they_say_and_no_more(tmp_path: Path) -> None:
    n = 300
    one, layers = make_samples(n), {"b": make_features(n, 2, seed=1)}
    base = written(tmp_path / "a.h5", n, layers=layers)

    def changed(samples: Samples = one, bit: int = 0, **parts: Any) -> set[str]:
        made = {**PROVENANCE, **{k: {**PROVENANCE[k], **v} for k, v in parts.items()}}
        features = make_features(n)
        features.view(np.uint8)[200, 1] ^= bit
        out = write_file(tmp_path / "b.h5", samples, features, made, layers=layers, overwrite=True)
        return {key for key in base.digests if out.digests[key] != base.digests[key]}

    assert changed() == set()
    assert changed(arithmetic={"device_kind": "cuda"}, source={"name": "elsewhere"}) == set()
    assert changed(backbone={"library_version": "2", "weights_id": "file"}) == set()
    for key, value in {"weights_sha256": "cd" * 32, "pooling": "max"}.items():
        assert changed(backbone={key: value}) == {"recipe"}
    assert changed(preprocessing={"size": 256}) == {"recipe"}
    assert changed(arithmetic={"dtype": "bfloat16"}) == {"recipe"}
    assert changed(bit=1) == {"content"}
    for field, values in {
        "labels": (one.labels + 1) % 3,
        "split": (one.split + 1) % 3,
        "ids": np.char.add(one.ids, "x"),
        "parents": np.array([3, -1, -1, -1]),
        "classes": ("cat", "dog", "bush", "animal"),
    }.items():
        assert changed(replace(one, **{field: values})) == {"samples"}


@pytest.mark.parametrize("table", ["features", "layers/block-8"])
@pytest.mark.parametrize("row", [0, 1023, 1024, 2499])
def test_damage_names_the_block_of_rows(path: Path, table: str, row: int) -> None:
    damage(path, table, row, byte=-1)
    first = row // 1024 * 1024
    end = min(first + 1024, 2500)
    file = EmbeddingFile.open(path)
    assert integrity_checks.damaged_rows(file.path) == [(table, first, end)]
    said = f"rows {first}-{end - 1} of {table}"
    assert said in refusal(file.read, ["block-8"])
    assert said in refusal(lambda: list(file.blocks(table)))
    if table != "features":
        np.testing.assert_array_equal(file.read(), make_features())


@pytest.mark.parametrize(
    ("table", "row", "sentence"),
    [
        *((table, 1500, f"rows 1024-2047 of {table}") for table in ("labels", "sample_ids")),
        *((table, 0, "metadata") for table in ("classes", "parents", "provenance")),
        *((f"checksums/{table}", 1, "content digest") for table in ("features", "layers/block-8")),
    ],
)
def test_damage_of_metadata_does_not_open(path: Path, table: str, row: int, sentence: str) -> None:
    damage(path, table, row)
    with pytest.raises(DamagedFileError, match=sentence) as error:
        EmbeddingFile.open(path)
    assert verify(path)[0] == str(error.value)


def test_a_cut_or_unfinished_file_does_not_open(path: Path) -> None:
    data = path.read_bytes()
    with h5py.File(path, "r+") as file:
        del file["checksums"].attrs["metadata"]
    assert "incomplete: its writing" in refusal(EmbeddingFile.open, path)
    for keep in (0.2, 0.999):
        path.write_bytes(data[: int(keep * len(data))])
        with pytest.raises(DamagedFileError, match="damaged or incomplete") as error:
            EmbeddingFile.open(path)
        assert verify(path) == [str(error.value)]


def test_what_is_no_embedding_file_is_refused(path: Path, tmp_path: Path) -> None:
    for name in ("a.txt", "a.npz"):
        (tmp_path / name).write_text("hello")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = [1]
    (tmp_path / ".b.h5.partial").mkdir()
    cases = {
        "b.h5": "same extract again",
        ".": "not a regular file",
        "none.h5": "with `embedbench extract`",
        "a.txt": "not an HDF5",
        "a.npz": "with `embedbench import`",
        "other.h5": "not an embedding",
    }
    for name, message in cases.items():
        assert message in refusal(EmbeddingFile.open, tmp_path / name)
    read = EmbeddingFile.open(path).read
    with pytest.raises(UserError, check=says(got="block-9", expected="block-8")):
        read(["block-9"])


GOOD, X = make_samples(10), make_features(10)
BAD = X.copy()
BAD[4, 2] = -np.inf


@pytest.mark.parametrize(
    ("samples", "features", "meta", "message"),
    [
        (GOOD, X, {"format_version": "1.2"}, "format version 1.2, and this one reads 1.1"),
        (GOOD, X, {"kind": "sounds"}, "kind 'sounds'"),
        (GOOD, X, {"kind": "pixels"}, "expected (10, H, W, C) of uint8"),
        (GOOD, X, {"format": "something"}, "not an embedding"),
        (GOOD, BAD, {}, "features row 4"),
        (GOOD, X.astype(np.float64), {}, "expected (10, D)"),
        (GOOD, X[:9], {}, "expected (10, D)"),
        (replace(GOOD, labels=GOOD.labels + 1), X, {}, "out of range"),
    ],
)
def test_foreign(tmp_path: Path, samples: Samples, features: Any, meta: Any, message: str) -> None:
    path = tmp_path / "f.h5"
    foreign_write(path, samples, features, meta=meta)
    assert message in refusal(lambda: EmbeddingFile.open(path).read())


def changed(row: int | list[int], **values: Any) -> Callable[[Samples], Samples]:
    def change(samples: Samples) -> Samples:
        for name, value in values.items():
            getattr(samples, name)[row] = value
        return samples

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(4, labels=3), r"label 3 .*'größe/00004.png' \(row 4\) .* 0 to 2"),
        (changed(4, labels=-1), "label -1"),
        (changed([7, 9], ids="größe/00002.png", split=2), r"val \(row 2\) .*test \(row 7\)"),
        (changed(7, ids="größe/00000.png", split=0), r"val \(row 0\) .*train \(row 7\)"),
        (lambda s: replace(s, labels=s.labels[:-1]), r"10 sample ids, .*\(9,\) .*\(10,\)"),
        (lambda s: replace(s, split=s.split[:-1]), r"10 sample ids, .*\(10,\) .*\(9,\)"),
        (lambda s: replace(s, labels=s.labels / 1.0), "^labels .*'float64'"),
        (lambda s: replace(s, split=s.split.astype(int) + 1), "split must hold"),
        (lambda s: replace(s, split=s.split.astype(int) - 2), "split must hold"),
        (lambda s: replace(s, parents=np.array([3, 3, -1])), r"4 classes, .*\(3,\)"),
        (lambda s: replace(s, parents=np.array([3, 3, -1, 4])), "'animal' is 4;"),
        (lambda s: replace(s, parents=np.array([3, 3, -1, -2])), "'animal' is -2;"),
        (lambda s: replace(s, parents=np.array([-1, -1, -1, 0])), r"'cat' \(index 0\)"),
        (lambda s: replace(s, parents=np.array([2, 2, 3, 2])), "'tree' .*own ancestor"),
        (lambda s: replace(s, classes=("cat", "cat", "tree", "animal")), "'cat' occurs twice"),
        (lambda s: replace(s, ids=s.ids[:0], labels=s.labels[:0], split=s.split[:0]), "no samples"),
    ],
)
def test_bad_samples_are_refused(change: Callable[[Samples], Samples], message: str) -> None:
    with pytest.raises(UserError, match=message):
        change(make_samples(10)).check()


def test_a_hierarchy_may_have_as_many_levels_as_classes() -> None:
    n = 60_000
    parents = np.append(np.arange(1, n), -1)
    one = np.array(["a"]), np.zeros(1, int), np.zeros(1, np.uint8)
    Samples(*one, tuple(map(str, range(n))), parents).check()


def test_reading_takes_little_more_memory_than_its_result(tmp_path: Path) -> None:
    features = make_features(20_000, 100)
    file = written(tmp_path / "a.h5", 20_000, features, layers={"b": features})
    tracemalloc.start()
    whole = file.read(["b"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < whole.nbytes + 16 * 1024 * 100 * 4  # some blocks


def test_the_golden_file_loads_for_ever() -> None:
    file, n = EmbeddingFile.open(GOLDEN), np.arange(1100)
    assert file.sample_ids.tolist() == [f"été/{i:04d}" for i in n]
    np.testing.assert_array_equal(file.labels, n % 3)
    np.testing.assert_array_equal(file.split, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2] * 110)
    assert file.classes == ("a", "b", "ç", "top")
    np.testing.assert_array_equal(file.parents, [3, 3, -1, -1])
    assert file.layers == {"block-1": 2}
    expected = np.stack([n, n / 2, -n, n % 7, n * 0 + 1], axis=1)
    np.testing.assert_array_equal(file.read(["block-1"]), expected)
    assert file.provenance["backbone"]["name"] == "resnet50"
    assert file.provenance["date_utc"] == "2026-01-02T03:04:05Z"
    assert file.digests == {
        "samples": "a96b34cea238351815346b9b6f4bbfa7ee6905224cd93846133ea2cf772c9288",
        "recipe": "ac5eb1f52350853aa0e9e1973fcdad4b7e1faa304e64c1906a6fdecd4c622fca",
        "content": "5011a203319d84cc4b3e5131ec7f109be606f75ab940ebdff336fe135ae1dad9",
    }
    assert integrity_checks.damaged_rows(file.path) == []


# --- a path that leads to another file after it was opened ---


def by_rename(new: Path, path: Path) -> None:
    os.replace(new, path)


def in_place(new: Path, path: Path) -> None:
    shutil.copyfile(new, path)


def forged(new: Path, path: Path) -> None:
    """The header of the new file says the content digest of the old one."""
    content = EmbeddingFile.open(path).digests["content"]
    with h5py.File(new, "r+") as file:
        file["digests"].attrs["content"] = np.bytes_(content)
    os.replace(new, path)


READS: dict[str, Callable[[EmbeddingFile], Any]] = {
    "read": lambda file: file.read(),
    "a layer": lambda file: file.read(embedding="block-8"),
    "blocks": lambda file: list(file.blocks("features")),
    "form": lambda file: file.form("layers/block-8"),
}


@pytest.mark.parametrize("replaced", [by_rename, in_place, forged])
@pytest.mark.parametrize("read", READS)
def test_a_file_that_was_replaced_is_not_read(
    path: Path, tmp_path: Path, replaced: Callable[[Path, Path], None], read: str
) -> None:
    layer = make_features(width=3, seed=1).astype(np.float16)
    other = written(tmp_path / "b.h5", features=make_features(seed=9), layers={"block-8": layer})
    file = EmbeddingFile.open(path)
    old, new = file.digests["content"][:12], other.digests["content"][:12]
    replaced(other.path, path)
    fault = (
        f"{path} was replaced while it was read: expected the content digest {old}…, it holds "
        f"{new}…"
    )
    with pytest.raises(UserError, check=says(what=fault, remedy="run the command again")):
        READS[read](file)


def test_images_of_a_file_that_was_replaced_are_not_read(tmp_path: Path) -> None:
    images = np.arange(60 * 12, dtype=np.uint8).reshape(60, 2, 2, 3)
    file, other = (
        write_file(tmp_path / f"{i}.h5", make_samples(60), images + np.uint8(i), PROVENANCE)
        for i in range(2)
    )
    by_rename(other.path, file.path)
    with pytest.raises(UserError, match=r"0\.h5 was replaced while it was read"):
        file.images()


def test_a_file_with_the_same_features_may_take_its_place(path: Path, tmp_path: Path) -> None:
    layer = make_features(width=3, seed=1).astype(np.float16)
    file = EmbeddingFile.open(path)
    same = write_file(
        tmp_path / "b.h5",
        make_samples(seed=5),
        make_features(),
        PROVENANCE,
        layers={"block-8": layer},
    )
    by_rename(same.path, path)
    np.testing.assert_array_equal(file.read(), make_features())


def test_damage_after_opening_is_damage(path: Path) -> None:
    file = EmbeddingFile.open(path)
    damage(path, "features", 1030)
    with pytest.raises(DamagedFileError, match="rows 1024-2047 of features"):
        file.read()


def test_the_sha256_is_of_the_file_that_was_opened(path: Path, tmp_path: Path) -> None:
    file = EmbeddingFile.open(path)
    by_rename(written(tmp_path / "b.h5", features=make_features(seed=9)).path, path)
    with pytest.raises(UserError, check=says(what=f"{path} changed while it was read")):
        file.sha256()
