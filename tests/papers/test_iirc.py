"""The reproduction of IIRC: published values, data, tables, statements and figures of made runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from report_records import scored
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers.iirc import paper as iirc
from embedbench.papers.paper import PaperData, Variant
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import PaperTable
from embedbench.scores.run_record import RunRecord
from embedbench.studies.study import parse_settings


def test_counts_are_the_printed_ones() -> None:
    """Tables 1 to 3: what the hierarchies and CIFAR-100's equal classes give."""
    rows = [row for make in iirc.PAPER.exact.values() for row in make().rows]
    values = [v for row in rows for v in row.values.values() if v.ours]
    assert [v.published for v in values] == [v.ours.mean for v in values if v.ours]
    assert len(values) == 6 + 8 + 7


def test_tables_6_and_7_are_the_printed_ones() -> None:
    """Their first and last columns in the last row; no file of results has these tables."""
    tables = facts("iirc")["printed"]["tables"]
    assert [len(tables[name]) for name in "67"] == [10, 35]
    six, seven = (tables[name][-1]["pw_js"] for name in "67")
    assert [six[name] for name in ("incremental-joint", "icarl-norm")] == [0.72, 0.20]
    assert [seven[name] for name in ("joint", "icarl-cnn")] == [0.42, 0.07]


def test_data_have_the_papers_names_only_where_they_are_said_to(tmp_path: Path) -> None:
    toy = str(blob_file(tmp_path / "toy.h5", 4, 4, groups=2).path)
    runs = iirc.IIRCRuns(tmp_path, [0])
    runs.data = result = runs.find_data([f"cifar={toy}", toy])
    labels = [(runs.label(name), d.stands_in) for name, d in result.items()]
    part = "a part of IIRC-CIFAR, another backbone (toy)"
    assert labels == [(part, False), ("toy for IIRC-CIFAR", True)]
    with pytest.raises(UserError, check=says(what="--data", got=f"imagenet={toy}")):
        runs.find_data([f"imagenet={toy}"])


def test_configurations_are_the_papers_or_the_users(tmp_path: Path) -> None:
    data = {n: PaperData(tmp_path / "x.h5", n) for n in iirc.OFFICIAL}
    data["toy"] = PaperData(tmp_path / "toy.h5")
    runs = iirc.IIRCRuns(tmp_path, [0], data, items=["er.lr=1"])
    assert [len(runs.configurations(n)) for n in data] == [10, 5, 5, 5]
    runs = iirc.IIRCRuns(tmp_path, [0], data, items=["protocol.configuration=1-2,4", "er.lr=1"])
    assert runs.configurations("cifar") == [1, 2, 4]
    assert runs.given == parse_settings(["er.lr=1"])


def test_cells_of_one_stream_stand_side_by_side(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 8, 4, groups=2)
    items = ["protocol.configuration=0-1"]
    data, few = {"toy": PaperData(file.path)}, ["er", "lucir"]
    runs = iirc.IIRCRuns(tmp_path, [3, 4], data, learners=few, items=items)

    def plan(*tables: str) -> list[tuple[str, int]]:
        specs = runs.plan_tables(iirc.PAPER.tables[table] for table in tables)
        return [(spec.learner.name, spec.seed) for spec in specs]

    result = plan("5")
    assert {spec.references for spec in runs.plan_tables([iirc.PAPER.tables["5"]])} == {0}
    assert len(result) == 2 * 2 * 3
    assert result[:4] == [("er", 3), ("lucir", 3), ("offline", 3), ("er", 4)]
    assert len(plan("buffer")) == 2 * 2  # five sizes of the buffer are one exemplar each
    assert {name for name, _ in plan("buffer")} == {"er"}
    assert {name for name, _ in plan(*iirc.PAPER.tables)} == {"er", "lucir", "offline"}
    runs.learners = ["lucir"]
    assert plan("buffer") == []


@dataclass
class MadeRuns(iirc.IIRCRuns):
    """Runs whose records are given: (data, variant) → a list a configuration."""

    made: dict[tuple[str, str], list[list[RunRecord]]] = field(default_factory=dict, kw_only=True)

    def each(self, name: str, variant: str) -> list[list[RunRecord]]:
        return self.made.get((name, variant), [])

    def buffers(self, name: str) -> dict[str, Variant]:
        return iirc.BUFFERS


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
    for i, variant in enumerate([*iirc.LEARNERS, *iirc.BUFFERS]):
        top = 0.05 * i
        curves = [[0.7, 0.5, top + 0.01 * k + 0.02 * s] for k in range(2) for s in range(2)]
        records = [made_record(c, **changes.get(variant, {})) for c in curves]
        made[name, variant] = [records[:2], records[2:]]
    made[name, "joint"] = [[made_record([0.9])], [made_record([0.8])]]
    return MadeRuns(Path(), [0, 1], {name: data}, items=["protocol.configuration=0-1"], made=made)


def row(table: PaperTable, label: str) -> Any:
    return next(row.values for row in table.rows if row.labels[0] == label)


def test_measures_are_of_labels_and_of_newest_sessions() -> None:
    changes = {"er": {"new": 0.8}, "lucir": {"new": 0.2, "given": 5.0}}
    (table,) = iirc.measures(made_runs("toy", PaperData(Path("toy.h5")), **changes))
    assert len(table.rows) == len(iirc.LEARNERS)
    means = {label: [v.ours.mean for v in row(table, label).values()] for label in ("ER", "LUCIR")}
    # the last pw-JS of the made runs: .05, .07 in one configuration, .06, .08 in the other
    assert means == {
        "ER": pytest.approx([0.8, 0.75, 0.4, 0.065, 0.065, math.nan, math.nan], nan_ok=True),
        "LUCIR": pytest.approx([0.2, 2.5, 0.4, 0.265, 0.265, math.nan, math.nan], nan_ok=True),
    }
    third = row(table, "ER")[table.columns[3]]
    assert third.decimals == 2
    assert third.ours.values == pytest.approx((0.06, 0.07))
    (table,) = iirc.measures(MadeRuns(Path(), [0], {"toy": PaperData(Path("toy.h5"))}))
    assert table.rows == ()
    assert iirc._read_measures(made_record([0.9, 0.7], new=0.25))[0] == 0.25  # of two the second


def test_the_moment_of_figure_6_is_session_10() -> None:
    record = made_record([0.5] * 13)
    given = [3.0 + k for k in range(13)]
    record.curves.update(labels_predicted=given, labels_newest=[0.1 * k for k in range(13)])
    assert iirc._read_measures(record)[-2:] == pytest.approx([6.5, 1.0])


@pytest.mark.parametrize(
    ("official", "variant", "size"),
    [
        (None, "er", 4),  # 20 of 500 of a class
        (None, "icarl-norm", 4),
        (None, "er-5", 1),
        (None, "er-100", 20),
        ("cifar", "er", 20),
        ("cifar", "er-5", 5),
    ],
)
def test_exemplars_are_the_papers_share_of_a_class(
    official: str | None, variant: str, size: int, tmp_path: Path
) -> None:
    file = blob_file(tmp_path / "toy.h5", 6, 200, groups=2)  # 100 training samples a class
    runs = iirc.IIRCRuns(tmp_path, [0], {"toy": PaperData(file.path)})
    if official:
        runs.data = {"cifar": PaperData(file.path, official)}
        runs.published = lambda name: iirc.OFFICIAL["cifar"]
    (spec,) = runs.specs(official or "toy", 0, variant)
    assert spec.learner.settings.memory.per_class == size


def test_a_buffer_of_as_many_exemplars_has_one_row(tmp_path: Path) -> None:
    """40 training samples a class: 20 are 2, 40 are 3, 100 are 8; 5 and 10 are one."""
    file = blob_file(tmp_path / "toy.h5", 6, 80, groups=2)
    runs = iirc.IIRCRuns(tmp_path, [0], {"toy": PaperData(file.path)})
    assert list(runs.buffers("toy")) == ["er-5", "er-20", "er-40", "er-100"]


def test_a_table_of_the_papers_data_has_differences_and_of_a_stand_in_none() -> None:
    runs = made_runs("cifar", PaperData(Path("x.h5"), "cifar"))
    (table,) = iirc.PAPER.tables["5"](runs)
    assert table.heading.startswith("Table 5: average performance (pw-JS)")
    assert iirc.PAPER.tables["6"](runs) == []
    assert len(table.rows) == 22
    assert list(table.columns) == [iirc.VARIANTS[n].label for n in (*iirc.LEARNERS, "joint")]
    value = row(table, "2")["ER"]
    # ER is the second of the learners: .05, .07 in one configuration, .06, .08 in the other
    assert value.ours.values == pytest.approx((0.06, 0.07))
    assert value.published == 0.23
    assert value.sd == 0.054
    assert value.difference == pytest.approx(0.065 - 0.23)
    assert row(table, "3")["ER"].ours is None
    assert row(table, "2")["finetune"].published is None
    assert row(table, "2")["joint"].ours.mean == pytest.approx(0.85)
    assert row(table, "1")["joint"].ours is None
    none = MadeRuns(Path(), [0], {"cifar": PaperData(Path("x.h5"), "cifar")})
    (table,) = iirc.PAPER.tables["5"](none)
    assert not {"finetune", "joint"} & {*table.columns}  # neither printed nor run
    assert row(table, "21")["A-GEM"].texts() == ("0.02 (0.00)", "–", "")
    runs = made_runs("toy", PaperData(Path("toy.h5")))
    tables = [table for make in iirc.PAPER.tables.values() for table in make(runs)]
    names = ["5 · toy", "Measures · toy", "Figures A.27, A.28 · toy"]
    assert [table.name for table in tables] == names
    for i, of_buffer in enumerate(tables[-1].rows, len(iirc.LEARNERS)):
        end = 0.05 * i + 0.015
        expected = [(2, pytest.approx(v)) for v in (end, (0.7 + 0.5 + end) / 3)]
        assert [(v.decimals, v.ours.mean) for v in of_buffer.values.values() if v.ours] == expected
    assert [row.labels[0] for row in tables[-1].rows] == [v.label for v in iirc.BUFFERS.values()]
    assert tables[0].notes[-1].endswith("over 2 of them, of each the mean over its seeds (0, 1)")
    assert "toy for IIRC-CIFAR" in tables[0].heading
    values = [v for row in tables[0].rows for v in row.values.values()]
    assert {v.difference for v in values if v.ours} == {None}
