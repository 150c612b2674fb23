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
from embedbench.files.arrays_by_part import lists_rows
from embedbench.files.hdf5_layout import TEXT
from embedbench.files.known_names import FILE_NAMES, KEYS, find_keys
from embedbench.storage.regular_files import explain_errors, open_regular

SUFFIXES = (".csv", ".tsv", ".txt")
BATCH = 512  # rows whose cells are texts at one time
LONGEST_CELL = 2**24  # characters
_NOWHERE = "\x1f"  # a separator that no line has
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as Python writes an integer of 64 bits
_LIST = re.compile(r"\s*[\[(]")
_BRACKETS = re.compile(r"[\[\]()]|np\.float\d+(?=\()|array|dtype=\w+|tensor")
WHOLE, REAL, TEXTS = "whole", "real", "texts"
NAMING = (*KEYS["ids"], *FILE_NAMES, *KEYS["groups"])  # columns whose values are names


@dataclass
class Column:
    """One column: its values, and where the first missing one is.

    Parameters
    ----------
    values : array or None
        (N,) numbers or texts, or (N, D) of a column of lists; None: it is left out, for `why`.
    missing : str
        The place of the first empty cell, as an editor counts; empty: there is none.
    wrong : UserError or None
        What is wrong with lists of numbers, said when the column is taken; it may be of no use.
    odd : str
        A value that is no number where most are, and its place: `'?' in line 7`. Empty: none.
    """

    values: Array | None
    missing: str = ""
    why: str = f"texts of more than {TEXT} characters"
    wrong: UserError | None = None
    odd: str = ""


@dataclass
class NumberTable(Mapping[str, Any]):
    """The columns of a table by name; one with an empty cell is refused when it is taken.

    Parameters
    ----------
    named : bool
        Whether the file names its columns; else they are `column 1`, `column 2`, …
    remarks : list of str
        Sentences on what is no matter of course.
    lost : dict
        The columns without values, by name.
    joined : sequence of str
        The columns that became `features`.
    """

    path: Path
    columns: dict[str, Column]
    named: bool = True
    remarks: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)
    lost: dict[str, Column] = field(default_factory=dict)
    joined: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Leave out columns without values, and say why."""
        self.lost = {name: column for name, column in self.columns.items() if column.values is None}
        for name, column in self.lost.items():
            del self.columns[name]
            self.not_read.append(f"{name} ({column.why})")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name]
        if column.wrong is not None:
            raise column.wrong
        if column.missing:
            raise UserError(
                f"{self.path}: {name} has no value in {column.missing}",
                "fill it in, or leave that sample out",
            )
        return column.values


def read_number_table(
    path: Path, *, unnamed: bool = False, as_texts: Sequence[str] = ()
) -> NumberTable:
    """Return the columns of a CSV, TSV or TXT file; `unnamed`: no line names them.

    Columns that name samples or groups, and those named `as_texts`, hold whole numbers or texts:
    1.1 and 1.10 are two names.

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
    names_of_things = {*find_keys(NAMING, names), *as_texts}
    columns = _read_columns(path, names, names_of_things, skip=int(named))
    texts_alone = not any(is_number(cell) or _is_list(cell) for cell in start[-1])
    if named and texts_alone and _repeats_names(columns):
        return read_number_table(path, unnamed=True)
    return NumberTable(path, columns, named, remarks)


def _repeats_names(columns: Mapping[str, Column]) -> bool:
    """Whether a name of a column of texts is one of its values, too, and so no name."""
    known = {*find_keys((*NAMING, *KEYS["labels"], *KEYS["split"]), columns)}
    for name, column in columns.items():
        if name in known or column.values is None or column.values.dtype.kind != "U":
            continue
        if (column.values == name).any():
            return True
    return False


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
    for line in start:
        words = line.decode("utf-8", "replace").split()
        if any(map(is_number, words[1:])):  # the first may be the row's name
            return None
    return _NOWHERE


# --- names of columns ---


def _numbered(n: int) -> list[str]:
    return [f"column {at}" for at in range(1, n + 1)]


def names_columns(start: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Whether the first of the first two lines names the columns, and what to say of it.

    It does where it has a text above a number or a list, where its numbers are 0, 1, 2, … (as
    pandas writes the names of columns that have none), or where there are texts alone.
    """
    first = start[0]
    below = start[-1]
    numbers = [cell for cell in first if is_number(cell)]
    texts = [cell for cell in first if cell.strip() and not is_number(cell)]
    counted = numbers == [str(at) for at in range(len(numbers))]
    counted = counted and (len(numbers) > 1 or (len(first) > 1 and not first[0].strip()))
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
    cells = [name.strip() for name in header]
    cells[0] = cells[0].removeprefix("#").strip()  # so NumPy begins a line that holds no numbers
    names = [name or f"unnamed {at}" for at, name in enumerate(cells, 1)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{path} has two columns {short(twice)}", "rename one")
    return names


# --- values ---


class _Growing:
    """The values of one column so far, as what all of them can be read as: `kind`."""

    def __init__(self, *, names: bool = False) -> None:
        self.kind, self.missing, self.filled = WHOLE, "", False
        self.real = TEXTS if names else REAL  # what numbers with a point are
        self.parts: list[Any] = []

    def add(self, cells: Sequence[str], places: Sequence[str]) -> None:
        """Take some more cells; a text makes it a column of texts, which are read once more."""
        if not self.missing and "" in cells:
            self.missing = places[cells.index("")]
        self.filled = self.filled or any(cells)
        if self.kind == WHOLE and not all(map(_WHOLE.fullmatch, filter(None, cells))):
            self.kind = self.real
            self.parts = [part.astype(np.float64) for part in self.parts]
        if self.kind == WHOLE:
            self.parts.append(np.array([int(cell or 0) for cell in cells], np.int64))
            return
        numbers = _real_numbers(cells) if self.kind == REAL else None
        if numbers is None:
            self.kind = TEXTS
            self.parts = []
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


def _read_columns(
    path: Path, names: Sequence[str], naming: set[str], *, skip: int
) -> dict[str, Column]:
    """Read the columns, those of texts in a second walk over the file."""
    growing = [_Growing(names=name in naming) for name in names]
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
    texts = {at: _Texts() for at, column in enumerate(growing) if column.kind == TEXTS}
    for place, cells in itertools.islice(read_rows(path), skip if texts else None, None):
        for at, unlike in texts.items():
            unlike.add(cells[at], place)
    columns = {}
    for at, name in enumerate(names):
        if not growing[at].filled:
            columns[name] = Column(None, why="empty")
        elif growing[at].kind == TEXTS:
            columns[name] = texts.pop(at).column(f"{path}: {name}", name)
        else:
            columns[name] = Column(np.concatenate(growing[at].parts), growing[at].missing)
    return columns


class _Texts:
    """The cells of one column that are not all numbers, and which is unlike the others."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.missing = ""
        self.filled = self.numbers = self.lists = 0
        self.no_number = self.no_list = ""  # the first such cell, and its place

    def add(self, cell: str, place: str) -> None:
        self.cells.append(cell)
        if not cell:
            self.missing = self.missing or place
            return
        self.filled += 1
        if is_number(cell):
            self.numbers += 1
        elif not self.no_number:
            self.no_number = f"{short(cell)} in {place}"
        if _is_list(cell):
            self.lists += 1
        elif not self.no_list:
            self.no_list = f"{short(cell)} in {place}"

    def column(self, where: str, name: str) -> Column:
        """The column: of texts, or of lists of numbers such as `[0.1, 0.2]`, a table."""
        if self.lists > self.filled / 2:
            rows = [_list_of_numbers(cell) for cell in self.cells]
            if sum(row is not None for row in rows) > self.lists / 2:  # others are of texts
                return self._column_of_lists(rows, where, name)
        if max(map(len, self.cells), default=0) > TEXT:
            return Column(None)
        if lists_rows(name) and {cell.casefold() for cell in self.cells} <= {"true", "false"}:
            return Column(np.array([cell.casefold() == "true" for cell in self.cells]))
        odd = self.no_number if self.numbers > self.filled / 2 else ""
        return Column(np.array(self.cells, np.str_), self.missing, odd=odd)

    def _column_of_lists(self, rows: list[Array | None], where: str, name: str) -> Column:
        """The column of lists, read as `rows`; or what is wrong with one of them."""
        said = None
        if self.no_list:
            said = UserError(f"{where} is {self.no_list}, and a list of numbers in most others")
        elif self.missing:
            return Column(np.zeros((len(rows), 1)), self.missing)
        for row, (cell, numbers) in enumerate(zip(self.cells, rows, strict=True)):
            if said is None and "..." in cell:
                said = UserError(
                    f"{where}: the list in row {row} was cut by '...' when it was written",
                    "write the features again, with .tolist()",
                )
            if said is None and numbers is None:
                said = UserError(f"{where}: the list in row {row} holds other things than numbers")
        if said is not None:
            return Column(np.zeros((len(rows), 1)), wrong=said)
        return vector_column([row for row in rows if row is not None], where, name)


def _list_of_numbers(cell: str) -> Array | None:
    """A list of numbers as Python, JSON or NumPy writes it; None if it is no such list."""
    if not _is_list(cell):
        return None
    plain = _BRACKETS.sub(" ", cell.replace("...", " ")).replace(",", " ")
    return _real_numbers(plain.split())


def vector_column(rows: Sequence[Any], where: str, name: str) -> Column:
    """Return a column of vectors, a table (N, D).

    If their lengths differ it is left out, or refused where it is taken: it may be the features
    where it is called so, or most have one length.
    """
    try:
        return Column(stack_rows(rows, where))
    except UserError as error:
        lengths = np.unique([len(row) for row in rows], return_counts=True)[1]
        if lengths.max() > len(rows) / 2 or find_keys(KEYS["features"], [name]):
            return Column(np.zeros((len(rows), 1)), wrong=error)
        return Column(None, why="lists of several lengths")


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
