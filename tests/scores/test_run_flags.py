"""When a run is said not to have learned, worked out by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_records import typed, unscored
from toy import predictions

from embedbench.scores import record_files
from embedbench.scores.run_flags import fewest_steps, optimiser_steps

GROUPS = [[0, 1], [2, 3], [4, 5]]
TRUTH = [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]
OLD = [0, 0, 1, 1]  # right on session 0
IDLE = [0] * 4  # nothing of a later session is right


def flags(tmp_path: Path, *answers: list[int], log: Any = None, **changes: Any) -> tuple[str, ...]:
    within = np.tile(np.concatenate(TRUTH), (3, 1))
    predictions(TRUTH, list(answers), GROUPS, within=within).save(tmp_path / "predictions.h5")
    made = unscored(3, **changes)
    if log:
        made = replace(made, sessions=(*made.sessions[:2], replace(made.sessions[2], log=log)))
    return record_files.evaluate(made, tmp_path, tmp_path).flags


NOTHING = [*OLD, *IDLE, *IDLE]
LATE = [*OLD, *TRUTH[1], *IDLE]
MOSTLY = [*OLD, 2, 2, 0, 3, *IDLE]


@pytest.mark.parametrize(
    ("second", "third", "learned"),
    [
        (NOTHING, NOTHING, False),  # a huge penalty: session 0 is kept, nothing else comes
        (NOTHING, LATE, True),  # R[2, 1:] = 1, 0: replay taught session 1 in session 2
        (NOTHING, MOSTLY, True),  # .75, 0: the mean .375 is above 2/6
        (NOTHING, [*OLD, 2, 2, 0, 0, *IDLE], False),  # .5, 0: .25 is not
        # R[1, 1] = 1, R[2, 2] = 0, forgotten in the end: .5 is above the mean of 2/4 and 2/6
        ([*IDLE, *TRUTH[1], *IDLE], NOTHING, True),
        # at once .75 and 0: .375 is under (2/4 + 2/6) / 2 = .417; late it is above 2/6
        (MOSTLY, MOSTLY, True),
        (MOSTLY, NOTHING, False),
    ],
)
def test_not_learned(tmp_path: Path, second: list[int], third: list[int], learned: bool) -> None:
    assert ("not-learned" not in flags(tmp_path, NOTHING, second, third)) == learned


@pytest.mark.parametrize(
    ("last", "is_low"),
    [
        ([0, 9, 9, 9, *IDLE, *IDLE], True),  # 1 of 12, guessing has 1 of 6
        ([0, 0, 9, 9, *IDLE, *IDLE], True),  # 2 of 12
        ([0, 0, 1, 9, *IDLE, *IDLE], False),  # 3 of 12 are 1.5 times as many
    ],
)
def test_a_run_at_chance_level(tmp_path: Path, last: list[int], is_low: bool) -> None:
    answers = [-1 if c == 9 else c for c in last]
    assert ("chance-level" in flags(tmp_path, NOTHING, LATE, answers)) == is_low


@pytest.mark.parametrize(("right", "learned"), [(3, True), (2, False)])
def test_of_two_classes_three_quarters_count(tmp_path: Path, right: int, learned: bool) -> None:
    truth = [0] * 4 + [1] * 4
    answers = [[0] * 8, [0] * 4 + [1] * right + [0] * (4 - right)]
    p = predictions([truth[:4], truth[4:]], answers, [[0], [1]], within=np.array([truth] * 2))
    p.save(tmp_path / "predictions.h5")
    found = record_files.evaluate(unscored(2), tmp_path, tmp_path).flags
    assert ("not-learned" in found) == (not learned)


def test_flags_of_what_the_record_says(tmp_path: Path) -> None:
    answers = NOTHING, LATE, [*OLD, *TRUTH[1], *TRUTH[2]]
    log = {"steps": 10, "stopped": "diverged"}
    found = flags(tmp_path, *answers, log=log, validation="test", session_id_at_test=True)
    assert found == ("diverged", "test-validation", "session-id")
    assert flags(tmp_path, NOTHING, NOTHING, [-1] * 12, learns=False) == ("nan",)


@pytest.mark.parametrize(
    ("unread", "flagged"),
    [([True] * 3, False), ([True, False, True], True), ([True, True, None], True)],
)
def test_a_learner_that_read_no_test_data_is_not_flagged(
    tmp_path: Path, unread: list[bool | None], flagged: bool
) -> None:
    within = np.tile(np.concatenate(TRUTH), (3, 1))
    answers = [NOTHING, LATE, [*OLD, *TRUTH[1], *TRUTH[2]]]
    predictions(TRUTH, answers, GROUPS, within=within).save(tmp_path / "predictions.h5")
    made = unscored(3, validation="test")
    logs = [{} if said is None else {"test_data_unread": said} for said in unread]
    sessions = [replace(s, log=log) for s, log in zip(made.sessions, logs, strict=True)]
    made = replace(made, sessions=tuple(sessions))
    found = record_files.evaluate(made, tmp_path, tmp_path).flags
    assert ("test-validation" in found) == flagged


@pytest.mark.parametrize(
    ("params", "logs", "n_train", "fewest"),
    [
        ({}, [{"steps": 9, "stopped": "epochs"}, {"steps": 30, "stopped": "epochs"}], [5, 5], 9),
        ({}, [{"steps": 10, "stopped": "epochs"}] * 2, [5, 5], None),
        ({}, [{"steps": 4, "epochs": 1}] * 2, [5, 5], None),  # slda: batches, no optimiser
        ({"updates": 1}, [{"steps": 40, "epochs": 1}, {"steps": 4, "epochs": 1}], [5, 5], 4),
        ({"updates": 1}, [{"steps": 40, "epochs": 1}, {"steps": 1, "epochs": 1}], [5, 0], None),
        ({}, [{}, {}], [5, 5], None),
    ],
)
def test_few_steps(tmp_path: Path, params: Any, logs: Any, n_train: Any, fewest: Any) -> None:
    made = unscored(2, learner_params=params, n_train=n_train)
    sessions = tuple(replace(s, log=log) for s, log in zip(made.sessions, logs, strict=True))
    made = replace(made, sessions=sessions)
    assert fewest_steps(made) == fewest
    right, within = [*OLD, *TRUTH[1]], np.tile(np.concatenate(TRUTH[:2]), (2, 1))
    answers = predictions(TRUTH[:2], [[*OLD, *IDLE], right], GROUPS[:2], within=within)
    answers.save(tmp_path / "predictions.h5")
    flagged = record_files.evaluate(made, tmp_path, tmp_path).flags
    assert ("few-steps" in flagged) == (fewest is not None)


@pytest.mark.parametrize(("budget", "over"), [(None, False), (0.0023, True), (0.0024, False)])
def test_over_budget(tmp_path: Path, budget: float | None, over: bool) -> None:
    """Of two sessions the first held more: 2,400 bytes."""
    made = unscored(2)
    held = ({"parameters": 2000, "samples": 400}, {"parameters": 2000})
    sessions = (replace(s, footprint=h) for s, h in zip(made.sessions, held, strict=True))
    made = replace(made, sessions=tuple(sessions), budget_mb=budget)
    within = np.tile(np.concatenate(TRUTH[:2]), (2, 1))
    right = [*OLD, *TRUTH[1]]
    answers = predictions(TRUTH[:2], [[*OLD, *IDLE], right], GROUPS[:2], within=within)
    answers.save(tmp_path / "predictions.h5")
    flagged = record_files.evaluate(made, tmp_path, tmp_path).flags
    assert ("over-budget" in flagged) == over


@pytest.mark.parametrize(
    ("learner", "params", "log", "steps"),
    [
        ("slda", {}, {"steps": 1424, "epochs": 1}, np.nan),  # an old record: batches seen
        ("exstream", {"optimiser": "adam"}, {"steps": 1424, "epochs": 1}, np.nan),  # batches, too
        ("slda", {}, {"batches": 1424, "epochs": 1}, np.nan),
        ("exstream", {}, {"batches": 7, "epochs": 1, "steps": 21}, 21),
        ("er", {"updates": 10}, {"steps": 40, "epochs": 10}, 40),
        ("er", {"updates": 1}, {"steps": 4, "epochs": 1}, 4),
        ("er", {}, {"steps": 4, "epochs": 1}, 4),  # from before there were updates
        ("mlp", {}, {"steps": 9, "epochs": 1, "stopped": "epochs"}, 9),
        ("ranpac", {}, {}, np.nan),
    ],
)
def test_steps_are_those_of_an_optimiser(
    learner: str, params: dict[str, Any], log: dict[str, Any], steps: float
) -> None:
    record = typed(learner, learner_params=params)
    assert optimiser_steps(record, log) == pytest.approx(steps, nan_ok=True)
