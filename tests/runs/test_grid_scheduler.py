"""Grids of cells: what is finished is kept, what fails is told, references are shared."""

import re
import shutil

import pytest
from commands import quick_workers
from plan_runs import plan
from protocol_files import make_file
from small_grid import answers, before_each_run, check_same, tree

from embedbench.config.run_seeds import parse_seeds
from embedbench.engines.engine import Engine
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.runs import run_one
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files

FAST = ["stop.rule=epochs", "stop.epochs=2", "units=8"]
FAST += [f"offline.mlp.{item}" for item in FAST]


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("blobs")
    return str(make_file(folder, [20] * 6, [0] * 6, [10] * 6, apart=3.0).path)


def cells(file, learners="mlp,ncm", seeds="0", items=(), protocol="incremental-class"):
    names = learners.split(",")
    own = [i for i in FAST if "mlp" in names or i.startswith("offline")]
    settings = [*own, *items]
    return plan([file], protocol, names, parse_seeds(seeds), settings)


def test_processes_and_one_process_give_the_same_answers(blobs, tmp_path):
    counts = {"local:1": [], "local:2": []}

    def run(name):
        def progress(label, done, total):
            counts[name].append((bool(label), done, total))

        grid = cells(blobs, seeds="0-1")
        return run_grid(grid, tmp_path / name, engine=Engine(name), progress=progress)

    here = run("local:1")
    assert not here.failed
    with quick_workers():
        good = answers(tmp_path / "local:1")
        check_same(run("local:2"), cells(blobs, seeds="0-1"), tmp_path / "local:2", good)
    total = len(good)
    assert total > 4  # before each cell here, after each cell elsewhere, at both ends
    ends = [(False, total, total)]
    assert counts["local:1"] == [(True, n, total) for n in range(total)] + ends
    elsewhere = [(True, n + 1, total) for n in range(total)]
    assert counts["local:2"] == [(False, 0, total), *elsewhere, *ends]


def test_finished_cells_are_kept_and_overwrite_runs_them_again(blobs, tmp_path):
    first = run_grid(cells(blobs), tmp_path)
    marks = {p: (p / "predictions.h5").stat().st_mtime_ns for p in first.run_dirs}
    second = run_grid(cells(blobs), tmp_path)
    assert second.skipped == 4  # mlp, ncm, chance, offline
    assert {p: (p / "predictions.h5").stat().st_mtime_ns for p in second.run_dirs} == marks
    third = run_grid(cells(blobs), tmp_path, overwrite=True)
    assert third.skipped == 2  # the references stay
    assert all((p / "predictions.h5").stat().st_mtime_ns > m for p, m in marks.items())


def test_runs_that_finished_with_other_threads_are_kept(blobs, tmp_path):
    def threads(outcome):
        return [record_files.load(place).environment["threads"] for place in outcome.run_dirs]

    chosen = cells(blobs, "ncm", items=["references=0"])
    assert threads(run_grid(chosen, tmp_path)) == [1]
    assert threads(run_grid(chosen, tmp_path, threads=2)) == [1]
    assert threads(run_grid(chosen, tmp_path, threads=2, overwrite=True)) == [2]


def test_a_cell_that_fails_does_not_stop_the_others(blobs, tmp_path, monkeypatch):
    def fail(task):
        if task.spec.learner.name == "slda":
            raise ZeroDivisionError("on purpose")

    before_each_run(monkeypatch, fail)
    at_once = []
    outcome = run_grid(cells(blobs, "slda,ncm"), tmp_path, failing=at_once.append)
    # of slda, ncm, chance and offline two were left, or three where that of chance came later
    assert re.fullmatch(
        r"slda seed 0 failed, [23] runs are left: ZeroDivisionError: on purpose", *at_once
    )
    failed = [(c.learner.name, reason) for c, reason in outcome.failed]
    assert failed == [("slda", "ZeroDivisionError: on purpose")]
    assert not outcome.bad_input
    assert [record_files.load(p).learner for p in outcome.run_dirs] == ["ncm"]


def test_a_finished_cell_that_is_damaged_is_told(blobs, tmp_path):
    first, second = run_grid(cells(blobs, "ncm", "0-1"), tmp_path).run_dirs
    (first / "record.json").write_text("{}")
    outcome = run_grid(cells(blobs, "ncm", "0-1"), tmp_path)
    ((cell, reason),) = outcome.failed
    assert outcome.run_dirs == [second]
    assert outcome.skipped == 5
    assert cell.seed == 0
    assert str(first) in reason


def test_the_record_says_who_was_told_the_session_id(blobs, tmp_path):
    learners, items = "honest_learners:NeedsId,ncm", ["references=0", "protocol.sessions=2"]
    outcome = run_grid(cells(blobs, learners, "0", items, "permutation"), tmp_path)
    told, other = map(record_files.load, outcome.run_dirs)
    assert told.digests == other.digests
    assert told.session_id_at_test is True
    assert other.session_id_at_test is False
    assert "session-id" in told.flags
    assert "session-id" not in other.flags
    outcome = run_grid(cells(blobs, learners, items=items[:1]), tmp_path)
    assert [c.learner.name for c, _ in outcome.failed] == ["honest_learners:NeedsId"]
    assert "know at test which session a sample is from" in outcome.failed[0][1]


@pytest.mark.parametrize(
    ("protocol", "items", "references"),
    [
        ("incremental-class", ["protocol.scale=none"], 1),
        ("incremental-class", ["protocol.scale=standard"], 3),
        ("fscil", ["protocol.scale=none", "protocol.base=3", "protocol.way=2"], 3),
    ],
)
def test_one_offline_reference_serves_all_orders(blobs, tmp_path, protocol, items, references):
    """Unless the scaling is fitted to the base session, or an order chooses classes or samples."""
    items = ["protocol.order=random", *items]
    outcome = run_grid(cells(blobs, "ncm", "0-2", items, protocol), tmp_path)
    assert len(list((tmp_path / "references").glob("*/seed-*"))) == references
    kept = [record_files.load(p) for p in outcome.run_dirs]
    assert len({run.digests.train for run in kept}) == 3
    assert len({run.reference.offline_runs for run in kept}) == references


def test_finished_cells_keep_their_references_and_a_sentence_says_so(blobs, tmp_path):
    run_grid(cells(blobs, "ncm"), tmp_path)
    before, said = tree(tmp_path), []
    for items in ([], ["references=3"], ["omega=kemker_eq"]):
        run_grid(cells(blobs, "ncm", items=items), tmp_path, notify=said.append)
    assert tree(tmp_path) == before
    asked = [re.findall("^finished runs keep their .* asked for now (.*);", x) for x in said]
    assert asked == [["(1 of 1 runs)"]] * 2


def test_a_reference_that_is_finished_later_is_filled_in(blobs, tmp_path):
    """The run ended before its references, which another process makes."""
    (place,) = run_grid(cells(blobs, "ncm"), tmp_path).run_dirs
    whole = record_files.load(place)
    shutil.move(tmp_path / "references", tmp_path / "away")
    shutil.rmtree(place)
    (cell,) = cells(blobs, "ncm")
    run_one.execute(make_task(cell, tmp_path, StreamCache()))
    assert record_files.load(place).reference.source == "missing"
    shutil.move(tmp_path / "away", tmp_path / "references")
    run_grid([cell], tmp_path)
    filled = record_files.load(place)
    assert filled.metrics == whole.metrics
    assert filled.reference == whole.reference


def test_learners_come_before_offline_runs(blobs, tmp_path, monkeypatch):
    log = []
    before_each_run(monkeypatch, lambda task: log.append(task.spec.learner.name))
    items = ["protocol.order=random", "protocol.scale=standard"]  # a reference per order
    run_grid(cells(blobs, "ncm", "0-1", items), tmp_path)
    assert log == ["chance", "chance", "ncm", "ncm", "offline", "offline"]


def test_a_table_is_open_until_its_reference_is_made(blobs, tmp_path, monkeypatch):
    def fail(task):
        if task.spec.is_offline:
            raise MemoryError("on purpose")

    before_each_run(monkeypatch, fail)
    outcome = run_grid(cells(blobs, "ncm"), tmp_path)
    assert [cell.learner.name for cell, _ in outcome.failed] == ["offline"]
    assert re.search(r"ncm +1 +[1-9]\S* +\S+ +– +open +\S+ +open", table_text(collect(tmp_path)))
    monkeypatch.undo()
    run_grid(cells(blobs, "ncm"), tmp_path)
    assert "open" not in table_text(collect(tmp_path))
    run_grid(cells(blobs, "ncm", items=["references=0"]), tmp_path / "without")
    assert not (tmp_path / "without" / "references").exists()
    assert "open" not in table_text(collect(tmp_path / "without"))


def test_finished_cells_ask_for_no_other_reference(blobs, tmp_path):
    """A new default of `offline` is trained for new runs only; old ones keep their reference."""
    old = ["offline.mlp.stop.rule=patience", "offline.mlp.stop.perfect=0"]

    def references():
        return set((tmp_path / "references").iterdir())

    def flagged():
        (row,) = [r for r in collect(tmp_path) if r.learner == "ncm"]
        return row.flags.get("reference")

    run_grid(cells(blobs, "ncm", "0", old), tmp_path)
    made = references()
    again = run_grid(cells(blobs, "ncm", "0", old[:1]), tmp_path)
    assert again.skipped == 1
    assert references() == made
    run_grid(cells(blobs, "ncm", "0-1", old[:1]), tmp_path)
    assert len(references() - made) == 1
    assert flagged() == ["1"]  # the first of two equally frequent is the usual one
    run_grid(cells(blobs, "ncm", "0", old[:1]), tmp_path, overwrite=True)
    assert flagged() is None
