"""Intermediate layers beside the final embedding: names, columns, and streams without them.

A table with layers holds the final embedding in columns [0, D) and the layers behind it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from embedbench.files.embedding_file import FINAL, EmbeddingFile

from .stream import Session, Stream
from .view import View


def layer_names(file: EmbeddingFile, layers: str) -> tuple[str, ...]:
    """Resolve "all" (every layer of the file, by number), "none", or names with commas between."""
    if layers == "all":
        return tuple(sorted(file.layers, key=lambda name: (len(name), name)))
    names = () if layers == "none" else tuple(dict.fromkeys(layers.replace(" ", "").split(",")))
    file.tables(names)  # refuses unknown layers
    return names


def layer_columns(
    file: EmbeddingFile, layers: Sequence[str], embedding: str = FINAL
) -> dict[str, tuple[int, int]]:
    """Columns of each layer in a table with these layers: the first, and the one after the last.

    `embedding` is the layer that replaces the final embedding.
    """
    ends = np.cumsum([file.width(embedding), *(file.layers[name] for name in layers)]).tolist()
    return dict(zip(layers, itertools.pairwise(ends), strict=True))


def without_layers(stream: Stream) -> Stream:
    """The same stream with the same digests and table, cut to the final embedding."""
    if not stream.spec.layers:
        return stream
    width = min(first for first, _ in stream.spec.layers.values())

    def cut(view: View) -> View:
        return replace(view, width=width)

    def session(s: Session) -> Session:
        return replace(s, x=cut(s.x), val_x=cut(s.val_x))

    return replace(
        stream,
        spec=replace(stream.spec, input_shape=(width,), layers={}),
        sessions=tuple(session(s) for s in stream.sessions),
        eval_sets=tuple(replace(e, x=cut(e.x)) for e in stream.eval_sets),
        far=None if stream.far is None else cut(stream.far),
        alone=tuple(without_layers(s) for s in stream.alone),
        whole=tuple(session(s) for s in stream.whole),
    )
