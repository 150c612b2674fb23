"""The rows of a published table follow from the answers that are committed beside them.

CIFAR-100 does not ship, so that no cell can be run again here; tests/sharing/test_floor.py runs one
on data that ship.
"""

import csv
import io
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[2] / "docs" / "studies" / "data"
NAME = "split-cifar100"


def read_rows() -> dict[tuple[str, int], dict[str, str]]:
    """The lines of the table's runs, by learner and seed."""
    with (DATA / f"{NAME}.csv").open(encoding="utf-8", newline="") as file:
        return {(row["learner"], int(row["seed"])): row for row in csv.DictReader(file)}


def accuracies(predictions: bytes) -> list[float]:
    """After each session, the share of right answers on test samples of the classes so far."""
    with h5py.File(io.BytesIO(predictions)) as file:
        answers, y, seen = (file[name][()] for name in ("answer", "y", "seen"))
    taught = seen.astype(np.bool_)[:, y]
    right = answers == y
    return [float(right[k][taught[k]].mean()) for k in range(len(right))]


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, int], bytes]:
    """The stored answers of each run, by learner and seed."""
    result = {}
    with zipfile.ZipFile(DATA / f"{NAME}-answers.zip") as pack:
        for place in pack.namelist():
            if place.endswith("/predictions.h5"):
                learner, seed = Path(place).parts[-3:-1]
                key = learner.split("-")[0], int(seed.removeprefix("seed-"))
                result[key] = pack.read(place)
    return result


def test_every_row_has_its_answers(answers: dict[tuple[str, int], bytes]) -> None:
    assert read_rows().keys() <= answers.keys()


@pytest.mark.parametrize("metric", ["accuracy", "average_incremental_accuracy"])
def test_the_rows_follow_from_the_answers(
    answers: dict[tuple[str, int], bytes], metric: str
) -> None:
    found, stored = [], []
    for key, row in read_rows().items():
        each = accuracies(answers[key])
        found.append(each[-1] if metric == "accuracy" else float(np.mean(each)))
        stored.append(float(row[metric]))
    assert found == pytest.approx(stored, abs=6e-7)  # six digits are stored
