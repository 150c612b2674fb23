"""A paper's printed rows beside what files of results have of them, in Markdown; no verdicts."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from embedbench.text.markdown import code
from embedbench.text.markdown import escape_markdown as text
from embedbench.text.markdown import table as grid

from .paper import Paper
from .paper_table import DRAWN, EXACT, PaperTable, TableRow, Value
from .result_files import Results, read_results

RUNS, WIDEST = 10, 0.1
OWN, OTHER, NONE = "ours on the paper's data", "ours on other data alone", "without ours"
PLAUSIBLE = {True: "plausible as a run of ours", False: "not plausible as a run of ours"}
ABOUT = (
    "Every printed row beside ours: an appendix without verdicts. What the paper claims, and "
    "whether it holds, is on the page of claims. ± is the half-width of a 95 % interval of our "
    "mean over seeds. Runs on other data are shown once, in the first table that has a row for "
    f"them. Where {RUNS} runs or more are on the paper's own data, *plausible* says whether the "
    "printed value lies in the 95 % prediction interval of a result like the paper's, ours ± "
    "t(n − 1) · s · √(1/m + 1/n) for n runs of ours and m of the paper's; only where its "
    f"half-width is at most {WIDEST:g} ({100 * WIDEST:g} points)."
)


@dataclass(frozen=True)
class Entry:
    """Our values of a printed row from one source, by column, and which printed ones are plausible.

    `data` replaces the paper's data, "" if nothing does.
    """

    source: str
    values: dict[str, Value]
    data: str
    plausible: dict[str, bool | None]

    @property
    def runs(self) -> int:
        """The least number of runs behind a value; 0 if none is from runs."""
        stats = [v.ours for v in self.values.values() if v.made != EXACT]
        return min((len(s.values) for s in stats if s is not None), default=0)

    @property
    def stands_in(self) -> bool:
        return any(v.stands_in for v in self.values.values())


# A printed table with the notes of all sources, and each of its rows with its entries.
Compared = tuple[PaperTable, list[tuple[TableRow, list[Entry]]]]


def is_plausible(value: Value, behind: int, unit: str) -> bool | None:
    """Whether a printed mean of `behind` runs could be ours; None if that cannot be said.

    With a unit other than "" (fractions) and "%" (points) `WIDEST` is a share of the value.
    """
    printed = None if value.remark and value.reads is None else value.corrected
    ours = None if value.stands_in or value.made != DRAWN else value.ours
    if printed is None or ours is None or len(ours.values) < RUNS or math.isnan(ours.mean):
        return None
    half = ours.prediction_half(behind)
    if half > WIDEST * {"": 1.0, "%": 100.0}.get(unit, abs(printed)):
        return None
    return bool(abs(ours.mean - printed) <= half + 0.5 * 10**-value.decimals)


def compare(
    printed: Sequence[PaperTable],
    sources: Mapping[str, Results],
    behind: Callable[[str], int] = lambda _: 1,
) -> list[Compared]:
    """Put our results, by the name of their file, beside the printed tables.

    Runs on other data than the paper's are put beside one table only. `behind` is given the name
    of a table and returns how many runs of the paper each printed value averages.
    """
    used: set[Any] = set()
    result = []
    for table in printed:
        rows = {row.labels: (row, list[Entry]()) for row in table.rows}
        notes = [*table.notes]
        named = [(n, t) for n, r in sources.items() for t in r.tables]
        same = ((n, t, r) for n, t in named if (t.of or t.name) == table.name for r in t.rows)
        for source, given, row in same:
            if (labels := given.printed_labels(row.labels)) not in rows:
                continue
            of_paper, entries = rows[labels]
            notes += given.notes
            values = _beside(of_paper, row)
            key = _key(table, of_paper, values)
            if key and key not in used:
                used.add(key)
                others = (label for label in row.labels if given.printed.get(label))
                data, n = given.data or " / ".join(others), behind(table.name)
                units = {c: table.units.get(c, table.unit) for c in values}
                said = {c: is_plausible(v, n, units[c]) for c, v in values.items()}
                entries.append(Entry(source, values, data, said))
        for _, entries in rows.values():
            entries.sort(key=lambda e: (e.stands_in, -e.runs))
        result.append((replace(table, notes=tuple(dict.fromkeys(notes))), [*rows.values()]))
    return result


def _beside(printed: TableRow, row: TableRow) -> dict[str, Value]:
    """The printed values with the ours of a source."""
    result = {}
    for column, value in printed.values.items():
        given = row.values.get(column, Value())
        words = value.words and (value.words[0], (given.words or ("–", "–"))[1])
        result[column] = replace(value, ours=given.ours, words=words, stands_in=given.stands_in)
    return result


def _key(table: PaperTable, row: TableRow, values: Mapping[str, Value]) -> tuple[Any, ...]:
    """What tells our values of a row from others; () if there are none."""
    ours = tuple(v.ours and v.ours.values for v in values.values())
    words = tuple(v.words[1] for v in values.values() if v.words and v.words[1] != "–")
    if not any(ours) and not words:
        return ()
    other = any(v.stands_in for v in values.values())
    drawn = any(v.made != EXACT for v in values.values()) and not words
    return ours if other and drawn else (table.name, row.labels, ours, words)


def count_rows(tables: Sequence[Compared]) -> dict[str, int]:
    """Return the number of printed rows by what is beside them, and of plausible values."""
    counts = Counter(dict.fromkeys((OWN, OTHER, NONE, *PLAUSIBLE.values()), 0))
    for row, entries in (pair for _, rows in tables for pair in rows):
        if any(v.published is not None or v.words for v in row.values.values()):
            own = any(not e.stands_in for e in entries)
            counts[OWN if own else OTHER if entries else NONE] += 1
        said = [one for e in entries for one in e.plausible.values() if one is not None]
        counts.update(PLAUSIBLE[one] for one in said)
    return dict(counts)


# --- the page ---


def make_page(paper: Paper, paths: Sequence[Path]) -> tuple[str, dict[str, int]]:
    """Return the page from files of results, and the counts of its rows."""
    sources, printed = read_results(paths, paper.name), paper.printed()
    tables = compare(printed, sources, paper.runs_behind)
    counts = count_rows(tables)
    parts = [
        f"# {paper.facts['citation']}",
        ABOUT,
        grid(["printed rows and values", ""], [[name, str(n)] for name, n in counts.items()]),
        *_sources(sources),
        *(part for table, rows in tables for part in _section(table, rows)),
        *_others({table.name for table in printed}, sources),
    ]
    return "\n\n".join(parts) + "\n", counts


def _sources(sources: Mapping[str, Results]) -> list[str]:
    """The sources of our values."""
    heads = ["source", "command", "date", "seeds", "data: first digits of samples, content"]
    rows = []
    for name, results in sources.items():
        files = []
        for file in results.files:
            digests = [file.digests[k] for k in ("samples", "content") if k in file.digests]
            digits = (digest.removeprefix("sha256:")[:8] for digest in digests)
            files.append(f"{file.name} {', '.join(digits)}")
        seeds = ", ".join(map(str, results.seeds))
        data = text("; ".join(files)) or "none"
        rows.append([text(name), code(results.command), text(results.date), seeds, data])
    failed = [text(f"{name}: {why}") for name, r in sources.items() for why in r.failed]
    return ["## Sources", grid(heads, rows), *(["Failed: " + "; ".join(failed)] if failed else [])]


def _section(table: PaperTable, entries: Sequence[tuple[TableRow, list[Entry]]]) -> list[str]:
    """The heading, the rows and the notes of a printed table."""
    columns = [c for c in table.columns if any(_is_printed(row, c) for row in table.rows)]
    heads = [*table.heads, f"paper: {' / '.join(columns)}", "ours ± half", "difference", "from"]
    if any(w is not None for _, of in entries for e in of for w in e.plausible.values()):
        heads.append("plausible")
    rows = []
    for row, of_row in entries:
        first = [text(label) for label in row.labels]
        first.append(" / ".join(text(row.values.get(c, Value()).texts()[0]) for c in columns))
        for cells in [_ours(e, columns) for e in of_row] or [["–", "", "", ""]]:
            rows.append([*first, *cells][: len(heads)])
            first = [""] * len(first)
    notes = [f"- \\* {text(place)}: {text(remark)}" for place, remark in table.remarks]
    notes += [f"- {text(note)}" for note in table.notes]
    head = f"## {text(f'Table {table.name}: {table.title}')}"
    return [head, grid(heads, rows), *(["\n".join(notes)] if notes else [])]


def _is_printed(row: TableRow, column: str) -> bool:
    value = row.values.get(column)
    return value is not None and (value.published is not None or value.words is not None)


def _ours(entry: Entry, columns: Sequence[str]) -> list[str]:
    """Our values, their differences, where they are from, and which are plausible."""
    values = [entry.values.get(c, Value()) for c in columns]
    runs = [f"{entry.runs} runs"] if entry.runs else []
    where = [*runs, *([text(entry.data)] if entry.data else []), f"source {text(entry.source)}"]
    words = [{True: "yes", False: "no", None: "–"}[entry.plausible.get(c)] for c in columns]
    return [
        " / ".join(text(v.texts()[1]) for v in values),
        # also on other data
        " / ".join(replace(v, stands_in=False, words=None).texts()[2] or "–" for v in values),
        "; ".join(where),
        " / ".join(words) if {*words} != {"–"} else "",
    ]


def _others(known: set[str], sources: Mapping[str, Results]) -> Iterator[str]:
    """Tables of ours that have rows, but none of the paper's."""
    others = [
        (name, table)
        for name, results in sources.items()
        for table in results.tables
        if table.rows and (table.of or table.name) not in known
    ]
    if others:
        yield "## Ours without printed rows"
    for name, table in others:
        yield f"### {text(f'{table.title} [{name}]')}"
        rows = [[*map(text, row.labels), *_cells(row, table)] for row in table.rows]
        yield grid([*table.heads, *table.columns], rows)
        if table.notes:
            yield "\n".join(f"- {text(note)}" for note in table.notes)


def _cells(row: TableRow, table: PaperTable) -> Iterator[str]:
    for column in table.columns:
        theirs, ours, _ = row.values.get(column, Value()).texts()
        yield text(ours if theirs == "–" else f"{ours} (paper {theirs})")
