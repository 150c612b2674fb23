"""Read MATLAB's .mat files: those before version 7.3 by scipy, those of 7.3 by h5py."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.files.arrays_by_part import ROW_WORDS, parse_key
from embedbench.files.hdf5_layout import TEXT
from embedbench.storage import untrusted_files, user_cache
from embedbench.storage.regular_files import explain_errors, open_regular
from embedbench.storage.untrusted_files import too_large

from .foreign_hdf5 import read_matlab_hdf5
from .numpy_files import NamedArrays, leave_out_group

REMEDY = "save matrices of numbers, and cells of texts, with save -v7"
_DEEPEST = 4  # structures in structures


def read_matlab(path: Path) -> NamedArrays:
    """Return the variables of a file by name; fields of a structure are `structure/field`.

    Vectors (N, 1) and (1, N) become (N,), and those of whole numbers are that: MATLAB has all
    numbers as float64. Cells of texts are texts; cells of vectors are rows.
    """
    with explain_errors(f"{path} cannot be read", REMEDY), open_regular(path) as file:
        newer = file.read(len(untrusted_files.MATLAB)) == untrusted_files.MATLAB
    loaded = read_matlab_hdf5(path) if newer else _load(path)
    arrays = NamedArrays()
    for name, value in _unnested(loaded, ""):
        array = _as_array(value, f"{path}: {name}")
        if isinstance(array, str):
            arrays.not_read.append(f"{name} ({array})")
        else:
            arrays[name] = array
    leave_out_group(arrays)
    _count_from_zero(arrays, path)
    return arrays


def _count_from_zero(arrays: NamedArrays, path: Path) -> None:
    """Count rows and parts from 0: MATLAB counts from 1. All lists of rows count alike."""
    rows = [name for name in arrays if _lists_rows(name, arrays[name])]
    if rows and all(arrays[name].min() >= 1 for name in rows):
        for name in rows:
            arrays[name] = arrays[name] - 1
            arrays.remarks.append(f"{name} counts rows from 1, as MATLAB does.")
    for name, values in arrays.items():
        if values.dtype.kind not in "iu" or values.ndim != 1 or values.min() < 1:
            continue
        if name.casefold() == "split" and values.max() < 4:
            if {*values.tolist()} != {1, 2, 3}:
                raise UserError(
                    f"{path}: {name} holds no 0 and not all of 1, 2 and 3, so that 2 may be val or "
                    "test",
                    "write train, val and test",
                )
            arrays[name] = values - 1
            arrays.remarks.append(f"{name} is 1 (train), 2 (val) and 3 (test).")


def _lists_rows(name: str, values: Array) -> bool:
    parsed = parse_key(name)
    whole = values.dtype.kind in "iu" and values.ndim == 1
    return whole and parsed is not None and parsed[1].casefold() in ROW_WORDS


def _load(path: Path) -> dict[str, Any]:
    """Read a file by scipy, after a process of its own has read it."""
    import scipy.io

    before = user_cache.identity(path)
    if answer := untrusted_files.ask("matlab", path):
        refused = answer.get("refused") or f"scipy {answer['ended']}"
        raise UserError(f"{path} cannot be read ({refused[:120]})", REMEDY)
    with explain_errors(f"{path} cannot be read", REMEDY):
        loaded: dict[str, Any] = scipy.io.loadmat(path)
    if user_cache.identity(path) != before:
        raise UserError(f"{path} changed while it was read", "try again")
    return {name: value for name, value in loaded.items() if not name.startswith("__")}


def _unnested(values: Mapping[str, Any], before: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Values by name, in which structures are taken apart."""
    for name, value in values.items():
        inner = value if isinstance(value, dict) else _fields(value)
        if inner is not None and depth < _DEEPEST:
            yield from _unnested(inner, f"{before}{name}/", depth + 1)
        else:
            yield f"{before}{name}", value


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a structure of scipy's; of several structures, one value of each in a cell."""
    from scipy.io.matlab import MatlabFunction, MatlabObject, MatlabOpaque

    if isinstance(value, MatlabFunction | MatlabObject | MatlabOpaque):
        return None
    if not isinstance(value, np.ndarray) or value.dtype.names is None:
        return None
    one = value.size == 1
    return {name: value[name].item() if one else value[name] for name in value.dtype.names}


def _as_array(value: Any, where: str) -> Array | str:
    """A variable as an array; or why it is left out."""
    import scipy.sparse

    if scipy.sparse.issparse(value):
        sparse: Any = value
        matrix = sparse.tocsc()
        with explain_errors(f"{where} cannot be read", REMEDY):
            matrix.check_format(full_check=True)  # toarray writes wherever its indices lead
        if too_large(8 * matrix.shape[0] * matrix.shape[1], 8 * matrix.nnz):
            raise UserError(f"{where} is too large to be made dense", "save it as a full matrix")
        value = matrix.toarray()
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = _from_cells(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufU":
        return "neither numbers nor texts"
    if value.size == 0:
        return "empty"
    if value.dtype.kind == "U":
        texts = [text.rstrip(" ") for text in value.ravel().tolist()]  # rows of one length
        if max(map(len, texts)) > TEXT:
            return f"texts of more than {TEXT} characters"
        return np.array(texts, np.str_)
    array: Array = value.ravel() if value.ndim == 2 and 1 in value.shape else value
    if array.ndim == 1 and array.dtype.kind == "f" and (array == np.trunc(array)).all():
        return array if _huge(array) else array.astype(np.int64)
    return array


def _huge(values: Array) -> bool:
    """Whether numbers are beyond those that float64 counts one by one."""
    return bool((np.abs(values) > 2**53).any())


def _from_cells(cells: Array) -> Array | None:
    """Texts or numbers, one a cell, or vectors of one length as rows; None for anything else."""
    several = [np.asarray(cell) for cell in cells.ravel().tolist()]
    kinds = {cell.dtype.kind for cell in several}
    sizes = {cell.size for cell in several}
    if kinds == {"U"} and sizes <= {0, 1}:
        return np.array([str(cell.item()) if cell.size else "" for cell in several], np.str_)
    if not kinds or not kinds <= set("biuf") or len(sizes) != 1 or 0 in sizes:
        return None
    if any(cell.size != max(cell.shape, default=1) for cell in several):
        return None
    return np.array([cell.ravel() for cell in several])  # (N, length of a vector)
