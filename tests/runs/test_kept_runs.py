"""Finished runs are kept as long as they are what would be made now, or a line says it."""

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from file_helpers import PROVENANCE, make_features
from image_files import samples
from plan_runs import plan

from embedbench import plugins
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file
from embedbench.runs import run_one as run_one_module
from embedbench.runs import stream_cache
from embedbench.runs.grid_scheduler import Outcome, run_grid
from embedbench.runs.run_one import run_one
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.studies import resolve

CODE = """
import dataclasses
from embedbench.models.ncm import NCM
from loose_run_base import Base

@dataclasses.dataclass
class Mine(Base, NCM):
    {line}
"""
OPEN = ["references=0"]


def file_of(path: Path, seed: int = 0, **columns: Any) -> Path:
    """Write the embedding file of the small grids, with features of a seed."""
    made = samples()
    features = make_features(len(made.ids), 10, seed=seed)
    values = {name: np.array(column(len(made.ids))) for name, column in columns.items()}
    return write_file(path, made, features, PROVENANCE, columns=values, overwrite=True).path


def again(specs: Sequence[RunSpec], root: Path) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    return run_grid(list(specs), root, notify=said.append), said


# --- code from outside ---


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a learner of somebody else, the working directory."""
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    (tmp_path / "code/loose_run_base.py").write_text("class Base:\n    pass\n")
    (tmp_path / "code/loose_run.py").write_text(CODE.format(line="pass"))
    forget()
    yield tmp_path / "code"
    forget()


def forget() -> None:
    """Import the learner anew when it is named next, as another command does."""
    importlib.invalidate_caches()
    resolve._learner_class.cache_clear()
    for name in ("loose_run", "loose_run_base"):
        sys.modules.pop(name, None)


def planned(code: Path) -> list[RunSpec]:
    return plan([str(code / "e.h5")], "incremental-class", ["loose_run:Mine"], [0], OPEN)


def finished(code: Path) -> list[RunSpec]:
    file_of(code / "e.h5")
    specs = planned(code)
    assert not run_grid(specs, code / "runs").failed
    return specs


@pytest.mark.parametrize("file", ["loose_run.py", "loose_run_base.py"])
def test_a_line_says_that_the_code_of_a_learner_was_another(code: Path, file: str) -> None:
    finished(code)
    (code / file).write_text((code / file).read_text() + "\n# another rule\n")
    forget()
    _, said = again(planned(code), code / "runs")
    assert said == [
        "1 finished runs are kept, and loose_run:Mine had other code then; run them again with "
        "--overwrite, or take another --out"
    ]


def test_nothing_is_said_of_code_that_is_the_same(code: Path) -> None:
    finished(code)
    forget()
    assert again(planned(code), code / "runs")[1] == []


def test_a_record_has_the_code_that_ran_and_not_what_was_edited_since(code: Path) -> None:
    digest = hashlib.sha256((code / "loose_run.py").read_bytes()).digest()
    digest += hashlib.sha256((code / "loose_run_base.py").read_bytes()).digest()
    file_of(code / "e.h5")
    specs = planned(code)
    task = make_task(specs[0], code / "runs", StreamCache())
    learner: Any = specs[0].learner.settings
    taught = type(learner).learn

    def learn(self: Any, *words: Any, **more: Any) -> Any:
        (code / "loose_run.py").write_text("# for the next experiment")
        return taught(self, *words, **more)

    with mock.patch.object(type(learner), "learn", learn):
        run_one(task, print)
    assert record_files.load(task.run_dir).code == {"learner": hashlib.sha256(digest).hexdigest()}


def test_a_record_names_the_code_of_others(code: Path) -> None:
    finished(code)
    (run,) = (code / "runs").glob("*/loose_run.Mine-*/seed-0")
    learner: Any = plugins.outside("loose_run:Mine")
    assert record_files.load(run).code == {"learner": plugins.code_digest(learner)}


def test_a_record_names_no_code_of_ours(tmp_path: Path) -> None:
    specs = plan([str(file_of(tmp_path / "e.h5"))], "incremental-class", ["ncm"], [0], OPEN)
    run_grid(specs, tmp_path / "runs")
    (run,) = (tmp_path / "runs").glob("*/ncm-*/seed-0")
    assert "code" not in json.loads((run / "record.json").read_text())


# --- columns, which are in no place ---


def by_half(n: int) -> list[str]:
    return ["art" if i < n // 2 else "photo" for i in range(n)]


def by_turns(n: int) -> list[str]:
    return ["art" if i % 2 else "photo" for i in range(n)]


def test_a_run_of_other_domains_is_not_taken_for_this_one(tmp_path: Path) -> None:
    path = file_of(tmp_path / "e.h5", domain=by_half)
    specs = plan([str(path)], "domain-incremental", ["ncm"], [0], OPEN)
    assert not run_grid(specs, tmp_path / "runs").failed
    file_of(path, domain=by_turns)
    outcome, _ = again(specs, tmp_path / "runs")
    (_, why), *_ = outcome.failed
    assert "holds a run of another stream of this place (another train, eval: a column" in why


def test_a_run_of_other_domains_is_made_again_where_that_is_asked(tmp_path: Path) -> None:
    path = file_of(tmp_path / "e.h5", domain=by_half)
    specs = plan([str(path)], "domain-incremental", ["ncm"], [0], OPEN)
    run_grid(specs, tmp_path / "runs")
    file_of(path, domain=by_turns)
    outcome = run_grid(specs, tmp_path / "runs", overwrite=True)
    (run,) = outcome.run_dirs
    digest = EmbeddingFile.open(path).digests["columns"]
    assert record_files.load(run).files[0].digests["columns"] == digest


def test_a_line_says_that_groups_were_others(tmp_path: Path) -> None:
    path = file_of(tmp_path / "e.h5", group=by_half)
    specs = plan([str(path)], "incremental-class", ["ncm"], [0], OPEN)
    run_grid(specs, tmp_path / "runs")
    file_of(path, group=by_turns)
    outcome, said = again(specs, tmp_path / "runs")
    assert not outcome.failed
    assert [line[:57] for line in said] == [
        "2 finished runs are kept, and e.h5 had other columns then"
    ]


# --- files that are replaced between the plan and the run ---


def test_a_worker_that_finds_another_file_makes_no_run(tmp_path: Path) -> None:
    path = file_of(tmp_path / "e.h5")
    (spec,) = plan([str(path)], "incremental-class", ["ncm"], [0], OPEN)
    task = make_task(spec, tmp_path / "runs", StreamCache())
    file_of(path, seed=1)
    there = replace(task, streams=StreamCache())  # as it arrives in another process
    with pytest.raises(UserError, match=r"e\.h5: the file on .* is not the one that the run was"):
        run_one(there, print)
    assert not record_files.find(tmp_path / "runs")


def test_a_worker_that_outlives_a_command_opens_files_anew(tmp_path: Path) -> None:
    path, cache = file_of(tmp_path / "e.h5"), StreamCache(renews=True)
    first = cache.file(str(path)).digests["content"]
    file_of(path, seed=1)
    cache.begin()
    now = cache.file(str(path)).digests["content"]
    assert first != now == EmbeddingFile.open(path).digests["content"]


def test_a_record_of_a_worker_names_the_file_that_was_learned(tmp_path: Path) -> None:
    """Another one takes its place while the run is made."""
    path = file_of(tmp_path / "e.h5")
    content = EmbeddingFile.open(path).digests["content"]
    (spec,) = plan([str(path)], "incremental-class", ["ncm"], [0], OPEN)
    task = make_task(spec, tmp_path / "runs", StreamCache(renews=True))
    learner: Any = type(spec.learner.settings)
    learn = learner.learn

    def replacing(self: Any, *words: Any, **more: Any) -> Any:
        file_of(path, seed=1)
        return learn(self, *words, **more)

    with mock.patch.object(learner, "learn", replacing):
        run_one(task, print)
    assert record_files.load(task.run_dir).files[0].digests["content"] == content


def test_the_cache_of_a_worker_is_one_that_renews() -> None:
    assert stream_cache._worker_cache()._renews


# --- order files ---


def order_file(path: Path, *classes: str) -> Path:
    path.write_text(json.dumps(list(classes)))
    return path


def leaves(path: Path) -> list[str]:
    file = EmbeddingFile.open(path)
    return list(file.classes[: file.samples.n_leaves])


def test_a_record_has_the_order_that_was_used(tmp_path: Path, monkeypatch: Any) -> None:
    path = file_of(tmp_path / "e.h5")
    names = leaves(path)
    order = order_file(tmp_path / "order.json", *names)
    digest = hashlib.sha256(order.read_bytes()).hexdigest()
    items = [*OPEN, f"protocol.order={order}"]
    (spec,) = plan([str(path)], "incremental-class", ["ncm"], [0], items)
    task = make_task(spec, tmp_path / "runs", StreamCache())
    taught = run_one_module.train_and_predict

    def edited(*words: Any) -> Any:
        made = taught(*words)
        order_file(order, *reversed(names))  # for the next experiment
        return made

    monkeypatch.setattr(run_one_module, "train_and_predict", edited)
    run_one(task, print)
    kept = record_files.load(task.run_dir).order
    assert kept is not None
    assert kept.digest == digest


def test_an_order_file_that_changes_while_the_stream_is_built(
    tmp_path: Path, monkeypatch: Any
) -> None:
    path = file_of(tmp_path / "e.h5")
    order = order_file(tmp_path / "order.json", *leaves(path))
    items = [*OPEN, f"protocol.order={order}"]
    (spec,) = plan([str(path)], "incremental-class", ["ncm"], [0], items)
    protocol = type(spec.protocol.settings)
    build = protocol.build

    def replaced(self: Any, *words: Any, **more: Any) -> Any:
        made = build(self, *words, **more)
        other = order_file(tmp_path / "other.json", *reversed(leaves(path)))
        os.replace(other, order)
        return made

    monkeypatch.setattr(protocol, "build", replaced)
    with pytest.raises(UserError, match="the order file changed while it was read"):
        StreamCache().stream(spec)
