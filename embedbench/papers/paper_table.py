"""A table of a paper: each printed value with ours beside it."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.config.json_records import ABSENT, UNWRITTEN, JsonRecord
from embedbench.reports.result_rows import FLAGS
from embedbench.reports.results import column_stats
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.text.terminal_text import line, new_table

PARTS = ("paper", "ours", "diff.")
DRAWN, EXACT = "drawn", "exact"  # how our number was made, see `Value`


@dataclass(frozen=True)
class Value(JsonRecord):
    """One published number and our measurement of it.

    Parameters
    ----------
    published : float or None
        As printed; None if the paper has no number.
    ours : Stat or None
        Our measurement over the seeds; None without runs.
    decimals : int
        Number of decimals in the table, for both numbers.
    stands_in : bool
        Whether ours was measured on other data, on a part, or through another backbone; then no
        difference is computed.
    remark : str
        A misprint.
    sd : float or None
        The standard deviation printed with the published value.
    reads : float or None
        What a misprint should read.
    made : str
        "drawn": ours is from runs; "exact": computed without a run.
    flags : tuple of str or None
        The flags of the runs of ours; None without runs, and in results of earlier versions.
    """

    published: float | None = field(default=None, metadata=ABSENT)
    ours: Stat | None = field(default=None, metadata=ABSENT)
    decimals: int = 3
    stands_in: bool = False
    remark: str = ""
    sd: float | None = field(default=None, metadata=ABSENT)
    reads: float | None = field(default=None, metadata=ABSENT)
    made: str = DRAWN
    flags: tuple[str, ...] | None = field(default=None, metadata=ABSENT)

    @property
    def difference(self) -> float | None:
        """Ours minus the published value, if both are from the same data."""
        if self.published is None or self.ours is None or self.stands_in:
            return None
        return self.ours.mean - self.published

    @property
    def corrected(self) -> float | None:
        """The published value, of a misprint what it should read."""
        return self.published if self.reads is None else self.reads

    def texts(self) -> tuple[str, str, str]:
        """Published, ours with its interval, and the difference, as text."""
        printed = self._text(self.published)
        ours = self._text(None if self.ours is None else self.ours.mean)
        if self.ours is not None and not math.isnan(self.ours.half):
            ours += f" ±{self.ours.half:.{self.decimals}f}"
        if self.sd is not None:
            printed += f" ({self._text(self.sd)})"
        if self.remark:
            printed += " *"
        difference = self._text(self.difference)
        if difference == "–":
            difference = ""
        elif not difference.startswith("−"):
            difference = f"+{difference}"
        return printed, ours, difference

    def _text(self, value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else format_signed(value, self.decimals)


@dataclass(frozen=True)
class TableRow(JsonRecord):
    """One row of a table: labels, and values by column. A missing value is left blank."""

    labels: tuple[str, ...]
    values: dict[str, Value]


@dataclass
class PaperTable(JsonRecord):
    """A table of a paper, with our values beside the published ones.

    Parameters
    ----------
    name : str
        "2", "S6", …
    title : str
        The content of the table, in the paper's words.
    heads, columns : tuple of str
        Names of the label columns and of the value columns.
    named : int or None
        Number of label columns that name a row in remarks; None: all.
    misprints : dict
        Fields of a `Value`, by the paper's name of a row and the column.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...] = ()
    notes: tuple[str, ...] = ()
    named: int | None = None
    misprints: dict[Any, dict[str, Any]] = field(default_factory=dict, metadata=UNWRITTEN)

    @classmethod
    def of_facts(
        cls, facts: Mapping[str, Any], key: str, *, file: str = "", label: str = "", **more: Any
    ) -> "PaperTable":
        """Return a table without rows from `[tables]` of a `paper.toml`.

        A file that it is about is in its name; `label` is what "{data}" in its title stands for.
        """
        given = {"heads": (), "columns": (), "notes": (), **facts["tables"][key], **more}
        given |= {name: tuple(given[name]) for name in ("heads", "columns", "notes")}
        if file:
            given["name"] += f" · {file}"
        given["title"] = given["title"].replace("{data}", label)
        return cls(**given, misprints=read_misprints(facts, key))

    def add(self, labels: Sequence[str], values: Mapping[str, Value]) -> None:
        """Append a row."""
        self.rows += (TableRow(tuple(labels), dict(values)),)

    def add_numbers(
        self,
        labels: Sequence[str],
        ours: Iterable[Stat | float | None],
        printed: Iterable[float | None] = (),
        decimals: int | Sequence[int] = 3,
        *,
        row: str = "",
        **more: Any,
    ) -> None:
        """Append a row: ours and printed numbers in the order of the columns; None: no number.

        A number of ours that is no `Stat` is of one run; `decimals` may be one for each column.
        `row` is what misprints call the row, "" its labels; `more` are fields of every `Value`.
        """
        values = {}
        name = row or ", ".join(labels)
        numbers = itertools.chain(printed, itertools.repeat(None))
        stats = itertools.chain(ours, itertools.repeat(None))
        digits = itertools.repeat(decimals) if isinstance(decimals, int) else decimals
        for column, number, value, digit in zip(self.columns, numbers, stats, digits, strict=False):
            if number is not None or value is not None:
                stat = value if isinstance(value, Stat | None) else column_stats([[value]])[0]
                how = more | self.misprints.get((name, column), {})
                values[column] = Value(number, stat, digit, **how)
        self.add(labels, values)

    @property
    def heading(self) -> str:
        """The title after "Table S6: "; a name that is a word stands for itself."""
        word = re.match("[A-Z][a-z]", self.name)
        return self.title if word else f"Table {self.name}: {self.title}"

    @property
    def parts(self) -> list[int]:
        """Indices of the `PARTS` in the table: ours, and the others if any value has them."""
        texts = [v.texts() for row in self.rows for v in row.values.values()]
        return [k for k, none in enumerate(("–", None, "")) if any(t[k] != none for t in texts)]

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """Row and column of each value with a remark, and the remark."""
        return [
            (", ".join((*row.labels[: self.named], column)), value.remark)
            for row in self.rows
            for column, value in row.values.items()
            if value.remark
        ]

    def lines(self) -> list[list[str]]:
        """The rows as text: labels, then the parts of every column."""
        parts = self.parts
        return [
            [
                *row.labels,
                *(row.values.get(c, Value()).texts()[k] for c in self.columns for k in parts),
            ]
            for row in self.rows
        ]


def read_misprints(facts: Mapping[str, Any], table: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what a `Value` says of the errors in a printed table, by row and column."""
    return {
        (m["row"], m["column"]): {
            "remark": f"printed {m['printed']:g}, reads {m['reads']:g}: {m['why']}",
            "reads": m["reads"],
        }
        for m in facts["printed"].get("misprints", ())
        if m["table"] == table and "row" in m
    }


def sort_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Flags, each once, in the order of reports; unknown ones come last.

    >>> sort_flags(["test-validation", "mine", "few-steps", "few-steps"])
    ('few-steps', 'test-validation', 'mine')
    """
    raised = {*flags}
    return tuple(flag for flag in (*FLAGS, *sorted(raised - {*FLAGS})) if flag in raised)


# --- tables as text and as rows ---


def table_parts(table: PaperTable) -> list[Text | Table]:
    """Return the heading, the table and its remarks."""
    first = table.parts[:1]
    titles = [c if [k] == first else PARTS[k] for c in table.columns for k in table.parts]
    grid = new_table([*table.heads, *titles], names=len(table.heads))
    for cells in table.lines():
        grid.add_row(*map(line, cells))
    below = [f"* {place}: {remark}" for place, remark in table.remarks]
    below += [f"note: {note}" for note in table.notes]
    return [line(table.heading, "bold"), *([grid] if table.rows else []), *map(line, below)]


def rows_and_parts(
    tables: Sequence[PaperTable],
) -> tuple[list[dict[str, Any]], list[Text | Table]]:
    """Return a row for each value, with the half-width of its interval; and the text's parts."""
    rows = [
        {
            "table": table.name,
            **dict(zip(table.heads, row.labels, strict=True)),
            "column": column,
            "published": value.published,
            "ours": value.ours and value.ours.mean,
            "ours.half_95": value.ours and value.ours.half,
        }
        for table in tables
        for row in table.rows
        for column, value in row.values.items()
    ]
    parts = [part for table in tables for part in (*table_parts(table), line(""))]
    return rows, parts[:-1]
