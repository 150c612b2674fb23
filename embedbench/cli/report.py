"""The command report: tables, pages and figures over all runs, or the pages of a board."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.json_records import plain
from embedbench.errors import UserError, unknown
from embedbench.text.table_export import TITLE, records
from embedbench.text.terminal_text import line

from . import shared_options as shared
from .command_output import note, run_tables, selected_tables, show, show_tables

if TYPE_CHECKING:
    from embedbench.reports.library_audits import LibraryAudits
    from embedbench.reports.result_rows import Row
    from embedbench.reports.row_names import RowNames
    from embedbench.scores.learner_verdicts import Over
    from embedbench.sharing.verify_pack import Submission

    from .command_output import Part, Tables


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What to show of runs."""

    html: Annotated[Path | None, typer.Option(help="Also write one HTML file.")] = None
    compare: Annotated[
        bool, typer.Option("--compare", help="Print ranks, and who is behind, instead.")
    ] = False
    over: Annotated[
        str | None,
        typer.Option("--over", metavar="seeds", help="Verdicts hold for this test sample alone."),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            metavar="order|seeds",
            help="Print the spread over class orders, and rankings, or over single seeds, instead.",
        ),
    ] = None
    bridge: Annotated[
        bool,
        typer.Option("--bridge", help="Compare learners on embeddings with the same on images."),
    ] = False
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="zoo", help="Also print the published rows that the zoo has for the data."
        ),
    ] = None
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="The score of the tables (accuracy), such as class_accuracy; a further column; "
            "or the metric of --compare, --by and --figure; also package.module:function. "
            "Repeatable."
        ),
    ] = None
    name: Annotated[list[str] | None, typer.Option(metavar="LEARNER=TEXT", help=shared.NAME)] = None
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Also write a figure: curves, orders, gacc, matrix, confusion, trade-off, ranks.",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The figure, .pdf, .svg or .png.")
    ] = None
    width: Annotated[
        str, typer.Option(help="Of the figure: a column of a two-column paper, or its page.")
    ] = "column"
    fit_axis: Annotated[
        bool,
        typer.Option("--fit-axis", help="Axes of the figure fit the values; else they begin at 0."),
    ] = False
    session: Annotated[
        int | None,
        typer.Option(metavar="N", help="After which --figure confusion is; else the last."),
    ] = None
    difference: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS", help="Of CSV files: also say how many runs see this difference."
        ),
    ] = None

    @property
    def views(self) -> list[str]:
        """The options that choose a table in place of the usual one."""
        given = {
            "--compare": self.compare,
            "--by": self.by,
            "--bridge": self.bridge,
            "--beside": self.beside,
        }
        return [name for name, value in given.items() if value]

    @property
    def is_plain(self) -> bool:
        """Whether no option chooses a table or a figure."""
        given = (*self.views, self.over, self.metric, self.name, self.figure, self.out)
        return not any(given) and self.session is None

    def check(self, runs: Sequence[Path], overwrite: bool) -> None:
        """Refuse what does not go together, before any run is read."""
        from embedbench.reports.figure_kinds import check_figure

        if self.figure is not None:
            check_figure(self.figure, self.out, self.width)
        elif self.out is not None:
            raise UserError(
                f"--out {self.out} is for a figure", f"add --figure curves, or --html {self.out}"
            )
        if self.session is not None and self.figure != "confusion":
            raise UserError("--session is for one figure", "add --figure confusion")
        for path in (self.html, self.out):
            if path is not None:
                shared.check_free(path, overwrite)
        folders, files = split_files(runs)
        if len(folders) > 1 and not self.bridge:
            raise UserError(
                f"expected one directory of runs, got {len(folders)}",
                "embedbench runs merge makes one of several, --bridge compares files",
            )
        self._check_files(folders, files)
        if len(runs) == 1 and runs[0].suffix == ".toml" and not self.is_plain:
            raise UserError(f"{runs[0]} says what to show", "leave --compare, --metric, … out")
        values = {"--by": (self.by, ("order", "seeds")), "--beside": (self.beside, ("zoo",))}
        for name, (value, known) in (values | {"--over": (self.over, ("seeds",))}).items():
            if value is not None and value not in known:
                raise unknown(name, value, known)
        if len(self.views) > 1:
            raise UserError(
                f"{' and '.join(self.views)} make tables of their own", "give one of them"
            )

    def _check_files(self, folders: Sequence[Path], files: Sequence[Path]) -> None:
        """Refuse what does not go together with CSV files, or without them."""
        if self.difference is not None and not files:
            raise UserError("--difference is for CSV files", "name one: report RUNS theirs.csv")
        if self.difference is not None and not 0 < self.difference < math.inf:
            points = "a number of points above 0"
            raise UserError("--difference", expected=points, got=self.difference)
        if not files:
            return
        if any(path.suffix == ".toml" for path in folders):
            raise UserError(f"{folders[0]} says what to show", f"name {files[0]} in its runs")
        given = [*self.views, *(["--figure"] if self.figure else [])]
        if self.over and not folders:
            given.append("--over")
        if given:
            raise UserError(
                f"{given[0]} is for runs, and {files[0]} has results alone", f"leave {given[0]} out"
            )

    @property
    def one_metric(self) -> str:
        """The one metric that learners are compared by."""
        from embedbench.reports.table_metric import BASE_SCORES, split_names

        score, names = split_names([] if self.metric is None else self.metric)
        given = names
        if len(names) == 1 and names[0] in BASE_SCORES:
            given = [str(score), *names]
        if len(given) > 1:
            raise UserError(
                f"--compare, --by and --figure take one --metric, got {', '.join(given)}"
            )
        return names[0] if names else "final_accuracy"


@shared.taking(options=ReportOptions, form=shared.chosen_form)
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="One directory, or a TOML file with a table report; several with --bridge; packs "
            "with --site. A CSV file of accuracies or printed means (docs/runs.md) stands beside a "
            "directory, or alone.",
        ),
    ],
    options: ReportOptions,
    site: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the pages of a board of packs there.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="With --site: a file to rebuild streams from.", parser=shared.here
        ),
    ] = None,
    overwrite: shared.Overwrite = False,
    form: str = "text",
) -> None:
    """Print tables over all runs: means with 95 % intervals over seeds.

    Exit 1 if a metric that --metric names fails.
    """
    if site is not None or data:
        if site is None:
            raise UserError("--data is for the streams of a board", "add --site DIR")
        if options.html or not options.is_plain:
            raise UserError("--site makes pages of its own", "leave --html, --compare, --by, … out")
        write_site(runs, site, data or [], overwrite=overwrite, as_json=form == "json")
        return
    from embedbench.reports.library_audits import LibraryAudits

    options.check(runs, overwrite)
    failed: list[str] = []  # metrics
    audits = LibraryAudits()
    rows, tables, parts = _read(runs, options, form, failed, audits)
    if options.html is not None:
        from embedbench.reports.html_report import page_heading, write_html

        title = [line("From frozen to full", TITLE)] * options.bridge
        whole = [*title, *parts]
        write_html(rows, options.html, page_heading(runs), parts=whole, audits=audits)
        note(f"wrote {options.html}")
    _draw(rows, options)
    show_tables(form, *tables)  # last: who reads it may stop reading
    if {*failed} & {*(options.metric or ())}:  # a sentence said so
        raise typer.Exit(1)


def _draw(rows: list[Row], options: ReportOptions) -> None:
    """Write the figure, if one is wanted."""
    if options.figure is None or options.out is None:
        return
    from embedbench.reports.figure_kinds import save_figure

    save_figure(
        rows,
        options.figure,
        options.out,
        width=options.width,
        metric=options.one_metric,
        fit=options.fit_axis,
        session=options.session,
    )
    note(f"wrote {options.out}")


def write_site(
    packs: Sequence[Path], site: Path, data: Sequence[Path], *, overwrite: bool, as_json: bool
) -> None:
    """Verify packs, write the pages of the board, and print what came of each pack.

    Exit 1 if a pack is refused, or a run is not ranked.
    """
    from embedbench.sharing.board import board, check_site, write_board

    for path in packs:
        if path.is_dir():
            raise UserError(f"{path} is a directory", "--site takes packs: embedbench runs pack")
    check_site(site, overwrite)
    made = board(packs, data, note)
    pages = write_board(made, site, overwrite=overwrite)
    lines = [_pack_line(submission) for submission in made.submissions]
    show(made.to_json(), "\n".join([*lines, f"wrote {pages[0]}"]), as_json)
    if any(s.refused or s.unranked for s in made.submissions):
        raise typer.Exit(1)


def _pack_line(submission: Submission) -> str:
    """What became of the runs of a pack, in numbers."""
    if submission.refused:
        return f"{submission.pack}: refused"
    numbers = f"runs ranked: {submission.ranked}, not ranked: {len(submission.unranked)}"
    if submission.chance:
        numbers += f", of chance: {submission.chance}"
    if submission.repeated:
        numbers += f", equal answers of an earlier pack: {submission.repeated}"
    return f"{submission.pack}: {numbers}"


def _read(
    runs: Sequence[Path],
    options: ReportOptions,
    form: str,
    failed: list[str],
    audits: LibraryAudits,
) -> tuple[list[Row], Tables, Sequence[Part]]:
    """What is named: rows of runs, all tables, and those that a page has beside those of the runs.

    `failed` gets the metrics that failed, `audits` those of a page with what its tables read.
    """
    from embedbench.reports import toml_report
    from embedbench.reports.row_names import RowNames, parse_names
    from embedbench.reports.table_metric import first_score, meant
    from embedbench.reports.tables_from_runs import collect, say

    over: Over = "seeds" if options.over else "seeds and samples"
    folders, files = split_files(runs)
    if runs[0].suffix == ".toml":
        tables = selected_tables(toml_report.show_file(runs[0], say))
        return [], tables, tables[2]
    rows: list[Row] = []
    metrics = options.metric or []
    names = RowNames(parse_names(options.name or ()))
    if files:  # of which --metric also names what they alone have
        score = first_score(map(meant, metrics))
        metrics = [] if score is None else [score]
    for root in folders:
        rows += collect(root, metrics=metrics, over=over, failed=failed.append, names=names)
    if options.html is not None:
        audits.judge_tables(rows)
    if files:
        tables, parts = _outside_tables(rows, files, options, form, names)
        names.check_used()
        return rows, tables, parts
    names.check_used()
    tables = _tables(rows, options, form)
    return rows, tables, tables[2] if options.bridge else ()


def split_files(runs: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """What is named: directories and others, and CSV files."""
    files = [path for path in runs if path.suffix.lower() == ".csv" and not path.is_dir()]
    return [path for path in runs if path not in files], files


def _outside_tables(
    rows: list[Row], files: Sequence[Path], options: ReportOptions, form: str, names: RowNames
) -> tuple[Tables, Sequence[Part]]:
    """The tables of runs, if there are some, and those with the results of CSV files."""
    from embedbench.reports import results_beside
    from embedbench.reports.table_metric import meant

    difference = None if options.difference is None else options.difference / 100
    metrics = tuple(map(meant, options.metric or ()))
    wanted = results_beside.TableChoice(metrics, difference, names)
    if rows:
        views = results_beside.tables_beside(rows, files, wanted, note)
    else:
        views = results_beside.tables_of_files(files, wanted, note)
    outside = selected_tables(views)
    data = {"schema": results_beside.SCHEMA, "tables": [view.data for view in views]}
    if not rows:
        return (data, *outside[1:]), outside[2]
    ours = run_tables(rows, form)
    both = {**ours[0], "beside": data}
    return (both, [*ours[1], *outside[1]], [*ours[2], line(""), *outside[2]]), outside[2]


def _tables(rows: list[Row], options: ReportOptions, form: str) -> Tables:
    """The tables that the options choose."""
    if options.bridge:
        from embedbench.reports.frozen_vs_full import bridge, bridge_parts

        pairs = bridge(rows)
        data = plain(pairs)
        return data, records(data, "streams", "learners"), bridge_parts(pairs)
    if options.compare or options.by:
        return _studies(rows, options)
    data, listed, parts = run_tables(rows, form)
    if options.beside is not None:
        from embedbench.zoo.beside_zoo import beside_parts, rows_beside

        published = rows_beside(rows, note)
        data = {**data, "published": published}
        listed = [*listed, *published]
        parts = [*parts, *beside_parts(published)]
    return data, listed, parts


def _studies(rows: list[Row], options: ReportOptions) -> Tables:
    """Who is behind whom, or the spread of each learner over orders or seeds."""
    from embedbench.reports import compare_learners, comparison_tables, spread_over_seeds

    if options.by == "seeds":
        views = spread_over_seeds.spreads_over_seeds(rows, options.one_metric)
    else:
        view = comparison_tables.spread_over_orders
        if options.compare:
            view = comparison_tables.rank_learners
        views = [view(study) for study in compare_learners.studies(rows, options.one_metric)]
    lines: list[dict[str, Any]] = []
    parts: list[Part] = []
    for made in views:
        lines += made.rows
        parts += [*made.parts, line("")]
    return comparison_tables.comparison_json(views), lines, parts
