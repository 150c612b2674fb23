"""The command show: a stream in the terminal, or as files for other tools."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.errors import UserError
from embedbench.text.table_export import records
from embedbench.text.terminal_text import line, new_table

from . import command_output, run
from . import shared_options as shared

if TYPE_CHECKING:
    from embedbench.runs.run_task import Task
    from embedbench.streams.stream_summary import StreamSummary


@shared.taking(options=run.StreamOptions, form=shared.chosen_form)
def show(
    options: run.StreamOptions,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the stream as lists of samples, for other tools."),
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="With --export: features too, scaled as for run.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Draw the stream, as .pdf, .svg or .png."),
    ] = None,
    overwrite: shared.Overwrite = False,
    form: str = "text",
    quiet: shared.Quiet = False,
) -> None:
    """Show the stream that a protocol makes of files, or export it for other tools."""
    from embedbench.interop import exported_stream
    from embedbench.reports import figure_kinds
    from embedbench.runs.run_task import make_task
    from embedbench.runs.stream_cache import StreamCache
    from embedbench.streams.stream_summary import StreamSummary
    from embedbench.studies.resolve import resolve

    if features and export is None:
        raise UserError("--features goes with --export DIR")
    specs = resolve(shared.fixed_study(options.study(), quiet), out="RUNS")
    if len(specs) > 1 and (out or export):
        raise UserError("--out and --export take one stream", "give one --seed")
    if out is not None:
        figure_kinds.check_format(out)
        shared.check_free(out, overwrite)
    if export is not None:
        _check_free(export, overwrite)
    streams = StreamCache()
    summaries = []
    for spec in specs:
        task = make_task(spec, Path(), streams)
        files = ", ".join(file.path.name for file in task.files)
        title = f"{task.spec.protocol} · {files} · seed {task.spec.seed}"
        summaries.append(StreamSummary.of(task.stream, title, _class_names(task)))
        if export is not None:
            written = exported_stream.export(task, export, features=features)
            command_output.note(f"wrote {export}: stream {written.digest[:12]}")
            for sentence in exported_stream.label_notes(written):
                command_output.note(f"note: {sentence}")
        if out is not None:
            _draw(task, out)
    rows: list[dict[str, Any]] = []
    parts: list[command_output.Part] = []
    for summary in summaries:
        rows += stream_rows(summary)
        parts += stream_parts(summary)
    command_output.show_tables(form, [s.to_json() for s in summaries], rows, parts=parts)


def _class_names(task: Task) -> list[str]:
    from embedbench.streams.taught_classes import class_names

    return list(itertools.chain(*class_names(task.stream, task.files)))


def _draw(task: Task, path: Path) -> None:
    """Draw sessions, classes and samples."""
    from embedbench.reports import figure_kinds, figure_style, stream_plot
    from embedbench.streams import stream_summary

    train, test = stream_summary.class_counts(task.stream)
    sets = [s.split for s in task.stream.eval_sets]
    names = _class_names(task)
    width = figure_kinds.WIDTHS["column"]
    figure_style.write(path, stream_plot.draw_stream(train, test, names, width, sets=sets))
    command_output.note(f"wrote {path}")


def _check_free(directory: Path, overwrite: bool) -> None:
    """Refuse to replace the files of an exported stream."""
    from embedbench.interop.exported_stream import FEATURES, LISTS, STREAM

    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file", "name a directory")
    for name in (*LISTS, STREAM, FEATURES):
        shared.check_free(directory / name, overwrite)


# --- a stream for the terminal ---


NAMED = 3  # classes of a session that are named


def stream_parts(summary: StreamSummary) -> list[command_output.Part]:
    """Title, a table of the sessions, and the digests."""
    sessions = summary.sessions
    tests = summary.tests
    each = len(tests) == len(sessions)
    heads = ["session", "introduces", "classes", "train", "val"]
    if each:
        heads.append("test")
    table = new_table(heads, names=2)
    for i, s in enumerate(sessions):
        counts = [len(s.classes), s.train, s.val]
        if each:
            counts.append(tests[i])
        table.add_row(str(i), line(_names(s.classes)), *[f"{n:,}" for n in counts])
    parts: list[command_output.Part] = [line(summary.title, "bold"), table]
    if not each:
        parts.append(line(f"samples of the eval sets: {', '.join(f'{n:,}' for n in tests)}"))
    parts += [line(f"note: {n}") for n in summary.notes]
    digests = " · ".join(f"{name} {value[:12]}" for name, value in summary.digests.items())
    return [*parts, line(f"digests: {digests}", "dim")]


def stream_rows(summary: StreamSummary) -> list[dict[str, Any]]:
    """The numbers of the table, one row per session."""
    rows = records(summary.to_json(), "sessions")
    each = len(summary.tests) == len(rows)
    return [
        {"session": i, **row, "test": summary.tests[i] if each else None}
        for i, row in enumerate(rows)
    ]


def _names(classes: tuple[str, ...]) -> str:
    if len(classes) > NAMED + 1:  # "… 1 more" is as long as the last name
        classes = (*classes[:NAMED], f"… {len(classes) - NAMED} more")
    return ", ".join(classes) or "–"
