"""The command reproduce: run a paper's experiments again, or judge its claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.run_seeds import parse_seeds
from embedbench.errors import UserError
from embedbench.papers import paper_folders
from embedbench.runs.progress_line import RunsAtWork
from embedbench.studies.study import split_names

from . import shared_options as shared
from .command_output import bar, note, show, show_tables

if TYPE_CHECKING:
    from embedbench.papers.paper import Paper, PaperRuns
    from embedbench.papers.paper_table import PaperTable

ALL = "all"  # in the place of a paper's name
NAMES = ", ".join(" or ".join(names) for names in paper_folders.names().values() if names)
DATA = (
    "FILE; for kemker2018 mnist=FILE, cub-stand-in=FILE, …; for masana2020 and michel2023 "
    "cifar100=FILE, …; for abdelsalam2021 cifar=FILE, …; for tang2024 cifar100=FILE, …"
)
RESULTS = "Files that reproduce wrote, or directories of them: print their tables; nothing runs."
CLAIMS = (
    "Judge what the paper claims, from --results or from what reproduce wrote to --out, and write "
    "claims.md; PAPER may be all."
)


@shared.with_tables
def reproduce(
    paper: Annotated[str, typer.Argument(help=f"{NAMES}.")],
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="1, 2, fig3, s6, …; default: all.")
    ] = None,
    data: Annotated[list[str] | None, typer.Option("--data", "--dataset", help=DATA)] = None,
    out: Annotated[Path | None, typer.Option(help="Directory; default: reproduce/PAPER.")] = None,
    seeds: Annotated[str, typer.Option(help="0-4 or 0,2,5.")] = "0-2",
    learner: Annotated[str | None, typer.Option(help="Only these learners, with commas.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="As in run.")] = None,
    jobs: shared.Jobs = None,
    engine: shared.EngineName = None,
    resources: shared.ResourcesOf = None,
    engine_set: shared.EngineSet = None,
    threads: shared.Threads = 1,
    device: shared.Device = "auto",
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print what to fetch, to run and to send back.")
    ] = False,
    results: Annotated[list[Path] | None, typer.Option(help=RESULTS)] = None,
    claims: Annotated[bool, typer.Option("--claims", help=CLAIMS)] = False,
    form: str = "text",
    quiet: shared.Quiet = False,
) -> None:
    """Run a paper's experiments again; print its numbers beside ours."""
    if plan:
        from embedbench.papers.reproduction_plan import make_plan, plan_text

        given = make_plan(paper, seeds, len(parse_seeds(seeds)))
        show(given, plan_text(given), form == "json")
        return
    if claims or results:
        if any((tables, data, learner, settings)):
            raise UserError("--results and --claims take no --table, --data, --learner, --set")
        if claims:
            _write_claims(paper, results, out, form == "json")
        else:
            _show_stored(paper, results or [], form)
        return
    chosen = paper_folders.paper(paper)  # a wrong name is refused before torch is imported
    who = shared.chosen_engine(engine, resources, engine_set, threads, jobs)
    given_data = shared.data_here(data or [])  # a download has a bar of its own
    with bar("reproduce", quiet) as advance:
        at_work = RunsAtWork()
        runs = chosen.runs(
            out or Path("reproduce", chosen.stem),
            parse_seeds(seeds),
            learners=[*split_names(learner)],
            items=settings or [],
            engine=who,
            threads=threads,
            device=shared.chosen_device(device, who),
            progress=advance.stage("runs", at_work),
            watch=at_work.plan,
            notify=lambda sentence: None if quiet else note(sentence),
        )
        made = chosen.reproduce(runs, tables or [], given_data)
    options: dict[str, list[str] | None] = {
        "--table": tables,
        "--data": data,
        "--set": settings,
        "--learner": [learner] if learner else None,
        "--seeds": [seeds] if runs.data else None,  # exact tables have none
    }
    words = [paper]
    for name, values in options.items():
        for value in [] if values is None else values:
            words += [name, value]
    _present(words, chosen, runs, made, form)


def _present(
    words: list[str], paper: Paper, runs: PaperRuns, tables: list[PaperTable], form: str
) -> None:
    """Save and print the tables of a command; exit 1 if a run failed."""
    from embedbench.papers.paper_table import rows_and_parts
    from embedbench.papers.result_files import PaperResults

    files = [runs.streams.file(str(data.file)) for data in runs.data.values()]
    kinds = [(data.kind, runs.label(name)) for name, data in runs.data.items()]
    results = PaperResults.now(paper.name, words, runs.seeds, files, tables, runs.failed, kinds)
    path = runs.out / f"{paper.stem}.json"
    results.write(path)
    show_tables(form, results.to_json(), *rows_and_parts(tables))
    note(f"wrote {path}")
    for sentence in runs.failed:
        note(f"failed: {sentence}")
    if runs.failed:
        raise typer.Exit(1)


def _show_stored(paper: str, paths: list[Path], form: str) -> None:
    """Print the tables of files of results again."""
    from embedbench.papers.paper_table import rows_and_parts
    from embedbench.papers.result_files import read_results
    from embedbench.text.terminal_text import line

    data = []
    rows = list[Any]()
    parts = list[Any]()
    for name, results in read_results(paths, paper_folders.facts(paper)["name"]).items():
        of_rows, of_parts = rows_and_parts(results.tables)
        data.append({"source": name, **results.to_json()})
        rows += [{"source": name, **row} for row in of_rows]
        parts += [line(f"{name}, {results.date}: {results.command}"), *of_parts, line("")]
    show_tables(form, data, rows, parts)


def _write_claims(paper: str, results: list[Path] | None, out: Path | None, as_json: bool) -> None:
    """Write the page of claims; print the answers."""
    from embedbench.papers.claims import papers_with_claims
    from embedbench.papers.claims_page import make_claims_page
    from embedbench.storage.atomic_write import write_safely

    stored = out or Path("reproduce", "" if paper == ALL else paper_folders.facts(paper)["stem"])
    papers = papers_with_claims() if paper == ALL else [paper_folders.facts(paper)["name"]]
    text, answers = make_claims_page(results or [stored], papers)
    path = stored / "claims.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_safely(path, text)
    lines = [" ".join([f"{a.claim:4} {a.file:20} {a.status}", *a.flags]) for a in answers]
    show([answer.to_json() for answer in answers], "\n".join(lines), as_json)
    note(f"wrote {path}")
