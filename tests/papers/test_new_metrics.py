"""The reproduction of Michel et al. (2023): exact tables, coefficients, and a run of it."""

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from protocol_files import make_file
from report_records import scored
from reproduce_files import blob_file, by_labels

from embedbench.papers.new_metrics import paper as michel
from embedbench.papers.paper import PaperData


def test_ours_differ_in_the_two_values_alone_that_the_paper_cut_off() -> None:
    remarks = []
    for table, n in ((michel.random_table("1"), 20), (michel.random_table("2"), 14)):
        cells = [(*k, c, v) for k, row in by_labels(table).items() for c, v in row.items()]
        assert len(cells) == n
        for after, column, value in cells:
            printed, ours, _ = value.texts()
            assert "–" not in (printed, ours)
            assert value.remark or printed == ours
            remarks += [(after, column)] if value.remark else []
    assert remarks == [("T4", "T3"), ("T5", "T3")]


def test_figure_2_begins_and_ends_where_the_formulas_do() -> None:
    rows = {
        row.labels[0]: {h: v.ours.mean for h, v in row.values.items() if v.ours}
        for row in michel.figure2().rows
    }
    assert {v.decimals for row in michel.figure2().rows for v in row.values.values()} == {4}
    seconds = [rows[sessions]["β_2"] for sessions in ("20", "100")]
    assert seconds == pytest.approx([0.2734, 0.0846], abs=5e-5)
    for sessions in (20, 100):
        row = rows[str(sessions)]
        assert (row["γ_1"], row["γ_K/2"], row["γ_K"], row["β_K"]) == (1 / sessions, 0.5, 1, 1)
        half = sessions // 2
        to_half, to_end = (sum(1 / i for i in range(2, k + 1)) for k in (half, sessions))
        assert row["β_K/2"] == pytest.approx(to_end * (half - 1) / (to_half * (sessions - 1)))


@pytest.mark.parametrize("asked", [10, 50])
def test_sessions_are_equal_where_a_number_nearby_allows_it(asked: int) -> None:
    for n in range(4, 300):
        result = michel.equal_sessions(n, asked)
        wanted = min(asked, n // 2)
        even = [k for k in range(2, n // 2 + 1) if n % k == 0 and 0.8 * wanted <= k <= 1.2 * wanted]
        assert 2 <= result <= n // 2
        assert result == wanted if not even else n % result == 0
        assert all(abs(result - wanted) <= abs(k - wanted) for k in even)


def test_short_and_long_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {str(n): PaperData(blob_file(tmp_path / f"{n}.h5", n, 2).path) for n in (127, 4)}
    data["more"] = PaperData(make_file(tmp_path, (8,) * 4, test=(4,) * 4).path)
    runs = michel.MetricRuns(tmp_path, [0], data)
    found = [(runs.sessions(name), runs.memory(name)) for name in data]
    assert found == [([10, 50], 13), ([2], 1), ([2], 3)]  # 127 is prime
    curves = {name: [0.5, 0.25] for name in ("aa", "raa")}  # of two sessions: fewer than quarters
    made = [scored([[0.5, None], [0.25, 0.25]], [0.5, 0.25], curves)]
    monkeypatch.setattr(michel.MetricRuns, "of", lambda *_: made)
    for row in michel.PAPER.tables["fig3"](runs).rows:
        assert [v.ours and v.ours.mean for v in row.values.values()] == [50, 50, 25, 25]


@pytest.mark.thorough
def test_all_of_it_on_a_small_file(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "toy.h5", 24, 10)
    items = ["er.units=8", "er.memory.total=30", "gdumb.units=8", "gdumb.stop.epochs=1"]
    runs = michel.MetricRuns(tmp_path / "out", [0, 1], items=items)
    tables = michel.PAPER.reproduce(runs, data=[str(file.path)])
    assert runs.failed == []
    assert [t.name for t in tables] == ["1", "2", "Figure 2", "Figure 3", "Figure 4"]
    rows = by_labels(tables[3]) | by_labels(tables[4])
    assert len(rows) == 2 * 2 * 2 * len(michel.LEARNERS)

    def values(sessions: str, learner: str, metric: str, column: str) -> np.ndarray:
        value: Any = rows["toy", sessions, michel.LEARNERS[learner].label, metric][column]
        assert value.decimals == 1
        return np.array(value.ours.values)

    for start in itertools.product(("8", "12"), michel.LEARNERS):
        # rescaling changes nothing after the last session, and multiplies before it
        for plain, rescaled in (("AA", "RAA"), ("AF", "RAF")):
            ends = [values(*start, name, "at K") for name in (plain, rescaled)]
            np.testing.assert_allclose(*ends)
        half = values(*start, "AA", "at K/2") / 2
        np.testing.assert_allclose(values(*start, "RAA", "at K/2"), half)
    assert runs.sessions("toy") == [8, 12]
    assert runs.memory("toy") == 12  # a tenth of 24 · 5
    totals = {}
    for learner in michel.LEARNERS:
        records = runs.records(runs.specs("toy", 12, learner))
        totals[learner] = records[0].learner_params["memory"]["total"]
        assert records[0].protocol_params["order"] == "random"
        for column, at in (("at K/4", 2), ("at K/2", 5), ("at 3K/4", 8)):
            mine = [100 * r.curves["aa"][at] for r in records]  # type: ignore[index]
            np.testing.assert_allclose(values("12", learner, "AA", column), mine)
    assert totals == {"er": 30, "gdumb": 12, "finetune": 0}
    runs.items = ["protocol.sessions=5"]
    assert runs.sessions("toy") == [5]
    assert asdict(runs.specs("toy", 5, "finetune")[0].protocol.settings)["sessions"] == 5
