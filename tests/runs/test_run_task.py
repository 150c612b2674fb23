"""Tasks and their streams: what is made once, what is shared, and what a later field changes."""

import dataclasses
import pickle
import time
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pytest
from small_grid import open_cells

from embedbench.config.fields_added_later import identity, later
from embedbench.engines.local_pool import local_executor
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.models.ncm import NCM
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.runs import run_one
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_one import checkpoint_key
from embedbench.runs.run_spec import RunSpec, Spec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache

cells = partial(open_cells, seeds=(0,))


def test_cells_are_equal_by_their_settings_and_survive_a_pickle(tmp_path: Path) -> None:
    (one,), (same,) = cells(tmp_path, "mlp", "units=8"), cells(tmp_path, "mlp", "mlp.units=8")
    (other,) = cells(tmp_path, "mlp", "units=9")
    assert one.learner == same.learner != other.learner
    assert len({one.learner, same.learner, other.learner}) == 2
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert hash(again) == hash(one)
    assert str(one.learner) == "mlp"
    assert one.learner != "mlp"
    assert dataclasses.replace(one, tuning={"learner": "mlp"}) == one  # a log decides nothing


def test_a_fresh_learner_leaves_the_settings_alone(tmp_path: Path) -> None:
    spec: Any = cells(tmp_path, "offline")[0].learner
    (learner := spec.fresh()).mlp.units = 3
    assert spec.fresh() == spec.settings != learner


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    real, made = IncrementalClass.build, list[int]()
    monkeypatch.setattr(IncrementalClass, "build", lambda *a, **k: made.append(1) or real(*a, **k))
    return made


def test_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: list[int]) -> None:
    """A file is opened and a stream built for all its cells; each may take another card."""
    opens, opened, cards = EmbeddingFile.open, [], list[str]()
    monkeypatch.setattr(run_one, "use_card", cards.append)
    planned = cells(tmp_path, "ncm,slda", "references=2", "offline.mlp.stop.epochs=1")
    monkeypatch.setattr(EmbeddingFile, "open", lambda p: opened.append(p) or opens(p))
    outcome = run_grid(planned, tmp_path / "runs")
    assert not outcome.failed
    assert len(outcome.run_dirs) == 2
    assert len(list((tmp_path / "runs" / "references").glob("*/seed-*"))) == 2
    assert len(opened) == 1
    assert len(built) == 1
    assert cards == ["cpu"] * 5


def test_planning_builds_each_stream_once(tmp_path: Path, built: list[int]) -> None:
    streams = StreamCache()
    for cell in 2 * cells(tmp_path, "ncm,slda", "references=1", seeds=(0, 1)):
        assert make_task(cell, tmp_path, streams).reference.offline_runs
    assert len(built) == 2


def test_ctrl_c_ends_the_workers_of_a_pool_and_no_other_process() -> None:
    other = get_context("spawn").Process(target=time.sleep, args=(600,))
    other.start()
    before, began = active_children(), time.monotonic()

    def interrupted() -> None:
        with local_executor(2) as pool:
            futures = [pool.submit(time.sleep, 600) for _ in range(3)]
            while len(active_children()) < len(before) + 2:
                time.sleep(0.01)
            assert [future.running() for future in futures] == [True, True, False]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    while active_children() != before:  # the workers die
        assert time.monotonic() - began < 300
        time.sleep(0.01)
    assert other.is_alive()
    other.terminate()
    other.join()


def test_a_task_arrives_with_the_one_cache_of_its_worker(tmp_path: Path) -> None:
    here, (cell,) = StreamCache(), cells(tmp_path)
    task = make_task(cell, tmp_path, here)
    assert len(task.stream.sessions) > 1  # a stream is not sent
    sent = pickle.dumps(task)
    assert len(sent) < 10_000
    one, other = pickle.loads(sent), pickle.loads(sent)
    assert one == task
    assert one.streams is other.streams is not here
    assert one.stream is other.stream is not task.stream
    there = dataclasses.replace(task, spec=dataclasses.replace(cell, device="cuda:1"))
    assert checkpoint_key(there)["kind of device"] == "cuda"


@dataclass
class LaterNCM(NCM):
    shrink: float = later(0.0, earlier=0.0)


@dataclass
class Outer:
    inner: LaterNCM = field(default_factory=LaterNCM)
    decay: float = later(0.5, earlier=0.0)


def test_identity_leaves_later_fields_out_at_their_earlier_value() -> None:
    plain = identity(NCM())
    assert identity(Outer()) == {"inner": plain, "decay": 0.5}
    made = Outer(decay=0.0, inner=LaterNCM(shrink=0.5))
    assert identity(made) == {"inner": {**plain, "shrink": 0.5}}
    assert dataclasses.asdict(made)["decay"] == 0.0


@dataclass(kw_only=True)
class LaterClasses(IncrementalClass):
    overlap: int = later(0, earlier=0)


def toy(cell: RunSpec, learner: Any = None, protocol: Any = None) -> RunSpec:
    return dataclasses.replace(
        cell,
        learner=Spec(cell.learner.name, learner or LaterNCM()),
        protocol=Spec(cell.protocol.name, protocol or LaterClasses()),
    )


@pytest.mark.parametrize(
    ("made", "moved"),
    [
        ({}, []),
        ({"learner": LaterNCM(shrink=0.5)}, ["setting"]),
        ({"protocol": LaterClasses(overlap=1)}, ["stream"]),
    ],
)
def test_a_later_field_counts(tmp_path: Path, made: dict[str, Any], moved: list[str]) -> None:
    (cell,) = cells(tmp_path)
    tasks = [make_task(c, tmp_path, StreamCache()) for c in (cell, toy(cell, **made))]
    old, new = (checkpoint_key(task) for task in tasks)
    assert (tasks[0].run_dir != tasks[1].run_dir) == bool(moved)
    assert [name for name in ("setting", "stream") if new[name] != old[name]] == moved
