"""Small embedding files for the tests, and a writer that knows only docs/specification."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.file_digests import canonical_json
from embedbench.files.resumable_file import Partial
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file

PROVENANCE: dict[str, Any] = {
    "backbone": {
        "name": "resnet50",
        "library": "timm",
        "library_version": "1.0",
        "weights_id": "timm/resnet50",
        "weights_sha256": "ab" * 32,
        "layer": "head",
        "pooling": "avg",
    },
    "preprocessing": {"size": 224, "mean": [0.5, 0.5, 0.5]},
    "arithmetic": {"dtype": "float32", "device_kind": "cpu"},
    "source": {"name": "made up", "revision": "1", "licence": "CC0"},
    "date_utc": "2026-01-02T03:04:05Z",
    "made_by": {"embedbench": "0"},
}
JOB = {"samples": "abc", "recipe": {"size": 224}, "block": 1024}
JOB_SHA256 = hashlib.sha256(canonical_json(JOB).encode()).hexdigest()


def make_samples(n: int = 2500, seed: int = 0) -> Samples:
    """Return n samples of three leaf classes, two of them under one inner node."""
    rng = np.random.default_rng(seed)
    return Samples(
        ids=np.array([f"größe/{row:05d}.png" for row in range(n)]),
        labels=rng.integers(0, 3, n),
        split=rng.integers(0, 3, n).astype(np.uint8),
        classes=("cat", "dog", "tree", "animal"),
        parents=np.array([3, 3, -1, -1]),
    )


def make_features(n: int = 2500, width: int = 5, seed: int = 0) -> NDArray[np.float32]:
    """Return (n, width) normal float32."""
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def make_columns(n: int = 30) -> dict[str, NDArray[Any]]:
    """Return (n,) values of the optional columns, by name."""
    return {
        "time": np.arange(n) / 4,
        "group": np.array([f"größe {i // 7}" for i in range(n)]),
        "domain": np.array(["art", "photo"] * n)[:n],
    }


def written(
    path: Path, n: int = 2500, features: Any = None, *, compress: bool = False, **more: Any
) -> EmbeddingFile:
    """Write a file of ``make_samples(n)``, and of ``make_features(n)`` where none are given."""
    features = make_features(n) if features is None else features
    file = write_file(path, make_samples(n), features, PROVENANCE, **more)
    if compress:
        compress_tables(path)
    return file


def compress_tables(path: Path) -> None:
    """Store features and layers in chunks, with gzip and shuffle, as other writers may."""
    with h5py.File(path, "r+") as file:
        for name in ("features", *(f"layers/{name}" for name in file["layers"])):
            rows = file[name][()]
            del file[name]
            chunks = (min(len(rows), 1024), *rows.shape[1:])
            file.create_dataset(name, data=rows, chunks=chunks, compression="gzip", shuffle=True)


def refusal(call: Callable[..., object], *args: Any, **options: Any) -> str:
    """The one sentence with which a call is refused."""
    with pytest.raises(UserError) as error:
        call(*args, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def says(**expected: Any) -> Callable[[UserError], bool]:
    """Whether an error has these values in these fields, for the `check` of `pytest.raises`."""
    return lambda error: {name: getattr(error, name) for name in expected} == expected


def failing(error: BaseException) -> Callable[..., Any]:
    """A function that raises this whatever it is given."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def blocks(n: int = 2500, size: int = 1024) -> list[dict[str, Any]]:
    """Return the rows of ``make_features(n)`` and of a layer in blocks."""
    features, layer = make_features(n), make_features(n, 2, seed=1).astype(np.float16)
    return [
        {"features": features[first : first + size], "layers/b": layer[first : first + size]}
        for first in range(0, n, size)
    ]


def begin(path: Path, job: dict[str, Any], **options: bool) -> Partial:
    """Begin or resume work on a file, and let other processes at it again."""
    with Partial.begun(path, job, **options) as work:
        return work


def done(work: Partial) -> set[int]:
    """Numbers of the complete blocks."""
    return {block for block in range(200) if work.is_whole(block)}


def contents(path: Path) -> dict[str, Any]:
    """Return type, shape and bytes of every data set, and every attribute, with plain h5py."""
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        for key, value in item.attrs.items():
            found[f"{name}@{key}"] = value
        if isinstance(item, h5py.Dataset):
            found[name] = (item.dtype.str, item.shape, np.asarray(item[()]).tobytes())

    with h5py.File(path, "r") as file:
        file.visititems(note)
        note("/", file)
    return found


def span(path: Path, table: str) -> tuple[int, int]:
    """Return the first byte of a table's data in the file, and the bytes of one of its rows."""
    with h5py.File(path, "r") as file:
        data = file[table]
        width = int(np.prod(data.shape[1:], dtype=int))
        return data.id.get_offset(), data.dtype.itemsize * width


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def damage(path: Path, table: str, row: int, *, byte: int = 0) -> None:
    """Flip one bit of a row of a table; `byte` may count from its end."""
    start, size = span(path, table)
    flip(path, start + row * size + byte % size)


def foreign_write(
    path: Path, samples: Samples, features: NDArray[Any], *, meta: dict[str, str] | None = None
) -> None:
    """Write an embedding file as docs/specification says, with h5py and hashlib alone.

    ``meta`` replaces root attributes, so that tests can write what a reader must refuse.
    """
    head = {"format": "embedbench-embedding", "format_version": "1.0", "kind": "embedding"}
    head |= meta or {}
    rows = {
        "features": features,
        "labels": samples.labels.astype("<i4"),
        "split": samples.split.astype("u1"),
        "sample_ids": np.array([name.encode() for name in samples.ids]),
    }
    tables = {
        **rows,
        "classes": np.array([name.encode() for name in samples.classes]),
        "parents": samples.parents.astype("<i4"),
        "provenance": np.array(json.dumps(PROVENANCE).encode()),
    }
    for name, values in rows.items():
        blocks = (values[first : first + 1024] for first in range(0, len(values), 1024))
        sums = b"".join(hashlib.sha256(block.tobytes()).digest() for block in blocks)
        tables[f"checksums/{name}"] = np.frombuffer(sums, "u1").reshape(-1, 32)
    signature = {
        name: " ".join([name, values.dtype.str, *map(str, values.shape)])
        for name, values in tables.items()
    }
    backbone = dict(PROVENANCE["backbone"])
    del backbone["library_version"], backbone["weights_id"]
    recipe = {"backbone": backbone, "preprocessing": PROVENANCE["preprocessing"]}
    recipe["dtype"] = PROVENANCE["arithmetic"]["dtype"]
    digests = {
        "samples": hashed(
            ids="\0".join(samples.ids).encode(),
            labels=samples.labels.astype("<i8").tobytes(),
            split=samples.split.tobytes(),
            classes="\0".join(samples.classes).encode(),
            parents=samples.parents.astype("<i8").tobytes(),
        ),
        "recipe": hashed(recipe=json.dumps(recipe, sort_keys=True, separators=(",", ":")).encode()),
        "content": hashed(**{signature["features"]: tables["checksums/features"].tobytes()}),
    }
    metadata = hashed(
        **{key: value.encode() for key, value in head.items()},
        tables="\n".join(sorted(signature.values())).encode(),
        **{name: tables[name].tobytes() for name in ("classes", "parents", "provenance")},
        **{f"digest {key}": value.encode() for key, value in digests.items()},
    )
    with h5py.File(path, "w") as file:
        file.attrs.update({key: np.bytes_(value) for key, value in head.items()})
        file.create_group("layers")
        for name, values in tables.items():
            file[name] = values
        file.create_group("digests").attrs.update({k: np.bytes_(v) for k, v in digests.items()})
        file["checksums"].attrs["metadata"] = np.bytes_(metadata)


def hashed(**parts: bytes) -> str:
    """Return the spec's digest over named parts."""
    whole = hashlib.sha256()
    for name, value in parts.items():
        whole.update(name.encode() + b"\0" + len(value).to_bytes(8, "little") + value)
    return whole.hexdigest()


def make_small(path: Path, n: int = 300, seed: int = 0) -> Path:
    """Write a file of n samples of three classes with five features."""
    foreign_write(path, make_samples(n, seed), make_features(n, seed=seed))
    return path
