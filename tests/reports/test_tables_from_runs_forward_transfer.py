"""FWT in tables is against what guessing scores on average, and not against drawn answers."""

from pathlib import Path

import numpy as np
import pytest
from pinned_runs import write_run
from report_records import HEX
from toy import predictions

from embedbench.reports.tables_from_runs import collect
from embedbench.scores.record_files import find, load
from embedbench.scores.run_record import RunRecord

# Two sessions of the same two classes, all seen at once: four test samples each.
TRUTH, GROUPS = [[0, 0, 1, 1], [0, 0, 1, 1]], [[0, 1], [0, 1]]
# before session 1, three of its four samples are right; the draws had one
LEARNER, DRAWN = [0, 0, 1, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1, 0, 0]
CHANCE = "stream-1/chance/seed-0"


def put_run(root: Path, learner: str, answers: list[int]) -> None:
    p = predictions(TRUTH, [answers] * 2, GROUPS, seen_at_once=True, within=np.array([answers] * 2))
    how = {"learner": learner, "learns": learner != "chance", "protocol": "permutation"}
    reference = {"preset": "kemker_table", "normalise_new": False, "offline_runs": []}
    how |= {"reference": reference | {"chance_run": CHANCE}, "digests": HEX, "n_classes": [2, 0]}
    write_run(root, f"stream-1/{learner}/seed-0", p, **how)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fwt")
    put_run(place, "chance", DRAWN)
    put_run(place, "one", LEARNER)
    return place


def record(root: Path, learner: str) -> RunRecord:
    (place,) = (place for place in find(root) if learner in place.parts)
    return load(place)


@pytest.mark.parametrize(("learner", "expected"), [("one", 3 / 4 - 1 / 2), ("chance", 0.0)])
def test_a_table_has_fwt_against_guessing(root: Path, learner: str, expected: float) -> None:
    rows = {row.learner: row for row in collect(root)}
    assert rows[learner].metrics["fwt"].mean == pytest.approx(expected)


def test_the_record_has_it_against_the_draws_as_before(root: Path) -> None:
    assert record(root, "one").metrics["fwt"] == pytest.approx(3 / 4 - 1 / 4)
