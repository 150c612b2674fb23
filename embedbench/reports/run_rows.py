"""Rows of finished runs, as `Run.row` makes them or a CSV file has them: chosen, and told apart."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.config.json_records import INTEGERS
from embedbench.config.plain_numbers import plain_number, python_number
from embedbench.errors import UserError, short, unknown
from embedbench.scores.run_record import RunRecord
from embedbench.storage.regular_files import read_text
from embedbench.text.table_export import flatten

RowOfRun = Mapping[str, Any]
MOST = 2**28  # bytes of a CSV file
UNDEFINED = "nan", "NaN"  # as NumPy, pandas and R write it; an empty cell is the same
COLUMNS = "the names of its columns are those of docs/results_as_data.md"
# Names of a row that are no values of its run.
NAMES = {
    *{"run", "root", "stream", "protocol", "learner", "settings", "learns", "seed", "files"},
    *{"order", "sessions", "n_train", "validation", "score", "flags", "command"},
}
PREFIXES = ("protocol.", "learner.", "seeds.", "environment.", "digests.", "reference.")
STREAM = ("protocol", "files", "score", "digests.recipe", "digests.features", "reference.preset")


def value_names(rows: Sequence[RowOfRun]) -> list[str]:
    """The names in rows that are numbers of runs: metrics, bytes, seconds."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(type(value))
    numbers = [name for name, of in kinds.items() if of <= {int, float} and name not in NAMES]
    return [name for name in numbers if not name.startswith(PREFIXES)]


def streams(rows: Sequence[RowOfRun]) -> list[str]:
    """The name of each row's stream; different streams have different names."""
    first: dict[tuple[str, ...], RowOfRun] = {}
    for row in rows:
        first.setdefault(_stream_key(row), row)
    each = [(_title(row), _of(row, "protocol.")) for row in first.values()]
    apart = [", ".join(words) for words in differences(each, absent=False)]
    told = [" · ".join(filter(None, (n, a))) for (n, _), a in zip(each, apart, strict=True)]
    names = list(told)
    for i, row in enumerate(first.values()):
        if told.count(told[i]) > 1:
            names[i] += f" ({str(row.get('digests.features'))[:8]} {i})"
    of = dict(zip(first, names, strict=True))
    return [of[_stream_key(row)] for row in rows]


def _stream_key(row: RowOfRun) -> tuple[str, ...]:
    key = tuple(str(row.get(name)) for name in (*STREAM, "stream"))
    return key if "digests.recipe" in row else (*key, str(_of(row, "protocol.")))


def _title(row: RowOfRun) -> str:
    made = (str(row[name]) for name in ("protocol", "files") if row.get(name))
    return str(row.get("stream") or " · ".join(made))


def settings_apart(rows: Sequence[RowOfRun]) -> list[str]:
    """The settings in which a row's learner differs from its namesakes."""
    each = [(str(row["learner"]), _of(row, "learner.")) for row in rows]
    keys = [(name, str(settings)) for name, settings in each]
    first = dict(zip(keys, each, strict=True))
    of = dict(zip(first, differences(list(first.values())), strict=True))
    return [
        " ".join(filter(None, [row.get("settings"), *of[key]]))
        for row, key in zip(rows, keys, strict=True)
    ]


def _of(row: RowOfRun, prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in row.items() if k.startswith(prefix)}


def _several(wanted: Any) -> list[Any]:
    if isinstance(wanted, np.ndarray):
        return list(wanted.reshape(-1).tolist())
    return list(wanted) if isinstance(wanted, list | tuple | set | range) else [wanted]


def matching(rows: Sequence[RowOfRun], conditions: Mapping[str, Any]) -> list[bool]:
    """Whether each row has these values, or one of a list of values."""
    wanted = {name: _several(values) for name, values in conditions.items()}
    for name in wanted:
        if rows and not any(name in row for row in rows):
            raise unknown("name in the rows", name, {key for row in rows for key in row})
    return [
        all(name in row and row[name] in values for name, values in wanted.items()) for row in rows
    ]


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file with a line for each run and the names of `Run.row`."""
    lines = csv.reader(io.StringIO(read_text(path, most=MOST), newline=""), strict=True)
    rows = []
    try:
        names = _column_names(next(lines, []), path)
        for cells in lines:
            if cells:
                rows.append(_row(names, cells, f"line {lines.line_num} of {path}"))
    except csv.Error as e:
        raise UserError(f"{path} is not CSV ({e})") from None
    if not rows:
        raise UserError(f"{path} has no line for a run", COLUMNS)
    return rows


def _column_names(names: Sequence[str], path: Path) -> Sequence[str]:
    """The names of the columns; one that is there twice is refused."""
    for name in names:
        if name and names.count(name) > 1:
            raise UserError(f"{path} has two columns {short(name)}", "leave one out, or rename it")
    return names


def _row(names: Sequence[str], cells: Sequence[str], at: str) -> dict[str, Any]:
    """One line of a CSV file; an empty cell, and a column without a name, has no value."""
    if len(cells) != len(names):
        raise UserError(
            f"{at} has {len(cells)} cells for {len(names)} columns",
            "give one for each column; a text with a comma stands in quotes",
        )
    filled = [(name, text) for name, text in zip(names, cells, strict=True) if name and text]
    row = {name: _value(text, name, at) for name, text in filled}
    if not _is_run(row):
        whole = "a run with learner, and a whole number as seed (and sessions)"
        raise UserError(at, COLUMNS, expected=whole, got=row)
    return row


def _is_run(row: RowOfRun) -> bool:
    numbers = row.get("seed"), row.get("sessions", 1)
    whole = all(type(number) is int and 0 <= number < INTEGERS for number in numbers)
    return whole and isinstance(row.get("learner"), str)


def _value(text: str, name: str, at: str) -> Any:
    """A cell of a CSV file: true, false, nan and decimal numbers as such.

    What only Python reads as a number is refused in a column of values, and a text elsewhere.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    number = plain_number(text)
    if number is not None:
        return number
    if name in NAMES or name.startswith(PREFIXES):
        return text
    if text in UNDEFINED:
        return math.nan
    if python_number(text):
        raise UserError(
            f"{name} in {at}",
            "leave the cell empty where it is undefined",
            expected="a decimal number such as 0.5 or 1e-05",
            got=text,
        )
    return text


# --- labels of rows and streams: a name, and the settings that tell it from its namesakes ---


def labels(learners: Sequence[Sequence[RunRecord]]) -> list[str]:
    """A label for each list of runs: the learner's name; for namesakes, what differs, too."""
    each = [(runs[0].learner, flatten(runs[0].learner_params)) for runs in learners]
    apart = differences(each)
    return [" ".join([name, *words]) for (name, _), words in zip(each, apart, strict=True)]


def differences(
    each: Sequence[tuple[str, Mapping[str, Any]]], *, absent: bool = True
) -> list[list[str]]:
    """For each name with its settings, those in which its namesakes differ, as `key=value`.

    `absent` says whether a namesake without a setting differs in it.
    """
    result = []
    for name, settings in each:
        same = [other for n, other in each if n == name]
        keys = [
            k
            for k, mine in settings.items()
            if any(other.get(k, None if absent else mine) != mine for other in same)
        ]
        result.append([f"{k}={_setting(settings[k])}" for k in keys])
    return result


def _setting(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, float) else str(setting)
