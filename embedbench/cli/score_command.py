"""The command score: recompute every metric of stored predictions, and compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.text.table_export import records

from . import shared_options as shared
from .command_output import note, show_tables

if TYPE_CHECKING:
    from embedbench.scores.verified_records import RescoredRun


@shared.with_tables
def score(
    runs: Annotated[Path, typer.Argument(metavar="RUNS")],
    audit: Annotated[
        bool, typer.Option("--audit", help="For one run: what other libraries would print.")
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Also one that records do not hold, or of yours; repeatable."
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Write what differs, is new or was open, and pin what agrees."
        ),
    ] = False,
    form: str = "text",
) -> None:
    """Recompute every metric from the stored predictions, and compare. Exit 1 if any differs."""
    from embedbench.scores import record_files, unrecorded_metrics, verified_records

    if audit:
        if update:
            raise UserError("--audit writes nothing; leave --update out")
        _audit(runs, form)
        return
    run_dirs = record_files.find(runs, references=True)
    if not run_dirs:
        raise UserError(f"expected finished runs (record.json) under {runs}, found none")
    outside = unrecorded_metrics.outside_metrics(metric or (), note)
    results = [
        verified_records.rescore(run_dir, runs, update=update, metrics=outside, notify=note)
        for run_dir in run_dirs
    ]
    data = [{**r.to_json(), "agrees": r.agrees} for r in results]
    show_tables(form, data, scores_rows(results), text=scores_text(results))
    if not all(r.agrees for r in results):
        raise typer.Exit(1)


def _audit(runs: Path, form: str) -> None:
    """Print every definition of accuracy and forgetting for one run."""
    from embedbench.scores import metrics_by_library, predictions, record_files

    run_dirs = record_files.find(runs)
    if len(run_dirs) != 1:
        raise UserError(
            f"--audit takes the directory of one run, {runs} holds {len(run_dirs)}; "
            "name one, such as RUNS/STREAM/LEARNER/seed-0"
        )
    answers = record_files.read_predictions(run_dirs[0])
    if not isinstance(answers, predictions.Predictions):
        raise UserError("--audit takes a run with one label a sample, and this one has label sets")
    definitions = metrics_by_library.audit(answers)
    data = plain(definitions)
    show_tables(form, data, records(data), text=audit_text(definitions))


FOOTER = "a letter joins what agrees on this run; per sample, sessions from 0, L the last"


def audit_text(result: list[dict[str, Any]]) -> str:
    """The definitions of `audit` and their values as text, group by group."""
    from embedbench.scores.metrics_by_library import DEFINITIONS

    lines: list[str] = []
    for group in DEFINITIONS:
        members = [e for e in result if e["group"] == group]
        known = {e["same"]: 100 * e["value"] for e in members if e["same"]}
        low, high = min(known.values(), default=0), max(known.values(), default=0)
        spread = f"{low:.2f} to {high:.2f} %" if known else "undefined"
        lines += [f"{group}: {len(members)} definitions, {len(known)} values, {spread}", ""]
        for e in members:
            value = f"{100 * e['value']:7.2f} %" if e["same"] else "        –"
            lines.append(f"{value}  {e['same'] or ' '}  {e['name']}: {e['formula']}")
            lines += [f"{'':14}{source}" for source in e["sources"]]
        lines.append("")
    return "\n".join([*lines, FOOTER])


def scores_text(results: Sequence[RescoredRun]) -> str:
    """Count the runs that agree; a line for each value, run or list of names that needs a look."""
    faults = [r for r in results if r.fault is not None]
    differ = [r for r in results if r.differs]
    counts = f"{len(results) - len(faults) - len(differ)} agree, {len(differ)} differ"
    runs = "1 run" if len(results) == 1 else f"{len(results)} runs"
    lines = [f"{runs}: {counts}, {len(faults)} cannot be recomputed"]
    lines += [f"cannot be recomputed: {r.run}: {r.fault}" for r in faults]
    for r in differ:
        for d in r.differs:
            values = f"kept {_short(d.kept)}, recomputed {_short(d.recomputed)}"
            lines.append(f"differs: {r.run}: {d.metric}: {values}")
    for r in results:
        parts = (
            ("new", r.new, ""),
            ("open", r.open, ""),
            ("open", r.waits_for, "waits for "),
            ("not checked", r.unchecked, ""),
        )
        lines += [f"{word}: {r.run}: {before}{_few(n)}" for word, n, before in parts if n]
    for r in results:
        lines += [f"{n}: {r.run}: {_short(value)}" for n, value in (r.outside or {}).items()]
    lines += [f"not pinned: {r.run}" for r in results if r.fault is None and not r.pinned]
    return "\n".join([*lines, *(f"updated: {r.run}" for r in results if r.updated)])


def scores_rows(results: Sequence[RescoredRun]) -> list[dict[str, Any]]:
    """One row per run: whether it agrees, and what needs a look."""
    rows = []
    for r in results:
        row = {"run": r.run, "agrees": r.agrees, "pinned": r.pinned, "updated": r.updated}
        row |= {"differs": " ".join(d.metric for d in r.differs), "fault": r.fault}
        row |= {name: " ".join(getattr(r, name)) for name in ("new", "open", "unchecked")}
        rows.append(row | (r.outside or {}))
    return rows


def _short(value: Any) -> str:
    text = json.dumps(plain(value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _few(names: Sequence[str]) -> str:
    """Names in a line, the first of many."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
