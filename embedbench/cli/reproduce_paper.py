"""The command reproduce: run a paper's experiments again, or judge its claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.config.run_seeds import parse_seeds
from embedbench.errors import UserError
from embedbench.papers import paper_folders
from embedbench.studies.study import split_names

from . import shared_options as shared
from .command_output import bar, note, show, show_tables

if TYPE_CHECKING:
    from embedbench.papers.paper import Paper, ReproduceRequest
    from embedbench.papers.paper_table import PaperTable

NAMES = ", ".join(" or ".join(names) for names in paper_folders.names().values() if names)
DATA = (
    "FILE; for kemker2018 mnist=FILE, cub-stand-in=FILE, …; for masana2020 cifar100=FILE; "
    "for abdelsalam2021 cifar=FILE, …; for tang2024 cifar100=FILE, …"
)
RESULTS = (
    "Files that reproduce wrote, or directories of them: write PAPER.md, the printed rows beside "
    "ours; nothing runs."
)
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
        _show_plan(paper, seeds, form == "json")
        return
    if (claims or results) and any((tables, data, learner, settings)):
        raise UserError(
            "--results takes no runs, nor does --claims: leave out --table, --data, --learner, "
            "--set"
        )
    if claims:
        _judge_claims(paper, results, out, form == "json")
        return
    chosen = paper_folders.paper(paper)  # a wrong name is refused before torch is imported
    directory = out or Path("reproduce") / chosen.stem
    if results:
        _write_appendix(chosen, results, directory, form == "json")
        return

    from embedbench.papers.paper import ReproduceRequest

    who = shared.chosen_engine(engine, resources, engine_set, threads, jobs)
    with bar("runs", quiet) as advance:
        asked = ReproduceRequest(
            out=directory,
            seeds=parse_seeds(seeds),
            names=tables or [],
            data=shared.data_here(data or []),
            learners=[*split_names(learner)],
            items=settings or [],
            engine=who,
            threads=threads,
            device=shared.chosen_device(device, who),
            progress=advance,
            notify=lambda sentence: None if quiet else note(sentence),
        )
        made, failed = chosen.reproduce(asked)
    _present(made, failed, chosen, asked, _words(paper, asked, seeds, data or []), form)


def _show_plan(paper: str, seeds: str, as_json: bool) -> None:
    from embedbench.papers.reproduction_plan import make_plan, plan_text

    plan = make_plan(paper, seeds, len(parse_seeds(seeds)))
    show(plan, plan_text(plan), as_json)


def _words(paper: str, asked: ReproduceRequest, seeds: str, data: list[str]) -> list[str]:
    """The words after `embedbench reproduce`, as far as they decide the numbers."""
    given = {
        "--table": asked.names,
        "--data": data,
        "--set": asked.items,
        "--learner": [",".join(asked.learners)] if asked.learners else [],
        "--seeds": [seeds] if asked.used else [],
    }
    return [paper, *(word for name in given for value in given[name] for word in (name, value))]


def _judge_claims(paper: str, results: list[Path] | None, out: Path | None, as_json: bool) -> None:
    """Write the page of claims; print the answers."""
    from embedbench.papers.judge_claims import find_papers, write_claims

    papers = find_papers(paper)
    alone = paper_folders.paper(papers[0]).stem if len(papers) == 1 else ""
    stored = out or Path("reproduce", alone)
    if not results and not stored.is_dir():
        raise UserError(
            f"expected results of embedbench reproduce in {stored}, which is not there; run it "
            "first, or give --results"
        )
    answers = write_claims(results or [stored], papers, stored)
    lines = (f"{a.claim:4} {a.file:20} {a.status}" for a in answers)
    show([a.to_json() for a in answers], "\n".join(lines), as_json)
    note(f"wrote {stored / 'claims.md'}")


def _present(
    tables: list[PaperTable],
    failed: list[str],
    paper: Paper,
    asked: ReproduceRequest,
    words: list[str],
    form: str,
) -> None:
    """Save and print the tables; exit 1 if a run failed."""
    from embedbench.papers import paper_table, result_files

    results = result_files.Results.now(paper.name, words, asked.seeds, asked.used, tables, failed)
    path = asked.out / f"{paper.stem}.json"
    results.write(path)
    show_tables(
        form,
        results.to_json(),
        [row for table in tables for row in paper_table.table_rows(table)],
        [part for table in tables for part in paper_table.table_parts(table)],
        text="\n\n".join(map(paper_table.table_text, tables)),
    )
    note(f"wrote {path}")
    for sentence in failed:
        note(f"failed: {sentence}")
    if failed:
        raise typer.Exit(1)


def _write_appendix(paper: Paper, paths: list[Path], out: Path, as_json: bool) -> None:
    """Write the page of printed rows; print how many rows have what beside them."""
    from embedbench.papers.printed_beside_ours import write_page

    page, rows = write_page(paper, paths, out)
    show(rows, "\n".join(f"{n:5} {what}" for what, n in rows.items()), as_json)
    note(f"wrote {page}")
