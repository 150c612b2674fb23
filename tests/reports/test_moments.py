"""Accuracy by samples: drawn where runs have moments between sessions, aligned over runs."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_records import keep, make

from embedbench.reports.curve_figures import _align, by_samples
from embedbench.reports.html_report import render, svg
from embedbench.reports.result_rows import Group, Row
from embedbench.reports.tables_from_runs import collect
from embedbench.scores.run_record import Moments, RunRecord

ENDS = {"samples_seen": [300, 400, 500], "pooled": [0.9, 0.75, 0.8]}
OFTEN = {"samples_seen": [100, 300, 400, 500], "pooled": [0.5, 0.9, 0.75, 0.8]}
TITLE = "All sessions so far, by samples"


def online(seed: int, moments: dict[str, Any], learner: str = "er") -> dict[str, Any]:
    return make(learner, seed=seed, moments=moments)


def test_scores_are_read_off_between_a_run_s_own_moments() -> None:
    other = {"samples_seen": [200, 400, 500], "pooled": [0.2, 0.6, None]}
    found = _align([Moments.from_json(OFTEN), Moments.from_json(other)])
    np.testing.assert_allclose(found[0], OFTEN["pooled"])
    # before its first moment nothing is known; half way between 200 and 400
    np.testing.assert_allclose(found[1], [np.nan, 0.4, 0.6, np.nan])


def test_ends_of_sessions_alone_are_drawn_by_session_only(tmp_path: Path) -> None:
    keep(tmp_path, online(0, ENDS), make("mlp"))  # a record of before moments were kept, too
    rows = collect(tmp_path)
    assert by_samples(rows, {"er": 0, "mlp": 1}, 3.25) == {}
    assert TITLE not in render(rows, "runs")


def test_the_page_has_the_curves_of_online_runs(tmp_path: Path) -> None:
    keep(tmp_path, online(0, OFTEN), online(1, OFTEN), online(0, ENDS, "mlp"), make("ewc"))
    rows = collect(tmp_path)
    ((title, figure),) = by_samples(rows, {"er": 0, "ewc": 1, "mlp": 2}, 3.25).items()
    assert title == TITLE
    drawn = svg(figure, title)
    assert "training samples seen" in drawn
    assert "after session" not in drawn
    colours = set(re.findall(r"var\(--c(\d)\)", drawn))
    assert colours == {"0", "2"}  # the old record of ewc has no moments to draw
    page = render(rows, "runs")
    assert page.count(f"<figcaption>{TITLE}") == 1


def test_the_curve_stands_at_its_samples() -> None:
    moments = {"samples_seen": [100, 200, 500], "pooled": [0.5, 0.9, 0.7]}
    run = replace(RunRecord.from_json(online(0, moments)), pooled=(0.7,))  # one session
    row = Row(Group("place", (run,)), "er", (run,), ())
    (figure,) = by_samples([row], {"er": 0}, 3.25).values()
    paths = re.findall(r'<path d="(M[^"]*)"[^>]*stroke:var\(--c0\)', svg(figure, ""))
    x = [float(v) for v in re.findall(r"[ML]([\d.]+) ", paths[0])]
    assert (x[1] - x[0]) / (x[2] - x[0]) == pytest.approx(
        0.25, abs=1e-3
    )  # 100 to 200 of 100 to 500
