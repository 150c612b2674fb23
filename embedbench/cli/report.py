"""The command report: tables, pages and figures over all runs, or the pages of a board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError, unknown

from . import command_output, shell_completion
from .file_arguments import here
from .shared_options import Json, Overwrite, check_free

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.reports.result_rows import Row
    from embedbench.scores.learner_verdicts import Over


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
    made = board(packs, data, command_output.note)
    pages = write_board(made, site, overwrite=overwrite)
    lines = [
        f"{s.pack}: refused"
        if s.refused
        else f"{s.pack}: runs ranked: {s.ranked}, not ranked: {len(s.unranked)}"
        for s in made.submissions
    ]
    command_output.show(made.to_json(), lambda _: "\n".join([*lines, f"wrote {pages[0]}"]), as_json)
    flags = {flag for stream in made.streams for entry in stream.entries for flag in entry.flags}
    if EQUAL in flags or any(s.refused or s.unranked for s in made.submissions):
        raise typer.Exit(1)


Metrics = Annotated[
    list[str] | None,
    typer.Option(
        help="A further column, or the metric of --compare and --by (final_accuracy); also "
        "package.module:function. Repeatable."
    ),
]
BY = ("order", "seeds", "preset")


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
Beside = Annotated[
    str | None,
    typer.Option(
        metavar="zoo", help="Also print the published rows that the zoo has for the data."
    ),
]
FigureKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Also write a figure of one stream: curves, matrix, omega, trade-off, ranks, "
        "calibration or unknown.",
        autocompletion=shell_completion.of_figures,
    ),
]
FigureFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The figure, .pdf, .svg or .png.")
]
Width = Annotated[
    str, typer.Option(help="Of the figure: a column of a two-column paper, or its page.")
]


@command_output.with_tables
def report(
    runs: Reported,
    html: Html = None,
    title: Title = None,
    compare: Compare = False,
    pairs: Pairs = False,
    over: OverOption = None,
    by: By = None,
    bridge: Bridged = False,
    beside: Beside = None,
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
        others = (html, title, figure, out, compare, pairs, over, by, bridge, beside, metric)
        _site(runs, site, data or [], others, overwrite, as_json)
        return
    if title is not None and html is None:
        raise UserError("--title is the heading of a page; add --html FILE")
    drawing = _figure(figure, out, width)
    if len(runs) == 1 and runs[0].suffix == ".toml":
        if any((drawing, compare, pairs, over, by, bridge, beside, metric)):
            raise UserError(f"{runs[0]} says what to show; leave --compare, --metric, … out")
        _selected(runs[0], html, title, overwrite, as_json)
        return
    _check_options(runs, (html, drawing), compare or pairs, by, bridge, overwrite)
    _check_beside(beside, bool(compare or pairs or by or bridge))
    if over not in (None, "seeds"):
        raise UserError(f"--over takes seeds, got {over}; without it verdicts are over both")
    basis: Over = "seeds" if over else "seeds and samples"
    rows = [row for root in runs for row in collect(root, metrics=metric or (), over=basis)]
    parts: Sequence[Text | Table] = ()
    output: Callable[[], None]
    if beside is not None:
        output = partial(command_output.show_beside, rows, as_json)
    elif bridge:
        parts, output = _bridge(rows, as_json)
    elif by == "preset":
        output = _by_preset(runs[0], as_json, basis)
    elif compare or pairs or by:
        kind = "pairs" if pairs else None if compare else by
        output = _studies(rows, _one(metric), kind, as_json=as_json)
    else:
        output = partial(command_output.show_rows, rows, as_json)
    if html is not None:
        _write_page(rows, html, title, runs, parts)
    if figure and drawing:
        from embedbench.reports.figure_kinds import save_figure

        save_figure(rows, figure, drawing, width=width, metric=_one(metric))
        command_output.note(f"wrote {drawing}")
    output()  # last: who reads it may stop reading


def _write_page(
    rows: list[Row], html: Path, title: str | None, runs: list[Path], parts: Sequence[Text | Table]
) -> None:
    """Write the HTML page."""
    from embedbench.reports.html_report import page_heading, write_html

    write_html(rows, html, title or page_heading(runs), parts=parts)
    command_output.note(f"wrote {html}")


def _check_beside(beside: str | None, other: bool) -> None:
    """Refuse what `--beside` does not take, and another table with it."""
    if beside not in (None, "zoo"):
        raise UserError(f"--beside takes zoo, got {beside}")
    if beside and other:
        raise UserError("--beside makes a table of its own; leave --compare, --by, … out")


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

        write_html([], html, title or path.stem, parts=command_output.selected_parts(tables))
        command_output.note(f"wrote {html}")
    command_output.show_selected(tables, as_json)


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
    from embedbench.config.json_records import plain
    from embedbench.reports.frozen_vs_full import bridge, bridge_parts
    from embedbench.text.table_export import TITLE, records
    from embedbench.text.terminal_text import line

    pairs = bridge(rows)
    data, parts = plain(pairs), bridge_parts(pairs)
    return [line("From frozen to full", TITLE), *parts], partial(
        command_output.show_tables,
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
    from embedbench.reports import comparison_tables
    from embedbench.reports.compare_learners import studies

    if by == "seeds":
        views = comparison_tables.spread_over_seeds(rows, metric)
    else:
        view = {
            None: comparison_tables.rank_learners,
            "pairs": comparison_tables.list_pairs,
            "order": comparison_tables.spread_over_orders,
        }[by]
        views = [view(study) for study in studies(rows, metric)]
    return partial(
        command_output.show_tables,
        comparison_tables.comparison_json(views),
        None,
        as_json,
        lambda: [row for view in views for row in view.rows],
        lambda: command_output.selected_parts(views),
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
    return partial(command_output.show_regimes, root, regimes, as_json, over)
