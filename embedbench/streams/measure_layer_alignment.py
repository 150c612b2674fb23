"""How well layers agree with the final embedding: in a file, and in a stream's base session."""

from collections.abc import Sequence

import numpy as np

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.layer_alignment import Alignment, alignment
from embedbench.files.sample_metadata import VAL

from .layer_columns import layer_columns, layer_names
from .make_sessions import split_rows
from .stream import Stream

TENTH = 0.1  # of each class's training samples, in a file without validation samples


def file_alignment(file: EmbeddingFile) -> Alignment:
    """The alignment of all layers of a file, over all its classes; reads no test sample."""
    layers = layer_names(file, "all")
    if not layers:
        raise UserError(
            f"alignment is of intermediate layers, and {file.path} has none: make a file that has "
            "them with embedbench extract … --layers last4"
        )
    split = split_rows(file, "train", TENTH)
    if not len(split.val):
        raise UserError(
            f"alignment needs validation samples, and {file.path} has one training sample a class: "
            "give it more"
        )
    given = bool((file.split == VAL).any())
    words = "the file's" if given else "a tenth of each class's training samples"
    x, y = file.read(layers), file.labels
    train, val = ((x[rows], y[rows]) for rows in (split.train, split.val))
    return alignment(train, val, file.width(), layer_columns(file, layers), words)


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
    return alignment((x, y), (val_x, val_y), width, columns, "of the base session")
