"""Curves over class orders: a line an order, and means over the orders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from report_records import keep, make

from embedbench.errors import UserError
from embedbench.reports import order_figures
from embedbench.reports.figure_kinds import WIDTHS, save_figure
from embedbench.reports.figure_style import legend
from embedbench.reports.learner_colours import COLOURS, MARKERS, SOFT
from embedbench.reports.result_rows import Row
from embedbench.reports.tables_from_runs import collect

COLUMN, PAGE = WIDTHS["column"], WIDTHS["page"]
FINAL = "final_accuracy"


def put(root: Path, learner: str, order: str, seed: int, pooled: list[float], **more: Any) -> None:
    """A run on a class order, in the directory of that stream."""
    how = {"protocol_params": {"base": 2, "order": order}, "pooled": pooled, **more}
    how["order"] = {"kind": order, "name": None, "digest": None}
    how["digests"] = {"recipe": f"{len(order):064x}", "train": f"{len(order):064x}"}
    made = make(learner, seed, pooled[-1], **how)
    keep(root, made, stream=f"stream-{order}")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of mlp on each of two orders, and one of ewc."""
    place = tmp_path_factory.mktemp("runs")
    put(place, "mlp", "natural", 0, [0.9, 0.5, 0.3])
    put(place, "mlp", "natural", 1, [0.7, 0.5, 0.1])
    put(place, "mlp", "size", 0, [0.4, 0.4, 0.4])
    put(place, "mlp", "size", 1, [0.6, 0.4, 0.6])
    put(place, "ewc", "natural", 0, [0.2, 0.2, 0.2])
    put(place, "ewc", "size", 0, [0.6, 0.4, 0.4])
    return place


@pytest.fixture(scope="module")
def rows(root: Path) -> list[Row]:
    return collect(root)


def lines(axes: Axes) -> dict[str, list[float]]:
    """The named lines."""
    return {
        str(line.get_label()): np.round(np.asarray(line.get_ydata(), dtype=float), 9).tolist()
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }


def of_learner(rows: list[Row], learner: str, metric: str = FINAL, width: float = PAGE) -> Axes:
    """The panel of a learner."""
    figure = order_figures.order_curves(rows, width, metric)
    (axes,) = (axes for axes in figure.axes if axes.get_title(loc="left") == learner)
    return axes


def test_a_line_is_the_mean_over_the_seeds_of_an_order(rows: list[Row]) -> None:
    drawn = lines(of_learner(rows, "mlp"))
    assert (drawn["natural"], drawn["size"]) == ([80, 50, 20], [50, 40, 50])


def test_each_learner_has_a_panel(rows: list[Row]) -> None:
    assert lines(of_learner(rows, "ewc"))["natural"] == [20, 20, 20]


def test_an_order_has_one_colour_in_all_panels(rows: list[Row]) -> None:
    colours = [
        {line.get_label(): line.get_color() for line in of_learner(rows, learner).lines}
        for learner in ("mlp", "ewc")
    ]
    assert colours[0]["size"] == colours[1]["size"]


def test_orders_have_no_colour_of_a_learner(rows: list[Row]) -> None:
    drawn = {to_hex(line.get_color()) for line in of_learner(rows, "mlp").lines}
    assert drawn & {*COLOURS} == set()


def test_orders_have_no_mark_of_a_learner(rows: list[Row]) -> None:
    drawn = {line.get_marker() for line in of_learner(rows, "mlp").lines}
    assert drawn & {*MARKERS} == set()


def test_a_later_order_is_darker(rows: list[Row]) -> None:
    shades = {line.get_label(): to_rgb(line.get_color()) for line in of_learner(rows, "mlp").lines}
    assert sum(shades["size"]) < sum(shades["natural"])


def test_panels_of_a_column_are_two_across(tmp_path: Path) -> None:
    """Three took 5.5 inches, one below the other."""
    for learner in ("ewc", "mlp", "ncm"):
        for order in ("natural", "size"):
            put(tmp_path, learner, order, 0, [0.5, 0.5, 0.5])
    figure = order_figures.order_curves(collect(tmp_path), COLUMN, FINAL)
    assert figure.get_figheight() == pytest.approx(3.2)


def test_the_title_says_what_a_line_is(rows: list[Row]) -> None:
    figure = order_figures.order_curves(rows, PAGE, FINAL)
    assert figure.get_suptitle() == "accuracy (%), a line a class order"


def test_the_curve_of_a_learner_is_the_mean_over_orders(rows: list[Row]) -> None:
    """The mean of the orders' means: (80 + 50) / 2, (50 + 40) / 2, (20 + 50) / 2."""
    (axes,) = order_figures.mean_curves(rows, COLUMN, FINAL).axes
    assert lines(axes)["mlp"] == [65, 45, 35]


def test_fewer_than_five_orders_are_thin_lines(rows: list[Row]) -> None:
    (axes,) = order_figures.mean_curves(rows, COLUMN, FINAL).axes
    thin = {tuple(line.get_ydata()) for line in axes.lines if line.get_linewidth() == 0.6}
    assert {tuple(np.round(values, 9)) for values in thin} == {
        *((80, 50, 20), (50, 40, 50)),
        *((20, 20, 20), (60, 40, 40)),
    }


def test_the_title_says_that_it_is_a_mean_over_orders(rows: list[Row]) -> None:
    (axes,) = order_figures.mean_curves(rows, PAGE, FINAL).axes
    title = axes.get_title(loc="left")
    assert title == "accuracy (%), mean over 2 class orders · thin: single orders"


def test_offline_is_the_mean_over_the_orders(tmp_path: Path) -> None:
    for order, ideal in (("natural", 0.9), ("size", 0.7)):
        reference = make()["reference"] | {"ideal": {"class_accuracy": ideal, "accuracy": ideal}}
        put(tmp_path, "mlp", order, 0, [0.5, 0.5, 0.5], reference=reference)
    (axes,) = order_figures.mean_curves(collect(tmp_path), COLUMN, FINAL).axes
    assert lines(axes)["offline, all classes (80.0)"] == [80, 80]


def test_a_learner_that_lacks_an_order_says_so(tmp_path: Path) -> None:
    for order in ("natural", "size"):
        put(tmp_path, "mlp", order, 0, [0.5, 0.5, 0.5])
    put(tmp_path, "ewc", "size", 0, [0.4, 0.4, 0.4])
    (axes,) = order_figures.mean_curves(collect(tmp_path), COLUMN, FINAL).axes
    assert {"mlp", "ewc (1 of 2 orders)"} <= lines(axes).keys()


def test_a_curve_of_records_is_drawn_by_order(tmp_path: Path) -> None:
    put(tmp_path, "mlp", "natural", 0, [0.5, 0.5, 0.5], curves={"raa": [0.1, 0.2, 0.3]})
    put(tmp_path, "mlp", "size", 0, [0.5, 0.5, 0.5], curves={"raa": [0.3, 0.4, 0.5]})
    drawn = lines(of_learner(collect(tmp_path), "mlp", "raa"))
    assert drawn == {"natural": [10, 20, 30], "size": [30, 40, 50]}


@pytest.mark.parametrize("width", WIDTHS.values())
def test_axes_begin_at_0_and_the_legend_covers_none(rows: list[Row], width: float) -> None:
    figure = order_figures.order_curves(rows, width, FINAL)
    legend(figure)
    figure.draw_without_rendering()
    top = figure.legends[0].get_window_extent().y1
    for axes in figure.axes:
        assert axes.get_ylim()[0] == 0
        assert top <= axes.get_tightbbox().y0


@pytest.mark.parametrize("fit", [True, False])
def test_what_does_not_begin_at_0_says_so(rows: list[Row], *, fit: bool) -> None:
    figure = order_figures.order_curves(rows, PAGE, FINAL, fit=fit)
    assert ("does not begin at 0" in figure.get_suptitle()) == fit


def test_guessing_is_dotted_in_each_panel(rows: list[Row]) -> None:
    figure = order_figures.order_curves(rows, PAGE, FINAL)
    dotted = [[x.get_color() for x in axes.lines].count(SOFT) for axes in figure.axes]
    assert dotted == [1, 1]


@pytest.mark.parametrize("kind", ["curves", "orders"])
def test_the_file_is_written(root: Path, tmp_path: Path, kind: str) -> None:
    save_figure(collect(root), kind, tmp_path / "a.svg")
    assert "class order" in (tmp_path / "a.svg").read_text("utf-8")


def test_one_order_is_no_figure_of_orders(tmp_path: Path) -> None:
    put(tmp_path, "mlp", "natural", 0, [0.5, 0.5, 0.5])
    with pytest.raises(UserError, match="needs runs on two class orders or more"):
        save_figure(collect(tmp_path), "orders", tmp_path / "a.svg")


def test_seeds_that_draw_their_orders_are_orders(tmp_path: Path) -> None:
    """They are one stream, whose curves are means over seeds."""
    for seed in range(2):
        keep(tmp_path, make("mlp", seed, 0.5 + seed / 10))
    drawn = lines(of_learner(collect(tmp_path), "mlp"))
    assert (drawn["drawn 100"][-1], drawn["drawn 101"][-1]) == (50, 60)


def test_what_is_no_curve_is_named(rows: list[Row]) -> None:
    with pytest.raises(UserError, check=says(what="unknown curve over sessions", got="omega_all")):
        order_figures.mean_curves(rows, COLUMN, "omega_all")


@pytest.mark.parametrize("kind", ["curves", "ranks"])
def test_namesakes_with_other_settings_on_other_orders_are_drawn(tmp_path: Path, kind: str) -> None:
    """In the table of its order each has the bare name."""
    for order, units in (("natural", 100), ("size", 200)):
        put(tmp_path / "runs", "mlp", order, 0, [0.5, 0.5, 0.5], learner_params={"units": units})
    save_figure(collect(tmp_path / "runs"), kind, tmp_path / "a.svg")
    assert "units=200" in (tmp_path / "a.svg").read_text("utf-8").replace("\n", "")
