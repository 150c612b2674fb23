"""The reproduction of Masana et al. (2020): its values, orders, statements, and a run of it."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from report_records import typed
from reproduce_files import blob_file, by_labels

from embedbench.errors import UserError
from embedbench.papers.class_orderings import paper
from embedbench.papers.class_orderings.paper import LEARNERS, ORDERS, PAPER, OrderingRuns
from embedbench.papers.paper import PaperData
from embedbench.papers.paper_folders import facts
from embedbench.streams import make_class_order
from embedbench.streams.make_class_order import CONFUSION, make_order

LAST = "after the last"
ROWS = facts("class-orderings")["printed"]["tables"]["1"]
FAST = ["stop.epochs=1", "stop.min_steps=1", "units=8", "offline.mlp.units=8"]


def _runs(place: Path, items: list[str]) -> OrderingRuns:
    file = blob_file(place / "toy.h5", 6, 8)
    return OrderingRuns(place, [0, 1], {"toy": PaperData(file.path)}, items=items)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders of six classes need no 200,000 steps."""
    monkeypatch.setattr(make_class_order, "make_order", partial(make_order, steps=500))


@pytest.mark.usefixtures("few_steps")
def test_orders_are_made_once_and_none_is_coarse_without_a_hierarchy(tmp_path: Path) -> None:
    runs, messages = _runs(tmp_path, ["protocol.sessions=3"]), list[str]()
    runs.notify = messages.append
    assert runs.orders
    assert len(messages) == 2
    assert "no class hierarchy" in messages[1]
    assert set(runs.orders) == {("toy", kind) for kind in ORDERS if kind != "coarse"}
    content = runs.data["toy"].opened.digests["content"][:8]
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "orders").iterdir()}
    kinds = {*ORDERS} - {"random", "coarse"}
    assert {p.name for p in made} == {f"toy-{content}-3-{kind}.json" for kind in kinds}
    for kind in CONFUSION:
        result = json.loads(Path(runs.orders["toy", kind]).read_text("utf-8"))
        assert result["kind"] == kind
        assert result["sizes"] == [2, 2, 2]
        assert sorted(result["order"]) == [f"c{i}" for i in range(6)]
    assert OrderingRuns(tmp_path, [0], runs.data, items=runs.items).orders == runs.orders
    assert {p: p.stat().st_mtime_ns for p in made} == made


def test_what_makes_a_learner_the_papers_is_fixed(tmp_path: Path) -> None:
    items = ["lwf.memory.per_class=5", "protocol.sessions=3", "protocol.order=natural"]
    runs = _runs(tmp_path, items)
    runs.orders = {("toy", "random"): "random"}
    for learner, kept in (("lwf", 0), ("lwf-exemplars", 20), ("icarl", 20)):
        cells = runs.specs("toy", "random", learner)
        assert [c.seed for c in cells] == [0, 1]
        assert asdict(cells[0].learner.settings)["memory"]["per_class"] == kept
        params = asdict(cells[0].protocol.settings)
        assert [params[k] for k in ("order", "sessions", "loss")] == ["random", 3, "seen"]
    assert runs.specs("toy", "coarse", "lwf") == []
    assert len({c.seeds.order for c in runs.specs("toy", "random", "icarl")}) == 2


@pytest.mark.thorough
@pytest.mark.usefixtures("few_steps")
def test_all_of_it_on_a_small_file(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 6, 8, groups=2)
    items, few = [*FAST, "protocol.sessions=3"], ["icarl", "lwf-exemplars"]
    runs = OrderingRuns(tmp_path / "out", [1], learners=few, items=items)
    (table,) = PAPER.reproduce(runs, data=[str(file.path)])
    assert runs.failed == []
    rows = by_labels(table)
    assert len(rows) == len(LEARNERS) * len(ORDERS)
    (printed,) = (r for r in ROWS if (r["learner"], r["task"]) == ("icarl", 10))
    for kind, label in ORDERS.items():
        values = rows["iCaRL", label]
        (pooled,) = [r.pooled for r in runs.of("toy", kind, "icarl")]
        ours = {head: v.ours and v.ours.values for head, v in values.items()}
        one, two, last = ((100 * p,) for p in pooled)  # there are three sessions
        assert ours == {"after 1": one, "after 2": two, "after 5": None, LAST: last}
        assert values[LAST].published == printed["accuracy"][kind]
        assert values["after 1"].published is None
        assert all(v.difference is None for v in values.values())
        assert rows["BiC", label][LAST].ours is None  # was not run
        assert rows["FT", label]["after 2"].published is None
    records = {p: p.stat().st_mtime_ns for p in runs.runs_dir.rglob("record.json")}
    PAPER.reproduce(runs, data=[str(file.path)])
    assert {p: p.stat().st_mtime_ns for p in records} == records


def test_a_run_too_short_for_a_column_leaves_it_empty() -> None:
    record = typed(pooled=[0.9, 0.5, 0.25])
    found = [paper.accuracy(record, h) for h in paper.AFTER]
    assert found == pytest.approx([90, 50, np.nan, 25], nan_ok=True)


@pytest.mark.usefixtures("few_steps")
def test_some_of_the_orders_may_be_asked_for(tmp_path: Path) -> None:
    runs = _runs(tmp_path, ["protocol.sessions=3", "protocol.order=random,min-confusion"])
    assert [*runs.orders] == [("toy", "random"), ("toy", "min-confusion")]
    assert runs.specs("toy", "max-confusion", "icarl") == []
    (cell, _) = runs.specs("toy", "random", "icarl")
    assert cell.protocol.settings.order == "random"


def test_an_order_that_is_none_of_the_papers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown order of the paper 'natural'"):
        _ = _runs(tmp_path, ["protocol.order=natural"]).orders
