"""Figures of score matrices: R[i, j] as colours and numbers."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.array_types import Floats

from .curve_figures import score_name, stack_matrices
from .figure_style import STYLE, words
from .learner_colours import BLANK
from .result_rows import Row

COLOUR_MAP = matplotlib.colormaps["viridis"]  # perceptually uniform, also for colour-blind readers


def colour_scale() -> list[str]:
    """Colours of the heat maps from 0 to 100 %, as CSS."""
    return [matplotlib.colors.to_hex(COLOUR_MAP(i / 8)) for i in range(9)]


def matrix(rows: Sequence[Row], width: float) -> Figure:
    """R[i, j] of each learner among the rows of one table, the mean over its runs."""
    drawn = [row for row in rows if row.used and row.learns]
    means = {row.label: stack_matrices(row).mean(axis=0) for row in drawn}
    return draw_maps(means, width, score_name(rows[0].group, brief=True))


@rc_context(STYLE)
def draw_maps(
    maps: Mapping[str, Floats],
    width: float,
    scale: str = "",
    *,
    axes_names: tuple[str, str] = ("after session i", "on session j"),
    numbers: bool = True,
) -> Figure:
    """Matrices of one shape with values from 0 to 1 as colours; NaN is grey.

    `scale` is the label of the colours' scale; empty: no scale. With `numbers`, cells have theirs
    where there is room for them.
    """
    most = (3 if len(maps) <= 12 else 4) * max(1, round(width / 3.25))
    down = -(-len(maps) // most)
    across = -(-len(maps) // down)
    high, wide = next(iter(maps.values())).shape
    side = min((width - (0.8 if scale else 0.45)) / across, 1.6 if across > 1 else width)
    titles = [words(title, max(8, int(15 * side))) for title in maps]
    lines = max(title.count("\n") + 1 for title in titles) * any(titles)
    cell = side * min(1.0, max(0.3, high / wide))
    figure = Figure(figsize=(width, down * (cell + 0.13 * lines) + 0.5), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, title, values in zip(panels, titles, maps.values(), strict=False):
        axes.set_facecolor(BLANK)
        image = axes.imshow(
            np.ma.masked_invalid(100 * values), vmin=0, vmax=100,
            cmap=COLOUR_MAP, aspect="auto", interpolation="none" if wide <= 256 else "auto",
        )  # fmt: skip
        axes.set_title(title, pad=3)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(max(2, min(5, int(side / 0.2))), integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        if numbers and side / wide > 0.16:  # there is room
            _write_numbers(axes, values, min(8.0, 26 * side / wide))
    for axes in panels[len(maps) :]:
        axes.set_visible(False)
    for axes in panels[len(maps) - across : len(maps)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
    figure.supylabel(axes_names[0], fontsize="medium")
    figure.supxlabel(axes_names[1], fontsize="medium")
    if scale:
        figure.colorbar(image, ax=panels.tolist(), label=scale, aspect=30)
    return figure


def _write_numbers(axes: Axes, values: Floats, size: float) -> None:
    """Write the values of a matrix from 0 to 1 into its cells, as percent; size in points."""
    for (i, j), value in np.ndenumerate(values):
        if not np.isnan(value):
            bright = np.dot(COLOUR_MAP(float(value))[:3], (0.3, 0.59, 0.11))
            ink = "#111111" if bright > 0.5 else "#ffffff"
            text = f"{100 * value:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)
