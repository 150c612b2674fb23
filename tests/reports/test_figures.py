"""Figures as files: what they draw, in which width and format, and what is refused."""

import io
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import embedbench
from file_helpers import says
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image
from report_records import keep, make

from embedbench.errors import UserError
from embedbench.reports import curve_figures, score_figures
from embedbench.reports.figure_kinds import KINDS, WIDTHS, save_figure
from embedbench.reports.figure_style import legend, render_figure, shown_figure, words
from embedbench.reports.learner_colours import BLANK, COLOURS, INK, SOFT, look, styles_in
from embedbench.reports.result_rows import Row
from embedbench.reports.tables_from_runs import collect
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import Costs

COLUMN = WIDTHS["column"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three learners and chance, three seeds, three sessions."""
    place = tmp_path_factory.mktemp("runs")
    for k, name in enumerate(("ewc", "mlp", "icarl")):
        for seed in range(3):
            cost: Any = {"seconds": {"learn": 5.0 - k + 0.5 * seed, "evaluate": 1.0}}
            cost["footprint"] = {"total": 10.0 ** (4 + 2 * k)}
            keep(place, make(name, seed, 0.3 + 0.2 * k + 0.01 * seed, **cost))
    keep(place, *(make("chance", seed=seed, final=0.1) for seed in range(3)))
    return place


@pytest.fixture(scope="module")
def rows(root: Path) -> list[Row]:
    return collect(root)


def with_legend(figure: Figure) -> Figure:
    """A figure as it is in a file."""
    legend(figure)
    figure.draw_without_rendering()
    return figure


def curves(rows: list[Row], width: float = COLUMN) -> Figure:
    return with_legend(curve_figures.draw_one(rows, styles_in(rows), width, "final_accuracy"))


def trade_off(rows: list[Row], width: float = COLUMN) -> Figure:
    return with_legend(score_figures.trade_off(rows, styles_in(rows), width))


def title_of(axes: Axes) -> str:
    """The title in one line."""
    return axes.get_title(loc="left").replace("\n", " ")


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.legends[0].get_texts()}


def test_curves_are_the_means_of_the_records(rows: list[Row]) -> None:
    figure = curves(rows)
    (axes,) = figure.axes
    by_colour = {line.get_color(): line for line in axes.lines}
    learners = [row for row in rows if row.learns]
    for row in learners:
        line = by_colour[COLOURS[["ewc", "icarl", "mlp"].index(row.learner)]]
        x, y = np.array(line.get_data(), dtype=float)
        np.testing.assert_allclose(y, 100 * np.mean([run.pooled for run in row.used], axis=0))
        assert x.tolist() == [0, 1, 2]
    assert not axes.collections  # three runs have no band: each is drawn
    thin = {tuple(line.get_ydata()) for line in axes.lines if line.get_linewidth() == 0.6}
    assert {tuple(100 * x for x in run.pooled) for row in learners for run in row.used} <= thin
    assert texts(figure) == {
        *("ewc", "mlp", "icarl"),
        *("offline, all classes (90.0)", "chance (25.0)"),
    }


def test_no_two_styles_look_alike(rows: list[Row]) -> None:
    assert len({tuple(look(style).values()) for style in range(100)}) == 100
    assert len({look(style)["marker"] for style in range(10)}) == 10
    assert styles_in(rows) == {"ewc": 0, "icarl": 1, "mlp": 2}


@pytest.mark.parametrize(("seeds", "rest"), [(1, 1.0), (2, 1.0), (4, 1.0), (5, 1.0), (5, 0.0)])
def test_a_band_of_five_runs_and_else_the_runs(tmp_path: Path, seeds: int, rest: float) -> None:
    finals = np.array([0.6, *[rest] * (seeds - 1)])
    keep(tmp_path, *(make("mlp", seed=s, final=float(f)) for s, f in enumerate(finals)))
    rows = collect(tmp_path)
    figures = curve_figures.accuracy_curves(rows, styles_in(rows), COLUMN)
    (axes,) = figures["All sessions so far"].axes
    assert sum(li.get_linewidth() == 0.6 for li in axes.lines) == (seeds if 1 < seeds < 5 else 0)
    bands = [(band.get_alpha(), *band.get_linewidths()) for band in axes.collections]
    assert bands == [(0.1, 0)] * (seeds == 5)
    for band in axes.collections:
        stat, (path,) = Stat.of(100 * finals), band.get_paths()
        at_the_end = path.vertices[path.vertices[:, 0] == 2, 1]
        ends = (stat.mean - stat.half, 100) if rest else (0, stat.mean + stat.half)
        assert (at_the_end.min(), at_the_end.max()) == pytest.approx(ends)
    dashed = {}
    for name, x in (("Session 0", [0, 1, 2]), ("The newest session", [1, 2])):
        (axes,) = figures[name].axes
        (mean,) = (li for li in axes.lines if li.get_label() == "mlp")
        assert np.asarray(mean.get_xdata()).tolist() == x
        final = 100 * finals.mean()
        y = [90, 80, final] if name == "Session 0" else [70, final]
        np.testing.assert_allclose(np.asarray(mean.get_ydata(), dtype=float), y)
        dashed[name] = [li.get_ydata() for li in axes.lines if li.get_color() == INK]
    assert dashed == {"Session 0": [[90, 90]], "The newest session": []}


def test_a_png_has_three_hundred_dots_an_inch_and_half_in_a_notebook() -> None:
    figure: Any = shown_figure(Figure((2.0, 1.0)))
    made = [render_figure(figure, "png"), figure._repr_png_()]
    assert [Image.open(io.BytesIO(png)).size for png in made] == [(600, 300), (300, 150)]


def test_one_session_stands_in_the_middle() -> None:
    axes = Figure().add_subplot()
    axes.plot([2], [1])
    curve_figures.number_sessions(axes, [2])
    assert (axes.get_xlim(), axes.get_xticks().tolist()) == ((1.5, 2.5), [2])


def test_the_style_of_a_figure(rows: list[Row]) -> None:
    """Sizes in points; the legend is that of a file."""
    figure = curve_figures.accuracy_curves(rows, styles_in(rows), COLUMN)["All sessions so far"]
    svg = render_figure(figure, "svg").decode()
    dashes = {*re.findall(r"stroke-dasharray: ([\d.,]+); stroke-dashoffset: (\d+)", svg)}
    assert dashes == {("4.5,2.7", "0"), ("0.9,1.8", "0")}  # of the offline level, and of chance
    (axes,), (entries,) = figure.axes, figure.legends
    tick, texts = axes.xaxis.get_major_ticks()[0], entries.get_texts()
    sizes = [t.get_fontsize() for t in (axes.xaxis.label, axes._left_title, tick.label1, texts[0])]  # type: ignore[attr-defined]
    assert sizes == [8, 8, 7, 7]
    assert not entries.get_frame_on()
    assert axes.get_axisbelow()
    sides = {side: spine.get_visible() for side, spine in axes.spines.items()}
    assert sides == {"left": True, "bottom": True, "right": False, "top": False}
    frame, grid = axes.spines["left"].get_linewidth(), axes.get_ygridlines()[0]
    assert frame == 0.6
    assert tick.tick1line.get_markeredgewidth() == 0.6
    assert grid.get_linewidth() == 0.4
    (mean, *_) = (li for li in axes.lines if li.get_marker() != "None")
    thin, offline = axes.lines[0], next(li for li in axes.lines if li.get_color() == INK)
    assert [li.get_linewidth() for li in (mean, thin, offline)] == [1.1, 0.6, 0.9]
    assert mean.get_markersize() == 3.6
    assert mean.get_markeredgewidth() == 0
    assert thin.get_alpha() == 0.5
    assert offline.get_zorder() == 1
    assert grid.get_visible()


@pytest.mark.parametrize(("sessions", "every"), [(6, 1), (7, 2), (17, 3)])
def test_marks_of_curves_take_turns(sessions: int, every: int) -> None:
    values = np.full((1, sessions), 50.0)
    made = [curve_figures.Curve(values, range(sessions), k, f"l{k}") for k in range(4)]
    (axes,) = curve_figures.draw_curves(made, math.nan, COLUMN, "").axes
    assert [li.get_markevery() for li in axes.lines] == [(k % every, every) for k in range(4)]
    ticks = [x for x in axes.get_xticks() if 0 <= x < sessions]
    assert ticks == [*range(0, sessions, max(1, sessions // 5))]


def test_curves_of_records_are_of_the_runs_that_have_them(tmp_path: Path) -> None:
    for name, level in (("mlp", 0.9), ("er", 0.3)):
        keep(tmp_path, make(name, curves={"raa": [level, 0.5, 0.4]}), make(name, 1))
    keep(tmp_path, make("ewc"), make("chance", curves={"raa": [1, 1, 1]}))
    rows = collect(tmp_path)
    (axes,) = curve_figures.draw_one(rows, styles_in(rows), COLUMN, "raa").axes
    drawn = {li.get_color(): np.round(li.get_ydata(), 9).tolist() for li in axes.lines}
    assert drawn == {COLOURS[0]: [30, 50, 40], COLOURS[2]: [90, 50, 40]}
    assert axes.get_title(loc="left") == "RAA %, of accuracy"


def test_what_has_no_point_has_no_entry(tmp_path: Path) -> None:
    nowhere = make("er", final=0.6)
    nowhere["metrics"][FINAL] = nowhere["pooled"][2] = float("nan")
    idle = make("mlp", final=0.0, pooled=[0.9, 0.45, 0.0])
    keep(tmp_path, idle, make("ewc", final=0.7), nowhere)
    figure = trade_off(collect(tmp_path))
    assert texts(figure) == {"mlp", "ewc", "chance (25.0)"}  # α_ideal, 90 %, is out of sight
    for axes in figure.axes:
        assert [li.get_ydata() for li in axes.lines if li.get_color() == SOFT] == [[25, 25]]
        assert not axes.collections  # one run has no interval


def test_chance_falls_with_the_classes_seen_as_on_the_page(tmp_path: Path) -> None:
    """Not with the answers that were drawn, of which the last are right in 10 %."""
    guess = make("chance", final=0.1, pooled=[0.5, 0.25, 0.1])
    keep(tmp_path / "both", make("mlp", final=0.05, pooled=[0.9, 0.4, 0.05]), guess)
    keep(tmp_path / "alone", guess)
    figure, alone = (curves(collect(tmp_path / name)) for name in ("both", "alone"))
    (dotted,) = [line for line in figure.axes[0].lines if line.get_color() == SOFT]
    np.testing.assert_allclose(np.asarray(dotted.get_ydata(), dtype=float), [50, 100 / 3, 25])
    assert "chance (25.0)" in texts(figure)  # 1 / classes, as in the table
    assert len([line for line in alone.axes[0].lines if line.get_color() == SOFT]) == 1


@pytest.mark.parametrize("width", WIDTHS.values())
def test_axes_begin_at_0_and_the_legend_covers_none(rows: list[Row], width: float) -> None:
    figures = curves(rows, width), trade_off(rows, width)
    for figure in figures:
        box = figure.legends[0].get_window_extent()
        assert box.y1 <= min(axes.get_window_extent().y0 for axes in figure.axes)
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    low, high = figures[0].axes[0].get_ylim()
    assert low == 0 < 90 < high < 95


FINAL = "final_accuracy"


def drawn(rows: list[Row], *, fit: bool) -> Figure:
    styles = styles_in(rows)
    return with_legend(curve_figures.draw_one(rows, styles, COLUMN, FINAL, fit=fit))


def test_an_axis_that_fits_the_values_says_so(rows: list[Row]) -> None:
    (axes,) = drawn(rows, fit=True).axes
    assert title_of(axes).endswith("thin: single runs · the axis does not begin at 0")


def test_chance_outside_an_axis_has_no_line_and_no_legend(rows: list[Row]) -> None:
    """The lowest learner has 31 %, guessing 25 % in the end."""
    figure = drawn(rows, fit=True)
    lines = [line for line in figure.axes[0].lines if line.get_color() == SOFT]
    assert lines == []
    assert "chance (25.0)" not in texts(figure)


def test_an_axis_from_0_shows_chance(rows: list[Row]) -> None:
    assert "chance (25.0)" in texts(drawn(rows, fit=False))


@pytest.mark.parametrize("fit", [True, False])
def test_costs_begin_at_0_unless_they_are_logarithmic(rows: list[Row], fit: bool) -> None:
    memory, seconds = score_figures.trade_off(rows, styles_in(rows), COLUMN, fit=fit).axes
    assert memory.get_xlim()[0] > 0
    assert (seconds.get_xlim()[0] == 0) == (not fit)


AVERAGE = "average_incremental_accuracy"


def of_average(tmp_path: Path) -> list[Row]:
    """A run that is right in 90, 75 and 60 %, so its A_avg is 75 %."""
    made = make("mlp", final=0.6)
    made["metrics"][AVERAGE] = 0.75
    keep(tmp_path, made)
    return collect(tmp_path)


def test_a_curve_is_said_to_be_of_what_a_avg_is_the_mean_of(tmp_path: Path) -> None:
    rows = of_average(tmp_path)
    (axes,) = curve_figures.draw_one(rows, styles_in(rows), COLUMN, AVERAGE).axes
    assert title_of(axes) == "accuracy (%) after each session, whose mean is A_avg"


def test_thin_lines_are_said_to_be_runs_and_orders_are_counted(tmp_path: Path) -> None:
    """Each of the three seeds draws its own class order."""
    orders: Any = {"order": {"kind": "random", "name": None, "digest": None}}
    keep(tmp_path, *(make("mlp", seed, 0.5 + 0.01 * seed, **orders) for seed in range(3)))
    (axes,) = drawn(collect(tmp_path), fit=False).axes
    assert title_of(axes) == "accuracy (%), over 3 class orders · thin: single runs"


def test_runs_without_a_class_order_have_none_in_the_title(rows: list[Row]) -> None:
    """As those of permutations."""
    (axes,) = drawn(rows, fit=False).axes
    assert title_of(axes) == "accuracy (%) · thin: single runs"


def test_bands_are_said_to_be_intervals(tmp_path: Path) -> None:
    orders: Any = {"order": {"kind": "natural", "name": None, "digest": None}}
    keep(tmp_path, *(make("mlp", seed, 0.5 + 0.01 * seed, **orders) for seed in range(5)))
    (axes,) = drawn(collect(tmp_path), fit=False).axes
    assert title_of(axes) == "accuracy (%) · bands: 95 % over seeds"


def test_guessing_has_an_average_too(tmp_path: Path) -> None:
    """A half, a third and a quarter of the answers are right: 36.1 % on average."""
    rows = of_average(tmp_path)
    figure = with_legend(score_figures.trade_off(rows, styles_in(rows), COLUMN, AVERAGE))
    assert texts(figure) == {"mlp", "chance (36.1)"}


def test_one_run_has_no_bars_to_name(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp"))
    assert title_of(trade_off(collect(tmp_path)).axes[0]) == "accuracy (%)"


def test_numbers_of_a_logarithmic_axis_stand_level(tmp_path: Path) -> None:
    """The 1 stood below the .2 and .5, as its tick is longer."""
    for name, seconds in (("ewc", 10), ("mlp", 0.3)):
        keep(tmp_path, make(name, seconds={"learn": seconds, "evaluate": 1.0}))
    _, axes = trade_off(collect(tmp_path)).axes
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    tops = [t.label1.get_window_extent().y1 for t in ticks if t.label1.get_text() in ("0.5", "1")]
    assert tops == pytest.approx([tops[0]] * 2)


def test_the_first_and_the_last_rank_have_half_a_row_of_room(rows: list[Row]) -> None:
    (axes,) = score_figures.ranks(rows, COLUMN, FINAL).axes
    assert axes.get_ylim() == (2.5, -0.5)


def test_a_matrix_of_one_run_is_no_mean(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp"))
    assert score_figures.matrix(collect(tmp_path), COLUMN).get_supxlabel() == "on session j"


def test_a_metric_without_a_curve_is_no_curve(rows: list[Row]) -> None:
    """The accuracy was drawn in its place."""
    with pytest.raises(UserError, check=says(what="unknown curve over sessions", got="omega_all")):
        curve_figures.draw_one(rows, styles_in(rows), COLUMN, "omega_all")


def test_forgetting_is_drawn_as_its_curve(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp", curves={"af": [None, 0.1, 0.3]}))
    rows = collect(tmp_path)
    (axes,) = curve_figures.draw_one(rows, styles_in(rows), COLUMN, "average_forgetting").axes
    drawn_values = np.asarray(axes.lines[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(drawn_values, [np.nan, 10, 30])


@pytest.mark.parametrize("width", WIDTHS.values())
def test_the_names_of_the_axes_are_whole(tmp_path: Path, width: float) -> None:
    """The longest score, where the legend of many learners takes most room."""
    keep(tmp_path, *(make(f"learner-{k}") for k in range(18)))
    figure = curves(rows := collect(tmp_path, metrics=["class_accuracy"]), width)
    name, axis = figure.axes[0]._left_title, figure.axes[0].xaxis.label  # type: ignore[attr-defined]
    assert name.get_text() == "mean per-class accuracy (%)"
    for box in (name.get_window_extent(), axis.get_window_extent()):
        assert box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
    (axes,) = score_figures.ranks(rows, width, FINAL).axes
    assert [x for x in axes.get_xticks() if 1 <= x <= 18] == [3, 6, 9, 12, 15, 18]


def test_the_trade_off_has_the_numbers_of_the_records(rows: list[Row]) -> None:
    figure = trade_off(rows)
    each = ([x for x in axes.lines if x.get_markersize() == 5] for axes in figure.axes)
    marks = [{x.get_color(): np.ravel(x.get_data()).astype(float) for x in on} for on in each]
    for row in (row for row in rows if row.learns):
        ink = COLOURS[["ewc", "icarl", "mlp"].index(row.learner)]
        costs = row.footprint["total"] / 1e6, row.seconds["learn"].mean
        for of_panel, cost in zip(marks, costs, strict=True):
            np.testing.assert_allclose(of_panel[ink], (cost, 100 * row.metrics[FINAL].mean))
    assert figure.axes[0].get_title(loc="left") == "accuracy (%) · bars: 95 % over seeds"
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear"]
    assert ["logarithmic" in axes.get_xlabel() for axes in figure.axes] == [True, False]
    assert [axes.get_xgridlines()[0].get_visible() for axes in figure.axes] == [True, True]
    bars = [c for axes in figure.axes for c in axes.collections if isinstance(c, LineCollection)]
    assert len(bars) == 6
    assert {(b.get_linewidths()[0], b.get_zorder()) for b in bars} == {(0.8, 3)}
    stat = next(row for row in rows if row.learner == "mlp").metrics[FINAL]
    ends = [100 * (stat.mean - stat.half), 100 * (stat.mean + stat.half)]
    assert sum(np.allclose(bar.get_segments()[0][:, 1], ends) for bar in bars) == 2
    log = figure.axes[0].xaxis
    assert {of(10.0, 0) for of in (log.get_major_formatter(), log.get_minor_formatter())} == {"10"}
    (first, *_) = score_figures.trade_off(rows, styles_in(rows), COLUMN, "omega_base").axes
    (mean,) = (row.metrics["omega_base"].mean for row in rows if row.learner == "ewc")
    (drawn,) = (li.get_ydata() for li in first.lines if li.get_color() == COLOURS[0])
    assert drawn == pytest.approx([mean])  # Ω is no percentage, and has no levels
    assert len(first.lines) == 3
    assert title_of(first) == "omega base, of accuracy · bars: 95 % over seeds"


@pytest.mark.parametrize(
    ("least", "scale", "fine"),
    [(1, "linear", []), (0.99, "log", [2, 5]), (0.1, "log", []), (0, "linear", [])],
)
def test_scales_of_costs(least: float, scale: str, fine: list[int], tmp_path: Path) -> None:
    """Over tenfold apart they are logarithmic, with numbers between tens under a hundredfold."""
    for name, seconds in (("ewc", 10), ("mlp", least)):
        keep(tmp_path, make(name, seconds={"learn": seconds, "evaluate": 1.0}))
    _, axes = trade_off(collect(tmp_path)).axes
    low, high = axes.get_xlim()
    minor = [round(place) for place in axes.xaxis.get_minorticklocs() if low < place < high]
    assert axes.get_xscale() == scale
    assert minor == fine


@pytest.mark.parametrize(
    ("width", "grid", "heights"),
    [(COLUMN, (2, 1), (2.15, 3.8, 1.307)), (WIDTHS["page"], (1, 2), (2.6, 2.4, 1.307))],
)
def test_figure_sizes(rows: list[Row], width: float, grid: tuple[int, int], heights: Any) -> None:
    """A rank takes .13 inches a line and .039 between names, and .8 what is around them."""
    styles = styles_in(rows)
    costs = score_figures.trade_off(rows, styles, width)
    figures = [curve_figures.draw_one(rows, styles, width, FINAL), costs]
    figures.append(score_figures.ranks(rows, width, FINAL))
    for figure, height in zip(figures, heights, strict=True):
        assert tuple(figure.get_size_inches()) == pytest.approx((width, height))
    spec: Any = costs.axes[0].get_subplotspec()
    assert spec.get_gridspec().get_geometry() == grid
    assert figure.axes[0].get_xlim() == (0.7, 3.3)
    assert figure.axes[0].yaxis_inverted()
    before, box = figures[0].get_figheight(), with_legend(figures[0]).legends[0].get_window_extent()
    assert figures[0].get_figheight() == pytest.approx(before + box.height / figures[0].dpi)


def test_maps_are_the_mean_r(rows: list[Row]) -> None:
    figure = score_figures.matrix(rows, COLUMN)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == [row.label for row in rows if row.learns]
    for row in rows[:3]:
        expected = 100 * np.mean(np.array([run.R for run in row.used], dtype=float), axis=0)
        values = np.ma.filled(panels[row.label].images[0].get_array(), np.nan)
        np.testing.assert_allclose(values, expected)
        assert np.isnan(values[0, 1])
        assert to_hex(panels[row.label].get_facecolor()) == BLANK
    assert figure.get_supylabel() == "after session i"
    assert figure.get_supxlabel() == "on session j · mean over 3 seeds"


@pytest.mark.parametrize(
    ("maps", "shape", "width", "grid", "height", "font"),
    [
        (1, (3, 3), COLUMN, (1, 1), 2.45 + 0.63, 8),
        (3, (3, 3), COLUMN, (1, 3), 2.45 / 3 + 0.63, 26 * 2.45 / 9),
        (5, (2, 8), COLUMN, (2, 3), 2 * (0.3 * 2.45 / 3 + 0.13) + 0.5, None),
        (12, (3, 3), COLUMN, (4, 3), 4 * (2.45 / 3 + 0.13) + 0.5, 26 * 2.45 / 9),
        (13, (3, 3), COLUMN, (4, 4), 4 * (2.45 / 4 + 0.13) + 0.5, 26 * 2.45 / 12),
        (2, (4, 2), 6.75, (1, 2), 1.6 + 0.63, 8),
        (8, (3, 3), 6.75, (2, 4), 2 * (5.95 / 4 + 0.13) + 0.5, 8),
    ],
)
def test_map_size(maps: int, shape: Any, width: float, grid: Any, height: float, font: Any) -> None:
    values = np.full(shape, 0.6)
    values[0, :2] = math.nan, 0.61
    figure = score_figures.draw_maps({f"m{i}": values for i in range(maps)}, width, "scale")
    *panels, bar = figure.axes
    spec: Any = panels[0].get_subplotspec()
    assert spec.get_gridspec().get_geometry() == grid
    assert tuple(figure.get_size_inches()) == pytest.approx((width, height))
    assert [p.get_visible() for p in panels] == [i < maps for i in range(len(panels))]
    below: list[Any] = [p.xaxis.get_tick_params()["labelbottom"] for p in panels[:maps]]
    assert below == [i >= maps - grid[1] for i in range(maps)]
    assert bar.get_ylim() == (0, 100)
    assert bar.get_ylabel() == "scale"
    assert bar.get_box_aspect() == 30
    said = [(t.get_text(), t.get_color(), t.get_fontsize()) for t in panels[0].texts]
    inks: list[Any] = [("", "white"), ("61", "black"), *[("60", "white")] * (values.size - 2)]
    assert said == [(*ink, pytest.approx(font)) for ink in inks] * (font is not None)


def test_titles_of_maps_take_lines() -> None:
    """12 characters fit above a third of a column; a map without a title has no line."""
    heights = []
    for names in (["a" * 12, "b", "c"], ["a" * 13, "b", "c"], ["", " ", "  "]):
        figure = score_figures.draw_maps(dict.fromkeys(names, np.eye(11)), COLUMN, "")
        heights.append(figure.get_figheight() - 0.5 - 2.45 / 3)
    assert heights == pytest.approx([0.13, 0.26, 0])
    axes = [*score_figures.draw_maps({"": np.eye(11)}, COLUMN, "").axes[:1], figure.axes[0]]
    every = [axis.get_majorticklocs() for on in axes for axis in (on.xaxis, on.yaxis)]
    assert [[x for x in ticks if 0 <= x < 11] for ticks in every] == [[0, 3, 6, 9]] * 4
    wide = [score_figures.draw_maps({"": np.zeros((1, n))}, COLUMN, "").axes[0] for n in (256, 257)]
    assert [axes.images[0].get_interpolation() for axes in wide] == ["none", "auto"]


def test_fonts_of_pdfs_and_dots_of_pngs(rows: list[Row], tmp_path: Path, recwarn: Any) -> None:
    for name in (names := ("a.pdf", "b.pdf", "a.PNG")):
        save_figure(rows, "curves", tmp_path / name)
    data, again, png = ((tmp_path / name).read_bytes() for name in names)
    assert data[:4] == b"%PDF"
    assert data == again
    assert (b"CIDFontType2" in data, b"/Type3" in data, b"CreationDate" in data) == (1, 0, 0)
    assert png[:4] == b"\x89PNG"
    assert int.from_bytes(png[16:20], "big") == 975  # 3.25 inches
    for kind in ("matrix", "curves"):
        save_figure([replace(row, label="漢") for row in rows], kind, tmp_path / "c.svg")
    assert not recwarn  # of letters that the font lacks


def test_files_have_the_width_and_names_as_text(tmp_path: Path) -> None:
    bad = "_<b>&$x^2$\x1b[31m\nlong " + 60 * "W"
    keep(tmp_path / "runs", make(bad), row="x")
    keep(tmp_path / "runs", make("ewc"))
    rows = collect(tmp_path / "runs")
    room = {"curves": (42, 60), "trade-off": (42, 60), "matrix": (18, 24), "ranks": (18, 34)}
    sizes = (("column", "234pt"), ("page", "486pt"))
    for kind, (width, points) in itertools.product(room, sizes):
        save_figure(rows, kind, tmp_path / "a.svg", width=width)
        text = (tmp_path / "a.svg").read_text("utf-8")
        assert ElementTree.fromstring(text).attrib["width"] == points
        assert "\x1b" not in text
        assert max(map(len, re.findall("W+(?=<)", text))) == room[kind][width == "page"]
        assert ">&lt;b&gt;&amp;$x^2$" in text
        assert ">ewc</text>" in text


@pytest.mark.parametrize("width", [8, 18, 40])
def test_names_are_broken_after_signs_and_lose_nothing(width: int) -> None:
    for name in ("ewc lam=500", "my_package.models:AnotherLearner", "x" * 50, "il2m"):
        parts = words(name, width).split("\n")
        assert max(map(len, parts)) <= width
        assert "".join(parts).replace(" ", "") == name.replace(" ", "")
    assert words("lwf memory.per_class=20", 15) == "lwf memory.per_\nclass=20"


def test_the_command_writes_a_figure_and_prints_the_tables(root: Path, tmp_path: Path) -> None:
    a = tmp_path / "a.svg"
    words = ("report", root, "--figure", "trade-off", "--out", a)
    done = embedbench(*words, "--width", "page", "--metric", "omega_all")
    assert done.exit_code == 0, done.output
    assert "accuracy %" in done.stdout
    assert f"wrote {a}" in done.stderr
    assert ">omega all, of accuracy · bars: 95 % over seeds</text>" in a.read_text("utf-8")
    assert "is there already" in str(embedbench(*words).exception)
    assert embedbench(*words, "--overwrite").exit_code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_its_line_on_the_page(kind: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "runs.md"
    assert f"\n| `{kind}` |" in page.read_text("utf-8")


def test_the_help_has_all_kinds() -> None:
    text = " ".join(embedbench("report", "--help").stdout.split()).replace(" │ │ ", " ")
    assert f"Also write a figure: {', '.join(KINDS)}." in text


def test_what_is_no_figure_is_one_sentence(root: Path, tmp_path: Path) -> None:
    a = tmp_path / "a.svg"
    wrong: list[tuple[Any, ...]] = [
        ("unknown figure 'curve'", "--figure", "curve", "--out", a),
        ("unknown --width 'colum'", "--figure", "curves", "--out", a, "--width", "colum"),
        *(("add --out matrix.pdf", "--figure", "matrix"), ("add --figure", "--out", a)),
        (".pdf, .svg or .png", "--figure", "matrix", "--out", tmp_path / "a.jpg"),
        ("take one --metric", "--figure", "ranks", "--out", a, *(("--metric", FINAL) * 2)),
        ("metric 'final_acc'", "--figure", "trade-off", "--out", a, "--metric", "final_acc"),
        ("fwt is undefined", "--figure", "trade-off", "--out", a, "--metric", "fwt"),
        ("embedbench runs merge", root),
        ("--compare and --bridge make tables of their own", "--bridge", "--compare"),
        ("--compare and --by make tables of their own", "--compare", "--by", "order"),
    ]
    for sentence, *rest in wrong:
        done = embedbench("report", root, *rest)
        assert isinstance(done.exception, UserError), rest
        assert sentence in str(done.exception)
        assert "\n" not in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_one_stream_and_two_sessions(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp"), stream="stream-1")
    keep(tmp_path, make("mlp", digests={"features": "9" * 64}), stream="stream-2")
    for kind, sentence in (("curves", "2; .* stream-1, stream-2"), ("ranks", "there are 2: ")):
        with pytest.raises(UserError, match=sentence):
            save_figure(collect(tmp_path), kind, tmp_path / "a.svg")
    score = {"R": [[0.5]], "pooled": [0.5], "metrics": make()["metrics"]}
    short: dict[str, Any] = {**score, "n_train": [5], "sessions": make()["sessions"][:1]}
    short["by_score"] = dict.fromkeys(make()["by_score"], score)
    keep(tmp_path / "short", make("mlp", **short), make("ewc", **short))
    rows = collect(tmp_path / "short")
    assert curve_figures.accuracy_curves(rows, {}, COLUMN) == {}
    for kind, sentence in (
        ("curves", "curves needs two sessions"),
        ("gacc", "gacc needs two sessions"),
        ("trade-off", "unknown metric 'raa'"),
    ):
        with pytest.raises(UserError, match=sentence):
            save_figure(rows, kind, tmp_path / "b.svg", metric="raa")
    for kind in ("matrix", "trade-off", "ranks"):
        save_figure(rows, kind, tmp_path / "b.svg")
    timed = replace(rows[0].used[0], footprint={})
    (_,) = trade_off([replace(rows[0], used=(timed,))]).axes  # a panel for one cost
    free = replace(timed, seconds=Costs(math.nan, math.nan))
    with pytest.raises(UserError, match=r"no run .* cost"):
        trade_off([replace(rows[0], used=(free,))])


def test_runs_that_are_left_out_are_not_drawn(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp", flags=["nan"]), make("ewc"))
    assert texts(curves(collect(tmp_path))) == {
        *("ewc", "offline, all classes (90.0)", "chance (25.0)"),
    }
    with pytest.raises(UserError, match="has ewc only"):
        save_figure(collect(tmp_path), "ranks", tmp_path / "a.svg")
    keep(tmp_path / "none", make("mlp", flags=["nan"]))
    with pytest.raises(UserError, match="nan or diverged"):
        save_figure(collect(tmp_path / "none"), "matrix", tmp_path / "a.svg")


def newest_of_two(tmp_path: Path) -> Any:
    """The axes of the newest session on a stream of two: they have one point."""
    score = {"R": [[0.9, None], [0.8, 0.7]], "pooled": [0.9, 0.8], "metrics": make()["metrics"]}
    two: dict[str, Any] = {**score, "n_train": [5, 5], "sessions": make()["sessions"][:2]}
    two |= {"n_classes": [2, 2], "n_candidates": [None, None]}
    two["by_score"] = dict.fromkeys(make()["by_score"], score)
    keep(tmp_path, make("mlp", **two))
    rows = collect(tmp_path)
    figure = curve_figures.accuracy_curves(rows, styles_in(rows), COLUMN)["The newest session"]
    return with_legend(figure).axes[0]


def test_chance_of_one_session_is_a_level(tmp_path: Path) -> None:
    """It was a line through one point, which is not seen, with a name in the legend."""
    axes = newest_of_two(tmp_path)
    levels = [line.get_ydata() for line in axes.lines if line.get_color() == SOFT]
    assert levels == [[25, 25]]


def test_one_session_has_its_number(tmp_path: Path) -> None:
    """The axis was numbered .945, .960, …"""
    assert newest_of_two(tmp_path).get_xticks().tolist() == [1]


@pytest.mark.parametrize(
    ("values", "named"),
    [([30, math.nan, 20], False), ([math.nan, 30, 20], True), ([math.nan] * 3, False)],
)
def test_chance_without_a_line_has_no_name(values: list[float], *, named: bool) -> None:
    """A line needs two neighbours."""
    learner = curve_figures.Curve(np.full((1, 3), 50.0), range(3), 0, "mlp")
    chance = curve_figures.Curve(np.array([values], dtype=float), range(3), None, "chance (20.0)")
    figure = curve_figures.draw_curves([learner, chance], math.nan, COLUMN, "")
    assert ("chance (20.0)" in texts(with_legend(figure))) == named


def test_the_highest_values_lie_below_the_top(tmp_path: Path) -> None:
    """By a twentieth of the axis, also where they are alike and the axis begins at 0."""
    keep(tmp_path, make("ewc", final=0.8), make("mlp", final=0.81))
    axes = trade_off(collect(tmp_path)).axes[0]
    assert axes.get_ylim() == pytest.approx((0, 1.05 * 81))


def test_the_dearest_lies_left_of_the_end(tmp_path: Path) -> None:
    for name, seconds in (("ewc", 9.9), ("mlp", 10.0)):
        keep(tmp_path, make(name, seconds={"learn": seconds, "evaluate": 1.0}))
    _, axes = trade_off(collect(tmp_path)).axes
    assert axes.get_xlim() == pytest.approx((0, 10.5))


@pytest.mark.parametrize("width", WIDTHS.values())
def test_a_long_title_takes_lines(width: float) -> None:
    """It was cut at the edge of a column."""
    figure = curve_figures.draw_curves([], math.nan, width, "mean accuracy " * 8)
    figure.draw_without_rendering()
    title = figure.axes[0]._left_title  # type: ignore[attr-defined]
    assert title.get_window_extent().x1 <= figure.bbox.x1


def test_a_curve_at_0_is_not_cut_by_the_axis() -> None:
    made = curve_figures.Curve(np.zeros((1, 3)), range(3), 0, "mlp")
    (axes,) = curve_figures.draw_curves([made], math.nan, COLUMN, "").axes
    assert axes.lines[0].get_clip_on() is False


@pytest.fixture
def alike(tmp_path: Path) -> list[Row]:
    """Final scores .2, .2 and .8; the first two are of equal answers, so the mean is .5."""
    keep(tmp_path, make("mlp", 0, 0.2), make("mlp", 1, 0.2), make("mlp", 2, 0.8))
    (row,) = collect(tmp_path)
    first, second, other = row.used
    second = replace(second, predictions_sha256=first.predictions_sha256)
    return [replace(row, used=(first, second, other))]


def test_equal_answers_count_once_in_the_table(alike: list[Row]) -> None:
    assert alike[0].metrics["final_accuracy"].mean == pytest.approx(0.5)


def test_equal_answers_count_once_in_a_curve(alike: list[Row]) -> None:
    (axes,) = curves(alike).axes
    (mean,) = (line for line in axes.lines if line.get_label() == "mlp")
    assert mean.get_ydata()[-1] == pytest.approx(50)


def test_equal_answers_count_once_in_a_matrix(alike: list[Row]) -> None:
    image = score_figures.matrix(alike, COLUMN).axes[0].images[0]
    assert image.get_array()[2, 2] == pytest.approx(50)


@pytest.mark.parametrize("kind", ["matrix", "trade-off", "ranks", "confusion"])
def test_guessing_alone_is_no_figure(tmp_path: Path, kind: str) -> None:
    keep(tmp_path, make("chance", final=0.1))
    with pytest.raises(UserError, match="no learner is left to draw"):
        save_figure(collect(tmp_path), kind, tmp_path / "figure.png")
