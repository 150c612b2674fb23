"""Lines of a CSV file of results: of runs, as `Run.row` names their values, or of printed means.

Names and cells are checked here; `outside_results` says what they are results of.
"""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.config.json_records import INTEGERS
from embedbench.config.plain_numbers import plain_number, python_number
from embedbench.errors import UserError, short
from embedbench.storage.regular_files import read_text

from .run_rows import NAMES, PREFIXES, RowOfRun
from .table_metric import named_by_column

MOST = 2**28  # bytes of a CSV file
UNDEFINED = "nan", "NaN"  # as NumPy, pandas and R write it; an empty cell is the same
MOST_NAMED = 20  # columns that a sentence names
UNNAMED = "a column without a name"
COLUMNS = "docs/runs.md has the columns of results from elsewhere"
SPREAD, KIND, SESSION = "±", "± is", "session"
TEXTS = ("table", "source", "unit")  # columns of texts, whatever these look like
STD, STD_N, SEM, CI, Z = "std", "std (n)", "sem", "95 % ci", "1.96 sem"
# what ± may be, as people write it, in small letters and without spaces, dots and signs between
KINDS = {
    **dict.fromkeys(("std", "sd", "stdev", "stddev", "standarddeviation"), STD),
    **dict.fromkeys(("std(n)", "std(ddof=0)", "populationstd", "np.std"), STD_N),
    **dict.fromkeys(("sem", "se", "stderr", "standarderror", "standarderrorofthemean"), SEM),
    **dict.fromkeys(("95%ci", "95%", "95ci", "ci95", "95%confidenceinterval"), CI),
    **dict.fromkeys(("1.96sem", "1.96se"), Z),
}
OTHER_NAMES = {
    **dict.fromkeys(("±", "+-", "+/-", "spread"), SPREAD),
    **dict.fromkeys(("± is", "+- is", "+/- is", "spread is"), KIND),
    **dict.fromkeys(("n", "runs", "seeds", "count", "number of runs"), "n"),
    **{name: name for name in ("mean", "metric", "unit", "better", "table", "source", SESSION)},
}


@dataclass(frozen=True)
class Line:
    """A line of a CSV file: its cells by column, without those that are empty."""

    cells: dict[str, str]
    at: str  # its number and file, for sentences


@dataclass(frozen=True)
class Lines:
    """The lines of a CSV file; `spread_is` what the name of its column ± says of it."""

    path: Path
    names: tuple[str, ...]
    lines: tuple[Line, ...]
    spread_is: str = ""

    @property
    def of_runs(self) -> bool:
        """Whether lines are of single runs, which have seeds; else of what somebody printed."""
        return "seed" in self.names


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file with a line for each run and the names of `Run.row`."""
    return [run_row(line) for line in read_lines(path).lines]


def read_lines(path: Path) -> Lines:
    """The lines of a CSV file, by names of columns that mean one thing each.

    Names lose blanks around them, empty lines are passed over.

    Raises
    ------
    UserError
        It is no CSV, has no line, a column twice, or a line of another length.
    """
    reader = csv.reader(io.StringIO(read_text(path, most=MOST), newline=""), strict=True)
    lines = []
    try:
        given = [name.strip() for name in next(reader, [])]
        names, spread_is = _column_names(given, path)
        for cells in reader:
            if cells:
                lines.append(_line(names, cells, f"line {reader.line_num} of {path}"))
    except csv.Error as e:
        raise UserError(f"{path} is not CSV ({e})") from None
    if not lines:
        raise UserError(f"{path} has no line for a run", COLUMNS)
    return Lines(path, tuple(names), tuple(lines), spread_is)


def _column_names(given: Sequence[str], path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what ± is if its own name says it; none may be there twice."""
    if len(given) == 1 and re.search("[;\t]", given[0]):
        raise UserError(f"{path} has one column {short(given[0])}", "separate columns by commas")
    names = list(given)
    if "learner" not in given:
        names = ["learner" if name.lower() == "method" else name for name in given]
    spread_is = ""
    if "seed" not in names:
        kinds = [name for name in names if find_kind(name)]
        spread_is = find_kind(kinds[0]) if kinds else ""
        names = [SPREAD if name in kinds else OTHER_NAMES.get(name.lower(), name) for name in names]
    names = [name if is_name(name) else named_by_column(name) for name in names]
    for name in names:
        if name and names.count(name) > 1:
            alike = [
                said for said, is_called in zip(given, names, strict=True) if is_called == name
            ]
            also = f" ({' and '.join(alike)})" if len({*alike}) > 1 else ""
            raise UserError(
                f"{path} has two columns {short(name)}{also}", "leave one out, or rename it"
            )
    return names, spread_is


def find_kind(text: str) -> str:
    """What ± is, one of `KINDS`; "" for anything else.

    >>> [find_kind(text) for text in ("Std. dev.", "s.e.m.", "95% CI", "std (ddof=0)", "range")]
    ['std', 'sem', '95 % ci', 'std (n)', '']
    """
    plain = text.lower().replace(" ", "")
    return KINDS.get(plain, KINDS.get(plain.replace(".", "").replace("-", ""), ""))


def _line(names: Sequence[str], cells: Sequence[str], at: str) -> Line:
    """One line; an empty cell, and a column without a name, has no value."""
    if len(cells) != len(names):
        raise UserError(
            f"{at} has {len(cells)} cells for {len(names)} columns",
            "give one for each column; a text with a comma stands in quotes",
        )
    filled = zip(names, cells, strict=True)
    return Line({name: text for name, text in filled if name and text}, at)


# --- a line of a run ---


def run_row(line: Line) -> dict[str, Any]:
    """The values of a line of a run by name."""
    row = {name: cell_value(text, name, line.at) for name, text in line.cells.items()}
    if not _is_run(row):
        whole = "a run with learner, and a whole number as seed (and sessions)"
        raise UserError(line.at, COLUMNS, expected=whole, got=row)
    return row


def _is_run(row: RowOfRun) -> bool:
    numbers = row.get("seed"), row.get("sessions", 1), row.get(SESSION, 0)
    whole = all(type(number) is int and 0 <= number < INTEGERS for number in numbers)
    return whole and isinstance(row.get("learner"), str)


def cell_value(text: str, name: str, at: str) -> Any:
    """A cell of a line of a run: true, false, nan and decimal numbers as such.

    What only Python reads as a number is refused in a column of values, and a text elsewhere.
    """
    if name in TEXTS:
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    number = plain_number(text)
    if number is not None:
        return number
    if is_name(name):
        return text
    if text in UNDEFINED:
        return math.nan
    if python_number(text) or is_accuracy(name) or name == SESSION:
        raise _no_number(text, name, at)
    return text


def is_accuracy(name: str) -> bool:
    """Whether values of a name are shares from 0 to 1, which people also write in percent.

    >>> [is_accuracy(name) for name in ("final_accuracy", "accuracy", "omega_all", "bwt")]
    [True, True, False, False]
    """
    return name.endswith("accuracy")


def is_name(name: str) -> bool:
    """Whether a column says what a result is of; others are its values."""
    return name in NAMES or name.startswith(PREFIXES)


def read_number(text: str, name: str, at: str) -> float:
    """A number of a printed line; NaN where it is undefined."""
    number = plain_number(text)
    if number is not None:
        return float(number)
    if text in UNDEFINED:
        return math.nan
    raise _no_number(text, name, at)


def read_count(line: Line) -> int | None:
    """The number of runs of a printed line; None where it is not said."""
    text = line.cells.get("n", "")
    if text in ("", *UNDEFINED):
        return None
    number = plain_number(text)
    if number is None or number != int(number) or not 1 <= number < INTEGERS:
        raise UserError(
            f"n in {line.at}",
            "leave the cell empty where it is unknown",
            expected="a whole number of runs, 1 or more",
            got=text,
        )
    return int(number)


def _no_number(text: str, name: str, at: str) -> UserError:
    return UserError(
        f"{name} in {at}",
        "leave the cell empty where it is undefined",
        expected="a decimal number such as 0.5 or 1e-05",
        got=text,
    )
