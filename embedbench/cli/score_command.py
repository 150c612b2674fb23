"""The command score: recompute every metric of stored predictions, and compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.json_records import plain
from embedbench.errors import UserError, short
from embedbench.text.table_export import records

from . import shared_options as shared
from .command_output import show_tables

if TYPE_CHECKING:
    from embedbench.scores.verified_records import RescoredRun


@shared.with_tables
def score(
    runs: Annotated[Path, typer.Argument(metavar="RUNS")],
    audit: Annotated[
        bool, typer.Option("--audit", help="For one run: what other libraries would print.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option("--update", help="Write what differs or is new, and pin what agrees."),
    ] = False,
    form: str = "text",
) -> None:
    """Recompute every metric from the stored predictions, and compare. Exit 1 if any differs."""
    from embedbench.scores import record_files, verified_records

    if audit:
        _audit(runs, form)
        return
    run_dirs = record_files.find(runs, references=True)
    if not run_dirs:
        raise UserError(f"expected finished runs (record.json) under {runs}, found none")
    results = [verified_records.rescore(run_dir, runs, update=update) for run_dir in run_dirs]
    data = [{**r.to_json(), "agrees": r.agrees} for r in results]
    show_tables(form, data, records(data), text=scores_text(results))
    if not all(r.agrees for r in results):
        raise typer.Exit(1)


# the end of what `score` prints
NOT_CHECKED = (
    "this cannot show that a learner gave the answers (none was run), nor that streams and labels "
    "are those of the embedding file (which was not opened)"
)


def _audit(runs: Path, form: str) -> None:
    """Print every definition of accuracy and forgetting for one run."""
    from embedbench.scores import metrics_by_library, record_files

    run_dirs = record_files.find(runs)
    answers = record_files.read_predictions(run_dirs[0]) if len(run_dirs) == 1 else None
    if answers is None or not metrics_by_library.can_audit(answers.SCORES):
        raise UserError(
            "--audit takes the directory of one run with one label a sample, such as "
            f"RUNS/STREAM/LEARNER/seed-0; {runs} is none"
        )
    definitions = metrics_by_library.audit(answers)
    data = plain(definitions)
    show_tables(form, data, records(data), text=audit_text(definitions))


def audit_text(definitions: Sequence[dict[str, Any]]) -> str:
    """The definitions of `audit` and their values as text."""
    lines = []
    for d in definitions:
        value = "–" if math.isnan(d["value"]) else f"{100 * d['value']:.2f} %"
        lines.append(f"{d['group']}  {value:>7}  {d['name']}: {d['formula']}")
        lines.append("    " + "; ".join(d["sources"]))
    return "\n".join([*lines, "per sample where nothing else is said; sessions from 0, L the last"])


def scores_text(results: Sequence[RescoredRun]) -> str:
    """Count the runs that agree; a line for each value, run or list of names that needs a look."""
    faults = sum(r.fault is not None for r in results)
    differ = sum(bool(r.differs) for r in results)
    runs = "1 run" if len(results) == 1 else f"{len(results)} runs"
    counts = f"{len(results) - faults - differ} agree, {differ} differ"
    lines = [f"{runs}: {counts}, {faults} cannot be recomputed"]
    for r in results:
        about = [("cannot be recomputed", r.fault)]
        for d in r.differs:
            values = f"kept {short(plain(d.kept))}, recomputed {short(plain(d.recomputed))}"
            about.append(("differs", f"{d.metric}: {values}"))
        about += [("new", ", ".join(r.new)), ("not checked", ", ".join(r.unchecked))]
        lines += [f"{word}: {r.run}: {what}" for word, what in about if what]
        if r.fault is None and not r.pinned:
            lines.append(f"not pinned: {r.run}")
        if r.updated:
            lines.append(f"updated: {r.run}")
    return "\n".join([*lines, NOT_CHECKED])
