"""The command line in processes of their own that start at once, to be killed; what they leave."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import pytest
from numpy.typing import NDArray

from embedbench.engines import local_pool

# They are forked from a server that has imported what `run` and `extract` need, and run nothing.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("embedbench.cli.app", "embedbench.runs.run_one", "embedbench.models.mlp"),
        *("torch._dynamo", "embedbench.extract.pipeline"),
    ]
)


def quick_workers() -> AbstractContextManager[object]:
    """While it lasts, a local engine's workers start at once, too."""
    return mock.patch.object(local_pool, "get_context", return_value=CONTEXT)


def start(words: list[str], told: Path) -> ForkServerProcess:
    """Begin `embedbench WORDS` and go on; what it prints goes to the file `told`."""
    process = CONTEXT.Process(target=_command, args=(words, told))
    process.start()
    return process


def _command(words: list[str], told: Path) -> None:
    from embedbench.cli.app import main

    with told.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
        sys.argv = ["embedbench", *words]
        main()


def stored(place: Path) -> dict[str, NDArray[Any]]:
    """The predictions of a run, by name."""
    with h5py.File(place / "predictions.h5") as f:
        return {k: v[()] for k, v in f.items()}


def caller(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """A function that runs one command in this process: exit code, stdout, stderr."""
    from embedbench.cli.app import main

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["embedbench", *words])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        assert code is None or isinstance(code, int)
        return code or 0, out, err

    return run
