"""Options and FILE arguments that commands share, and what they choose."""

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.engines.device import find_device
from embedbench.engines.engine import HERE, Engine
from embedbench.engines.engine_tasks import Resources
from embedbench.errors import UserError
from embedbench.files.remote import fetch, uri
from embedbench.system.cpu_threads import MOST_THREADS

from .command_output import bar, note

if TYPE_CHECKING:
    from embedbench.studies.study import Study


Command = Callable[..., None]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]


def finite(value: float | None) -> float | None:
    """Refuse NaN and infinite values, which are within any bounds of an option."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


Checkpoint = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="Least time between two checkpoints.", min=0, callback=finite
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(help="Processes, short for --engine local:N (default: cores / threads).", min=1),
]
EngineName = Annotated[
    str | None,
    typer.Option("--engine", help="local[:N], ray[://HOST:PORT], slurm or package.mod:function."),
]
ResourcesOf = Annotated[
    str | None,
    typer.Option("--resources", help="What one run takes: cpus=2,gpus=0.25,memory=4GB."),
]
EngineSet = Annotated[
    list[str] | None,
    typer.Option("--engine-set", help="Settings of the engine: partition=gpu,time=4h."),
]
THREADS = "Threads of one run; they decide the last bits."
Threads = Annotated[int, typer.Option(help=THREADS, min=1, max=MOST_THREADS)]
NAME = 'What a row is called in tables, such as slda="Streaming LDA". Repeatable.'
DEVICE = "auto, cpu, cuda or cuda:N."
Device = Annotated[str, typer.Option(help=DEVICE)]


def taking(**makers: Callable[..., Any]) -> Callable[[Command], Command]:
    """Let a command take options as values that functions make of them; typer has no groups.

    Parameters
    ----------
    **makers : callable
        By parameter of the command, the function whose parameters are the options behind it. They
        stand in the help where the command has the parameter.
    """

    def changed(command: Command) -> Command:
        options_of = {name: _parameters(maker) for name, maker in makers.items()}

        @functools.wraps(command)
        def run(**given: Any) -> None:
            for name, options in options_of.items():
                of_maker = {option.name: given.pop(option.name) for option in options}
                given[name] = makers[name](**of_maker)
            command(**given)

        # typer reads the options of a command from its signature. That of `run` has, in the place
        # of a made parameter, the options behind it: `report(runs, form)` with `form=chosen_form`
        # is read as `report(*, runs, as_json, markdown, latex, csv)`.
        options: list[inspect.Parameter] = []
        for parameter in _parameters(command):
            options += options_of.get(parameter.name, [parameter])
        by_name = [option.replace(kind=option.KEYWORD_ONLY) for option in options]
        run.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
        return run

    return changed


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def chosen_form(
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables as Markdown.")] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print tables as LaTeX (booktabs).")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the numbers as CSV.")] = False,
) -> str:
    """The form that the options name; "text" without one."""
    options = {"json": as_json, "markdown": markdown, "latex": latex, "csv": csv}
    forms = [form for form, given in options.items() if given]
    if len(forms) > 1:
        raise UserError(f"--{forms[0]} and --{forms[1]} exclude each other", "give one of them")
    return forms[0] if forms else "text"


with_tables = taking(form=chosen_form)  # for commands that print by `show_tables`


def chosen_engine(
    name: str | None,
    resources: str | None,
    settings: list[str] | None,
    threads: int,
    jobs: int | None = None,
) -> Engine:
    """The engine that `--engine` or `--jobs` names; a run takes as many cores as `--threads`."""
    if name and jobs:
        raise UserError(f"--jobs {jobs} is short for --engine local:{jobs}", "give one of them")
    if not name:
        name = f"local:{jobs}" if jobs else "local"
    needs = Resources.parse(resources or "", cpus=threads)
    return Engine.parse(name, needs, [] if settings is None else settings)


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file, unless `--overwrite` was given, and anything that is no file."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a directory or a device", "name a file")
    if path.exists() and not overwrite:
        raise UserError(f"{path} is there already", "name another file or add --overwrite")


def chosen_device(name: str, engine: Engine = HERE) -> str:
    """The device that `--device` names; refused if it cannot be used here.

    An engine that runs elsewhere may have what this machine lacks: `auto` is a GPU where
    `--resources` asks for one.
    """
    if name == "cpu":
        return name
    if engine.is_local:
        return find_device(name)
    if name != "auto":
        return name
    return "cuda" if engine.resources.gpus else "cpu"


def here(text: str) -> Path:
    """The path of a FILE argument; a name is fetched, with a bar.

    What exists is a path, though it reads as a name; as an absolute one it is no name later.
    """
    if os.path.lexists(text):
        return Path(os.path.abspath(text)) if uri.is_name(text) else Path(text)
    if not uri.is_name(text):
        return Path(text)
    with fetching(quiet=False) as how:
        return fetch.local(text, **how)


File = Annotated[Path, typer.Argument(help="An embedding file, or its name.", parser=here)]


@contextmanager
def fetching(quiet: bool) -> Iterator[dict[str, Any]]:
    """Yield `progress` and `notify` for `files.remote.fetch`."""
    with bar("fetch", quiet) as advance:
        advance.stage("MB")

        def progress(done: int, size: int) -> None:
            advance(done // 10**6, size // 10**6)

        def notify(sentence: str) -> None:
            if not quiet:
                note(sentence)

        yield {"progress": progress, "notify": notify}


def data_here(items: Sequence[str]) -> list[str]:
    """Items of `--data`, FILE or NAME=FILE, with paths in place of names."""
    result = []
    for item in items:
        head, equals, rest = item.partition("=")
        if uri.is_name(item) or os.path.lexists(item):
            result.append(str(here(item)))
        elif equals and uri.is_name(rest):
            result.append(f"{head}={here(rest)}")
        else:
            result.append(item)
    return result


def fixed_study(study: "Study", quiet: bool) -> "Study":
    """The study with names that can mean one content only; their files are fetched."""
    from embedbench.studies.resolve import pin_files

    with fetching(quiet) as how:
        return pin_files(study, **how)
