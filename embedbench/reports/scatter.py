"""Points in the plane as inline SVG: several panels with one legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from embedbench.arrays import Ints

from .svg import STYLE, look, svg

SIDE = 1.9  # width and height of a panel, inches
PALE = 0.4


def scatter_panels(
    panels: Mapping[str, NDArray[np.float32]],
    classes: Mapping[str, Ints],
    label: str,
    *,
    pale: int,
    across: int,
) -> str:
    """The same samples in every panel; each class has one colour and marker.

    Parameters
    ----------
    panels : mapping
        Title → coordinates of the points, (n, 2).
    classes : mapping
        Class name → positions of its points.
    label : str
        A description of the figure for screen readers.
    pale : int
        The first `pale` classes are drawn pale.
    across : int
        Number of panels in a row.
    """
    down = -(-len(panels) // across)
    frame: Any = {"axes.spines.top": True, "axes.spines.right": True, "axes.titlesize": 9}
    with matplotlib.rc_context({**STYLE, **frame}):
        figure = Figure(figsize=(SIDE * across, SIDE * down + 0.6), layout="constrained")
        for place, (title, points) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(down, across, place)
            axes.set_title(title)
            axes.set_xticks([])
            axes.set_yticks([])
            for number, (name, rows) in enumerate(classes.items()):
                style = (number - pale) % len(classes)  # bright classes come first
                axes.plot(
                    *points[rows].T,
                    linestyle="none",
                    markersize=3,
                    markeredgewidth=0,
                    **look(style),
                    alpha=PALE if number < pale else 1.0,
                    label=name,
                )
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside lower center", ncols=min(len(names), across),
            frameon=False, fontsize=8,
        )  # fmt: skip
        return svg(figure, label)
