"""Tables that are text: CSV, TSV and JSON, one row a sample, every value as it is written.

A library guesses: it takes a class called `None` for no class, and `01` for 1. Here the value of a
cell is its text; an empty cell is a missing value, and nothing else is.
"""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedbench.config.plain_numbers import plain_number
from embedbench.errors import UserError, short
from embedbench.files.known_names import means_nothing
from embedbench.storage.regular_files import open_regular

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
LONGEST_CELL = 2**24  # characters
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass
class TextTable:
    """The columns of a table.

    Parameters
    ----------
    columns : dict
        The values (n,) of each column by its name: texts of CSV, what JSON says of JSON; None is
        missing.
    typed : bool
        Whether the file says what a number is, as JSON does; else texts of digits are numbers, too.
    places : sequence of str
        Where each row is in its file, as an editor counts: `line 2` is the first one below the
        names of columns. None: rows are counted from 0.
    kinds : dict
        `text`, `whole` or `real` by name: what all its values can be read as; empty for others.
    """

    columns: dict[str, list[Any]]
    typed: bool
    places: Sequence[str] | None = None
    kinds: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = {name: _kind(values, self.typed) for name, values in self.columns.items()}

    def class_names(self, column: str) -> Sequence[str]:
        """Return no names: a text has no list of classes."""
        return ()

    def values(self, column: str) -> list[Any]:
        """Return the values of a column; None for a missing one."""
        return self.columns[column]

    def place(self, row: int) -> str:
        """Return where a row is, for people."""
        return f"row {row}" if self.places is None else self.places[row]

    def reader(self, column: str) -> Callable[[int], bytes]:
        """Return what reads a row's text."""
        values = self.columns[column]

        def read(i: int) -> bytes:
            if values[i] is None:
                raise UserError(f"it is empty, {self.place(i)}")
            return encode_text(values[i])

        return read


def encode_text(text: str) -> bytes:
    """Return a text as UTF-8; one that UTF-8 cannot say is a UserError."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError("it holds half of a character (a lone surrogate)") from error


def read_text_tables(paths: Sequence[Path]) -> TextTable:
    """Return the rows of one table, or of several with the same columns, one behind the other."""
    tables = [_read_table(path) for path in paths]
    first = tables[0]
    places = []
    for path, table in zip(paths, tables, strict=True):
        if table.columns.keys() != first.columns.keys():
            raise UserError(
                f"{path} has the columns {', '.join(table.columns)}, and {paths[0]} has "
                f"{', '.join(first.columns)}",
                "name one file, or give both the same columns",
            )
        where = f" of {path.name}" if len(paths) > 1 else ""
        places += [f"{table.place(row)}{where}" for row in range(len(table.places or ()))]
    columns = {
        name: list(itertools.chain(*[table.columns[name] for table in tables]))
        for name in first.columns
    }
    if not any(columns.values()):
        raise UserError(f"{paths[0]} has no row of values", "add some, or name another file")
    return TextTable(columns, first.typed, places)


def _read_table(path: Path) -> TextTable:
    suffix = path.suffix.lower()
    try:
        with (
            open_regular(path) as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text,
        ):
            if suffix in _SEPARATORS:
                return _read_csv(text, path, _SEPARATORS[suffix])
            return _read_json(text, path)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserError(
            f"{path} is not UTF-8 (byte 0x{byte:02x})",
            "save it as UTF-8: in another encoding its letters would be guessed",
        ) from error
    except (csv.Error, RecursionError) as error:
        raise UserError(f"{path} cannot be read as a table ({error})", "correct it") from error


# --- CSV and TSV ---


def _read_csv(text: Iterable[str], path: Path, separator: str) -> TextTable:
    earlier = csv.field_size_limit(LONGEST_CELL)
    try:
        rows = csv.reader(text, delimiter=separator, strict=True)
        header = next(rows, [])
        names = _column_names(header, path)
        columns: dict[str, list[Any]] = {name: [] for name in names}
        places = []
        for row in _numbered(rows, path):
            if len(row) != len(names):
                raise UserError(
                    f"{path}: line {rows.line_num} has {len(row)} values, and the first line "
                    f"names {len(names)} columns",
                    'write a value that holds a separator between quotes: "a, b"',
                )
            for values, value in zip(columns.values(), row, strict=True):
                values.append(value or None)
            places.append(f"line {rows.line_num}")
    finally:
        csv.field_size_limit(earlier)
    return TextTable(columns, typed=False, places=places)


def _numbered(rows: Any, path: Path) -> Iterator[list[str]]:
    """Yield rows that are not empty; an error of the reader names the line."""
    try:
        yield from filter(None, rows)
    except csv.Error as error:
        raise UserError(
            f"{path} cannot be read as a table: line {rows.line_num}, {error}",
            'write a quote inside of quotes twice: "he said ""yes"""',
        ) from error


def _column_names(header: Sequence[str], path: Path) -> list[str]:
    if not header:
        raise UserError(f"{path} is empty; its first line must name the columns: text,label")
    if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), "")):
        raise UserError(
            f"{path} parts its columns by {other!r}",
            "save it with commas, or with tabs and the suffix .tsv",
        )
    names = [name.strip() or f"unnamed {at}" for at, name in enumerate(header, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"{path} has two columns {short(twice[0])}", "rename one")
    return names


# --- JSON: an object a line, or one list of objects ---


def _read_json(text: io.TextIOWrapper, path: Path) -> TextTable:
    columns: dict[str, list[Any]] = {}
    places: list[str] = []
    for n, (where, row) in enumerate(_objects(text, path)):
        if not isinstance(row, dict):
            raise UserError(f"{path}: {where} is no object", 'expected {"text": "…", "label": "…"}')
        for name in row:
            columns.setdefault(name, [None] * n)
        for name, values in columns.items():
            values.append(row.get(name))
        places.append(where)
    return TextTable(columns, typed=True, places=places)


def _objects(text: io.TextIOWrapper, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield what each line or each entry of the list holds, and where it is."""
    if path.suffix.lower() == ".json":
        whole = _parse(text.read(), path, "")
        rows = whole if isinstance(whole, list) else [whole]
        yield from ((f"entry {at}", row) for at, row in enumerate(rows, 1))
        return
    for at, line in enumerate(text, 1):
        if line.strip():
            yield f"line {at}", _parse(line, path, f"line {at}: ")


def _parse(text: str, path: Path, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        place = where or f"line {getattr(error, 'lineno', '?')}: "
        raise UserError(f"{path} cannot be read as JSON ({place}{reason})", "correct it") from error


# --- what a column can be read as ---


def _kind(values: Sequence[Any], typed: bool) -> str:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, str) for value in present):
        return "text" if typed else _kind_of_texts(present)
    if present and all(isinstance(value, int) for value in present):  # bool is one
        return "whole"
    if present and all(isinstance(value, int | float) for value in present):
        return "real"
    return ""


def _kind_of_texts(values: Sequence[str]) -> str:
    """Return what texts can be read as; words for a missing number are skipped."""
    texts = [value.strip() for value in values if value.strip() and not means_nothing(value)]
    numbers = [plain_number(text) for text in texts if text.lower() not in ("true", "false")]
    if not texts or None in numbers:
        return "text"
    return "whole" if all(isinstance(number, int) for number in numbers) else "real"


def as_number(value: Any) -> float | None:
    """Return a value as a number; None where it is missing or none.

    >>> as_number("2.5"), as_number(" NA "), as_number("1_0"), as_number(None)
    (2.5, None, None, None)
    """
    number = plain_number(value.strip()) if isinstance(value, str) else value
    if not isinstance(number, int | float) or number != number:
        return None
    try:
        return float(number)
    except OverflowError:  # an integer of JSON above all floats
        return None
