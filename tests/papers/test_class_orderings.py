"""The reproduction of Masana et al. (2020): its values, orders, statements, and a run of it."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from report_records import typed
from reproduce_files import blob_file

from embedbench.papers.class_orderings import runs as class_orderings_runs
from embedbench.papers.class_orderings.paper import PAPER
from embedbench.papers.class_orderings.runs import LEARNERS, ORDERS, OrderingRuns
from embedbench.papers.class_orderings.tables import (
    AFTER,
    EASY,
    HARD,
    IN_TABLE,
    LAST,
    _between_seeds,
    accuracy,
    printed_means,
)
from embedbench.papers.paper import ReproduceRequest
from embedbench.papers.published import PaperTable, load_published
from embedbench.streams.make_class_order import CONFUSION, make_order

ROWS = load_published("class-orderings")["tables"]["1"]
FAST = [
    "stop.epochs=1",
    "stop.min_steps=1",
    "units=8",
    "offline.mlp.units=8",
    "protocol.sessions=3",
]


def test_every_cell_of_table_1_is_there_and_the_marks_are_of_the_extremes() -> None:
    keys = [(row["learner"], row["task"]) for row in ROWS]
    assert keys == list(itertools.product(IN_TABLE, (2, 5, 10)))
    for row in ROWS:
        values = row["accuracy"]
        assert list(values) == list(row["sd"]) == list(ORDERS)
        assert len(row["bold"]) == 1
        assert values[row["bold"][0]] == max(values.values())
        for kind in row["underscored"]:
            assert values[kind] == min(values.values())
    # one lowest value is not underscored in the paper
    assert [k for k, row in zip(keys, ROWS, strict=True) if not row["underscored"]] == [("bic", 2)]


def test_the_averages_of_the_papers_text_follow_from_its_table() -> None:
    last = {row["learner"]: row for row in ROWS if row["task"] == 10}
    means = {n: np.mean(list(row["accuracy"].values())) for n, row in last.items()}
    # "avg. 28 %", "avg. 33 %", "avg. 38 %"
    for names, value in ((("lwf-exemplars", "lucir"), 28), (("icarl",), 33), (("bic", "il2m"), 38)):
        assert np.mean([means[n] for n in names]) == pytest.approx(value, abs=0.55)
    # the deviation over all eighty runs, from that of ten runs on each of eight orders
    sds = {}
    for name, row in last.items():
        within = 9 * sum(s**2 for s in row["sd"].values())
        across = 10 * sum((v - means[name]) ** 2 for v in row["accuracy"].values())
        sds[name] = np.sqrt((within + across) / 79)
    # "~2.3", "~3.4", "~3.6"
    for names, sd in ((("bic", "il2m"), 2.3), (("icarl", "lucir"), 3.4), (("lwf-exemplars",), 3.6)):
        assert np.mean([sds[n] for n in names]) == pytest.approx(sd, abs=0.05)


def test_the_papers_numbers_bear_out_its_statement_on_first_sessions() -> None:
    result = printed_means("after 2")
    for learner in IN_TABLE:
        of_learner = {kind: result[learner, kind] for kind in ORDERS}
        assert max(of_learner, key=lambda k: of_learner[k]) == EASY
        assert min(of_learner, key=lambda k: of_learner[k]) == HARD


def _runs(place: Path, items: list[str]) -> OrderingRuns:
    file = blob_file(place / "toy.h5", 6, 8)
    return OrderingRuns(place, [0, 1], items=items, files={"toy": file.path})


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders of six classes need no 200,000 steps."""
    monkeypatch.setattr(class_orderings_runs, "make_order", partial(make_order, steps=500))


@pytest.mark.usefixtures("few_steps")
def test_orders_are_made_once_and_none_is_coarse_without_a_hierarchy(tmp_path: Path) -> None:
    runs, messages = _runs(tmp_path, ["protocol.sessions=3"]), list[str]()
    runs.notify = messages.append
    runs.make_orders()
    assert len(messages) == 1
    assert "no class hierarchy" in messages[0]
    assert set(runs.orders) == {("toy", kind) for kind in ORDERS if kind != "coarse"}
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "orders").iterdir()}
    assert len(made) == 6
    for kind in CONFUSION:
        result = runs.order("toy", kind)
        assert result is not None
        assert result["kind"] == kind
        assert result["sizes"] == [2, 2, 2]
        assert sorted(result["order"]) == [f"c{i}" for i in range(6)]
    runs.make_orders()
    assert {p: p.stat().st_mtime_ns for p in made} == made


def test_what_makes_a_learner_the_papers_is_fixed(tmp_path: Path) -> None:
    runs = _runs(
        tmp_path, ["lwf.memory.per_class=5", "protocol.sessions=3", "protocol.order=natural"]
    )
    runs.orders["toy", "random"] = "random"
    for learner, kept in (("lwf", 0), ("lwf-exemplars", 20), ("icarl", 20)):
        cells = runs.specs("toy", "random", learner)
        assert [c.seed for c in cells] == [0, 1]
        assert asdict(cells[0].learner.settings)["memory"]["per_class"] == kept
        assert asdict(cells[0].protocol.settings)["order"] == "random"
        assert asdict(cells[0].protocol.settings)["sessions"] == 3
        assert asdict(cells[0].protocol.settings)["loss"] == "seen"
    assert runs.specs("toy", "coarse", "lwf") == []
    assert len({c.seeds.order for c in runs.specs("toy", "random", "icarl")}) == 2


def _by_name(tables: list[PaperTable]) -> dict[str, PaperTable]:
    return {t.name.partition(" · ")[0]: t for t in tables}


@pytest.mark.usefixtures("few_steps")
def test_all_of_it_on_a_small_file(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 6, 8, groups=2)
    out = tmp_path / "out"

    def made(*names: str) -> dict[str, PaperTable]:
        learners = ["icarl", "lwf-exemplars"]
        asked = ReproduceRequest(
            out, [1], names, data=[str(file.path)], learners=learners, items=FAST
        )
        tables, failed = PAPER.reproduce(asked)
        assert failed == []
        return _by_name(tables)

    tables = made()
    rows = dict(tables["1"].rows)
    assert len(rows) == len(LEARNERS) * len(ORDERS)
    runs = OrderingRuns(out, [1], items=FAST, files={"toy": file.path})
    runs.make_orders()
    for kind, label in ORDERS.items():
        values = rows["iCaRL", label]
        pooled = [r.pooled for r in runs.of("toy", kind, "icarl")]
        assert len(pooled) == 1
        assert values["after 2"].ours is not None
        assert values["after 2"].ours.values == tuple(100 * p[1] for p in pooled)
        assert values[LAST].ours is not None
        assert values[LAST].ours.values == tuple(100 * p[2] for p in pooled)
        assert values["after 5"].ours is None  # there are three sessions
        assert values[LAST].published == printed_means(LAST)["icarl", kind]
        assert all(v.difference is None for v in values.values())
        assert rows["BiC", label][LAST].ours is None  # was not run
        assert rows["FT", label]["after 2"].published is None
    extremes = dict(tables["Easiest and hardest order"].rows)
    assert len(extremes) == 3 * len(LEARNERS)
    last = {label: rows["iCaRL", label][LAST].ours for label in ORDERS.values()}
    for what, end in (("easiest", max), ("hardest", min)):
        value = end(stat.mean for stat in last.values() if stat)
        names = [label for label, stat in last.items() if stat and stat.mean == value]
        assert extremes["iCaRL", LAST][what].words[1] == " = ".join(names)
        assert extremes["BiC", LAST][what].words[1] == "–"  # was not run
    _check_rankings(tables["Rankings"], tables["1"])
    n_figures = {n: len(t.figures) for n, t in tables.items() if n.startswith("Fig")}
    assert n_figures == {"Figure 1": 2, "Figure 2": 2, "Figure 3": 10, "Figures 4–9": 2}
    records = {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("record.json")}
    made("1")
    assert {p: p.stat().st_mtime_ns for p in records} == records


def _check_rankings(table: PaperTable, first: PaperTable) -> None:
    """τ of two learners is 1, -1 or undefined, by who is better on the order and on Random."""
    rows = dict(first.rows)
    for (label,), values in table.rows:
        means = {}
        for order in ("Random", label):
            both = [rows[n, order][LAST].ours for n in ("iCaRL", "LwF")]
            assert None not in both
            means[order] = both[0].mean - both[1].mean  # type: ignore[union-attr]
        if label != "Random":
            assert values["τ against Random"].ours is not None
            sign = np.sign(means["Random"] * means[label])
            assert values["τ against Random"].ours.mean == pytest.approx(
                sign or np.nan, nan_ok=True
            )
    paper = {
        label: v["τ against Random"].published for (label,), v in table.rows if label != "Random"
    }
    result = printed_means(LAST)
    for kind, label in ORDERS.items():
        if kind == "random":
            continue
        pairs = list(itertools.combinations(IN_TABLE, 2))
        agree = [
            np.sign(result[a, "random"] - result[b, "random"])
            * np.sign(result[a, kind] - result[b, kind])
            for a, b in pairs
        ]
        assert paper[label] == pytest.approx(sum(agree) / len(pairs))  # no ties in these columns


def test_tau_between_seeds_by_hand(tmp_path: Path) -> None:
    runs = _runs(tmp_path, [])
    runs.orders["toy", "random"] = "random"
    for learner, last in (
        ("lwf-exemplars", (0.1, 0.1, 0.3)),
        ("icarl", (0.2, 0.3, 0.2)),
        ("bic", (0.3, 0.2, 0.1)),
        ("lucir", ()),
        ("il2m", ()),
    ):
        runs._read["toy", "random", learner] = [
            SimpleNamespace(seed=seed, pooled=[0.5, value]) for seed, value in enumerate(last)
        ]
    # of the three pairs of seeds: 1/3, -1, -1/3
    result = _between_seeds(runs, "toy", "random")
    assert result is not None
    assert result.mean == pytest.approx(-1 / 3)
    runs._read["toy", "random", "bic"] = []
    result = _between_seeds(runs, "toy", "random")  # of two learners: 1, -1, -1
    assert result is not None
    assert result.mean == pytest.approx(-1 / 3)
    runs._read["toy", "random", "icarl"] = []
    assert _between_seeds(runs, "toy", "random") is None


def test_a_run_too_short_for_a_column_leaves_it_empty() -> None:
    record = typed(pooled=[0.9, 0.5, 0.25])
    assert [accuracy(record, h) for h in ("after 1", *AFTER)] == pytest.approx(
        [90, 50, np.nan, 25], nan_ok=True
    )
