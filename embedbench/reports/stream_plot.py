"""What a stream looks like: sessions, classes, samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from embedbench.array_types import Ints

from .figure_style import SMALL, STYLE, words
from .learner_colours import INK

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
    start = 0 if len(test) == sessions else sessions + 1
    cells = np.zeros((start + len(test), classes))
    cells[:sessions] = train
    step = min(0.3, max(0.11 if classes <= NAMED else 0.0, 5.5 / classes))  # inches of a class
    figure = Figure((width, 0.6 + max(0.8, step * classes)), layout="constrained")
    axes = figure.add_subplot()
    least = int(train[train > 0].min(initial=1 << 62))
    most = max(int(train.max()), 1)
    wide = most > 10 * least
    norm = LogNorm(least, most) if wide else Normalize(0, most)
    shades = np.ma.masked_equal(cells[:, order].T, 0)
    image = axes.imshow(shades, cmap="Blues", norm=norm, aspect="auto", interpolation="none")
    side = max(1.0, 0.8 * 72 * min(step, (width - 1) / len(cells)))  # points, of an outline
    square: Any = {"marker": "s", "markerfacecolor": "none", "markeredgecolor": INK}
    square |= {"markeredgewidth": min(0.7, side / 8), "linestyle": "none", "markersize": side}
    label = f"with test samples ({test.sum():,} in all)"
    columns, lines = np.nonzero(test[:, order])
    axes.plot(columns + start, lines, **square, rasterized=len(lines) > 3000)
    axes.plot([], [], **square | {"markersize": 5}, label=label)
    places = list(range(0, sessions, -(-sessions // 12)))
    texts = list[str](sets if start else ())
    ticks = [str(place) for place in places] + texts
    axes.set_xticks([*places, *range(start, start + len(texts))], ticks)
    for tick in axes.get_xticklabels()[len(places) :]:
        tick.set_rotation(90)
    axes.set_xlabel("session")
    if classes <= NAMED:
        size = SMALL if classes <= 40 else 5.5
        axes.set_yticks(range(classes), [words(names[c], 24) for c in order], fontsize=size)
    else:
        axes.set_ylabel("classes, in the order in which they come")
    bar = figure.colorbar(image, ax=axes, label="training samples", aspect=30, pad=0.02)
    if wide:
        bar.set_label("training samples, logarithmic")
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bar.ax.yaxis.set_major_formatter("{x:g}")
        bar.ax.minorticks_off()
    return figure
