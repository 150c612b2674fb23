"""Grids of cells: what is finished is kept, what fails is told, references are shared."""

import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import start, stored
from plan_runs import plan

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import parse_seeds
from embedbench.engines.engine import Engine
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.reports.tables_from_runs import collect, to_json
from embedbench.reports.terminal_tables import table_text
from embedbench.runs import run_one
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.verified_records import rescore

FAST = ["stop.rule=epochs", "stop.epochs=2", "units=8", "offline.mlp.units=8"]


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six classes of 20 training and 10 test samples in 5 dimensions."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 30)
    x = rng.normal(size=(6, 5))[labels] * 3 + rng.normal(size=(180, 5))
    samples = Samples(
        ids=np.array([f"s{i:03d}" for i in range(180)]),
        labels=labels,
        split=np.tile(np.repeat([TRAIN, TEST], [20, 10]), 6).astype(np.uint8),
        classes=tuple("abcdef"),
        parents=np.full(6, -1),
    )
    path = tmp_path_factory.mktemp("blobs") / "blobs.h5"
    write_file(path, samples, x.astype(np.float32), {})
    return str(path)


def cells(file, learners="mlp,ncm", seeds="0", items=(), protocol="incremental-class"):
    names = learners.split(",")
    own = [i for i in FAST if "mlp" in names or i.startswith("offline")]
    settings = [*own, *items]
    return plan([file], protocol, names, parse_seeds(seeds), settings)


def test_processes_and_one_process_give_the_same_answers(blobs, tmp_path):
    counts = {"one": [], "two": []}

    def run(name, engine):
        def progress(label, done, total):
            counts[name].append((bool(label), done, total))

        return run_grid(
            cells(blobs, seeds="0-1"), tmp_path / name, engine=Engine(engine), progress=progress
        )

    here, there = run("one", "local:1"), run("two", "local:2")
    assert not here.failed
    assert not there.failed
    total = len(record_files.find(tmp_path / "one", references=True))
    assert total > 4  # before each cell here, after each cell elsewhere, and at the end
    assert counts["one"] == [(True, n, total) for n in range(total)] + [(False, total, total)]
    assert counts["two"] == [(True, n + 1, total) for n in range(total)] + [(False, total, total)]
    assert len(here.run_dirs) == len(there.run_dirs) == 4
    for a, b in zip(here.run_dirs, there.run_dirs, strict=True):
        assert a.relative_to(tmp_path / "one") == b.relative_to(tmp_path / "two")
        for name, values in stored(a).items():
            np.testing.assert_array_equal(values, stored(b)[name])
        assert plain(record_files.load(a).metrics) == plain(record_files.load(b).metrics)


def test_finished_cells_are_kept_and_overwrite_runs_them_again(blobs, tmp_path):
    first = run_grid(cells(blobs), tmp_path)
    marks = {p: (p / "predictions.h5").stat().st_mtime_ns for p in first.run_dirs}
    second = run_grid(cells(blobs), tmp_path)
    assert second.skipped == 4  # mlp, ncm, chance, offline
    assert {p: (p / "predictions.h5").stat().st_mtime_ns for p in second.run_dirs} == marks
    third = run_grid(cells(blobs), tmp_path, overwrite=True)
    assert third.skipped == 2  # the references stay
    assert all((p / "predictions.h5").stat().st_mtime_ns > m for p, m in marks.items())


def test_runs_that_finished_with_other_threads_are_kept_with_a_sentence(blobs, tmp_path):
    def threads(outcome):
        return [record_files.load(place).environment["threads"] for place in outcome.run_dirs]

    told = []
    chosen = cells(blobs, "ncm", items=["references=0"])
    assert threads(run_grid(chosen, tmp_path, notify=told.append)) == [1]
    assert threads(run_grid(chosen, tmp_path, notify=told.append)) == [1]
    assert told == []
    assert threads(run_grid(chosen, tmp_path, threads=2, notify=told.append)) == [1]
    assert told == ["2 runs were finished with --threads 1, and not run again with 2"]
    assert threads(run_grid(chosen, tmp_path, threads=2, overwrite=True)) == [2]


def test_a_cell_that_fails_does_not_stop_the_others(blobs, tmp_path):
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\n"
        "from embedbench.models.ncm import NCM\n"
        "from embedbench.learning.learner import Learner\n"
        "@dataclass\n"
        "class Broken(NCM):\n"
        "    def observe(self, x, y):\n"
        "        raise ZeroDivisionError('on purpose')\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        outcome = run_grid(cells(blobs, "broken:Broken,ncm"), tmp_path / "runs")
    finally:
        sys.path.remove(str(tmp_path))
    assert [(c.learner.name, reason) for c, reason in outcome.failed] == [
        ("broken:Broken", "ZeroDivisionError: on purpose")
    ]
    assert not outcome.bad_input
    assert [record_files.load(p).learner for p in outcome.run_dirs] == ["ncm"]


def test_the_record_says_who_was_told_the_session_id(blobs, tmp_path):
    """On one stream, as the paper runs PathNet: the same digests, and a flag for the difference."""
    found = {}
    learners = "honest_learners:NeedsId,ncm"
    outcome = run_grid(cells(blobs, learners, protocol="permutation"), tmp_path)
    for place in outcome.run_dirs:
        kept = record_files.load(place)
        found[kept.learner] = kept
    told, other = found["honest_learners:NeedsId"], found["ncm"]
    assert told.digests == other.digests
    assert (told.session_id_at_test, other.session_id_at_test) == (True, False)
    assert ("session-id" in told.flags, "session-id" in other.flags) == (True, False)
    outcome = run_grid(cells(blobs, learners), tmp_path)
    assert [c.learner.name for c, _ in outcome.failed] == ["honest_learners:NeedsId"]
    assert "know at test which session a sample is from" in outcome.failed[0][1]


def test_one_offline_reference_serves_all_orders(blobs, tmp_path):
    items = ["protocol.order=random", "protocol.scale=none"]
    outcome = run_grid(cells(blobs, "ncm", "0-2", items), tmp_path)
    assert len(list((tmp_path / "references").glob("*/seed-*"))) == 1
    trains = {record_files.load(p).digests.train for p in outcome.run_dirs}
    ideals = {record_files.load(p).reference.ideal["accuracy"] for p in outcome.run_dirs}
    assert (len(trains), len(ideals)) == (3, 1)


def test_a_scaling_fitted_to_the_base_session_gets_a_reference_per_order(blobs, tmp_path):
    items = ["protocol.order=random", "protocol.scale=standard"]
    run_grid(cells(blobs, "ncm", "0-2", items), tmp_path)
    assert len(list((tmp_path / "references").glob("*/seed-*"))) == 3


def test_finished_cells_keep_their_references_and_a_sentence_says_so(blobs, tmp_path):
    (place,) = run_grid(cells(blobs, "ncm"), tmp_path).run_dirs
    text = (place / "record.json").read_text()
    said: list[str] = []
    for items in ([], ["references=3"], ["omega=kemker_eq"]):
        run_grid(cells(blobs, "ncm", items=items), tmp_path, notify=said.append)
    assert (place / "record.json").read_text() == text
    assert said == 2 * [
        "finished runs keep their references and their formula of Ω, though others are asked for "
        "now (1 of 1 runs); run them again with --overwrite, or take another --out"
    ]


def test_a_reference_that_is_finished_later_is_filled_in(blobs, tmp_path):
    """The run ended before its references, which another process makes."""
    (place,) = run_grid(cells(blobs, "ncm"), tmp_path).run_dirs
    whole = (place / "record.json").read_text()
    shutil.move(tmp_path / "references", tmp_path / "away")
    shutil.rmtree(place)
    (cell,) = cells(blobs, "ncm")
    run_one.execute(make_task(cell, tmp_path, StreamCache()), 1)
    assert record_files.load(place).reference.source == "missing"
    shutil.move(tmp_path / "away", tmp_path / "references")
    run_grid([cell], tmp_path)
    filled, before = record_files.load(place), json.loads(whole)
    assert plain(filled.metrics) == before["metrics"]
    assert plain(filled.reference) == before["reference"]


def test_learners_come_first_and_open_values_are_filled_in_as_references_finish(
    blobs, tmp_path, monkeypatch
):
    """Whatever ends the grid in the middle, no run waits for a reference that is finished."""
    execute, log = run_one.execute, []

    def ideals():
        places = record_files.find(tmp_path)
        return [(record_files.load(p).reference.ideal is not None) for p in places]

    def noted(task, *args):
        log.append((task.spec.learner.name, task.spec.seed, ideals()))
        return execute(task, *args)

    monkeypatch.setattr(run_one, "execute", noted)
    items = ["protocol.order=random", "protocol.scale=standard"]  # a reference per order
    given = cells(blobs, "ncm", "0-1", items)
    outcome = run_grid(given, tmp_path)
    assert [entry[0] for entry in log] == ["chance", "chance", "ncm", "ncm", "offline", "offline"]
    assert log[-1][2].count(True) == 1  # the first offline run has filled in the run of its order
    assert all(record_files.load(p).reference.source == "runs" for p in outcome.run_dirs)


def test_a_table_whose_reference_fails_is_stored_and_printed_with_open_values(
    blobs, tmp_path, monkeypatch
):
    execute = run_one.execute

    def fails(task, *args):
        if task.spec.is_offline:
            raise MemoryError("on purpose")
        return execute(task, *args)

    monkeypatch.setattr(run_one, "execute", fails)
    outcome = run_grid(cells(blobs, "ncm"), tmp_path)
    assert [cell.learner.name for cell, _ in outcome.failed] == ["offline"]
    (row, _) = collect(tmp_path)
    assert re.search(r"ncm +1 +[1-9]\S* +\S+ +open +\S+ +open", table_text([row]))
    (table,) = to_json([row])["tables"]
    assert table["rows"][0]["metrics"]["omega_all"]["mean"] is None
    monkeypatch.undo()
    run_grid(cells(blobs, "ncm"), tmp_path)
    assert "open" not in table_text(collect(tmp_path))


def test_without_references_nothing_is_open(blobs, tmp_path):
    run_grid(cells(blobs, "ncm", items=["references=0"]), tmp_path)
    assert not (tmp_path / "references").exists()
    assert "open" not in table_text(collect(tmp_path))


def test_finished_cells_ask_for_no_other_reference(blobs, tmp_path):
    """A new default of `offline` is trained for new runs only; old ones keep their reference."""
    old = ["offline.mlp.stop.rule=patience", "offline.mlp.stop.perfect=0"]
    run_grid(cells(blobs, "ncm", "0", old), tmp_path)
    made = set((tmp_path / "references").iterdir())
    again = run_grid(cells(blobs, "ncm", "0", old[:1]), tmp_path)
    assert (again.skipped, set((tmp_path / "references").iterdir())) == (1, made)
    run_grid(cells(blobs, "ncm", "0-1", old[:1]), tmp_path)
    assert len(set((tmp_path / "references").iterdir()) - made) == 1
    (row,) = [r for r in collect(tmp_path) if r.learner == "ncm"]
    assert row.flags["reference"] == ["1"]  # the first of two equally frequent is the usual one
    run_grid(cells(blobs, "ncm", "0", old[:1]), tmp_path, overwrite=True)
    (row,) = [r for r in collect(tmp_path) if r.learner == "ncm"]
    assert "reference" not in row.flags


def test_a_run_without_its_predictions_is_made_again(blobs, tmp_path):
    (place,) = run_grid(cells(blobs, "ncm"), tmp_path).run_dirs
    answers = stored(place)
    (place / "predictions.h5").unlink()
    again = run_grid(cells(blobs, "ncm"), tmp_path)
    assert (again.run_dirs, again.skipped) == ([place], 2)
    assert (stored(place)["answer"] == answers["answer"]).all()
    assert sorted(p.name for p in place.parent.iterdir()) == ["seed-0"]


def test_scoring_again_changes_nothing_and_mends_what_was_changed(blobs, tmp_path):
    for protocol in ("incremental-class", "permutation"):
        for place in run_grid(cells(blobs, protocol=protocol), tmp_path).run_dirs:
            assert not rescore(place, tmp_path).differs
            text = (place / "record.json").read_text()
            kept = json.loads(text)
            (place / "record.json").write_text(
                json.dumps({**kept, "metrics": {**kept["metrics"], "omega_all": 0.5}})
            )
            assert rescore(place, tmp_path, update=True).updated
            assert (place / "record.json").read_text() == text


def records(root: Path) -> set[Path]:
    """Directories of the cells that are finished."""
    return {p.parent for p in root.rglob("record.json") if p.parent.name[0] != "."}


def test_kill_9_loses_no_finished_cell(blobs, tmp_path):
    """Killed again and again, the grid ends with the answers of one that was left alone."""
    words = ["run", blobs, "--protocol", "permutation", "--learner", "mlp,ncm", "--seeds", "0-2"]
    words += ["--jobs", "1", "--out", str(tmp_path / "a"), "--set", "protocol.sessions=3"]
    words += [w for item in FAST for w in ("--set", item)]
    rng = np.random.default_rng(0)
    finished: set[Path] = set()
    for _ in range(3):
        process = start(words, tmp_path / "told")
        while process.is_alive() and records(tmp_path / "a") == finished:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        now = records(tmp_path / "a")
        assert now >= finished
        for place in now:
            record_files.load(place)
        finished = now
    process = start(words, tmp_path / "told")
    process.join()
    assert process.exitcode == 0, (tmp_path / "told").read_text()
    few = ["protocol.sessions=3"]
    whole = run_grid(cells(blobs, seeds="0-2", items=few, protocol="permutation"), tmp_path / "b")
    assert len(whole.run_dirs) == 6
    for place in whole.run_dirs:
        twin = tmp_path / "a" / place.relative_to(tmp_path / "b")
        np.testing.assert_array_equal(stored(place)["answer"], stored(twin)["answer"])
        assert plain(record_files.load(place).metrics) == plain(record_files.load(twin).metrics)
