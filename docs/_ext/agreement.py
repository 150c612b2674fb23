"""The tables of docs/agreement.md: what is printed beside ours, counted over all stored results."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from embedbench.papers.claims import papers_with_claims
from embedbench.papers.claims_page import JudgedPaper
from embedbench.papers.data_kinds import OTHER, THEIRS
from embedbench.papers.judge_claims import HOLDS, KINDS, NONE, NOT, OF_PRINT
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import DRAWN, PaperTable, TableRow, table_parts
from embedbench.papers.result_files import PaperResults, read_results
from embedbench.reports.published_table import (
    AGREES,
    DIFFERS,
    NO_RUN,
    UNDECIDED,
    read_published,
)
from embedbench.reports.toml_report import show_file
from embedbench.text.markdown import table
from embedbench.text.table_export import export_tables

DOCS = Path(__file__).resolve().parents[1]
DATA = DOCS / "results" / "data"
HEADS = ("paper", "what is asked", "on", "runs", "agree", "differ", "undecided", "not run", "where")
SHORT = 8  # digits of a digest


def show_agreement(part: str) -> str:
    """The table of counts ("all"), or the files that are the papers' data ("files")."""
    if part == "files":
        return table(("results", "made", "with", "data", "which", "content"), [*_files()])
    claims = [row for name in papers_with_claims() for row in _of_paper(name)]
    return table(HEADS, [*_published(), *claims])


def _published() -> Iterator[list[str]]:
    """A row for each study file that holds a published table: its rows, by their verdict."""
    for path in sorted((DOCS / "studies").glob("*.toml")):
        given = read_published(path)
        if given is None:
            continue
        (made,) = (one for one in show_file(path, lambda _: None) if one.title == given.title)
        verdicts = [str(row["verdict"]) for row in made.rows]
        runs = _range([int(row["n"]) for row in made.rows if row["n"]])
        counts = [str(verdicts.count(name)) for name in (AGREES, DIFFERS, UNDECIDED, NO_RUN)]
        paper, _, what = given.title.partition(", Table")
        asked = f"Table{what}: {len(verdicts)} rows, within a margin"
        page = f"[study](studies/{path.stem}.md)"
        yield [paper, asked, given.data, runs, *counts, page]


def _of_paper(name: str) -> Iterator[list[str]]:
    """Rows of a paper: printed values on its own data, and its claims by the kind of data."""
    citation = facts(name)["citation"].partition(":")[0]
    yield from ([citation, *row] for row in _printed(name))
    judged = JudgedPaper.of_results(name, [DATA])
    for kind in KINDS:
        claims = [claim for claim in judged.paper.claims if claim.of_print == (kind == OF_PRINT)]
        answers = [answer for answer in judged.every if answer.kind == kind]
        statuses = [answer.status for answer in answers]
        asked = {answer.claim for answer in answers if answer.status != NONE}
        agree, differ, lacking = (statuses.count(status) for status in (HOLDS, NOT, NONE))
        undecided = len(statuses) - agree - differ - lacking
        if kind == THEIRS:
            lacking = len(claims) - len(asked)
        if not (answers or (kind == THEIRS and claims)):
            continue
        runs = _range([a.runs for a in answers if a.status != NONE and a.kind != OF_PRINT])
        counts = [str(n) for n in (agree, differ, undecided, lacking)]
        what = "claims on printed numbers" if kind == OF_PRINT else "claims"
        yield [citation, what, kind, runs, *counts, f"[claims](claims.md#{name})"]


def _printed(name: str) -> Iterator[list[str]]:
    """Rows of tables whose values were measured on the paper's own data; no margin was fixed."""
    most: dict[str, PaperTable] = {}
    for results in read_results([DATA], name).values():
        for made in results.tables:
            if len(_own(made).rows) > len(_own(most[made.name]).rows if made.name in most else ()):
                most[made.name] = made
    for number, made in most.items():
        own = _own(made).rows
        values = [value.ours for row in own for value in row.values.values()]
        runs = _range([ours.n for ours in values if ours is not None])
        absent = sum(map(_is_printed, made.rows)) - len(own)
        what = f"Table {number}: rows, no margin fixed"
        if number in facts(name).get("fitted_to", ()):
            what += "; our settings were fitted to it"
        page = f"[results](results/{name}.md)"
        yield [what, THEIRS, runs, "–", "–", str(len(own)), str(absent), page]


def _is_printed(row: TableRow) -> bool:
    return any(value.published is not None for value in row.values.values())


def _own(made: PaperTable) -> PaperTable:
    """The rows of a table that have runs on the paper's own data beside printed values."""
    rows = []
    for row in made.rows:
        values = [value for value in row.values.values() if value.difference is not None]
        if any(value.made == DRAWN for value in values):
            rows.append(row)
    return replace(made, rows=tuple(rows))


def show_printed(source: str, title: str) -> str:
    """One column of a table of a file of results, "2, Ω_all": rows on the paper's own data."""
    number, _, column = title.partition(", ")
    results = PaperResults.read(DATA / f"{source}.json")
    (made,) = (one for one in results.tables if one.name == number)
    chosen = replace(_own(made), columns=(column,), notes=())
    return export_tables(table_parts(chosen)[1:2], "markdown")[0]


def _files() -> Iterator[list[str]]:
    """The files of results that are of a paper's data, with the digests of these."""
    for name in papers_with_claims():
        for source, results in read_results([DATA], name).items():
            for file in results.files:
                kind = file.kind or (THEIRS if _is_named(results, file.name) else OTHER)
                if kind != OTHER:
                    version = f"embedbench {results.versions['embedbench']}"
                    content = f"`{file.digests['content'][:SHORT]}`"
                    link = f"[{source}](results/data/{source}.json)"
                    yield [link, results.date, version, f"`{file.name}`", kind, content]


def _is_named(results: PaperResults, file: str) -> bool:
    """Whether an older command names the file as the paper's data: mnist=mnist.h5."""
    pairs = [word.split("=") for word in results.command.split() if word.endswith(f"={file}")]
    return any(not name.endswith("-stand-in") for name, _ in pairs)


def _range(runs: list[int]) -> str:
    """The fewest and the most runs."""
    if not runs:
        return ""
    return str(runs[0]) if len(set(runs)) == 1 else f"{min(runs)} to {max(runs)}"
