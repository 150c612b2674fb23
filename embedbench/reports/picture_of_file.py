"""What an embedding file looks like: its samples in the plane, by class."""

from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.array_types import Array, Floats, Ints
from embedbench.errors import UserError
from embedbench.files import hdf5_layout
from embedbench.files.embedding_file import EmbeddingFile

from .figure_kinds import MAP_CLASSES
from .figure_style import STYLE, words
from .learner_colours import LINE, look

POINTS = 2000  # at most
SEED = 0  # draws the samples where there are more


@rc_context(STYLE)
def draw_file(file: EmbeddingFile, width: float) -> Figure:
    """Two principal components of at most 2,000 embeddings, by class.

    Colours and marks are those of the classes, of the classes at the top of the hierarchy where
    there are more than twelve, and of the largest ones where these are too many, too.
    """
    if file.kind == hdf5_layout.PIXELS:
        raise UserError(f"{file.path} holds images, no embeddings whose components can be drawn")
    rows = sample_rows(len(file.labels))
    points, shares = components(_values(file, rows))
    names, group = groups(file)
    figure = Figure(figsize=(width, 0.75 * width), layout="constrained")
    axes = figure.add_subplot()
    for number, name in [(-1, "other classes"), *enumerate(names)]:
        members = group[file.labels[rows]] == number
        if members.any():
            style: Any = look(number) if number >= 0 else {"color": LINE, "marker": "."}
            style |= {"linestyle": "none", "markersize": 2.6}
            axes.plot(*points[members].T, alpha=0.8, rasterized=True, **style)
            axes.plot([], [], **style | {"markersize": 4}, label=_short(name))
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(f"principal component 1 ({100 * shares[0]:.0f} % of the variance)")
    axes.set_ylabel(f"component 2 ({100 * shares[1]:.0f} %)")
    return figure


def sample_rows(samples: int) -> Ints:
    """The rows that are drawn: all, or 2,000 of them by chance, with seed 0."""
    if samples <= POINTS:
        return np.arange(samples)
    return np.sort(np.random.default_rng(SEED).choice(samples, POINTS, replace=False))


def groups(file: EmbeddingFile) -> tuple[list[str], Ints]:
    """Names of at most twelve groups of classes, and the group of each leaf; -1 is none of them."""
    samples = file.samples
    counts = np.bincount(file.labels, minlength=samples.n_leaves)
    group = np.arange(samples.n_leaves)
    if np.count_nonzero(counts) > MAP_CLASSES:
        parents = np.asarray(samples.parents)
        while (above := parents[group] >= 0).any():
            group = np.where(above, parents[group], group)
    sizes = np.bincount(group, weights=counts)
    largest = np.argsort(-sizes, kind="stable")[:MAP_CLASSES]
    kept = np.sort(largest[sizes[largest] > 0])
    place = np.full(len(sizes), -1)
    place[kept] = np.arange(len(kept))
    return [samples.classes[c] for c in kept], place[group]


def components(values: Array) -> tuple[Floats, Floats]:
    """The first two principal components of rows (n, d), and their shares of the variance.

    The points are (n, 2), with zeros where there is no second component.
    """
    centred = values.astype(np.float64) - values.mean(axis=0, dtype=np.float64)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # else they are free
    points = centred @ (axes * np.where(signs == 0, 1, signs)[:, None]).T  # (n, d) @ (d, 2)
    shares = np.pad(sizes**2, (0, 2)) / max(float((sizes**2).sum()), 1e-300)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1]))), shares[:2]


def _values(file: EmbeddingFile, rows: Ints) -> Array:
    """The features of some rows, (n, …), one block in memory at a time."""
    dtype, shape = file.form("features")
    values = np.empty((len(rows), *shape[1:]), dtype)
    for first, block in file.blocks("features"):
        here = np.flatnonzero((rows >= first) & (rows < first + len(block)))
        values[here] = block[rows[here] - first]
    return values


def _short(name: str) -> str:
    name = name.rpartition("/")[2] or name
    return words(name if len(name) <= 24 else f"{name[:23]}…", 24) or "–"
