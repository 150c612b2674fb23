"""A small picture of a file for its page: points by class, or some of its images."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Ints
from embedbench.files import layout
from embedbench.files.file import EmbeddingFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES = 10  # the largest ones are drawn
POINTS = 150  # at most, of a class
IMAGES = 12  # of a class
_STYLE: Any = {"text.parse_math": False, "font.size": 8, "axes.linewidth": 0.6}


def picture(file: EmbeddingFile) -> bytes:
    """Return a PNG of a file: at most 1,500 points, or 120 images.

    Raises
    ------
    DamagedFileError
        Blocks do not match their checksums.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    pixels = file.kind == layout.PIXELS
    rows = _chosen(file, IMAGES if pixels else POINTS)
    values = _values(file, np.concatenate(list(rows.values())))
    with matplotlib.rc_context(_STYLE):
        figure = _sheet(rows, values) if pixels else _scatter(rows, values)
        out = io.BytesIO()
        FigureCanvasAgg(figure)
        figure.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def _chosen(file: EmbeddingFile, most: int) -> dict[str, Ints]:
    """Rows of the largest classes, evenly spaced, by class name."""
    counts = np.bincount(file.labels, minlength=file.samples.n_leaves)
    largest = np.argsort(-counts, kind="stable")[:CLASSES]
    chosen = {}
    for label in sorted(largest[counts[largest] > 0]):
        rows = np.flatnonzero(file.labels == label)
        picks = np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)
        chosen[file.classes[label]] = rows[picks]
    return chosen


def _values(file: EmbeddingFile, rows: Ints) -> NDArray[Any]:
    """The features of some rows, (n, …), one block in memory at a time."""
    dtype, shape = file.form("features")
    values = np.empty((len(rows), *shape[1:]), dtype)
    for first, block in file.blocks("features"):
        here = np.flatnonzero((rows >= first) & (rows < first + len(block)))
        values[here] = block[rows[here] - first]
    return values


def components(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the first two principal components of rows, (n, 2); zeros where there is no second."""
    centred = values.astype(np.float64) - values.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])  # else they are free
    points = centred @ (axes * np.where(signs == 0, 1, signs)[:, None]).T  # (n, d) @ (d, 2)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def _scatter(rows: dict[str, Ints], values: NDArray[Any]) -> Figure:
    from matplotlib.figure import Figure

    from embedbench.reports.styles import MARKERS
    from embedbench.reports.svg import COLOURS

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    points, first = components(values), 0
    for number, (name, members) in enumerate(rows.items()):
        x, y = points[first : first + len(members)].T
        first += len(members)
        axes.plot(
            x, y, linestyle="none", marker=MARKERS[number], markersize=3.5, markeredgewidth=0,
            color=COLOURS[number], alpha=0.8, label=_label(name),
        )  # fmt: skip
    axes.set(xticks=[], yticks=[])
    figure.legend(loc="outside right center", frameon=False)
    return figure


def _sheet(rows: dict[str, Ints], values: NDArray[Any]) -> Figure:
    from matplotlib.figure import Figure

    high, wide, channels = values.shape[1:]
    sheet = np.full((len(rows), high, IMAGES, wide, channels), 255, np.uint8)
    first = 0
    for line, members in enumerate(rows.values()):
        images = values[first : first + len(members)]
        sheet[line, :, : len(images)] = images.swapaxes(0, 1)  # (high, n, wide, channels)
        first += len(members)
    whole = sheet.reshape(len(rows) * high, IMAGES * wide, channels).squeeze()
    figure = Figure(figsize=(6, 0.45 * len(rows) * high / wide), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(whole, cmap="gray", vmin=0, vmax=255)
    axes.set_yticks(high * (np.arange(len(rows)) + 0.5) - 0.5, [_label(name) for name in rows])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _label(name: str) -> str:
    """The last part of a class name, short and not hidden by matplotlib."""
    name = name.rpartition("/")[2] or name
    return (name if len(name) <= 24 else f"{name[:23]}…").lstrip("_") or "–"
