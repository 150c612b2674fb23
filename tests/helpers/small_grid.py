"""A grid of small cells with references, for engines; and what it must give."""

from collections.abc import Sequence
from pathlib import Path

from image_files import embedding_file
from plan_runs import plan

from embedbench.runs.grid_scheduler import Outcome, run_grid
from embedbench.runs.run_spec import RunSpec

LEARNERS = ("ncm", "slda")
ITEMS = (
    *("references=1", "offline.mlp.units=8"),
    *("offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=2"),
)


def small_grid(folder: Path, seeds: Sequence[int]) -> list[RunSpec]:
    """`ncm` and `slda`, once a seed, on a file in a folder."""
    settings = list(ITEMS)
    file = str(embedding_file(folder).path)
    return plan([file], "incremental-class", list(LEARNERS), seeds, settings)


def words(cells: Sequence[RunSpec], seeds: str, out: Path) -> list[str]:
    """The same as a command line."""
    line = ["run", *cells[0].files, "--protocol", "incremental-class", "--out", str(out)]
    line += ["--learner", ",".join(LEARNERS), "--seeds", seeds, "--device", "cpu", "--quiet"]
    return line + [word for item in ITEMS for word in ("--set", item)]


def answers(root: Path) -> dict[str, bytes]:
    """The bytes of all predictions under a directory, by place."""
    return {
        str(path.parent.relative_to(root)): path.read_bytes()
        for path in root.rglob("predictions.h5")
        if path.parent.name[0] != "."
    }


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
    assert {path.name for path in root.rglob(".*")} <= {".directory"}
