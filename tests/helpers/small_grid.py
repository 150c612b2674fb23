"""Grids of small cells, with and without references, and what they must give."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from image_files import embedding_file
from plan_runs import plan

from embedbench.runs import run_one
from embedbench.runs.grid_scheduler import Outcome, run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import Task
from embedbench.scores import record_files

LEARNERS = ("ncm", "slda")
ITEMS = (
    *("references=1", "offline.mlp.units=8"),
    *("offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=2"),
)


def small_grid(folder: Path, seeds: Sequence[int]) -> list[RunSpec]:
    """`ncm` and `slda`, once a seed, on a file in a folder."""
    file = str(embedding_file(folder).path)
    return plan([file], "incremental-class", list(LEARNERS), seeds, list(ITEMS))


def open_cells(
    folder: Path, learners: str = "ncm", *items: str, seeds: Sequence[int] = (0, 1, 2)
) -> list[RunSpec]:
    """Runs without an offline reference, on a file in a folder."""
    file, settings = str(embedding_file(folder).path), ["references=0", *items]
    return plan([file], "incremental-class", learners.split(","), seeds, settings)


def before_each_run(monkeypatch: pytest.MonkeyPatch, look: Callable[[Task], Any]) -> None:
    """Call `look` with each task that is made from now on, before it is."""
    execute = run_one.execute

    def looked(task: Task, *args: Any) -> None:
        look(task)
        execute(task, *args)

    monkeypatch.setattr(run_one, "execute", looked)


def tree(root: Path) -> dict[str, bytes]:
    """Every file under a directory."""
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


def words(cells: Sequence[RunSpec], seeds: str, out: Path) -> list[str]:
    """The same as a command line."""
    line = ["run", *cells[0].files, "--protocol", "incremental-class", "--out", str(out)]
    line += ["--learner", ",".join(LEARNERS), "--seeds", seeds, "--device", "cpu", "--quiet"]
    return line + [word for item in ITEMS for word in ("--set", item)]


def answers(root: Path) -> dict[str, bytes]:
    """The bytes of all predictions under a directory, by place."""
    places = record_files.find(root, references=True) if root.is_dir() else []
    return {str(p.relative_to(root)): (p / "predictions.h5").read_bytes() for p in places}


def expected(cells: list[RunSpec], root: Path) -> dict[str, bytes]:
    """The answers that one process gives."""
    assert not run_grid(cells, root).failed
    return answers(root)


def check_same(
    outcome: Outcome, cells: Sequence[RunSpec], root: Path, good: dict[str, bytes]
) -> None:
    """Every cell and reference is there with the same bytes, and nothing lies beside them."""
    assert not outcome.failed
    assert len(outcome.run_dirs) == len(cells)
    assert answers(root) == good
    assert not list(root.rglob(".*"))
