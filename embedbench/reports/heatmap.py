"""Matrices of values from 0 to 1 as colours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.arrays import Floats
from embedbench.storage.atomic_write import writing

from .inline_svg import BLANK, STYLE, svg

COLOUR_MAP = "viridis"  # perceptually uniform, also for colour-blind readers
NUMBERED = 11  # up to this number of sessions the cells of a matrix show their values


def heat_map(
    matrix: Floats,
    label: str,
    *,
    axes_names: tuple[str, str] = ("after session i", "on session j"),
    numbers: bool = True,
) -> str:
    """R[i, j] from 0 to 100 %: rows after session i, columns eval set j; NaN grey.

    Small matrices show the numbers in the cells, unless `numbers` is False. For other matrices with
    values from 0 to 1, `axes_names` names rows and columns.
    """
    rows, columns = matrix.shape
    with matplotlib.rc_context({**STYLE, "axes.spines.left": False, "axes.spines.bottom": False}):
        side = 3.4
        figure = Figure(figsize=(side, side * min(1.0, max(0.35, rows / columns))))
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        _show(axes, matrix, axes_names)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlim(-0.5, columns - 0.5)
        axes.set_ylim(rows - 0.5, -0.5)
        if numbers and max(rows, columns) <= NUMBERED:
            write_numbers(axes, matrix)
        return svg(figure, label)


def named_map(matrix: Floats, names: Sequence[str], label: str, axes_names: tuple[str, str]) -> str:
    """A square matrix from 0 to 1 with the names of its rows and columns; NaN grey."""
    with matplotlib.rc_context({**STYLE, "axes.spines.left": False, "axes.spines.bottom": False}):
        side = 1.8 + 0.15 * len(names)
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.add_subplot()
        _show(axes, matrix, axes_names)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        return svg(figure, label)


def _show(axes: Axes, matrix: Floats, axes_names: tuple[str, str]) -> None:
    """Draw values from 0 to 1 as colours, NaN grey; `axes_names` names rows and columns."""
    axes.set_facecolor(BLANK)
    colours = matplotlib.colormaps[COLOUR_MAP]
    axes.imshow(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=1, interpolation="none")
    axes.set_ylabel(axes_names[0])
    axes.set_xlabel(axes_names[1])
    axes.tick_params(length=0)


def save_map(matrix: Floats, path: Path, axis: str, value: str) -> None:
    """Write a square matrix of values from 0 to 1 as a PNG with a colour scale.

    Parameters
    ----------
    axis, value : str
        The label of both axes, and the label of the colour scale.
    """
    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(matrix, cmap=matplotlib.colormaps[COLOUR_MAP], vmin=0, vmax=1)
    axes.set_xlabel(axis)
    axes.set_ylabel(axis)
    figure.colorbar(image, label=value)
    with writing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=200)


def write_numbers(axes: Axes, matrix: Floats, size: float | None = None) -> None:
    """Write the values of a matrix from 0 to 1 into its cells, as percent; size in points."""
    usual = 13 if len(matrix) <= 4 else 11 if len(matrix) <= 7 else 8.5
    for (i, j), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            bright = np.dot(matplotlib.colormaps[COLOUR_MAP](float(value))[:3], (0.3, 0.59, 0.11))
            ink = "#111111" if bright > 0.5 else "#ffffff"
            text = f"{100 * value:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=size or usual, color=ink)


def colour_scale(steps: int = 9) -> list[str]:
    """Colours of the heat maps from 0 to 100 %, as CSS."""
    colours = matplotlib.colormaps[COLOUR_MAP]
    return [matplotlib.colors.to_hex(colours(i / (steps - 1))) for i in range(steps)]
