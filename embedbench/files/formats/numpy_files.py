"""NumPy's npy and npz files; what they declare is compared with the bytes that are there.

Arrays of samples are streamed: they are never whole in memory.
"""

import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError
from embedbench.files.format_digests import TEXT
from embedbench.storage.hdf5_check import too_large

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def load_npy(path: Path) -> Any:
    """Return the array of an npy file: streamed, or else mapped.

    Raises
    ------
    UserError
        It cannot be read, declares more bytes than it has, or holds objects.
    """
    try:
        with path.open("rb") as file:
            form = _check_header(file, path.stat().st_size)
        if _streams(*form):
            return StreamedArray(path, partial(path.open, "rb"))
        return _checked(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # NumPy raises many kinds on a damaged header
        raise _unreadable(path, error) from error


class StreamedArray:
    """An array of samples that is read slice by slice, float64 as float32.

    Slices are quick in order; going back begins at the start.

    Parameters
    ----------
    path : Path
        The file, for messages.
    opened : callable
        Opens the array, (N, …) in C order, as an npy file.
    """

    def __init__(self, path: Path, opened: Callable[[], Any]) -> None:
        self._path, self._opened = path, opened
        self._open()
        self.ndim, narrow = len(self.shape), self._stored == np.float64
        self.dtype = np.dtype(np.float32) if narrow else self._stored

    def _open(self) -> None:
        """Go to the first sample."""
        self._file = self._opened()
        version = np.lib.format.read_magic(self._file)
        self.shape, _, self._stored = _HEADERS[version](self._file)
        self._row = 0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        first, end, _ = rows.indices(len(self))
        try:
            if first < self._row:
                self._file.close()
                self._open()
            if first > self._row:
                self[self._row : first]
            out = np.empty((end - first, *self.shape[1:]), self._stored)
            data = self._file.read(out.nbytes)
            out.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
            self._row = end
        except Exception as error:  # as in `load_npz`
            raise _unreadable(self._path, error) from error
        return out.astype(self.dtype, copy=False)


def load_folder(path: Path) -> dict[str, Any]:
    """Return the arrays of a folder of npy files, by name; raises as `load_npy`."""
    return {file.stem: load_npy(file) for file in sorted(path.glob("*.npy")) if file.is_file()}


def load_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file, by name; raises as `load_npy`."""
    arrays: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            if too_large(sum(info.file_size for info in members), path.stat().st_size):
                raise ValueError("it declares more than its bytes can hold")
            for info in members:
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as file:
                    shape, by_columns, dtype = _check_header(cast(BinaryIO, file), info.file_size)
                if _streams(shape, by_columns, dtype):
                    member = partial(zipfile.ZipFile.open, zipfile.ZipFile(path), info)
                    arrays[name] = StreamedArray(path, member)
                    continue
                with archive.open(info) as file:
                    array = np.lib.format.read_array(cast(BinaryIO, file), allow_pickle=False)
                arrays[name] = _checked(array)
    except Exception as error:  # the zip module raises as many
        raise _unreadable(path, error) from error
    return arrays


def _streams(shape: tuple[int, ...], by_columns: bool, dtype: np.dtype[Any]) -> bool:
    """Whether an array may hold features, row after row."""
    return len(shape) > 1 and dtype.kind in "fiu" and not by_columns


def _check_header(file: BinaryIO, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
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


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    """The array; text is decoded, and must be valid."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "U":
        "".join(array.ravel().tolist()).encode()
    return array


def _unreadable(path: Path, error: Exception) -> UserError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return UserError(
        f"{path} cannot be read ({reason}); save plain numeric and text arrays, not objects."
    )
