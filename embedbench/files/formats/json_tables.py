"""JSON: a list of records, a record a line, lists by name, or vectors by the ids of samples."""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError, short
from embedbench.files.hdf5_layout import TEXT
from embedbench.files.known_names import KEYS, find_keys
from embedbench.storage.regular_files import open_regular

from .number_tables import Column, NumberTable, vector_column

LINES = (".jsonl", ".ndjson")
_DEEPEST = 4  # levels of records in records


def read_json_table(path: Path) -> NumberTable:
    """Return the columns of a JSON file by name; those of a record in a record are `outer/inner`.

    Raises
    ------
    UserError
        It is no JSON, or none of the forms that hold a table.
    """
    rows, columns = _find_rows(path)
    if rows is not None:
        columns = {}
        for n, (place, row) in enumerate(rows):
            if not isinstance(row, Mapping):
                raise UserError(
                    f"{path}: {place} is no record", 'expected {"embedding": […], "label": "…"}'
                )
            flat = dict(_flat(row, ""))
            for name in flat:
                columns.setdefault(name, [(f"{path}: entry", None)] * n)
            for name, values in columns.items():
                values.append((place, flat.get(name)))
    made = {name: _column(values, path, name) for name, values in columns.items()}
    return NumberTable(path, made)


def _find_rows(path: Path) -> tuple[Any, dict[str, list[tuple[str, Any]]]]:
    """Return records with their places, or None and the values of columns with their places."""
    try:
        with (
            open_regular(path) as file,
            io.TextIOWrapper(file, encoding="utf-8-sig") as text,
        ):
            if path.suffix.lower() in LINES:
                lines = [(f"line {at}", line) for at, line in enumerate(text, 1) if line.strip()]
                entries = [(place, _loads(line, f"{path}: {place}")) for place, line in lines]
                return _table_of(entries)
            whole = _loads(text.read(), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8", "save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error})", "correct it") from error
    if isinstance(whole, Mapping):
        whole = _unwrapped(whole)
    if isinstance(whole, list):
        return _table_of([(f"entry {at}", row) for at, row in enumerate(whole, 1)])
    if not isinstance(whole, Mapping) or not whole:
        raise UserError(f"{path} holds no table", 'expected [{"embedding": […], "label": "…"}, …]')
    return _from_object(whole, path)


def _loads(text: str, where: str) -> Any:
    """Parse JSON, in which no record has a key twice: Python would keep the last one alone."""

    def record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise UserError(f"{where} has the key {short(twice)} twice in one record", "keep one")
        return made

    return json.loads(text, object_pairs_hook=record)


def _table_of(entries: list[tuple[str, Any]]) -> tuple[Any, dict[str, list[tuple[str, Any]]]]:
    """Records as they are; lists alone are rows of features, and texts or numbers alone labels."""
    if entries and all(isinstance(row, list) for _, row in entries):
        return None, {"features": entries}
    if entries and all(isinstance(row, str | int | float) for _, row in entries):
        return None, {"labels": entries}
    return entries, {}


def _unwrapped(whole: Mapping[str, Any]) -> Any:
    """What lies below the only key that holds a list of records, as answers of services do."""
    inside = [value for value in whole.values() if isinstance(value, list)]
    if len(inside) == 1 and inside[0] and all(isinstance(row, Mapping) for row in inside[0]):
        return inside[0]
    return whole


def _from_object(
    whole: Mapping[str, Any], path: Path
) -> tuple[Any, dict[str, list[tuple[str, Any]]]]:
    """Columns by name (`{"X": [[…]], "y": […]}`), or rows by id (`{"a.png": […]}` or records)."""
    rows = list(whole.values())
    if {*whole} - {"schema"} == {"columns", "index", "data"}:  # to_json(orient="split")
        return _from_split(whole, path)
    if all(isinstance(row, Mapping) for row in rows) and find_keys(KEYS["labels"], whole):
        return None, _from_columns(whole, path)
    if all(isinstance(row, str | int) for row in rows):
        names = [(repr(name), name) for name in whole]
        return None, {"ids": names, "labels": [(repr(name), row) for name, row in whole.items()]}
    lists = [isinstance(row, list) for row in rows]
    if all(isinstance(row, Mapping) for row in rows) and len(rows) > 1:
        return [(repr(name), {"ids": name, **row}) for name, row in whole.items()], {}
    vectors = all(lists) and all(_is_vector(row) for row in rows) and len(rows) > 1
    if vectors and len({*map(len, rows)}) == 1 and not {*whole} & {"labels", "label", "y"}:
        names = [(repr(name), name) for name in whole]
        return None, {"ids": names, "features": [(repr(name), row) for name, row in whole.items()]}
    columns = {}
    for name, values in _flat(whole, ""):
        if isinstance(values, list):
            columns[name] = [(f"entry {at}", value) for at, value in enumerate(values, 1)]
    if not columns:
        raise UserError(f"{path} holds no table", 'expected [{"embedding": […], "label": "…"}, …]')
    return None, columns


def _from_split(
    whole: Mapping[str, Any], path: Path
) -> tuple[Any, dict[str, list[tuple[str, Any]]]]:
    """Records of names of columns, names of rows, and rows of values, as pandas writes them."""
    names = whole["columns"]
    index = whole["index"]
    rows = whole["data"]
    if not all(isinstance(part, list) for part in (names, index, rows)):
        raise UserError(f"{path}: columns, index and data are no lists", "write records")
    if len({*map(str, names)}) < len(names):
        raise UserError(f"{path} has two columns of one name", "rename one")
    whole_rows = all(isinstance(row, list) and len(row) == len(names) for row in rows)
    if len(index) != len(rows) or not whole_rows:
        raise UserError(f"{path}: data has other rows than index and columns say", "write records")
    columns = {}
    for at, name in enumerate(names):
        columns[str(name)] = [(f"entry {n}", row[at]) for n, row in enumerate(rows, 1)]
    return None, _with_index(columns, index)


def _from_columns(whole: Mapping[str, Any], path: Path) -> dict[str, list[tuple[str, Any]]]:
    """Columns that are values by the names of rows, as pandas writes a table without more."""
    index = list(next(iter(whole.values())))
    columns = {}
    for name, values in whole.items():
        if [*values] != index:
            raise UserError(f"{path}: {name} has other rows than the first column", "write records")
        columns[name] = [(repr(row), value) for row, value in values.items()]
    return _with_index(columns, index)


def _with_index(
    columns: dict[str, list[tuple[str, Any]]], index: list[Any]
) -> dict[str, list[tuple[str, Any]]]:
    """Columns with the names of rows as ids, where these are texts and no numbers."""
    names = [str(row) for row in index]
    if all(name.isdecimal() for name in names) or find_keys(KEYS["ids"], columns):
        return columns
    return {"ids": [(repr(name), name) for name in names], **columns}


def _is_vector(row: Any) -> bool:
    return bool(row) and all(type(value) in (int, float) for value in row)


def _flat(row: Mapping[str, Any], before: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Values by name, in which records are taken apart."""
    for name, value in row.items():
        if isinstance(value, Mapping) and depth < _DEEPEST:
            yield from _flat(value, f"{before}{name}/", depth + 1)
        else:
            yield f"{before}{name}", value


def _column(values: list[tuple[str, Any]], path: Path, name: str) -> Column:
    """The values of a column, given as places and values: vectors, texts, numbers or truths.

    null is missing: the empty text, 0 or NaN, with the first place where it is. Integers and other
    numbers make one column of numbers; integers of more than 64 bits stay texts. A column is left
    out (None) if its values are of several types, with the first odd one if most are numbers, and
    if a text is longer than `TEXT`. One in which half or more are vectors has vectors, and `wrong`
    where another value stands among them.
    """
    where = f"{path}: {name}"
    there = [value for _, value in values if value is not None]
    missing = next((place for place, value in values if value is None), "")
    vectors = sum(map(_is_filled_vector, there))
    if there and vectors >= len(there) / 2:
        if vectors < len(there):
            odd = _first_odd(values, _is_filled_vector)
            said = UserError(f"{where} is {odd}, and a list of numbers in most others")
            return Column(np.zeros((len(values), 1)), wrong=said)
        if missing:
            return Column(np.zeros((len(values), 1)), missing)
        return vector_column(there, where, name)
    kinds = {type(value) for value in there}
    if kinds == {str}:
        if max(map(len, there)) > TEXT:
            return Column(None)
        return Column(np.array(["" if v is None else v for _, v in values], np.str_), missing)
    if kinds == {int}:
        if all(abs(value) < 2**63 for value in there):
            return Column(np.array([v or 0 for _, v in values], np.int64), missing)
        return Column(np.array(["" if v is None else str(v) for _, v in values]), missing)
    if kinds and kinds <= {int, float}:
        return Column(np.array([np.nan if v is None else v for _, v in values], float), missing)
    if kinds == {bool}:
        return Column(np.array([bool(v) for _, v in values]), missing)
    numbers = sum(map(_is_plain_number, there))
    odd = _first_odd(values, _is_plain_number) if numbers > len(there) / 2 else ""
    return Column(None, why="no column of numbers or texts", odd=odd)


def _first_odd(values: list[tuple[str, Any]], is_usual: Callable[[Any], bool]) -> str:
    """The first value that is not as most are, and its place."""
    place, value = next((p, v) for p, v in values if v is not None and not is_usual(v))
    return f"{short(json.dumps(value))} in {place}"


def _is_plain_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_filled_vector(value: Any) -> bool:
    return isinstance(value, list) and _is_vector(value)
