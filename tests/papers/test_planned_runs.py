"""The runs that the tables of papers ask for: as they were, to the last setting."""

import hashlib
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from reproduce_files import blob_file

from embedbench.runs.run_spec import RunSpec

# Number of runs, and SHA-256 of their settings as runs are kept by them, on files of 12 classes.
# Other settings are other runs than those of the results that are committed.
PLANNED = {
    "fscil": "20 414acf7b7c6efb76",
    "iirc": "56 e6cb0cf054d7a7b8",
    "new_metrics": "6 ea7a5bb66bcb8c31",
}
ITEMS = {"iirc": ["protocol.configuration=0-1"]}


def digest(specs: Sequence[RunSpec]) -> str:
    lines = [
        f"{run.protocol} {run.protocol.identity} {run.learner} {run.learner.identity} {run.seeds} "
        f"{run.references} {run.preset} {run.offline} {run.offline.identity}"
        for run in specs
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANNED)
def test_a_paper_asks_for_the_same_runs(name: str, tmp_path: Path) -> None:
    paper = importlib.import_module(f"embedbench.papers.{name}.paper").PAPER
    path = blob_file(tmp_path / "toy.h5", 12, 1000, groups=3, layers=["block-1", "block-2"]).path
    runs = paper.runs(tmp_path / "out", [0, 1], items=ITEMS.get(name, []))
    runs.data = runs.find_data([str(path)])
    tables = [make for table, make in paper.tables.items() if table not in paper.unplanned]
    specs = runs.plan_tables(tables)
    assert f"{len(specs)} {digest(specs)}" == PLANNED[name]
