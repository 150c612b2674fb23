"""A table of a paper: each printed value with ours beside it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.text.terminal_text import line, new_table, render_text

PARTS = ("paper", "ours", "diff.")
DRAWN, FIXED, EXACT = "drawn", "fixed", "exact"  # how our number was made, see `Value`


def read_misprints(facts: Mapping[str, Any], table: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what a `Value` says of the errors in a printed table, by row and cell."""
    return {
        (m.get("row", ""), m["cell"]): {
            "remark": f"printed {m['printed']:g}, reads {m['reads']:g}: {m['why']}",
            "reads": m["reads"],
        }
        for m in facts["printed"]["misprints"]
        if m["table"] == table
    }


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
        Whether ours was measured on other data; then no difference is computed.
    remark : str
        A misprint, or the reason for a missing value.
    words : tuple of str or None
        Published text and our text, for values that are words.
    sd : float or None
        The standard deviation printed with the published value.
    reads : float or None
        What a misprint should read.
    made : str
        "drawn": ours is from runs that draw; "fixed": from a run in which nothing is drawn;
        "exact": computed without a run.
    fitted : bool
        Whether settings of ours were chosen with this value in view; agreement confirms nothing.
    """

    published: float | None = field(default=None, metadata=ABSENT)
    ours: Stat | None = field(default=None, metadata=ABSENT)
    decimals: int = 3
    stands_in: bool = False
    remark: str = ""
    words: tuple[str, ...] | None = field(default=None, metadata=ABSENT)
    sd: float | None = field(default=None, metadata=ABSENT)
    reads: float | None = field(default=None, metadata=ABSENT)
    made: str = DRAWN
    fitted: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus the published value, if both are from the same data."""
        if self.published is None or self.ours is None or self.stands_in:
            return None
        return self.ours.mean - self.published

    def texts(self) -> tuple[str, str, str]:
        """Published, ours with its interval, and the difference, as text."""
        if self.words is not None:
            paper, mine = self.words
            return paper, mine, ""
        ours = "–" if self.ours is None else self._text(self.ours.mean)
        if self.ours is not None and not math.isnan(self.ours.half):
            ours += f" ±{self.ours.half:.{self.decimals}f}"
        gap = self.difference
        difference = "" if gap is None or math.isnan(gap) else self._signed(gap)
        printed = "–" if self.published is None else self._text(self.published)
        printed += "" if self.sd is None else f" ({self._text(self.sd)})"
        if self.remark and self.published is None and self.ours is not None:
            return printed, f"{ours} *", difference
        return printed + (" *" if self.remark else ""), ours, difference

    def _signed(self, value: float) -> str:
        text = self._text(value)
        return text if text.startswith("−") else f"+{text}"

    def _text(self, value: float) -> str:
        return "–" if math.isnan(value) else format_signed(value, self.decimals)


@dataclass
class PaperTable:
    """A table of a paper, with our values beside the published ones.

    Parameters
    ----------
    name : str
        "2", "S6", …
    title : str
        The content of the table, in the paper's words.
    heads : sequence of str
        Names of the label columns.
    columns : sequence of str
        Names of the value columns.
    rows : list
        Labels and values of each row. A missing value is left blank.
    named : int or None
        Number of label columns that name a row in remarks; None: all.
    of : str
        Name of the paper's table whose rows these are; "": `name`.
    data : str
        What replaces the paper's data in the whole table; "": nothing, or the labels say it.
    printed : dict
        The paper's labels for those of ours that differ, such as "CUB-200" for "emoji for CUB-200".
    unit : str
        Unit of the values: "" for fractions, "%", "MB", …
    units : dict
        Units of the columns that have another.
    """

    name: str
    title: str
    heads: Sequence[str]
    columns: Sequence[str]
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    named: int | None = None
    of: str = ""
    data: str = ""
    printed: dict[str, str] = field(default_factory=dict)
    unit: str = ""
    units: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_facts(
        cls, facts: Mapping[str, Any], key: str, *, file: str = "", label: str = "", **more: Any
    ) -> "PaperTable":
        """Return a table without rows from `[tables]` of a `paper.toml`.

        Parameters
        ----------
        file : str
            Name of the file that it is about, which its own name then has too.
        label : str
            What "{data}" in its title stands for.
        """
        given = {"heads": [], "columns": [], **facts["tables"][key], **more}
        given["name"] += f" · {file}" if file else ""
        given["title"] = given["title"].replace("{data}", label)
        return cls(**{**given, "notes": [*given.get("notes", ())]})

    def stand_in(self, file: str, data: str) -> None:
        """Say that all of its numbers of ours are of other data: `data` names both."""
        self.of, self.name, self.data = self.name, f"{self.name} · {file}", data
        for _, values in self.rows:
            values.update({k: replace(v, stands_in=True) for k, v in values.items()})

    @property
    def short(self) -> str:
        """The name after "Table", as in "Table S6"; a name that is a word is not changed."""
        return self.name if re.match("[A-Z][a-z]", self.name) else f"Table {self.name}"

    @property
    def heading(self) -> str:
        return self.title if self.short == self.name else f"{self.short}: {self.title}"

    @property
    def parts(self) -> list[int]:
        """Indices of the `PARTS` in the table: ours, and the others if any value has them."""
        texts = [v.texts() for _, values in self.rows for v in values.values()]
        return [k for k, none in enumerate(("–", None, "")) if any(t[k] != none for t in texts)]

    @property
    def remarks(self) -> list[str]:
        """Remarks on single values, with their row and column."""
        return [
            f"{', '.join(labels[: self.named])}, {column}: {value.remark}"
            for labels, values in self.rows
            for column, value in values.items()
            if value.remark
        ]

    def lines(self) -> list[list[str]]:
        """The rows as text: labels, then the parts of every column."""
        blank, parts = Value().texts(), self.parts
        return [
            [
                *labels,
                *(
                    text[k]
                    for c in self.columns
                    for text in [values[c].texts() if c in values else blank]
                    for k in parts
                ),
            ]
            for labels, values in self.rows
        ]


# --- tables as text and as rows ---


def table_text(table: PaperTable) -> str:
    """Return a table as text for the terminal, one line per row."""
    return render_text(table_parts(table)).rstrip()


def table_parts(table: PaperTable) -> list[Text | Table]:
    """Return the heading, the table and its remarks."""
    first = table.parts[:1]
    titles = [c if [k] == first else PARTS[k] for c in table.columns for k in table.parts]
    grid = new_table([*table.heads, *titles], names=len(table.heads))
    for cells in table.lines():
        grid.add_row(*map(line, cells))
    lines = [f"* {remark}" for remark in table.remarks] + [f"note: {n}" for n in table.notes]
    below = map(line, lines)
    return [line(table.heading, "bold"), *([grid] if table.rows else []), *below]


def table_rows(table: PaperTable) -> list[dict[str, Any]]:
    """Return one row for each value: paper's, ours with the half-width of its interval."""
    return [
        {
            "table": table.name,
            **dict(zip(table.heads, labels, strict=True)),
            "column": column,
            "published": value.words[0] if value.words else value.published,
            "ours": value.words[1] if value.words else value.ours and value.ours.mean,
            "ours.half_95": value.ours and value.ours.half,
        }
        for labels, values in table.rows
        for column, value in values.items()
    ]
