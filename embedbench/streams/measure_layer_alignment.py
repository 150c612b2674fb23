"""How well layers agree with the final embedding in a stream's base session."""

from collections.abc import Sequence

import numpy as np

from embedbench.errors import UserError
from embedbench.files.layer_alignment import Alignment, alignment

from .stream import Stream


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
