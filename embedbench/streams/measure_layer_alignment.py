"""Alignment of layers: how well intermediate embeddings fit the prototypes of the final one.

FR (`models/fr.py`) compares intermediate features with the prototypes of the final embedding. Where
these classify an intermediate layer nearly as well as the final one, the layer is aligned, as in a
network whose blocks were all trained towards one classifier.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Float32s, Floats, Ints
from embedbench.errors import UserError

from .stream import Stream


@dataclass(frozen=True)
class Alignment:
    """Accuracies on validation samples, by cosines to class means of training samples.

    Parameters
    ----------
    samples : int
        Number of validation samples.
    final : float
        Accuracy of the final embedding.
    own : dict
        For each layer, its accuracy by its own class means.
    to_final : dict
        For each layer, its accuracy by the class means of the final embedding; NaN if it has
        another width. It is near `final` for an aligned layer.
    """

    samples: int
    final: float
    own: dict[str, float]
    to_final: dict[str, float]


def alignment(
    train: tuple[Float32s, Ints],
    val: tuple[Float32s, Ints],
    width: int,
    layers: Mapping[str, tuple[int, int]],
) -> Alignment:
    """Measure the alignment of layers.

    Parameters
    ----------
    train, val : tuple of array
        Embeddings (n, D), the final one in the first columns and layers behind it; labels (n,).
    width : int
        Columns of the final embedding.
    layers : mapping
        Columns of each layer: the first, and the one after the last.
    """
    x, y = train
    val_x, val_y = val
    classes, place, counts = np.unique(y, return_inverse=True, return_counts=True)
    starts = np.cumsum(counts) - counts
    sums = np.add.reduceat(x[np.argsort(place, kind="stable")], starts, dtype=np.float64)
    means: Floats = sums / counts[:, None]  # (C, D)

    def right(of: tuple[int, int], by: tuple[int, int]) -> float:
        """Accuracy of the columns `of` by the class means of the columns `by`."""
        if of[1] - of[0] != by[1] - by[0] or not len(val_y):
            return math.nan
        rows = means[:, slice(*by)]
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        # (m, d) @ (d, C); the length of a sample does not change which cosine is largest
        nearest = (val_x[:, slice(*of)] @ rows.T).argmax(axis=1)
        return float(np.mean(classes[nearest] == val_y))

    final = (0, width)
    return Alignment(
        samples=len(val_y),
        final=right(final, final),
        own={name: right(columns, columns) for name, columns in layers.items()},
        to_final={name: right(columns, final) for name, columns in layers.items()},
    )


def alignment_words(result: Alignment) -> list[str]:
    """Return an alignment in words: a sentence on the final embedding, and one for each layer."""
    of = f"{result.samples:,} validation samples (of the base session)"
    sentences = [f"final embedding: {_percent(result.final)} right of {of}, by its class means"]
    for name, value in result.to_final.items():
        relative = ""
        if result.final and not math.isnan(value):
            relative = f" ({value / result.final:.2f} of the final embedding)"
        sentences.append(
            f"{name}: {_percent(value)} by the final means{relative}, "
            f"{_percent(result.own[name])} by its own"
        )
    return sentences


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def stream_alignment(stream: Stream, layers: Sequence[str]) -> Alignment:
    """The alignment of some layers of a stream on its base session."""
    if stream.validation == "test":
        raise UserError(
            "alignment is never measured on test samples; leave protocol.validation=test out"
        )
    base = stream.sessions[0]
    x, val_x = base.x.numpy(), base.val_x.numpy()
    y, val_y = (np.asarray(labels, dtype=np.int64) for labels in (base.y, base.val_y))
    width = min(first for first, _ in stream.spec.layers.values())
    columns = {name: stream.spec.layers[name] for name in layers}
    return alignment((x, y), (val_x, val_y), width, columns)
