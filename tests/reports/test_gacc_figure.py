"""gAcc by α as a figure, by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from file_helpers import says
from matplotlib.axes import Axes
from report_records import keep, make, scored

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.reports.figure_kinds import WIDTHS
from embedbench.reports.figure_style import legend
from embedbench.reports.gacc_figure import gacc_by_alpha
from embedbench.reports.learner_colours import SOFT, styles_in
from embedbench.reports.tables_from_runs import collect

R = [[0.9, None, None], [0.6, 0.8, None], [0.3, 0.5, 0.7]]
# means over sessions with r = 4, at α = 0 without the base session, whose value is undefined:
# (.8 + .6) / 2 · (.9 + .7 + .5) / 3 · (.9 + 2/3 + .45) / 3 · (.9 + .65 + .42) / 3 ·
# (.9 + .64 + .4) / 3
BY_HAND = [70, 70, 605 / 9, 197 / 3, 194 / 3]


def draw(root: Path, **how: Any) -> Axes:
    rows = collect(root)
    (axes,) = gacc_by_alpha(rows, styles_in(rows), WIDTHS["column"], **how).axes
    return axes


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The x and y of each named line; the name has the area under it."""
    named = (line for line in axes.lines if not str(line.get_label()).startswith("_"))
    return {
        str(line.get_label()): (
            np.asarray(line.get_xdata(), dtype=float).tolist(),
            np.asarray(line.get_ydata(), dtype=float).tolist(),
        )
        for line in named
    }


def run(
    seed: int = 0, matrix: Any = R, sizes: tuple[int, ...] = (4, 1, 1), learner: str = "mlp"
) -> dict[str, Any]:
    return make(learner, seed, 0.5, R=matrix, n_classes=list(sizes))


def test_the_curve_by_hand(tmp_path: Path) -> None:
    """Tang's sums over the grid: .7875, .68417 and .4675, whose mean is .6464."""
    keep(tmp_path, run())
    x, y = lines(draw(tmp_path))["mlp, gAcc 64.6"]
    assert x == [0, 0.25, 0.5, 0.75, 1]
    assert y == pytest.approx(BY_HAND)


def test_it_is_the_mean_over_runs(tmp_path: Path) -> None:
    """The other run is always right."""
    keep(tmp_path, run(), run(1, [[1, None, None], [1, 1, None], [1, 1, 1]]))
    _, y = lines(draw(tmp_path))["mlp, gAcc 80.2"]  # (.6464 + (1 - 1/8 + 2) / 3) / 2
    assert y == pytest.approx([(value + 100) / 2 for value in BY_HAND])


def test_a_ratio_that_is_no_integer_has_the_integral(tmp_path: Path) -> None:
    """Of a learner that is right in 60 % everywhere it is 60, whatever the ratio."""
    keep(tmp_path, run(matrix=np.full((3, 3), 0.6).tolist(), sizes=(5, 2, 2)))
    x, y = lines(draw(tmp_path))["mlp, gAcc (integral) 60.0"]
    assert len(x) == 13
    assert y == pytest.approx([60] * 13)


def test_marks_are_at_the_same_alphas(tmp_path: Path) -> None:
    """At every third of thirteen, and at both ends; before, each learner had others."""
    for name in ("ewc", "mlp", "ncm"):
        keep(tmp_path, run(sizes=(5, 2, 2), learner=name))
    marked = [line for line in draw(tmp_path).lines if line.get_marker() != "None"]
    assert [line.get_markevery() for line in marked] == [(0, 3)] * 3


def test_single_runs_are_named(tmp_path: Path) -> None:
    keep(tmp_path, run(), run(1, [[1, None, None], [1, 1, None], [1, 1, 1]]))
    title = draw(tmp_path).get_title(loc="left").replace("\n", " ")
    assert title == "gAcc(α) (%), of accuracy · thin: single runs"


def test_guessing_is_dotted(tmp_path: Path) -> None:
    """A quarter, a fifth and a sixth of the answers: the base session alone has no α = 0."""
    keep(tmp_path, run())
    (dotted,) = (line for line in draw(tmp_path).lines if line.get_color() == SOFT)
    y = np.asarray(dotted.get_ydata(), dtype=float)
    assert y == pytest.approx([100 * (1 / 5 + 1 / 6) / 2, *[100 * (1 / 4 + 1 / 5 + 1 / 6) / 3] * 4])


@pytest.mark.parametrize("fit", [True, False])
def test_the_axis_begins_at_0_or_says_so(tmp_path: Path, *, fit: bool) -> None:
    keep(tmp_path, run())
    axes = draw(tmp_path, fit=fit)
    assert (axes.get_ylim()[0] == 0) == (not fit)
    title = axes.get_title(loc="left").replace("\n", " ")
    assert title.endswith("does not begin at 0") == fit


@pytest.mark.parametrize("width", WIDTHS.values())
def test_the_legend_covers_nothing(tmp_path: Path, width: float) -> None:
    keep(tmp_path, run())
    rows = collect(tmp_path)
    figure = gacc_by_alpha(rows, styles_in(rows), width)
    legend(figure)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert figure.legends[0].get_window_extent().y1 <= axes.get_tightbbox().y0


def test_later_sessions_of_several_sizes_have_none(tmp_path: Path) -> None:
    keep(tmp_path, run(sizes=(4, 1, 2)))
    expected = "later sessions with equally many classes"
    with pytest.raises(UserError, check=says(what="--figure gacc", expected=expected)):
        draw(tmp_path)


def test_streams_without_novel_classes_have_none(tmp_path: Path) -> None:
    """Every domain has all classes."""
    keep(tmp_path, run(sizes=(4, 0, 0)))
    with pytest.raises(UserError, match="sessions each bring classes"):
        draw(tmp_path)


def test_eval_sets_that_are_not_those_of_the_sessions_have_none(tmp_path: Path) -> None:
    keep(tmp_path, run(matrix=[[0.9], [0.6], [0.3]]))
    with pytest.raises(UserError, match="sessions each bring classes"):
        draw(tmp_path)


def test_label_sets_have_none(tmp_path: Path) -> None:
    made = scored(R, [0.9, 0.7, 0.5], {}, ("pw_js", "js", "exact_match"), n_classes=[4, 1, 1])
    keep(tmp_path, plain(made.to_json()))
    with pytest.raises(UserError, match="sessions each bring classes"):
        draw(tmp_path)


def test_the_command_draws_it(tmp_path: Path) -> None:
    keep(tmp_path / "runs", run())
    words = ("report", tmp_path / "runs", "--figure", "gacc", "--out", tmp_path / "a.svg")
    assert embedbench(*words).exit_code == 0
    assert "mlp, gAcc 64.6" in (tmp_path / "a.svg").read_text("utf-8")
