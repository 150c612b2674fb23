"""Each training image of a source also flipped, left to right, beside the image itself."""

from dataclasses import replace
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.files.raw_pixels import FLIPPED
from embedbench.files.sample_metadata import TRAIN

from .source import Content, Source

TAKE_IMAGES = ("pixels", "none")  # the backbones whose images are flipped as they are stored


def add_flipped(source: Source, backbone: str | None) -> Source:
    """The source with a flipped copy behind each training image; its id ends with `FLIPPED`.

    **Source**: Prabhu et al. (2024, RanDumb) and their code: original, flipped, original, …

    Raises
    ------
    UserError
        The backbone is a model, or the source has no images.
    """
    if backbone not in TAKE_IMAGES or source.holds != "images":
        raise UserError(
            f"--flip is for images that stay pixels, and the backbone is {backbone}",
            f"take --backbone {' or '.join(TAKE_IMAGES)}, or leave --flip out",
        )
    assert source.split is not None
    copies = 1 + (source.split == TRAIN)
    index = np.repeat(np.arange(len(source.ids)), copies)
    flipped = np.append(False, index[1:] == index[:-1])
    ids = [source.ids[i] + FLIPPED * bool(again) for i, again in zip(index, flipped, strict=True)]
    columns: dict[str, Any] = {name: values[index] for name, values in source.columns.items()}

    def read(i: int) -> Content:
        return source.read(int(index[i]))

    return replace(
        source,
        ids=tuple(ids),
        labels=source.labels[index],
        split=source.split[index],
        read=read,
        flipped=flipped,
        **columns,
    )
