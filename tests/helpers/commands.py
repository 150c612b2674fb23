"""The command line in processes of their own that start at once, to be killed; what they leave."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import h5py
import pytest
from numpy.typing import NDArray

from embedbench.engines import local_pool

# They are forked from a server that has imported what `run` and `extract` need, and run nothing.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("embedbench.cli.app", "embedbench.runs.run_one", "embedbench.runs.grid_scheduler"),
        *("embedbench.models.mlp", "embedbench.models.ncm", "embedbench.reports.html_report"),
        *("torch._dynamo", "embedbench.extract.pipeline"),
    ]
)


def quick_workers() -> AbstractContextManager[object]:
    """While it lasts, a local engine's workers start at once, too."""
    return mock.patch.object(local_pool, "get_context", return_value=CONTEXT)


def start(words: list[str], told: Path) -> ForkServerProcess:
    """Begin `embedbench WORDS` and go on; what it prints goes to the file `told`."""
    process = CONTEXT.Process(target=command, args=(words, told))
    process.start()
    return process


def command(words: list[str], told: Path | None = None) -> None:
    """Be `embedbench WORDS`, in a process of its own."""
    from embedbench.cli.app import main

    if told is not None:
        with told.open("w") as file:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["embedbench", *words]
    main()


def stored(place: Path) -> dict[str, NDArray[Any]]:
    """The predictions of a run, by name."""
    with h5py.File(place / "predictions.h5") as f:
        return {k: v[()] for k, v in f.items()}


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Call = Callable[..., Done]


def caller(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """A function that runs one command in this process; the fixture `call` is one."""

    def ended(*words: object) -> Done:
        capfd.readouterr()
        return Done(run(monkeypatch, *words), *capfd.readouterr())

    return ended


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Run a command in this process; return its exit code."""
    from embedbench.cli.app import main

    monkeypatch.setattr(sys, "argv", ["embedbench", *map(str, words)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
