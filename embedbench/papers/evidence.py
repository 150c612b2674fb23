"""A paper's printed rows, what files of results say of each, and the verdicts.

**Which source decides.** A row's verdict is that of the paper's own data if they were measured: of
the file with the most runs, and among these of the first by name. Else it is the best verdict of
those on other data, of the first such by name. All sources are listed with theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from . import verdicts
from .published import COLUMNS, EXACT, PaperTable, Value
from .results import ResultRow, Results, ResultTable
from .verdicts import ORDER, REPRODUCED, UNCHECKED, Verdict


@dataclass(frozen=True)
class EvidenceEntry:
    """Our values of a printed row, from one source.

    Parameters
    ----------
    source : str
        Name of the file of results.
    values : dict
        By column.
    data : str
        What replaces the paper's data; "" if nothing does.
    verdict : Verdict
        The verdict on these values.
    """

    source: str
    values: dict[str, Value]
    data: str
    verdict: Verdict

    @property
    def runs(self) -> int:
        """The least number of runs behind a value; 0 if none is a number."""
        counts = [len(v.ours.values) for v in self.values.values() if v.ours is not None]
        return min(counts, default=0)

    @property
    def stands_in(self) -> bool:
        return any(v.stands_in for v in self.values.values())


@dataclass(frozen=True)
class Line:
    """A printed row and what the sources have of it."""

    row: ResultRow
    entries: tuple[EvidenceEntry, ...]

    @cached_property
    def decisive(self) -> EvidenceEntry | None:
        """The entry whose verdict is the row's; None if none can be judged."""
        judged = [e for e in self.entries if e.verdict.word != UNCHECKED]
        real = [e for e in judged if not e.stands_in]
        if real:
            return min(real, key=lambda e: (-e.runs, e.source))
        return min(judged, key=lambda e: (ORDER.index(e.verdict.word), e.source), default=None)

    @property
    def verdict(self) -> str | None:
        """The row's verdict; None if nothing is printed that could be compared."""
        if not any(v.published is not None or v.words for v in self.row.values.values()):
            return None
        return UNCHECKED if self.decisive is None else self.decisive.verdict.word

    @property
    def computed(self) -> bool:
        """Whether the row's numbers are computed without runs."""
        return all(v.made == EXACT for v in self.row.values.values() if v.published is not None)

    def reproduced_with(self, what: str) -> bool:
        """Whether the row is reproduced, and a field of some of its values is set."""
        values = self.row.values.values()
        return self.verdict == REPRODUCED and any(getattr(v, what) for v in values)


@dataclass(frozen=True)
class ComparedTable:
    """A printed table with its lines, and the notes of all sources."""

    table: ResultTable
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def compare(printed: list[PaperTable], sources: Mapping[str, Results]) -> list[ComparedTable]:
    """Join the printed tables with the sources."""
    return [_compared(ResultTable.made(table), sources) for table in printed]


def tables_without_print(
    printed: list[PaperTable], sources: Mapping[str, Results]
) -> Iterator[ResultTable]:
    """Tables of the sources that have rows, but none of the paper's."""
    known = {table.name for table in printed}
    for name, results in sources.items():
        for table in results.tables:
            if table.rows and (table.of or table.name) not in known:
                yield replace(table, title=f"{table.title} [{name}]")


def counts(tables: list[ComparedTable]) -> Counter[tuple[str, bool]]:
    """Number of rows by verdict, and whether they are computed without runs."""
    lines = (line for table in tables for line in table.lines if line.verdict is not None)
    return Counter((str(line.verdict), line.computed) for line in lines)


def _compared(table: ResultTable, sources: Mapping[str, Results]) -> ComparedTable:
    """One printed table."""
    entries: dict[tuple[str, ...], list[EvidenceEntry]] = {row.labels: [] for row in table.rows}
    printed = {row.labels: row for row in table.rows}
    notes = list(table.notes)
    for name, results in sources.items():
        for of_source in results.tables:
            if (of_source.of or of_source.name) != table.name:
                continue
            rebased = [
                (row, _values(printed[of_source.key(row)], row))
                for row in of_source.rows
                if of_source.key(row) in printed
            ]
            some = [
                (row, values) for row, values in rebased if any(map(_measured, values.values()))
            ]
            for row, values in some:
                verdict = _verdict(table, row, values, some)
                entry = EvidenceEntry(name, values, _data(of_source, row), verdict)
                entries[of_source.key(row)].append(entry)
            notes += of_source.notes if some else ()
    lines = tuple(Line(row, tuple(entries[row.labels])) for row in table.rows)
    return ComparedTable(table, lines, tuple(dict.fromkeys(notes)))


def _measured(value: Value) -> bool:
    return value.ours is not None or (value.words is not None and value.words[1] != "–")


def _values(printed: ResultRow, row: ResultRow) -> dict[str, Value]:
    """The printed values with the ours of a source."""
    result = {}
    for column, value in printed.values.items():
        of_source = row.values.get(column, Value())
        words = value.words and (value.words[0], (of_source.words or ("–", "–"))[1])
        result[column] = replace(
            value, ours=of_source.ours, words=words, stands_in=of_source.stands_in
        )
    return result


def _verdict(
    printed: ResultTable,
    row: ResultRow,
    values: dict[str, Value],
    rows: list[tuple[ResultRow, dict[str, Value]]],
) -> Verdict:
    """The verdict on the values of a row of a source, of which `rows` are all."""
    judged = []
    for column, value in values.items():
        if printed.method == COLUMNS:
            rivals = {c: v for c, v in values.items() if c != column}
        else:
            rivals = _rivals(printed, row, rows, column)
        judged.append(verdicts.of_value(value, printed.unit_of(column), rivals))
    return verdicts.of_row(judged)


def _rivals(
    printed: ResultTable,
    row: ResultRow,
    rows: list[tuple[ResultRow, dict[str, Value]]],
    column: str,
) -> dict[str, Value]:
    """The values of the other methods in rows that agree in all other labels."""
    if printed.method not in printed.heads:
        return {}
    at = printed.heads.index(printed.method)

    def rest(labels: tuple[str, ...]) -> tuple[str, ...]:
        return labels[:at] + labels[at + 1 :]

    return {
        other.labels[at]: values[column]
        for other, values in rows
        if other is not row and rest(other.labels) == rest(row.labels) and column in values
    }


def _data(table: ResultTable, row: ResultRow) -> str:
    """What replaces the paper's data in a row; "" if nothing does."""
    return table.data or " / ".join(label for label in row.labels if table.printed.get(label))
