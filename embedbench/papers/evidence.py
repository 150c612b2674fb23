"""A paper's printed rows, what files of results say of each, and the verdicts.

**Which source decides.** A row's verdict is that of the paper's own data if they were measured: of
the file with the most runs, and among these of the first by name. Else it is the best verdict of
those on other data, of the first such by name. All sources are listed with theirs.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from embedbench.errors import printable
from embedbench.scores.mean_intervals import format_signed
from embedbench.storage.atomic_write import write_safely

from . import verdicts
from .paper import Paper
from .published import COLUMNS, EXACT, PaperTable, Value
from .results import ResultRow, Results, ResultTable, read_results
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
    """The stand-in for the paper's data in a row; "" if there is none."""
    return table.data or " / ".join(label for label in row.labels if table.printed.get(label))


# --- the page of verdicts, in Markdown ---


RULES = (
    "**reproduced**: on the paper's own data, with at least three seeds where anything is drawn; "
    "the 95 % interval meets the printed value ± 0.02 (2 points) or ± its printed error, and its "
    "half-width is at most 0.05 (5 points); what is computed without runs must equal the printed "
    "digits. **in kind**: on other data, against every method of its table that ran on them and "
    "whose printed value differs by more than 0.02, the same sign with intervals apart. **not**: "
    "neither. A row has the worst verdict of its values, and those of the paper's own data before "
    "others; of several other data the best counts, and all are listed. The rules are code: "
    "`embedbench/papers/verdicts.py`."
)


def write_page(paper: Paper[Any], paths: Sequence[Path], out: Path) -> tuple[Path, dict[str, int]]:
    """Write the page of a paper from files of results.

    Returns
    -------
    path : Path
        OUT/NAME.md.
    counts : dict
        Number of rows of each verdict.
    """
    text, of_verdict = page_text(paper, read_results(paths, paper.name))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{paper.name}.md"
    write_safely(path, text)
    return path, of_verdict


def page_text(paper: Paper[Any], sources: Mapping[str, Results]) -> tuple[str, dict[str, int]]:
    """The page, and the number of rows of each verdict."""
    printed = paper.printed()
    tables = compare(printed, sources)
    number = counts(tables)
    of_verdict = {word: number[word, True] + number[word, False] for word in ORDER}
    parts = [
        f"# {paper.citation}",
        f"Made by `embedbench reproduce {paper.name} --results data`; edit neither this page nor "
        "its data. Explanations are in [fidelity.md](../fidelity.md).",
        _grid(
            ["verdict", "rows", "from runs", "computed without runs"],
            [[w, str(of_verdict[w]), str(number[w, False]), str(number[w, True])] for w in ORDER],
        ),
        _caveats(tables),
        RULES,
        *_sources(sources),
        *(part for table in tables for part in _section(table)),
        *_others(list(tables_without_print(printed, sources))),
    ]
    return "\n\n".join(parts) + "\n", of_verdict


def _caveats(tables: Sequence[ComparedTable]) -> str:
    """Sentences on what the counts do not show."""
    lines = [line for table in tables for line in table.lines]
    corrected = sum(line.reproduced_with("reads") for line in lines)
    fitted = sum(line.reproduced_with("fitted") for line in lines)
    return (
        "Computed without runs are formulas, counts of files, and what follows from numbers that "
        "the paper prints: such rows check its arithmetic, not its experiments. Among the "
        f"reproduced rows are {corrected} with a misprint, compared with what it should read, and "
        f"{fitted} to which settings of ours were fitted, so that they confirm nothing."
    )


def _sources(sources: Mapping[str, Results]) -> list[str]:
    """The sources of our values."""
    heads = ["source", "command", "date", "seeds", "data: first digits of samples, content"]
    rows = [
        [
            f"[{name}](data/{name}.json)",
            _code(results.command),
            text(results.date),
            ", ".join(map(str, results.seeds)),
            text("; ".join(f"{f.name} {_digits(f.digests)}" for f in results.files)) or "none",
        ]
        for name, results in sources.items()
    ]
    failed = [text(f"{name}: {why}") for name, r in sources.items() for why in r.failed]
    return ["## Sources", _grid(heads, rows), *(["Failed: " + "; ".join(failed)] if failed else [])]


def _digits(digests: Mapping[str, str]) -> str:
    return ", ".join(
        digests[k].removeprefix("sha256:")[:8] for k in ("samples", "content") if k in digests
    )


def _section(compared: ComparedTable) -> list[str]:
    """The heading, the lines and the notes of a printed table."""
    table = compared.table
    columns = [c for c in table.columns if any(_is_printed(line, c) for line in compared.lines)]
    rows = [row for line in compared.lines for row in _rows(line, columns)]
    between = " / ".join(columns)
    heads = [
        *table.heads,
        f"paper: {between}",
        "ours ± half",
        "difference",
        "from",
        "verdict",
    ]
    remarks = [
        f"\\* {text(', '.join((*line.row.labels[: table.named], column)))}: {text(value.remark)}"
        for line in compared.lines
        for column, value in line.row.values.items()
        if value.remark
    ]
    notes = [f"- {text(note)}" for note in compared.notes]
    heading = f"## {text(_heading(table))}"
    return [
        heading,
        _grid(heads, rows),
        *(["\n".join([*remarks, *notes])] if remarks or notes else []),
    ]


def _heading(table: ResultTable) -> str:
    return f"Table {table.name}: {table.title}"


def _is_printed(line: Line, column: str) -> bool:
    value = line.row.values.get(column)
    return value is not None and (value.published is not None or value.words is not None)


def _rows(line: Line, columns: Sequence[str]) -> list[list[str]]:
    """The cells of a printed row: one line for each source, the decisive one first."""
    labels = [text(label) for label in line.row.labels]
    values = [line.row.values.get(c, Value()) for c in columns]
    paper = " / ".join(text(v.texts()[0]) for v in values)
    if not line.entries:
        return [[*labels, paper, "–", "", "", line.verdict or "–"]]
    entries = sorted(line.entries, key=lambda e: e is not line.decisive)
    rows = []
    for i, entry in enumerate(entries):
        first = [*labels, paper] if i == 0 else [""] * (len(labels) + 1)
        rows.append([*first, *_ours(entry, columns, decisive=entry is line.decisive)])
    return rows


def _ours(entry: EvidenceEntry, columns: Sequence[str], *, decisive: bool) -> list[str]:
    """Our values, their differences, the number of runs with the data, and the verdict."""
    values = [entry.values.get(c, Value()) for c in columns]
    ours = " / ".join(text(v.texts()[1]) for v in values)
    gaps = " / ".join(_gap(v) for v in values)
    word = f"**{entry.verdict.word}**" if decisive else entry.verdict.word
    why = f" ({text(entry.verdict.why)})" if entry.verdict.why else ""
    drawn = entry.runs and any(v.ours is not None and v.made != EXACT for v in values)
    runs = [f"{entry.runs} runs"] if drawn else []
    where = "; ".join(
        [*runs, *([text(entry.data)] if entry.data else []), f"source {entry.source}"]
    )
    return [ours, gaps, where, word + why]


def _gap(value: Value) -> str:
    """Ours minus the printed value, also on other data."""
    if value.published is None or value.ours is None or value.ours.mean != value.ours.mean:
        return "–"
    number = format_signed(value.ours.mean - value.published, value.decimals)
    return number if number.startswith("−") else f"+{number}"


def _others(tables: Sequence[ResultTable]) -> list[str]:
    """Tables of ours that the paper prints no numbers for."""
    if not tables:
        return []
    parts = ["## Ours without printed rows"]
    for table in tables:
        rows = [
            [*map(text, row.labels), *(_brief(row.values.get(c, Value())) for c in table.columns)]
            for row in table.rows
        ]
        parts += [f"### {text(table.title)}", _grid([*table.heads, *table.columns], rows)]
        parts += ["\n".join(f"- {text(note)}" for note in table.notes)] if table.notes else []
    return parts


def _brief(value: Value) -> str:
    theirs, ours, _ = value.texts()
    return text(ours if theirs == "–" else f"{ours} (paper {theirs})")


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def text(words: str) -> str:
    """Text from files on one line, without marks of Markdown or HTML."""
    return re.sub(r"([\\|<>*`\[\]])", r"\\\1", printable(words))


def _code(words: str) -> str:
    return "`" + printable(words).replace("`", "'").replace("|", "\\|") + "`"
