"""The commands on run records: score and report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.json_records import plain
from embedbench.errors import UserError, unknown

from . import name_completions, table_output
from .file_arguments import here
from .shared_options import Json, Overwrite, check_free, note, show

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.reports.compare_learners import ComparisonStudy
    from embedbench.reports.comparison_results import Study
    from embedbench.reports.result_rows import Row
    from embedbench.scores.learner_verdicts import Over
    from embedbench.scores.verified_records import RescoredRun


# --- report PACK… --site DIR: the board ---


def write_site(
    packs: Sequence[Path], site: Path, data: Sequence[Path], *, overwrite: bool, as_json: bool
) -> None:
    """Verify packs, write the pages of the board, and print what came of each pack.

    Exit 1 if a pack is refused, a run is not ranked, or an entry has the flag `EQUAL`.
    """
    from embedbench.sharing.board import EQUAL, board
    from embedbench.sharing.board_pages import check_site, write_board

    for path in packs:
        if path.is_dir():
            raise UserError(f"{path} is a directory; --site takes packs: embedbench runs pack")
    check_site(site, overwrite)
    made = board(packs, data, note)
    pages = write_board(made, site, overwrite=overwrite)
    lines = [
        f"{s.pack}: refused"
        if s.refused
        else f"{s.pack}: runs ranked: {s.ranked}, not ranked: {len(s.unranked)}"
        for s in made.submissions
    ]
    show(made.to_json(), lambda _: "\n".join([*lines, f"wrote {pages[0]}"]), as_json)
    flags = {flag for stream in made.streams for entry in stream.entries for flag in entry.flags}
    if EQUAL in flags or any(s.refused or s.unranked for s in made.submissions):
        raise typer.Exit(1)


Runs = Annotated[Path, typer.Argument(metavar="RUNS")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        help="A further column, or the metric of --compare and --by (final_accuracy); also "
        "package.module:function. Repeatable."
    ),
]
BY = ("order", "seeds", "preset")


@table_output.with_tables
def score(
    runs: Runs,
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
    as_json: Json = False,
) -> None:
    """Recompute every metric from the stored predictions, and compare. Exit 1 if any differs."""
    from embedbench.scores import record_files
    from embedbench.scores.unrecorded_metrics import outside_metrics
    from embedbench.scores.verified_records import rescore

    if audit:
        if update:
            raise UserError("--audit writes nothing; leave --update out")
        _audit(runs, as_json)
        return
    run_dirs = record_files.find(runs, references=True)
    if not run_dirs:
        raise UserError(f"expected finished runs (record.json) under {runs}, found none")
    outside = outside_metrics(metric or (), note)
    results = [
        rescore(run_dir, runs, update=update, metrics=outside, notify=note) for run_dir in run_dirs
    ]
    data = [{**r.to_json(), "agrees": r.agrees} for r in results]
    table_output.show_tables(
        data, lambda _: scores_text(results), as_json, lambda: scores_rows(results)
    )
    if not all(r.agrees for r in results):
        raise typer.Exit(1)


def _audit(runs: Path, as_json: bool) -> None:
    """Print every definition of accuracy and forgetting for one run."""
    from embedbench.config.json_records import plain
    from embedbench.scores import record_files
    from embedbench.scores.metrics_by_library import audit
    from embedbench.scores.predictions import Predictions
    from embedbench.text.table_export import records

    run_dirs = record_files.find(runs)
    if len(run_dirs) != 1:
        raise UserError(
            f"--audit takes the directory of one run, {runs} holds {len(run_dirs)}; "
            "name one, such as RUNS/STREAM/LEARNER/seed-0"
        )
    predictions = record_files.read_predictions(run_dirs[0])
    if not isinstance(predictions, Predictions):
        raise UserError("--audit takes a run with one label a sample, and this one has label sets")
    definitions = audit(predictions)
    data = plain(definitions)
    table_output.show_tables(
        data, lambda _: audit_text(definitions), as_json, lambda: records(data)
    )


Reported = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUNS",
        help="One directory, or a TOML file with [report]; several with --bridge; packs with "
        "--site.",
    ),
]
Site = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the pages of a board of packs there.")
]
Data = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="With --site: a file to rebuild streams from.", parser=here),
]
Html = Annotated[Path | None, typer.Option(help="Also write one HTML file.")]
Title = Annotated[
    str | None, typer.Option(help="Heading of the page; the directory and its parent without it.")
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Print ranks, and who is behind, instead.",
    ),
]
Pairs = Annotated[
    bool, typer.Option("--pairs", help="Print all pairs of learners instead, p-values corrected.")
]
OverOption = Annotated[
    str | None,
    typer.Option("--over", metavar="seeds", help="Verdicts hold for this test sample alone."),
]
By = Annotated[
    str | None,
    typer.Option(
        help="order: spread over class orders, and rankings. seeds: spread over each seed. preset: "
        "final scores under each preset."
    ),
]
Bridged = Annotated[
    bool, typer.Option("--bridge", help="Compare learners on embeddings with the same on images.")
]
FigureKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Also write a figure of one stream: curves, matrix, omega, trade-off, ranks, "
        "calibration or unknown.",
        autocompletion=name_completions.of_figures,
    ),
]
FigureFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The figure, .pdf, .svg or .png.")
]
Width = Annotated[
    str, typer.Option(help="Of the figure: a column of a two-column paper, or its page.")
]


@table_output.with_tables
def report(
    runs: Reported,
    html: Html = None,
    title: Title = None,
    compare: Compare = False,
    pairs: Pairs = False,
    over: OverOption = None,
    by: By = None,
    bridge: Bridged = False,
    metric: Metrics = None,
    figure: FigureKind = None,
    out: FigureFile = None,
    width: Width = "column",
    site: Site = None,
    data: Data = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Print tables over all runs: means with 95 % intervals over seeds."""
    from embedbench.reports.tables_from_runs import collect

    if site is not None or data:
        others = (html, title, figure, out, compare, pairs, over, by, bridge, metric)
        _site(runs, site, data or [], others, overwrite, as_json)
        return
    if title is not None and html is None:
        raise UserError("--title is the heading of a page; add --html FILE")
    drawing = _figure(figure, out, width)
    if len(runs) == 1 and runs[0].suffix == ".toml":
        if any((drawing, compare, pairs, over, by, bridge, metric)):
            raise UserError(f"{runs[0]} says what to show; leave --compare, --metric, … out")
        _selected(runs[0], html, title, overwrite, as_json)
        return
    _check_options(runs, (html, drawing), compare or pairs, by, bridge, overwrite)
    if over not in (None, "seeds"):
        raise UserError(f"--over takes seeds, got {over}; without it verdicts are over both")
    basis: Over = "seeds" if over else "seeds and samples"
    rows = [row for root in runs for row in collect(root, metrics=metric or (), over=basis)]
    parts: Sequence[Text | Table] = ()
    if bridge:
        parts, output = _bridge(rows, as_json)
    elif by == "preset":
        output = _by_preset(runs[0], as_json, basis)
    elif compare or pairs or by:
        kind = "pairs" if pairs else None if compare else by
        output = _studies(rows, _one(metric), kind, as_json=as_json)
    else:
        output = partial(table_output.show_rows, rows, as_json)
    if html is not None:
        from embedbench.reports.html_report import page_heading, write_html

        write_html(rows, html, title or page_heading(runs), parts=parts)
        note(f"wrote {html}")
    if figure and drawing:
        from embedbench.reports.figure_kinds import save_figure

        save_figure(rows, figure, drawing, width=width, metric=_one(metric))
        note(f"wrote {drawing}")
    output()  # last: who reads it may stop reading


def _selected(
    path: Path, html: Path | None, title: str | None, overwrite: bool, as_json: bool
) -> None:
    """Show the tables that a TOML file selects."""
    from embedbench.reports.tables_from_runs import say
    from embedbench.reports.toml_report import read_selections, select

    if html is not None:
        check_free(html, overwrite)
    tables = select(read_selections(path), path.parent, say)
    if html is not None:
        from embedbench.reports.html_report import write_html

        write_html([], html, title or path.stem, parts=table_output.selected_parts(tables))
        note(f"wrote {html}")
    table_output.show_selected(tables, as_json)


def _site(
    packs: list[Path],
    site: Path | None,
    data: list[Path],
    others: tuple[object, ...],
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a board; `others` are the options that make something else."""
    if site is None:
        raise UserError("--data is for the streams of a board; add --site DIR")
    if any(others):
        raise UserError("--site makes pages of its own; leave --html, --compare, --by, … out")
    write_site(packs, site, data, overwrite=overwrite, as_json=as_json)


def _one(metrics: list[str] | None) -> str:
    """The one metric that learners are compared by."""
    if metrics and len(metrics) > 1:
        raise UserError(f"--compare, --pairs and --by take one --metric, got {', '.join(metrics)}")
    return metrics[0] if metrics else "final_accuracy"


def _check_options(
    runs: list[Path],
    written: tuple[Path | None, Path | None],
    compare: bool,
    by: str | None,
    bridge: bool,
    overwrite: bool,
) -> None:
    """Refuse what does not go together; `written` are the page and the figure."""
    for path in written:
        if path is not None:
            check_free(path, overwrite)
    if len(runs) > 1 and not bridge:
        raise UserError(
            f"expected one directory of runs, got {len(runs)}; embedbench runs merge makes one of "
            "several, --bridge compares files"
        )
    if by not in (None, *BY):
        raise unknown("--by", str(by), BY)
    if bridge and (compare or by):
        raise UserError("--bridge makes a table of its own; leave --compare, --pairs and --by out")


def _figure(kind: str | None, out: Path | None, width: str) -> Path | None:
    """The file of the figure that is asked for."""
    from embedbench.reports.figure_kinds import check_figure

    if kind is None:
        if out is not None:
            raise UserError(f"--out {out} is for a figure; add --figure curves, or --html {out}")
        return None
    return check_figure(kind, out, width)


def _bridge(rows: list[Row], as_json: bool) -> tuple[Sequence[Text | Table], Callable[[], None]]:
    """Pair the learners that ran on embeddings and on images; the second result prints them."""
    from embedbench.reports.frozen_vs_full import bridge, bridge_parts
    from embedbench.text.table_export import TITLE, records
    from embedbench.text.terminal_text import line

    pairs = bridge(rows)
    data, parts = pairs.to_json(), bridge_parts(pairs)
    return [line("From frozen to full", TITLE), *parts], partial(
        table_output.show_tables,
        data,
        None,
        as_json,
        lambda: records(data, "streams", "learners"),
        lambda: parts,
    )


def _studies(rows: list[Row], metric: str, by: str | None, *, as_json: bool) -> Callable[[], None]:
    """Find who is behind whom, all pairs, or the spread of each learner over orders or seeds.

    The result prints it.
    """
    from embedbench.reports.compare_learners import studies
    from embedbench.reports.comparison_results import Comparison, by_order, compare, compare_all
    from embedbench.reports.comparison_text import study_parts, study_rows
    from embedbench.reports.seed_effects import by_seeds
    from embedbench.text.terminal_text import line

    every: Sequence[Study]
    if by == "seeds":
        every = by_seeds(rows, metric)
    else:
        of: Callable[[ComparisonStudy], Study] = compare
        if by:
            of = by_order if by == "order" else compare_all
        every = [of(study) for study in studies(rows, metric)]
    return partial(
        table_output.show_tables,
        Comparison.of(every).to_json(),
        None,
        as_json,
        lambda: [row for study in every for row in study_rows(study)],
        lambda: [part for s in every for part in (*study_parts(s), line(""))],
    )


def _by_preset(root: Path, as_json: bool, over: Over) -> Callable[[], None]:
    """Find the presets of the runs; the result prints the scores under each."""
    from embedbench.reports.load_results import load_runs
    from embedbench.studies.preset_regimes import find_regimes

    regimes = find_regimes((run.place, run.row()) for run in load_runs(root, notify=lambda _: None))
    if not regimes:
        raise UserError(
            f"no command of the runs under {root} names a preset; make such runs with "
            "embedbench run … --preset NAME,NAME"
        )
    return partial(table_output.show_regimes, root, regimes, as_json, over)


# --- score --audit ---


FOOTER = "a letter joins what agrees on this run; per sample, sessions from 0, L the last"


def audit_text(result: list[dict[str, Any]]) -> str:
    """The definitions of `audit` and their values as text, group by group."""
    from embedbench.scores.metrics_by_library import GROUPS

    lines: list[str] = []
    for group in GROUPS:
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


# --- score ---


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
