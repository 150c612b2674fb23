"""Read arrays of npy and npz files; those of npy files are mapped, and none holds objects."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, list_first
from embedbench.files.known_names import LISTED, files_not_read, without_common_words
from embedbench.storage.regular_files import explain_errors, open_regular
from embedbench.storage.untrusted_files import too_large

REMEDY = "save plain numeric and text arrays, not objects"
# What NumPy says of objects in an npz file, and in an npy file.
_OBJECT_ARRAYS, _MAPPED_OBJECTS = "Object arrays cannot be loaded", "Python objects in dtype."
_OBJECTS = (
    "{path} holds Python objects, which are a pickle and would run code; where you trust it, "
    "convert it by these two lines: `import numpy as np; d = np.load({name!r}, allow_pickle=True)` "
    "and `np.savez({new!r}, {call})`."
)


class NamedArrays(dict[str, Any]):
    """The arrays of a file or folder by name, and phrases on what was not read."""

    def __init__(self) -> None:
        super().__init__()
        self.not_read: list[str] = []
        self.remarks: list[str] = []  # sentences on what is no matter of course


def load_folder(path: Path) -> NamedArrays:
    """Return the arrays of a folder of npy files, by name.

    Words that begin or end all names are left out where that gives names that are read:
    `clip_train_features`.
    """
    arrays = NamedArrays()
    files = npy_files(path)
    names = without_common_words([file.stem for file in files])
    for file, name in zip(files, names, strict=True):
        if file.is_file():
            arrays[name] = load_array(file)
    arrays.not_read = files_not_read(path, files)
    return arrays


def load_npy(path: Path) -> NamedArrays:
    """Return the array of one npy file: `features`, or `labels` if it has one value a row."""
    arrays = NamedArrays()
    array = load_array(path)
    arrays["features" if array.ndim > 1 else "labels"] = array
    return arrays


def load_array(path: Path) -> Array:
    """Return the array of an npy file, which is mapped."""
    with explain_errors(f"{path} cannot be read", REMEDY):
        open_regular(path).close()
        try:
            array = _decoded(np.load(path, mmap_mode="r", allow_pickle=False))
        except ValueError as error:
            if not str(error).endswith(_MAPPED_OBJECTS):
                raise
            raise holds_objects(path, "features=d[0], labels=d[1]") from error
    if array.dtype.names:
        raise _holds_columns(path, array.dtype, "np.load({name!r})")
    return array


def _holds_columns(path: Path, dtype: np.dtype[Any], load: str) -> UserError:
    """Return the error for a structured array, with the two lines that make plain ones of it."""
    names = dtype.names or ()
    real = [name for name in names if dtype[name].base.kind == "f"]
    others = [name for name in names if name not in real]
    features = f"np.column_stack([d[c] for c in {real}])" if real else "…"
    labels = f"d[{others[0]!r}]" if len(others) == 1 else "…"
    return UserError(
        f"{path} holds a structured array, a table with the columns {list_first(names, LISTED)}, "
        "and not an array of numbers",
        f"convert it: `import numpy as np; d = {load.format(name=path.name)}` and "
        f"`np.savez({path.stem + '-plain.npz'!r}, features={features}, labels={labels})`",
    )


def holds_objects(path: Path, call: str) -> UserError:
    """Return the error for arrays of objects, with the two lines that convert them."""
    new = f"{path.stem}-plain.npz"
    return UserError(_OBJECTS.format(path=path, name=path.name, new=new, call=call))


def npy_files(path: Path) -> list[Path]:
    """The npy files of a folder, in the order of their names."""
    return sorted(file for file in path.iterdir() if file.suffix.lower() == ".npy")


def load_npz(path: Path, plain: str = "features=d['features'], labels=d['labels']") -> NamedArrays:
    """Return the arrays of an npz file, by name.

    `plain` are the arguments of `np.savez` that make a file without objects of one with them.
    """
    with explain_errors(f"{path} cannot be read", REMEDY):
        open_regular(path).close()
        with zipfile.ZipFile(path) as archive:
            declared = sum(info.file_size for info in archive.infolist())
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            others = [name for name in archive.namelist() if name not in members]
        if too_large(declared, path.stat().st_size):
            raise ValueError("it declares more than its bytes can hold")
        with np.load(path, allow_pickle=False) as arrays:
            read = NamedArrays()
            for name in members:
                array = _decoded(_member(arrays, name, path, plain))
                key = name.removesuffix(".npy")
                if array.dtype.names:
                    raise _holds_columns(path, array.dtype, f"np.load({{name!r}})[{key!r}]")
                read[key] = array
    read.not_read = [f"{list_first(others, LISTED)} (no array)"] if others else []
    return read


def _member(arrays: Any, name: str, path: Path, plain: str) -> Any:
    try:
        return arrays[name]
    except ValueError as error:
        if not str(error).startswith(_OBJECT_ARRAYS):
            raise
        raise holds_objects(path, plain) from error


def leave_out_group(arrays: NamedArrays) -> None:
    """Leave out the name of the one group, or structure, that all arrays lie in: `data/X`."""
    groups = {name.partition("/")[0] for name in arrays}
    if len(groups) > 1 or len(arrays) < 2 or not all("/" in name for name in arrays):
        return
    inside = {name.partition("/")[2]: array for name, array in arrays.items()}
    arrays.clear()
    arrays.update(inside)
    leave_out_group(arrays)


def as_float32(values: Array, where: str) -> Array:
    """Return a table of numbers as float32, which must have room for each that is finite."""
    with np.errstate(over="ignore"):
        small: Array = values.astype(np.float32, copy=False)
    if values.dtype != np.float64 or not np.isinf(small).any():
        return small
    lost = np.isinf(small) & np.isfinite(values)
    if lost.any():
        raise UserError(
            f"{where} has {values[lost][0]:.3g} in row {np.argwhere(lost)[0][0]}, and float32 ends "
            f"at {np.finfo(np.float32).max:.3g}",
            "scale the features, or leave that row out",
        )
    return small


def _decoded(array: Array) -> Array:
    """The array; text is decoded, and must be valid."""
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "U":
        "".join(array.ravel().tolist()).encode()
    return array
