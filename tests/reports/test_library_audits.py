"""A page reads the answers of each run once: for its verdicts, and for what others would print."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from matplotlib.figure import Figure
from pinned_runs import answers, write_run
from report_records import typed

from embedbench.reports import confusion_figure, html_report
from embedbench.reports.compare_learners import judge
from embedbench.reports.html_report import render
from embedbench.reports.library_audits import LibraryAudits
from embedbench.reports.tables_from_runs import collect
from embedbench.scores import metrics_by_library, record_files


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learners, two seeds each."""
    place = tmp_path_factory.mktemp("runs")
    for learner in ("mlp", "ncm"):
        for seed in range(2):
            seeds = {"order": 7, "init": seed, "batches": seed, "memory": seed}
            how: dict[str, Any] = {"learner": learner, "seed": seed, "seeds": seeds}
            write_run(place, f"stream-1/{learner}-1/seed-{seed}", answers(1), **how)
    return place


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the answers of each run were read."""
    counts: Counter[str] = Counter()
    before = record_files.read_predictions

    def counted(place: Path, *rest: Any) -> Any:
        counts["/".join(place.parts[-2:])] += 1
        return before(place, *rest)

    monkeypatch.setattr(record_files, "read_predictions", counted)
    return counts


EACH_ONCE = {f"{name}-1/seed-{seed}": 1 for name in ("mlp", "ncm") for seed in range(2)}


def test_a_page_reads_each_answers_once(root: Path, read: Counter[str]) -> None:
    rows = collect(root)
    read.clear()
    render(rows, "")
    assert read == EACH_ONCE


def test_tables_and_page_read_each_answers_once(
    root: Path, read: Counter[str], tmp_path: Path
) -> None:
    collect(root)  # whose outcome is kept: a first report also recomputes the records
    read.clear()
    assert embedbench("report", root, "--html", tmp_path / "a.html").exit_code == 0
    assert read == EACH_ONCE


def test_verdicts_are_made_once(root: Path, read: Counter[str]) -> None:
    rows = collect(root)
    first = judge(rows)
    read.clear()
    assert judge(rows) == first
    assert read == {}


def test_some_rows_of_a_table_have_verdicts_of_their_own(root: Path) -> None:
    rows = collect(root)
    judge(rows)
    assert len(judge(rows[:1]).rows) == 1


def test_an_audit_is_that_of_the_answers(root: Path) -> None:
    (row, *_) = collect(root)
    run = row.used[0]
    place = row.place_of(run)
    assert place is not None
    expected = metrics_by_library.audit(record_files.read_predictions(place, run))
    found = LibraryAudits().of_run(place, run)
    assert str(found) == str(expected)


@pytest.mark.parametrize(("classes", "drawn"), [(200, "a map"), (201, None)])
def test_a_map_has_two_hundred_classes_at_most(
    classes: int, drawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = SimpleNamespace(seen=np.ones((1, classes)), SCORES="none")
    monkeypatch.setattr(record_files, "read_predictions", lambda *_: many)
    monkeypatch.setattr(metrics_by_library, "can_audit", lambda _: False)
    monkeypatch.setattr(confusion_figure, "confusion_of", lambda *_: "a map")
    assert LibraryAudits().confusion_of_run(Path(), typed()) == drawn


@pytest.mark.parametrize(("learners", "drawn"), [(0, None), (1, {}), (12, {}), (13, None)])
def test_a_page_has_maps_of_twelve_learners_at_most(
    learners: int, drawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_report, "confusion", lambda *_, **__: Figure())
    monkeypatch.setattr(html_report, "_image", lambda *_: {})
    rows: Any = range(learners)
    assert html_report._confusion(rows, LibraryAudits()) == drawn


def test_answers_that_cannot_be_read_have_no_audit(root: Path, tmp_path: Path) -> None:
    (row, *_) = collect(root)
    assert LibraryAudits().of_run(tmp_path, row.used[0]) is None
