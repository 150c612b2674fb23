"""A run is scored as it is held, which is as it is stored, and published by one rename."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file
from report_records import unscored
from toy import random_predictions

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_dirs import save_run
from embedbench.runs.run_one import run_one
from embedbench.runs.run_task import Task, make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import array_file, record_files

STREAMS = {
    "incremental-class": ["protocol.base=2", "protocol.order=random"],
    "iirc": ["protocol.base=2", "protocol.step=1"],
    "fscil": ["protocol.base=3", "protocol.way=1", "protocol.shot=2"],
    "permutation": ["protocol.sessions=3"],
}


def cells(folder: Path, protocol: str, learner: str, *items: str) -> Any:
    file = make_file(
        folder,
        (9,) * 5,
        (0,) * 5,
        (6,) * 5,
        apart=2.0,
        classes="abcdef",
        parents=[5, 5, -1, -1, -1, -1],
    )
    small = [f"{learner}.units=8", f"{learner}.stop.rule=epochs", f"{learner}.stop.epochs=2"]
    offline = ["offline.mlp.units=8", "offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=2"]
    settings = [*STREAMS[protocol], *small, *offline, *items]
    return plan([str(file.path)], protocol, [learner], [0], settings)


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_record_is_what_the_file_of_its_run_gives(tmp_path: Path, protocol: str) -> None:
    """To the last bit, for the run and for each of its references."""
    run_grid(cells(tmp_path, protocol, "finetune"), tmp_path / "runs")
    places = record_files.find(tmp_path / "runs", references=True)
    kept = [json.loads((place / "record.json").read_text()) for place in places]
    again = [
        record_files.evaluate(record_files.load(place), place, tmp_path / "runs")
        for place in places
    ]
    assert len(places) == 3
    assert [plain(run.to_json()) for run in again] == kept


def test_online_answers_are_scored_as_they_are_stored(tmp_path: Path) -> None:
    items = ["protocol.observe_batch=3", "protocol.evaluate_every=6", "references=0"]
    specs = cells(tmp_path, "incremental-class", "er", *items, "er.memory.total=10")
    (place,) = run_grid(specs, tmp_path / "runs").run_dirs
    record = record_files.load(place)
    assert record.moments is not None
    assert len(record.moments.pooled) > len(record.n_train)
    assert record_files.evaluate(record, place, tmp_path / "runs").to_json() == record.to_json()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (spec,) = cells(tmp_path, "incremental-class", "finetune", "references=0")
    return make_task(spec.chance_run(), tmp_path / "runs", StreamCache())


def test_a_run_reads_no_answers(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chance run refers to itself alone."""
    reads = Mock(wraps=array_file.readable)
    monkeypatch.setattr(array_file, "readable", reads)
    monkeypatch.setattr("embedbench.scores.label_set_predictions.readable", reads)
    assert run_one(task, print) == "made"
    assert not reads.called


def test_a_run_writes_its_answers_once(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = Mock(side_effect=array_file.ArrayFile.save, autospec=True)
    monkeypatch.setattr(array_file.ArrayFile, "save", lambda *given: saves(*given))
    run_one(task, print)
    assert saves.call_count == 1


def test_a_run_that_is_finished_is_there(task: Task) -> None:
    run_one(task, print)
    assert run_one(task, print) == "there"


ANSWERS = random_predictions(1)
WRONG = replace(ANSWERS, answer=ANSWERS.answer.astype(np.int64))


def test_answers_that_a_reader_would_refuse_are_not_saved(tmp_path: Path) -> None:
    made = unscored(int(ANSWERS.session[-1]) + 1)
    with pytest.raises(UserError, match="answer must be int32, it is int64"):
        save_run(WRONG, made, tmp_path / "seed-0", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_record_of_another_stream_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="n_train has 1 values"):
        save_run(ANSWERS, unscored(1), tmp_path / "seed-0", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_that_cannot_be_scored_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(record_files, "score_answers", Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        save_run(ANSWERS, unscored(int(ANSWERS.session[-1]) + 1), tmp_path / "seed-0", tmp_path)
    assert not list(tmp_path.iterdir())
