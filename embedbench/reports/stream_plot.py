"""What a stream looks like: sessions, classes, samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from embedbench.arrays import Ints

from .sheet import SMALL, legend, words
from .svg import COLOURS, INK, LINE

FILLED = COLOURS[5]
MANY = 3000  # cells; more are drawn as an image, so that the file stays small
LEAST = 0.3  # of the side of a whole cell: a tenth of its area
NAMED = 60  # up to this number of classes their names are written


def draw_stream(
    train: Ints,
    test: Ints,
    names: Sequence[str],
    width: float,
    *,
    sets: Sequence[str] = (),
) -> Figure:
    """Sessions from left to right, classes from top to bottom in the order in which they come.

    The area of a filled cell is the number of training samples, that of an outline the number of
    test samples, on one scale; the smallest are drawn larger, so that they are seen. Eval sets
    that are not those of the sessions have columns of their own, on the right.

    Parameters
    ----------
    train, test : array of int
        (T, C) and (E, C) samples of each class in the sessions and in the eval sets.
    names : sequence of str
        (C,) class names.
    width : float
        Inches.
    sets : sequence of str
        (E,) names of the eval sets, where E differs from T.
    """
    sessions, classes = train.shape
    order = np.argsort(_first(train), kind="stable")
    apart = len(test) != sessions
    columns = sessions + (1 + len(test) if apart else 0)
    step = min(0.3, max(0.11 if classes <= NAMED else 0.0, 5.5 / classes))  # inches of a class
    height = 0.6 + max(0.8, step * classes)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    most = max(int(train.max()), int(test.max()), 1)
    line = min(0.7, 9 * min(step, width / columns))
    _cells(axes, train[:, order] / most, 0, facecolor=FILLED, edgecolor="none")
    start = sessions + 1 if apart else 0
    _cells(axes, test[:, order] / most, start, facecolor="none", edgecolor=INK, linewidth=line)
    axes.set_xlim(-0.6, columns - 0.4)
    axes.set_ylim(classes - 0.4, -0.6)
    _ticks(axes, [words(names[c], 24) for c in order], sessions, list(sets) if apart else [])
    filled: Any = {"linestyle": "none", "marker": "s", "markersize": 5}
    entries: dict[str, Artist] = {
        f"training samples (at most {train.max():,})": Line2D([], [], color=FILLED, **filled),
        f"test samples (at most {test.max():,})": Line2D(
            [], [], color="none", markeredgecolor=INK, markeredgewidth=0.7, **filled
        ),
    }
    legend(figure, entries, height=height)
    return figure


def _first(train: Ints) -> Ints:
    """(C,) the first session that has each class; the number of sessions where none has."""
    held = train > 0
    return np.where(held.any(axis=0), held.argmax(axis=0), len(train))


def _cells(axes: Axes, shares: Any, start: int, **look: Any) -> None:
    """Rectangles whose areas are shares of a cell, (columns, rows), from column `start` on."""
    cells = []
    for i, j in np.argwhere(shares > 0):
        side = 0.92 * max(LEAST, np.sqrt(shares[i, j]))
        cells.append(Rectangle((start + i - side / 2, j - side / 2), side, side))
    patches = PatchCollection(cells, rasterized=len(cells) > MANY, **look)
    axes.add_collection(patches)


def _ticks(axes: Axes, names: Sequence[str], sessions: int, sets: Sequence[str]) -> None:
    """Numbers of sessions, names of eval sets of their own, and names of a few classes."""
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    places = list(range(0, sessions, -(-sessions // 12)))
    texts = [str(i) for i in places]
    if sets:
        axes.axvline(sessions, color=LINE, linewidth=0.6)
        places += range(sessions + 1, sessions + 1 + len(sets))
        texts += sets
    ticks = axes.set_xticks(places, texts)
    for tick in ticks[len(ticks) - len(sets) :]:
        tick.label1.set_rotation(90)
    axes.set_xlabel("session")
    if len(names) <= NAMED:
        axes.set_yticks(range(len(names)), names, fontsize=SMALL if len(names) <= 40 else 5.5)
    else:
        axes.set_ylabel("classes, in the order in which they come")
