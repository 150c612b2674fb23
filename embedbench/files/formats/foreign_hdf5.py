"""Read HDF5 files of other programs, through the gate, and MATLAB's files, which are that from 7.3.

Nothing is read of tables that hold other things than numbers, marks and texts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5o, h5s, h5t

from embedbench.array_types import Array
from embedbench.errors import UserError, list_first
from embedbench.files.hdf5_layout import FORMAT, TEXT
from embedbench.files.known_names import LISTED
from embedbench.storage import safe_hdf5, untrusted_files
from embedbench.storage.untrusted_files import is_readable

from .numpy_files import NamedArrays, leave_out_group

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".h5ad")
REMEDY = "save plain tables of numbers and texts, or give them as npz"
_LETTERS = 2**16 - 1  # the largest number of a letter of MATLAB, or of half of one
_LONG, _OTHER = f"texts of more than {TEXT} characters", "no numbers and no texts"


def read_hdf5(path: Path) -> NamedArrays:
    """Return the tables of a file by name; those in a group are `group/name`."""
    arrays = NamedArrays()
    reasons: dict[str, list[str]] = {}
    with safe_hdf5.open_hdf5(path, remedy=REMEDY, foreign=True) as file:
        if "format" in file.attrs and safe_hdf5.attribute(file, "format") == FORMAT:
            raise UserError(
                f"{path} is an embedding file already", "use it as it is, or give `export` it first"
            )
        for name, table in _tables(file, ""):
            values = _values(table) if is_readable(table.id) else None
            if isinstance(values, np.ndarray) and values.ndim:
                arrays[name] = values
            else:
                reason = _OTHER if values is None else str(values)
                reasons.setdefault(reason, []).append(name)
    leave_out_group(arrays)
    arrays.not_read = [f"{list_first(names, LISTED)} ({why})" for why, names in reasons.items()]
    return arrays


def _tables(group: h5py.Group, before: str) -> Iterator[tuple[str, h5py.Dataset]]:
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            yield from _tables(item, f"{before}{name}/")
        elif isinstance(item, h5py.Dataset):
            yield f"{before}{name}", item


def _values(table: h5py.Dataset) -> Any:
    """The values of a table; or why it is left out."""
    if h5py.check_ref_dtype(table.dtype) is not None:
        return None
    values = table[()]
    if not isinstance(values, np.ndarray):
        return "one value alone"
    if values.dtype == object or values.dtype.kind == "S":
        return _decoded(values)
    return values


def _decoded(values: Array) -> Any:
    """Texts, which HDF5 has as bytes; or why they are left out."""
    try:
        texts = [value.decode() for value in values.ravel().tolist()]
    except UnicodeDecodeError:
        return "texts that are not UTF-8"
    if max(map(len, texts), default=0) > TEXT:
        return _LONG
    return np.array(texts, np.str_).reshape(values.shape)


# --- MATLAB 7.3 ---


def read_matlab_hdf5(path: Path) -> dict[str, Any]:
    """Return the variables of a file by name, as `scipy.io.loadmat` does of earlier versions.

    Structures are dictionaries, cells arrays of objects. None stands for what is neither numbers
    nor texts.
    """
    with safe_hdf5.open_hdf5(path, what="a .mat file", remedy=REMEDY, foreign=True) as file:
        return {name: _variable(item, file) for name, item in file.items() if name[0] != "#"}


def _variable(item: h5py.Group | h5py.Dataset, file: h5py.File) -> Any:
    kind = _matlab_class(item)
    if isinstance(item, h5py.Group):
        if "MATLAB_sparse" in item.attrs:
            return _sparse(item)
        return {name: _variable(part, file) for name, part in item.items()}
    if not is_readable(item.id) or "MATLAB_empty" in item.attrs:
        return None
    if h5py.check_ref_dtype(item.dtype) is not None:
        return _cells(item, file)
    values = item[()]
    if kind == "char":
        return _letters(np.atleast_2d(values.T))
    return values.T if isinstance(values, np.ndarray) else None


def _letters(rows: Array) -> Array | None:
    """Texts of the rows (N, L) of numbers of a `char`, which are UTF-16; None if they are not."""
    if rows.dtype.kind not in "iu" or rows.min(initial=0) < 0 or rows.max(initial=0) > _LETTERS:
        return None
    try:
        texts = [row.astype("<u2").tobytes().decode("utf-16-le") for row in rows]
    except UnicodeDecodeError:  # half a letter
        return None
    return np.array(texts, np.str_)


def _cells(item: h5py.Dataset, file: h5py.File) -> Any:
    """A cell array: references to what lies in the group `#refs#`.

    They are compared with the addresses of what the gate has walked over, and never followed: one
    may lead anywhere.
    """
    addresses = np.zeros(item.shape, np.uint64)
    item.id.read(h5s.ALL, h5s.ALL, addresses, mtype=h5t.STD_REF_OBJ)
    kept = {}
    for name, part in file.get("#refs#", {}).items():
        if isinstance(part, h5py.Dataset) and is_readable(part.id):
            kept[h5o.get_info(part.id).addr] = name
    cells = np.empty(item.shape[::-1], object)
    for place, address in np.ndenumerate(addresses.T):
        found = None if int(address) not in kept else file["#refs#"][kept[int(address)]]
        if found is not None and h5py.check_ref_dtype(found.dtype) is None:  # no cell in a cell
            cells[place] = _variable(found, file)
    return cells


def _sparse(group: h5py.Group) -> Any:
    """A sparse matrix: its values, their rows, and where each column begins.

    None where one of these is missing or of another type: the gate has read numbers alone.
    """
    import scipy.sparse

    count = group.attrs.get_id("MATLAB_sparse")
    if count.shape not in ((), (1,)) or not _holds(count.get_type(), "iu"):
        return None
    for name, kinds in (("jc", "iu"), ("ir", "iu"), ("data", "iuf")):
        part = group.get(name)
        if not isinstance(part, h5py.Dataset) or part.ndim != 1 or not len(part):
            return None
        if not _holds(part.id.get_type(), kinds):
            return None
    begins = group["jc"][()]
    rows = int(np.ravel(group.attrs["MATLAB_sparse"])[0])
    columns = len(begins) - 1
    if untrusted_files.too_large(8 * rows * columns, 8 * len(group["data"])):
        raise UserError(f"{group.name} is too large to be made dense", "save it as a full matrix")
    return scipy.sparse.csc_array((group["data"][()], group["ir"][()], begins), (rows, columns))


def _holds(kind: h5t.TypeID, letters: str) -> bool:
    """Whether a type is plain numbers of these kinds, as NumPy calls them."""
    return untrusted_files.is_number(kind) and kind.dtype.kind in letters


def _matlab_class(item: h5py.Group | h5py.Dataset) -> str:
    if "MATLAB_class" not in item.attrs:
        return ""
    return safe_hdf5.attribute(item, "MATLAB_class")
