"""Optional columns of a file, one value a sample: `domain`, `group` and `time`."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, short, unknown

from . import hdf5_layout
from .sample_lists import read_by_sample, read_lines


def checked_columns(columns: Mapping[str, Array], n: int) -> dict[str, Array]:
    """Return columns in the types of the format; whole numbers may stand for texts.

    Parameters
    ----------
    columns : mapping
        Values (n,) by name: `domain` and `group`, texts; `time`, finite numbers.

    Raises
    ------
    UserError
        A name is unknown, or values have another type or number.
    """
    for name in columns:
        if name not in hdf5_layout.COLUMNS:
            raise unknown("column", name, hdf5_layout.COLUMNS)
    ordered = {name: np.asarray(columns[name]) for name in hdf5_layout.COLUMNS if name in columns}
    return {name: _checked(name, values, n) for name, values in ordered.items()}


def _checked(name: str, values: Array, n: int) -> Array:
    text = hdf5_layout.COLUMNS[name] == "S"
    if values.shape != (n,) or values.dtype.kind not in ("Uiu" if text else "fiu"):
        raise UserError(
            f"column {name!r} is {values.dtype} of shape {values.shape}; expected one "
            f"{'text' if text else 'number'} for each of {n} samples; convert the column, or leave "
            "it out."
        )
    values = values.astype(np.str_ if text else np.float64)
    wrong = values == "" if text else ~np.isfinite(values)
    if wrong.any():
        raise UserError(
            f"column {name!r} has {'no text' if text else 'NaN or an infinite value'} in row "
            f"{int(wrong.argmax())}; give every sample a {'text' if text else 'finite number'}."
        )
    return values if text else values + 0.0  # no -0.0


def read_list(path: Path, ids: Sequence[str]) -> dict[str, Array]:
    """Read columns from a CSV or TSV file, one line a sample, in the order of `ids`.

    The first line is `sample_id` and any of `domain`, `group` and `time`.

    Raises
    ------
    UserError
        A header is unknown; a line is too short, is no number where one is needed, names no sample
        or one that was named before; or a sample has no line.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path} for --columns; give a CSV file.")
    lines = read_lines(path)
    _, head = next(lines, (0, [""]))
    head = [name.strip() for name in head]
    names = head[1:]
    if head[0] != "sample_id" or not names:
        raise UserError(
            f"{path} begins with {short(','.join(head))}; expected a first line such as "
            f"sample_id,{','.join(hdf5_layout.COLUMNS)}."
        )
    for name in names:
        if name not in hdf5_layout.COLUMNS:
            raise unknown(f"column in the first line of {path}:", name, hdf5_layout.COLUMNS)
    if len(set(names)) < len(names):
        raise UserError(f"{path} names a column twice in its first line; keep one of each.")

    def check(where: str, fields: list[str]) -> None:
        if len(fields) != len(head) or not all(fields[1:]):
            raise UserError(f"{where}: expected a value for each of {','.join(head)}.")
        time = dict(zip(head, fields, strict=True)).get("time", "0")
        try:
            fits = math.isfinite(float(time))
        except ValueError:
            fits = False
        if not fits:
            raise UserError(f"{where}: time {short(time)} is not a finite number; correct it.")

    rows = read_by_sample(path, ids, lines, check)
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return {
        name: hdf5_layout.texts(column, f"{path}: {name}")
        if hdf5_layout.COLUMNS[name] == "S"
        else np.array(column, np.float64)
        for name, column in table.items()
    }


def pack_column(values: Array) -> Array:
    """Return a column as it lies in the file."""
    return hdf5_layout.pack_strings(values) if values.dtype.kind == "U" else values.astype("<f8")


def read_columns(path: Path, file: h5py.File, n: int) -> dict[str, Array]:
    """Read the columns of a file whose tables were checked."""
    stored = {name: table[()] for name, table in file.get("columns", {}).items()}
    columns = {
        k: hdf5_layout.unpack_strings(v) if v.dtype.kind == "S" else v for k, v in stored.items()
    }
    try:
        return checked_columns(columns, n)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
