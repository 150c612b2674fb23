"""The layout of an embedding file in HDF5: its tables, their types, its versions.

docs/specification/embedding_file.md is the specification; in the code, only this module knows it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Strings
from embedbench.errors import UserError

FORMAT = "embedbench-embedding"
VERSIONS = ("1.0", "1.1")  # that can be read
EMBEDDING, PIXELS = "embedding", "pixels"  # kinds of file
BLOCK = 1024  # rows per checksum
SAMPLE_TABLES = ("labels", "split", "sample_ids")  # per-row tables beside the features
COLUMNS = {"domain": "S", "group": "S", "time": "<f8"}  # optional, one value a sample; types
DIGESTS = ("samples", "recipe", "content")  # and `columns`, if there are any
LAYER_NAME = re.compile(r"[A-Za-z0-9_.\-]+")
PROVENANCE = 2**25  # the most bytes of a provenance
TEXT = 512  # most characters of a text in a source, such as an id
FEATURE_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "uint8": np.dtype("|u1"),
}
TABLES = {
    EMBEDDING: "(N, D) of float32 or float16",
    PIXELS: "(N, H, W, C) of uint8 with 1 or 3 channels",
}  # form of the feature tables in each kind of file


def find_kind(dtype: np.dtype[Any], shape: Sequence[int]) -> str | None:
    """Return the kind of file that has feature tables of this type and shape, or None."""
    if not all(shape[1:]):
        return None
    if dtype == FEATURE_TYPES["uint8"]:
        return PIXELS if len(shape) == 4 and shape[3] in (1, 3) else None
    floats = FEATURE_TYPES["float32"], FEATURE_TYPES["float16"]
    return EMBEDDING if len(shape) == 2 and dtype in floats else None


def block_ranges(n: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the row after the last of each block of n rows."""
    for first in range(0, n, BLOCK):
        yield first, min(first + BLOCK, n)


def texts(values: Sequence[str], where: str) -> Strings:
    """Return texts as an array, in which every entry takes the room of the longest."""
    longest = max(map(len, values), default=0)
    if longest > TEXT:
        raise UserError(
            f"{where} has a text of {longest:,} characters; at most {TEXT} are possible"
        )
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        raise UserError(f"{where} has a text that is not Unicode", "correct it") from None
    return np.array(values, np.str_)


def pack_strings(values: Sequence[str] | Strings) -> NDArray[np.bytes_]:
    """Return strings as zero-padded UTF-8 of one fixed length."""
    packed = []
    for row, value in enumerate(values):
        try:
            packed.append(str(value).encode())
        except UnicodeEncodeError:
            packed.append(b"")
        if not packed[-1] or b"\0" in packed[-1]:
            raise UserError(
                f"name {str(value)!r} in row {row} is empty or holds a zero byte, or is no text",
                "give every sample and every class a printable name",
            )
    return np.array(packed, dtype=np.bytes_)


def unpack_strings(packed: NDArray[np.bytes_]) -> Strings:
    """Return zero-padded UTF-8 strings as text."""
    try:
        return packed.astype(np.str_)  # ASCII, the fast and usual case
    except UnicodeDecodeError:
        return np.char.decode(packed, "utf-8")


def lowest_version(provenance: Mapping[str, Any], columns: Mapping[str, Any]) -> str:
    """Return the version of a file that holds these: the lowest that has what it needs."""
    source = provenance.get("source") or {}
    new = columns or provenance.get("weights") or source.get("citation") or source.get("url")
    return VERSIONS[1] if new else VERSIONS[0]


def digest_keys(file: h5py.File) -> tuple[str, ...]:
    """Return the names of the digests that a file has."""
    return (*DIGESTS, "columns") if "columns" in file else DIGESTS


def table_signature(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    """Return name, element type and shape of a table as one line of text.

    >>> table_signature("features", np.dtype("<f4"), (60000, 784))
    'features <f4 60000 784'
    """
    return " ".join([name, dtype.str, *map(str, shape)])


def list_tables(file: h5py.File) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return element type and shape of every table in a file."""
    tables: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    def note(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            tables[name] = item.dtype, item.shape

    file.visititems(note)
    return tables


def set_attribute(item: h5py.Group | h5py.Dataset, key: str, text: str) -> None:
    """Store a text attribute as a fixed-length UTF-8 string."""
    data = text.encode()
    item.attrs.create(key, np.array(data), dtype=h5py.string_dtype("utf-8", len(data)))
