"""The reproduction of IIRC: published values, data, tables, statements and figures of made runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_records import scored
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers.iirc.paper import (
    BUFFERS,
    LEARNERS,
    OFFICIAL,
    PAPER,
    VARIANTS,
    IIRCRuns,
    measures,
)
from embedbench.papers.paper import PaperData
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import PaperTable
from embedbench.scores.run_record import RunRecord
from embedbench.studies.study import parse_settings

PUBLISHED = facts("iirc")["printed"]["tables"]


# --- the published tables ---


@pytest.mark.parametrize(("number", "counted"), [("1", 6), ("2", 8), ("3", 7)])
def test_counts_are_the_printed_ones(number: str, counted: int) -> None:
    """Tables 1 to 3: what the hierarchies and CIFAR-100's equal classes give."""
    values = [v for row in PAPER.exact[number]().rows for v in row.values.values() if v.ours]
    assert [v.published for v in values] == [v.ours.mean for v in values if v.ours]
    assert len(values) == counted


def test_every_cell_of_tables_5_to_7_is_there() -> None:
    five = ["er", "icarl-cnn", "icarl-norm", "lucir"]
    learners = {
        "5": [*five, "agem", "incremental-joint", "er-infinite"],
        "6": [*five, "incremental-joint"],
        "7": five,
    }
    for number, sessions in (("5", 22), ("6", 10), ("7", 35)):
        rows = PUBLISHED[number]
        assert [row["task"] for row in rows] == list(range(sessions))
        for row in rows:
            last = ["joint"] if (number, row["task"]) == ("7", 34) else []
            assert list(row["pw_js"]) == list(row["sd"]) == [*learners[number], *last]
            assert all(0 < v < 1 for v in row["pw_js"].values())
            assert all(0 < v < 0.2 for v in row["sd"].values())


@pytest.mark.parametrize(
    ("table", "learner", "values"),
    [
        ("5", "er", {0: 0.72, 1: 0.31, 5: 0.18, 10: 0.17, 15: 0.13, 21: 0.13}),
        ("5", "icarl-norm", {0: 0.75, 1: 0.50, 5: 0.24, 10: 0.17, 15: 0.15, 21: 0.15}),
        ("5", "lucir", {0: 0.74, 1: 0.50, 5: 0.25, 10: 0.14, 15: 0.11, 21: 0.06}),
        ("5", "agem", {0: 0.72, 1: 0.15, 5: 0.07, 10: 0.06, 15: 0.03, 21: 0.02}),
        ("5", "er-infinite", {0: 0.72, 1: 0.64, 5: 0.55, 10: 0.45, 15: 0.40, 21: 0.35}),
        ("6", "incremental-joint", {9: 0.72}),
        ("6", "icarl-norm", {9: 0.20}),
        ("7", "joint", {34: 0.42}),
        ("7", "icarl-cnn", {34: 0.07}),
    ],
)
def test_published_values(table: str, learner: str, values: dict[int, float]) -> None:
    assert {t: PUBLISHED[table][t]["pw_js"][learner] for t in values} == values


# --- data and configurations ---


def find_data(out: Path, *data: str) -> dict[str, PaperData]:
    return IIRCRuns(out, [0]).find_data(data)


def test_data_have_the_papers_names_only_where_they_are_said_to(tmp_path: Path) -> None:
    toy = str(blob_file(tmp_path / "toy.h5", 4, 4, groups=2).path)
    result = find_data(tmp_path, f"cifar={toy}", toy)
    runs = IIRCRuns(tmp_path, [0], result)
    labels = [(runs.label(name), d.stands_in) for name, d in result.items()]
    assert labels == [("IIRC-CIFAR", False), ("toy for IIRC-CIFAR", True)]
    with pytest.raises(UserError, match="cifar, imagenet-lite, imagenet-full"):
        find_data(tmp_path, f"imagenet={toy}")


def test_configurations_are_the_papers_or_the_users(tmp_path: Path) -> None:
    data = {
        **{n: PaperData(tmp_path / "x.h5", n) for n in OFFICIAL},
        "toy": PaperData(tmp_path / "toy.h5"),
    }
    runs = IIRCRuns(tmp_path, [0], data, items=["er.lr=1"])
    assert [len(runs.configurations(n)) for n in data] == [10, 5, 5, 5]
    items = ["protocol.configuration=1-2,4", "er.lr=1"]
    runs = IIRCRuns(tmp_path, [0], data, items=items)
    assert runs.configurations("cifar") == [1, 2, 4]
    assert runs.given == parse_settings(["er.lr=1"])


def test_cells_of_one_stream_stand_side_by_side(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 8, 4, groups=2)
    items = ["protocol.configuration=0-1"]
    data, few = {"toy": PaperData(file.path)}, ["er", "lucir"]
    runs = IIRCRuns(tmp_path, [3, 4], data, learners=few, items=items)

    def plan(*tables: str) -> list[tuple[str, int]]:
        specs = runs.plan_tables(PAPER.tables[table] for table in tables)
        return [(spec.learner.name, spec.seed) for spec in specs]

    result = plan("5")
    assert {spec.references for spec in runs.plan_tables([PAPER.tables["5"]])} == {0}
    assert len(result) == 2 * 2 * 3
    assert result[:4] == [("er", 3), ("lucir", 3), ("offline", 3), ("er", 4)]
    assert len(plan("buffer")) == 2 * 2 * len(BUFFERS)
    assert {name for name, _ in plan("buffer")} == {"er"}
    assert {name for name, _ in plan(*PAPER.tables)} == {"er", "lucir", "offline"}
    runs.learners = ["lucir"]
    assert plan("buffer") == []


# --- runs that never were ---


@dataclass
class MadeRuns(IIRCRuns):
    """Runs whose records are given: (data, variant) → a list a configuration."""

    made: dict[tuple[str, str], list[list[RunRecord]]] = field(default_factory=dict, kw_only=True)

    def each(self, name: str, variant: str) -> list[list[RunRecord]]:
        return self.made.get((name, variant), [])


def made_record(pooled: Sequence[float], new: float = 0.5, given: float = 1.5) -> RunRecord:
    """R_jj is `new` from session 1 on; `given` labels a sample for two true ones."""
    n = len(pooled)
    R = np.where(np.tri(n, dtype=bool), np.array(pooled)[:, None], np.nan)
    R[np.arange(1, n), np.arange(1, n)] = new
    flat = {"labels_predicted": given, "labels_true": 2.0, "labels_newest": 0.4}
    curves = {k: [v] * n for k, v in flat.items()}
    fractions = ("subclass_precision", "lone_subclass_precision")
    curves |= {key: [math.nan, *pooled[1:]] for key in fractions}
    return scored(R, pooled, curves, ("pw_js", "js", "exact_match"))


def made_runs(name: str, data: PaperData, **changes: Any) -> MadeRuns:
    """Two configurations of two seeds, three sessions; joint ends highest, ER lowest."""
    made = {}
    for i, variant in enumerate([*LEARNERS, *BUFFERS]):
        top = 0.05 * i
        curves = [[0.7, 0.5, top + 0.01 * k + 0.02 * s] for k in range(2) for s in range(2)]
        records = [made_record(c, **changes.get(variant, {})) for c in curves]
        made[name, variant] = [records[:2], records[2:]]
    made[name, "joint"] = [[made_record([0.9])], [made_record([0.8])]]
    items = ["protocol.configuration=0-1"]
    return MadeRuns(Path(), [0, 1], {name: data}, items=items, made=made)


def row(table: PaperTable, label: str) -> Any:
    return next(row.values for row in table.rows if row.labels[0] == label)


def test_only_what_was_run_is_shown_beside_the_paper() -> None:
    runs = MadeRuns(Path(), [0], {"cifar": PaperData(Path("x.h5"), "cifar")})
    (table,) = PAPER.tables["5"](runs)
    assert not {"finetune", "joint"} & {*table.columns}
    assert row(table, "21")["A-GEM"].texts() == ("0.02 (0.00)", "–", "")


def test_measures_are_of_labels_and_of_newest_sessions() -> None:
    changes = {"er": {"new": 0.8}, "lucir": {"new": 0.2}, "icarl-cnn": {"given": 5.0}}
    (table,) = measures(made_runs("toy", PaperData(Path("toy.h5")), **changes))
    assert len(table.rows) == len(LEARNERS)
    late, given, newest, below, _ = table.columns
    for label, value in (("ER", 0.8), ("LUCIR", 0.2), ("A-GEM", 0.5)):
        assert row(table, label)[late].ours.mean == pytest.approx(value)
    assert row(table, "iCaRL-CNN")[given].ours.mean == pytest.approx(2.5)
    assert row(table, "ER")[given].ours.mean == pytest.approx(0.75)
    assert row(table, "ER")[newest].ours.values == pytest.approx((0.4, 0.4))
    # as the last pw-JS of the made runs: .05, .07 in one configuration, .06, .08 in the other
    assert row(table, "ER")[below].ours.values == pytest.approx((0.06, 0.07))
    (table,) = measures(MadeRuns(Path(), [0], {"toy": PaperData(Path("toy.h5"))}))
    assert table.rows == ()


# --- all of it ---


def test_a_table_of_the_papers_data_has_differences_and_of_a_stand_in_none() -> None:
    runs = made_runs("cifar", PaperData(Path("x.h5"), "cifar"))
    (table,) = PAPER.tables["5"](runs)
    assert table.heading.startswith("Table 5: average performance (pw-JS)")
    assert PAPER.tables["6"](runs) == []
    assert len(table.rows) == 22
    assert list(table.columns) == [VARIANTS[n].label for n in (*LEARNERS, "joint")]
    value = row(table, "2")["ER"]
    # ER is the second of the learners: .05, .07 in one configuration, .06, .08 in the other
    assert value.ours.values == pytest.approx((0.06, 0.07))
    assert (value.published, value.sd) == (0.23, 0.054)
    assert value.difference == pytest.approx(0.065 - 0.23)
    assert row(table, "3")["ER"].ours is None
    assert row(table, "2")["finetune"].published is None
    assert row(table, "2")["joint"].ours.mean == pytest.approx(0.85)
    assert row(table, "1")["joint"].ours is None
    runs = made_runs("toy", PaperData(Path("toy.h5")))
    tables = [table for make in PAPER.tables.values() for table in make(runs)]
    names = ["5 · toy", "Measures · toy", "Figures A.27, A.28 · toy"]
    assert [table.name for table in tables] == names
    assert "ER 100" in [row.labels[0] for row in tables[-1].rows]
    assert "toy for IIRC-CIFAR" in tables[0].heading
    values = [v for row in tables[0].rows for v in row.values.values()]
    assert any(v.ours for v in values)
    assert all(v.difference is None for v in values)
