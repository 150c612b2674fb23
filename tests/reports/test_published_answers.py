"""The rows of a published table follow from the answers that are committed beside them.

The papers' data do not ship, so that no cell can be run again here; tests/sharing/test_floor.py
runs one on data that ship.
"""

import csv
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[2] / "docs" / "studies" / "data"
NAMES = ("split-cifar100", "gdumb-mnist")
SETTING = "learner."  # the columns of what tells runs of one learner apart


@dataclass(frozen=True, eq=False)
class Stored:
    """A run of a pack."""

    record: dict[str, Any]
    predictions: bytes

    def belongs_to(self, row: dict[str, str]) -> bool:
        """Whether it is the run of a line: by learner, seed and settings."""
        if self.record["learner"] != row["learner"] or self.record["seed"] != int(row["seed"]):
            return False
        settings = {k.removeprefix(SETTING): v for k, v in row.items() if k.startswith(SETTING)}
        return all(self.setting(name) == value for name, value in settings.items())

    def setting(self, name: str) -> str:
        value = self.record["learner_params"]
        for part in name.split("."):
            value = value[part]
        return str(value)


@cache
def read_rows(name: str) -> list[dict[str, str]]:
    """The lines of a table's runs."""
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def read_pack(name: str) -> list[Stored]:
    """The stored runs of a table."""
    with zipfile.ZipFile(DATA / f"{name}-answers.zip") as pack:
        folders = [Path(place).parent for place in pack.namelist() if place.endswith("record.json")]
        return [
            Stored(
                json.loads(pack.read(f"{folder}/record.json")),
                pack.read(f"{folder}/predictions.h5"),
            )
            for folder in folders
        ]


def accuracies(predictions: bytes) -> list[float]:
    """After each session, the share of right answers on test samples of the classes so far."""
    with h5py.File(io.BytesIO(predictions)) as file:
        answers, y, seen = (file[name][()] for name in ("answer", "y", "seen"))
    taught = seen.astype(np.bool_)[:, y]
    right = answers == y
    return [float(right[k][taught[k]].mean()) for k in range(len(right))]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_its_answers(name: str) -> None:
    counts = [sum(run.belongs_to(row) for run in read_pack(name)) for row in read_rows(name)]
    assert counts == [1] * len(counts)


@pytest.mark.parametrize("metric", ["accuracy", "average_incremental_accuracy"])
@pytest.mark.parametrize("name", NAMES)
def test_the_rows_follow_from_the_answers(name: str, metric: str) -> None:
    found, stored = [], []
    for row in read_rows(name):
        (run,) = [run for run in read_pack(name) if run.belongs_to(row)]
        each = accuracies(run.predictions)
        found.append(each[-1] if metric == "accuracy" else float(np.mean(each)))
        stored.append(float(row[metric]))
    assert found == pytest.approx(stored, abs=6e-7)  # six digits are stored
