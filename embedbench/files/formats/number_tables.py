"""Tables of numbers that are text: CSV, TSV and TXT, with or without names of columns.

Every cell stays as it is written until it is known what its whole column is: `01` is no 1, and
`NA` is a text. An empty cell is a missing value, and nothing else is.
"""

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, short
from embedbench.files.hdf5_layout import TEXT
from embedbench.storage.regular_files import explain_errors, open_regular

SUFFIXES = (".csv", ".tsv", ".txt")
BATCH = 512  # rows whose cells are texts at one time
LONGEST_CELL = 2**24  # characters
_NOWHERE = "\x1f"  # a separator that no line has
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as Python writes an integer of 64 bits
_LIST = re.compile(r"\s*[\[(]")
_BRACKETS = re.compile(r"[\[\]()]|np\.float\d+(?=\()|array|dtype=\w+|tensor")
WHOLE, REAL, TEXTS = "whole", "real", "texts"


@dataclass
class Column:
    """One column: its values, and where the first missing one is.

    Parameters
    ----------
    values : array or None
        (N,) numbers or texts, or (N, D) of a column of lists; None: it is left out, for `why`.
    missing : str
        The place of the first empty cell, as an editor counts; empty: there is none.
    """

    values: Array | None
    missing: str = ""
    why: str = f"texts of more than {TEXT} characters"


@dataclass
class NumberTable(Mapping[str, Any]):
    """The columns of a table by name; one with an empty cell is refused when it is taken.

    Parameters
    ----------
    named : bool
        Whether the file names its columns; else they are `column 1`, `column 2`, …
    remarks : list of str
        Sentences on what is no matter of course.
    """

    path: Path
    columns: dict[str, Column]
    named: bool = True
    remarks: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Leave out columns without values, and say why."""
        left_out = {name: column for name, column in self.columns.items() if column.values is None}
        for name, column in left_out.items():
            del self.columns[name]
            self.not_read.append(f"{name} ({column.why})")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name]
        if column.missing:
            raise UserError(
                f"{self.path}: {name} has no value in {column.missing}",
                "fill it in, or leave that sample out",
            )
        return column.values


def read_number_table(path: Path, *, unnamed: bool = False) -> NumberTable:
    """Return the columns of a CSV, TSV or TXT file; `unnamed`: no line names them.

    Raises
    ------
    UserError
        A line has more or fewer values than those before, or the file is not UTF-8.
    """
    start = [cells for _, cells in itertools.islice(read_rows(path), 2)]
    if not start:
        raise UserError(f"{path} is empty", "give a table with one line a sample")
    named, remark = (False, "") if unnamed else names_columns(start)
    names = _column_names(start[0], path) if named else _numbered(len(start[0]))
    remarks = [f"{path}: {remark}."] if remark else []
    return NumberTable(path, _read_columns(path, names, skip=int(named)), named, remarks)


def read_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place (`line 2`) and the cells of each line that is not empty."""
    separator = find_separator(path)
    earlier = csv.field_size_limit(LONGEST_CELL)
    try:
        with (
            open_regular(path) as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text,
        ):
            if separator is None:
                lines = enumerate(text, 1)
                yield from ((f"line {at}", line.split()) for at, line in lines if line.strip())
                return
            reader = csv.reader(text, delimiter=separator, strict=separator != "\t")
            yield from ((f"line {reader.line_num}", cells) for cells in reader if cells)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 (byte 0x{error.object[error.start]:02x})", "save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a table ({error})", "correct it") from error
    finally:
        csv.field_size_limit(earlier)


def find_separator(path: Path) -> str | None:
    """Return what parts the cells of a file; None: white space, as in TXT files of numbers.

    It is the first of tab, semicolon and comma that the first two lines have as often. A line of
    a TXT file without these is one cell, unless it has numbers.
    """
    suffix = path.suffix.lower()
    if suffix == ".tsv":
        return "\t"
    with explain_errors(f"{path} cannot be read"), open_regular(path) as file:
        start = [file.readline(LONGEST_CELL) for _ in range(2)]
    for mark in "\t;,":
        counts = {line.count(mark.encode()) for line in start if line.strip()}
        if len(counts) == 1 and counts != {0}:
            return mark
    if suffix != ".txt":
        return ","
    words = [line.decode("utf-8", "replace").split() for line in start]
    return None if any(is_number(word) for line in words for word in line[1:]) else _NOWHERE


# --- names of columns ---


def _numbered(n: int) -> list[str]:
    return [f"column {at}" for at in range(1, n + 1)]


def names_columns(start: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Whether the first of the first two lines names the columns, and what to say of it.

    It does where it has a text above a number or a list, where its numbers are 0, 1, 2, … (as
    pandas writes the names of columns that have none), or where there are texts alone.
    """
    first, below = start[0], start[-1]
    numbers = [cell for cell in first if is_number(cell)]
    texts = [cell for cell in first if cell.strip() and not is_number(cell)]
    counted = len(numbers) > 1 and numbers == [str(at) for at in range(len(numbers))]
    if counted and not texts:
        return True, "its first line is 0, 1, 2, … and was taken for the names of columns"
    if not texts:
        return False, "its first line holds numbers alone, so no line names the columns"
    for above, cell in zip(first, below, strict=False):
        if above in texts and (is_number(cell) or _is_list(cell) > _is_list(above)):
            return True, ""
    if numbers and not counted:
        return False, "its first line is like those below, so no line names the columns"
    if any(map(_is_list, first)):
        return False, "its first line is like those below, so no line names the columns"
    return True, ""


def _is_list(cell: str) -> bool:
    return _LIST.match(cell) is not None


def is_number(cell: str) -> bool:
    """Whether a cell is a number as people write one, or `nan` or `inf`.

    >>> [is_number(cell) for cell in ("1.5", "-3e-4", "nan", "1_0", "cat", "")]
    [True, True, True, False, False, False]
    """
    if "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _column_names(header: Sequence[str], path: Path) -> list[str]:
    names = [name.strip() or f"unnamed {at}" for at, name in enumerate(header, 1)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{path} has two columns {short(twice)}", "rename one")
    return names


# --- values ---


class _Growing:
    """The values of one column so far, as what all of them can be read as: `kind`."""

    def __init__(self, kind: str = WHOLE) -> None:
        self.kind, self.missing, self.filled = kind, "", False
        self.parts: list[Any] = []

    def add(self, cells: Sequence[str], places: Sequence[str]) -> None:
        """Take some more cells; a text makes it a column of texts, which are read once more."""
        if not self.missing and "" in cells:
            self.missing = places[cells.index("")]
        self.filled = self.filled or any(cells)
        if self.kind == WHOLE and not all(map(_WHOLE.fullmatch, filter(None, cells))):
            self.kind = REAL
            self.parts = [part.astype(np.float64) for part in self.parts]
        if self.kind == WHOLE:
            self.parts.append(np.array([int(cell or 0) for cell in cells], np.int64))
            return
        numbers = _real_numbers(cells) if self.kind == REAL else None
        if numbers is None:
            self.kind, self.parts = TEXTS, []
        else:
            self.parts.append(numbers)


def _real_numbers(cells: Sequence[str]) -> Array | None:
    """Cells as float64, an empty one as NaN; None if one is no number.

    `007` is the name of something.
    """
    if any("_" in cell or (cell.isdigit() and cell[0] == "0" and cell != "0") for cell in cells):
        return None
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], np.float64)
    except ValueError:
        return None


def _read_columns(path: Path, names: Sequence[str], *, skip: int) -> dict[str, Column]:
    """Read the columns, those of texts in a second walk over the file."""
    growing = [_Growing() for _ in names]
    rows = itertools.islice(read_rows(path), skip, None)
    while batch := list(itertools.islice(rows, BATCH)):
        for place, cells in batch:
            if len(cells) != len(names):
                raise UserError(
                    f"{path}: {place} has {len(cells)} values, and the first has {len(names)}",
                    'write a value that holds a separator between quotes: "a, b"',
                )
        places = [place for place, _ in batch]
        columns_of = zip(*(cells for _, cells in batch), strict=True)
        for column, own in zip(growing, columns_of, strict=True):
            if column.kind != TEXTS:
                column.add(own, places)
    if not any(column.parts or column.kind == TEXTS for column in growing):
        raise UserError(f"{path} has no row of values", "add some, or name another file")
    texts = [at for at, column in enumerate(growing) if column.kind == TEXTS]
    lists: dict[int, list[str]] = {at: [] for at in texts}
    missing = dict.fromkeys(texts, "")
    for place, cells in itertools.islice(read_rows(path), skip if texts else None, None):
        for at in texts:
            lists[at].append(cells[at])
            if not cells[at]:
                missing[at] = missing[at] or place
    columns = {}
    for at, name in enumerate(names):
        if not growing[at].filled:
            columns[name] = Column(None, why="empty")
        elif growing[at].kind == TEXTS:
            columns[name] = text_column(lists.pop(at), missing[at], f"{path}: {name}")
        else:
            columns[name] = Column(np.concatenate(growing[at].parts), growing[at].missing)
    return columns


def text_column(cells: Sequence[str], missing: str, where: str) -> Column:
    """Return a column of texts; of lists of numbers, such as `[0.1, 0.2]`, a table."""
    if cells and all(map(_is_list, cells)):
        return Column(_from_lists(cells, where))
    if max(map(len, cells), default=0) > TEXT:
        return Column(None)
    return Column(np.array(cells, np.str_), missing)


def _from_lists(cells: Sequence[str], where: str) -> Array:
    """Lists of numbers as Python, JSON or NumPy writes them, as a table (N, D) of float64."""
    rows = []
    for row, cell in enumerate(cells):
        if "..." in cell:
            raise UserError(
                f"{where}: the list in row {row} was cut by '...' when it was written",
                "write the features again, with .tolist()",
            )
        rows.append(_real_numbers(_BRACKETS.sub(" ", cell).replace(",", " ").split()))
        if rows[-1] is None:
            raise UserError(f"{where}: the list in row {row} holds other things than numbers")
    return stack_rows(rows, where)


def stack_rows(rows: Sequence[Any], where: str) -> Array:
    """Return rows of numbers (D,) as a table (N, D); all must have as many."""
    width = len(rows[0])
    for row, values in enumerate(rows):
        if len(values) != width:
            raise UserError(
                f"{where} has {len(values)} values in row {row} and {width} in those before; "
                "every row needs as many"
            )
    return np.array(rows)
