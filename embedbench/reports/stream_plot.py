"""What a stream looks like: sessions, classes, samples."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator

from embedbench.array_types import Ints

from .figure_style import SMALL, STYLE, words
from .learner_colours import INK, LINE

FILLED = 0.7  # of the side of a cell
MANY = 3000  # cells; more are drawn as an image, so that the file stays small
NAMED = 60  # up to this number of classes their names are written


@rc_context(STYLE)
def draw_stream(
    train: Ints,
    test: Ints,
    names: Sequence[str],
    width: float,
    *,
    sets: Sequence[str] = (),
) -> Figure:
    """Sessions from left to right, classes from top to bottom in the order in which they come.

    The shade of a cell is the number of training samples, in logarithms where the numbers differ
    by more than ten times; an outline means that there are test samples. `train` is (T, C), `test`
    (E, C). Eval sets that are not those of the sessions have columns of their own, on the right,
    with the names `sets`.
    """
    sessions, classes = train.shape
    taught = np.vstack([train, np.ones(classes)]) > 0  # a class of no session comes last
    order = np.argsort(taught.argmax(axis=0), kind="stable")
    apart = len(test) != sessions
    columns = sessions + (1 + len(test) if apart else 0)
    step = min(0.3, max(0.11 if classes <= NAMED else 0.0, 5.5 / classes))  # inches of a class
    height = 0.6 + max(0.8, step * classes)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    outline = min(0.7, 9 * min(step, width / columns))
    shades = _shades(train)
    held = train[:, order]
    colours = [shades.to_rgba(n) for n in held[held > 0]]
    _cells(axes, held, 0, FILLED, facecolor=colours, edgecolor="none")
    start = sessions + 1 if apart else 0
    _cells(axes, test[:, order], start, 0.92, facecolor="none", edgecolor=INK, linewidth=outline)
    axes.set_xlim(-0.6, columns - 0.4)
    axes.set_ylim(classes - 0.4, -0.6)
    _ticks(axes, [words(names[c], 24) for c in order], sessions, list(sets) if apart else [])
    bar = figure.colorbar(shades, ax=axes, label="training samples", aspect=30, pad=0.02)
    if isinstance(shades.norm, LogNorm):
        bar.set_label("training samples, logarithmic")
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    bar.ax.yaxis.set_major_formatter("{x:g}")
    bar.ax.minorticks_off()
    square: Any = {"marker": "s", "markersize": 5, "markeredgecolor": INK, "markeredgewidth": 0.7}
    label = f"with test samples ({test.sum():,} in all)"
    axes.plot([], [], linestyle="none", color="none", **square, label=label)
    return figure


def _shades(train: Ints) -> ScalarMappable:
    """Numbers of samples to colours; light is few."""
    colours = matplotlib.colormaps["Blues"](np.linspace(0.2, 1, 256))
    least, most = int(train[train > 0].min(initial=1 << 62)), max(int(train.max()), 1)
    wide = most > 10 * least
    norm = LogNorm(least, most) if wide else Normalize(min(0.5 * most, least - 0.5), most)
    return ScalarMappable(norm, ListedColormap(colours))


def _cells(axes: Axes, counts: Ints, start: int, side: float, **style: Any) -> None:
    """A square for each count that is not 0, (columns, rows), from column `start` on."""
    places = np.argwhere(counts > 0) - side / 2
    cells = [Rectangle((start + x, y), side, side) for x, y in places]
    axes.add_collection(PatchCollection(cells, rasterized=len(cells) > MANY, **style))


def _ticks(axes: Axes, names: Sequence[str], sessions: int, sets: Sequence[str]) -> None:
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
