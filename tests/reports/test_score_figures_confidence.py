"""The figures of confidence draw what the metrics say; tables and verdicts have them when asked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confident_runs import hinted_run, keep_runs

from embedbench.errors import UserError
from embedbench.reports import curve_figures
from embedbench.reports.compare_learners import studies
from embedbench.reports.figure_kinds import save_figure
from embedbench.reports.learner_colours import styles_in
from embedbench.reports.result_rows import Row
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import choose_columns, table_text
from embedbench.scores import record_files
from embedbench.scores.predictions import Predictions
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS


def plain(p: Predictions) -> Predictions:
    """The same answers as version 1.0 has them."""
    sure = dict.fromkeys(("rank", "score", "logp", "true_logp", "squares"))
    return Predictions(**{**vars(p), **sure})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, each = tmp_path_factory.mktemp("runs"), {"mlp": (1.0, (0, 1)), "ewc": (3.0, (2, 3))}
    keep_runs(place, {k: [hinted_run(s, hint) for s in seeds] for k, (hint, seeds) in each.items()})
    return place


@pytest.fixture(scope="module")
def rows(root: Path) -> list[Row]:
    return collect(root)


def answers(root: Path, learner: str) -> list[Any]:
    at = root / "stream-1" / learner
    return [record_files.read_predictions(at / f"seed-{s}") for s in (0, 1)]


def value(root: Path, learner: str, name: str) -> float:
    return float(np.mean([ANSWER_METRICS[name](p) or 0.0 for p in answers(root, learner)]))


@pytest.mark.parametrize(
    ("name", "title", "factor"),
    [("unknown_auroc_by_softmax", "AUROC by softmax %", 100), ("nll", "nll", 1)],
)
def test_curves_are_what_answers_say_after_each_session(
    name: str, title: str, factor: int, root: Path, rows: list[Row], tmp_path: Path
) -> None:
    (axes,) = curve_figures.draw_one(rows, styles_in(rows), 3.25, name).axes
    shown = axes.get_title(loc="left").replace("\n", " ")
    assert shown == f"{title} · thin: single runs"
    means = [np.array(li.get_ydata()) for li in axes.lines if li.get_marker() != "None"]
    read = ANSWER_METRICS[name].curve
    curves = [[read(p) for p in answers(root, row.learner)] for row in rows]
    np.testing.assert_allclose(means, factor * np.mean(np.array(curves, dtype=float), axis=1))
    save_figure(rows, "curves", tmp_path / "a.svg", metric=name)
    assert f">{title} · thin" in (tmp_path / "a.svg").read_text("utf-8")


def test_tables_have_them_when_they_are_asked_for(root: Path) -> None:
    names = ["nll", "calibration_error", "unknown_auroc_by_energy", "min_accuracy"]
    rows = collect(root, metrics=names)
    assert choose_columns(rows[0].group) == [*choose_columns(collect(root)[0].group), *names]
    for row in rows:
        for name in names[:3]:
            assert row.metrics[name].mean == pytest.approx(value(root, row.learner, name))
        assert np.isnan(row.metrics["min_accuracy"].mean)  # evaluated at ends of sessions alone
    text = table_text(rows)
    assert f"{value(root, 'mlp', 'nll'):.3f}" in text  # nats, not percent
    assert f"{100 * value(root, 'mlp', 'calibration_error'):.1f}" in text
    assert "nll %" not in text


@pytest.mark.parametrize(
    ("name", "best"), [("nll", min), ("unknown_fpr95_by_score", min), ("oscr_by_score", max)]
)
def test_the_verdict_knows_what_is_lower(root: Path, name: str, best: Any) -> None:
    (study,) = studies(collect(root, metrics=[name]), name)
    assert study.is_lower == (best is min)
    means = {learner: value(root, learner, name) for learner in ("mlp", "ewc")}
    assert study.learners[0] == best(means, key=means.__getitem__) == "ewc"


def test_runs_without_confidence_get_a_sentence(tmp_path: Path, root: Path) -> None:
    keep_runs(tmp_path, {"mlp": [plain(hinted_run(0, 1.0))], "ewc": [plain(hinted_run(1, 1.0))]})
    rows = collect(tmp_path)
    with pytest.raises(UserError, match=r"no run .* unknown_auroc_by_score"):
        save_figure(rows, "curves", tmp_path / "a.svg", metric="unknown_auroc_by_score")
    with pytest.raises(UserError, match="nll needs"):
        collect(tmp_path, metrics=["nll"])
    assert collect(tmp_path, metrics=["windowed_forgetting"])
    with pytest.raises(UserError, match="unknown_auroc_by_energy"):
        collect(root, metrics=["unknown_auroc_energy"])


def test_runs_with_and_without_it_lie_beside_each_other(tmp_path: Path) -> None:
    old = hinted_run(0, 1.0)
    keep_runs(tmp_path, {"mlp": [plain(old)], "ewc": [hinted_run(1, 2.0)], "icarl": [old]})
    rows = collect(tmp_path, metrics=["nll"])
    by_learner = {row.learner: row for row in rows}
    assert "nll" not in by_learner["mlp"].metrics
    assert by_learner["ewc"].metrics["nll"].mean > 0
    assert "–" in table_text(rows)
    (study,) = studies(rows, "nll")
    assert set(study.learners) == {"ewc", "icarl"}
    save_figure(rows, "curves", tmp_path / "a.svg", metric="unknown_auroc_by_score")
