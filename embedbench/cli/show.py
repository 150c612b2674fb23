"""`embedbench show`: a stream in the terminal, or as files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError

from .named import fixed_study
from .options import Json, Overwrite, Quiet, check_free, note
from .run import Files, Order, Preset, Protocol, Seed, Seeds
from .tables import show_tables, with_tables

if TYPE_CHECKING:
    from embedbench.runs.work import PreparedRun
    from embedbench.streams.summary import StreamSummary

Export = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the stream as lists of samples, for other tools."),
]
Picture = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Draw the stream, as .pdf, .svg or .png."),
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="protocol.base=50, …")]


@with_tables
def show(
    ctx: typer.Context,
    files: Files = None,
    protocol: Protocol = None,
    seed: Seed = None,
    seeds: Seeds = None,
    settings: Settings = None,
    order: Order = None,
    preset: Preset = None,
    export: Export = None,
    features: Annotated[
        bool, typer.Option("--features", help="With --export: features too, scaled as for run.")
    ] = False,
    out: Picture = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the stream that a protocol makes of files, or export it for other tools."""
    from embedbench.runs.study_parts import parts
    from embedbench.runs.work import StreamCache

    from .stream_text import stream_parts, stream_rows
    from .study import parse_study

    if features and export is None:
        raise UserError("--features goes with --export DIR")
    study = fixed_study(parse_study(ctx, learner="chance"), (), quiet)
    cells = [cell for part in parts(study) for cell in part.cells(out="RUNS")]
    _check_picture(out, len(cells), overwrite)
    places = [_place(export, cell.seed, len(cells)) for cell in cells] if export else []
    for place in places:
        _check_free(place, overwrite)
    workshop, summaries = StreamCache(), []
    for i, cell in enumerate(cells):
        work = workshop.prepare(cell, Path())
        summaries.append(_summary(work))
        if places:
            _export(work, places[i], features)
        if out is not None:
            _draw(work, out)
    lines = [part for summary in summaries for part in stream_parts(summary)]
    show_tables(
        [s.to_json() for s in summaries],
        None,
        as_json,
        lambda: [row for summary in summaries for row in stream_rows(summary)],
        lambda: lines,
    )


def _summary(work: PreparedRun) -> StreamSummary:
    from embedbench.streams.summary import StreamSummary

    names = _class_names(work)
    files = ", ".join(file.path.name for file in work.files)
    title = f"{work.cell.protocol} · {files} · seed {work.cell.seed}"
    return StreamSummary.of(work.stream, title, names)


def _class_names(work: PreparedRun) -> list[str]:
    from embedbench.runs.described import described_stream

    return [name for part in described_stream(work)["classes"] for name in part]


def _check_picture(path: Path | None, streams: int, overwrite: bool) -> None:
    """Refuse a picture of several streams, of another format, or in the place of a file."""
    from embedbench.reports.figures import check_format

    if path is None:
        return
    if streams > 1:
        raise UserError(f"--out draws one stream, and there are {streams}; give one --seed")
    check_format(path)
    check_free(path, overwrite)


def _draw(work: PreparedRun, path: Path) -> None:
    """Draw sessions, classes and samples."""
    from embedbench.reports.figures import WIDTHS
    from embedbench.reports.sheet import write
    from embedbench.reports.stream_plot import draw_stream
    from embedbench.streams.counts import class_counts

    train, test = class_counts(work.stream)
    sets = [s.split for s in work.stream.eval_sets]
    names, width = _class_names(work), WIDTHS["column"]
    write(path, lambda: draw_stream(train, test, names, width, sets=sets))
    note(f"wrote {path}")


def _place(directory: Path, seed: int, count: int) -> Path:
    """Where a stream is exported to: the streams of several seeds lie side by side."""
    return directory if count == 1 else directory / f"seed-{seed}"


def _check_free(directory: Path, overwrite: bool) -> None:
    """Refuse to replace the files of an exported stream."""
    from embedbench.runs.exported import FEATURES, LISTS, STREAM

    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file; name a directory")
    for name in (*LISTS, STREAM, FEATURES):
        check_free(directory / name, overwrite)


def _export(work: PreparedRun, place: Path, features: bool) -> None:
    from embedbench.runs.exported import export

    exported = export(work, place, features=features)
    note(f"wrote {place}: stream {exported.digest[:12]}")
