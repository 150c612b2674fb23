"""Read NumPy's npy and npz files; what they declare is compared with the bytes that are there.

Arrays of samples are streamed, since `np.load` holds a member of an npz whole in memory, and the
pages of an npy count as memory too.
"""

import math
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from embedbench.array_types import Array
from embedbench.files.hdf5_layout import TEXT
from embedbench.storage.regular_files import explain_errors
from embedbench.storage.untrusted_files import too_large

from .lazy_arrays import SlicedTable, streamed_table

BLOCK = 2**22  # bytes that are read at once
REMEDY = "save plain numeric and text arrays, not objects"
Form = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, in Fortran's order, type
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def load_npy(path: Path) -> Any:
    """Return the array of an npy file: streamed, or else mapped."""
    with explain_errors(f"{path} cannot be read", REMEDY):
        with path.open("rb") as file:
            form = _check_header(file, path.stat().st_size)
        if _streams(*form):
            return _streamed(path, partial(path.open, "rb"), form)
        return _checked(np.load(path, mmap_mode="r", allow_pickle=False))


def _streamed(path: Path, opened: Callable[[], Any], form: Form) -> SlicedTable:
    """An array of samples that is read slice by slice, float64 as float32.

    `opened` opens it, (N, …) in C order, as an npy file.
    """
    shape, _, stored = form
    row = max(1, math.prod(shape[1:]) * stored.itemsize)

    def blocks() -> Iterator[Array]:
        with explain_errors(f"{path} cannot be read", REMEDY), opened() as file:
            _check_header(file, math.inf)
            for first in range(0, shape[0], max(1, BLOCK // row)):
                n = min(max(1, BLOCK // row), shape[0] - first)
                data = file.read(n * math.prod(shape[1:]) * stored.itemsize)
                yield np.frombuffer(data, stored).reshape(n, *shape[1:])

    dtype = np.dtype(np.float32) if stored == np.float64 else stored
    return streamed_table(shape, dtype, blocks, str(path))


def load_folder(path: Path) -> dict[str, Any]:
    """Return the arrays of a folder of npy files, by name."""
    return {file.stem: load_npy(file) for file in sorted(path.glob("*.npy")) if file.is_file()}


def load_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file, by name."""
    arrays: dict[str, Any] = {}
    with explain_errors(f"{path} cannot be read", REMEDY), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if too_large(sum(info.file_size for info in members), path.stat().st_size):
            raise ValueError("it declares more than its bytes can hold")
        for info in members:
            name = info.filename.removesuffix(".npy")
            with archive.open(info) as file:
                form = _check_header(cast(BinaryIO, file), info.file_size)
            if _streams(*form):
                member = partial(zipfile.ZipFile.open, zipfile.ZipFile(path), info)
                arrays[name] = _streamed(path, member, form)
                continue
            with archive.open(info) as file:
                array = np.lib.format.read_array(cast(BinaryIO, file), allow_pickle=False)
            arrays[name] = _checked(array)
    return arrays


def _streams(shape: tuple[int, ...], by_columns: bool, dtype: np.dtype[Any]) -> bool:
    """Whether an array may hold features, row after row."""
    return len(shape) > 1 and dtype.kind in "fiu" and not by_columns


def _check_header(file: BinaryIO, size: float) -> Form:
    """Shape, whether it is in Fortran's order, and type of an array, if the bytes can be there."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the npy format")
    shape, by_columns, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("it holds objects")
    longest = dtype.itemsize // {"S": 1, "U": 4}.get(dtype.kind, dtype.itemsize or 1)
    if shape and longest > TEXT:
        raise ValueError(f"it has texts of {longest:,} characters; at most {TEXT} are possible")
    declared = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or declared > size - file.tell():
        raise ValueError(f"it declares {declared:,} bytes of values in a file of {size:,}")
    return shape, by_columns, dtype


def _checked(array: Array) -> Array:
    """The array; text is decoded, and must be valid."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "U":
        "".join(array.ravel().tolist()).encode()
    return array
