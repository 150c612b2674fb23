"""The app of the command line: all commands, and the entry point `embedbench`."""

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from embedbench.errors import CodeExitError, UserError, keep_inside
from embedbench.system.keep_freed_memory import keep_freed_memory
from embedbench.text import printable_text
from embedbench.version import __version__

from . import (
    extract,
    file_commands,
    help_and_usage_errors,
    pretrain,
    rank,
    report,
    reproduce_paper,
    run,
    runs_commands,
    score_command,
    show_stream,
    standard_streams,
)
from . import shared_options as shared
from .command_output import note, show_tables

app = help_and_usage_errors.App(
    name="embedbench",
    help="A feature-embedding continual-learning testbed: extract once, then ask any learner what "
    "it keeps, what it still learns, and what it costs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"embedbench {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options before the command."""


for command in (
    extract.extract,
    file_commands.import_command,
    file_commands.export,
    file_commands.inspect,
    file_commands.order,
    file_commands.verify,
    file_commands.diff,
    file_commands.push,
    pretrain.pretrain,
    show_stream.show,
    run.run,
    rank.rank,
    reproduce_paper.reproduce,
    score_command.score,
    report.report,
):
    app.command(command.__name__.removesuffix("_command"))(command)


app.add_typer(runs_commands.runs)


@app.command("list")
@shared.with_tables
def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="learners, protocols, metrics, presets, orders, sources, engines, trackers, "
            "backbones, files or zoo; or the name of a learner, a protocol or a preset.",
        ),
    ] = None,
    form: str = "text",
) -> None:
    """List the names that the command line knows, or the settings behind a name."""
    from .list_entries import KINDS, entries, every_entry, listed_text, show_settings

    if kind in KINDS:
        rows = entries(kind)
        show_tables(form, rows, rows, text=listed_text(rows))
        return
    if kind:
        show_settings(kind, form)
        return
    listed = every_entry()
    text = "\n\n".join(f"{k}:\n{listed_text(rows)}" for k, rows in listed.items())
    rows = []
    for name, of_kind in listed.items():
        rows += [{"kind": name, **row} for row in of_kind]
    show_tables(form, listed, rows, text=text)


@app.command()
@shared.with_tables
def check(
    name: Annotated[str, typer.Argument(help="Any name that list prints, or package.module:Name.")],
    device: Annotated[str, typer.Option(help="Device of a learner: cpu, cuda, …")] = "cpu",
    kind: Annotated[
        str | None, typer.Option(help="learners, protocols, metrics, … if several have the name.")
    ] = None,
    form: str = "text",
) -> None:
    """Check anything that can come from outside against its contract. Exit 1 if a check fails."""
    from embedbench.checks import conformance_suite

    results = conformance_suite.check(name, shared.chosen_device(device), kind)
    data = [r.to_json() for r in results]
    show_tables(form, data, data, text=conformance_suite.check_text(results))
    if not all(r.passed for r in results):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the file, runs and report.")] = Path(
        "runs/demo"
    ),
    quiet: shared.Quiet = False,
) -> None:
    """Run everything once on shipped images, from embeddings to a report; under three minutes."""
    from .demo import run_demo

    run_demo(out, quiet=quiet)


def _is_broken_pipe(error: BaseException) -> bool:
    """Whether nobody reads stdout any more; typer makes a SystemExit of that."""
    left = error.__cause__ or error
    return isinstance(left.__context__ or left, BrokenPipeError)


def main() -> None:
    """Entry point: user errors end with one sentence and exit code 2; SIGTERM is like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    keep_freed_memory()
    standard_streams.prepare_streams()
    failed = 2
    try:
        with keep_inside("code that this command called"):
            code = app(sys.argv[1:], standalone_mode=False)
        remark = standard_streams.finish_output()
    except UserError as e:
        sentence = str(e)
    except (BrokenPipeError, CodeExitError) as e:
        if _is_broken_pipe(e):
            standard_streams.drop_output()
            sys.exit(standard_streams.READER_GONE)
        sentence = str(e)
        failed = 1
    except OSError as e:
        sentence = standard_streams.unwritable_output(e)
        if not sentence:
            sentence = str(e.strerror or e)
            if e.filename:
                sentence = f"{e.filename}: {sentence}"
    except help_and_usage_errors.UsageError as e:
        sentence = help_and_usage_errors.usage_sentence(e)
    else:
        if code == 130:  # typer's answer to Ctrl-C
            note("embedbench: interrupted; a run or an extraction goes on by the same command")
        if remark:
            note(f"embedbench: {remark}")
        sys.exit(code or 0)
    if sentence:
        note(f"embedbench: {printable_text.printable(sentence)}")
    sys.exit(failed)
