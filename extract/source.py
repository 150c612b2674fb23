"""The contract of a source: samples by id, and how an image is opened."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Content = bytes | Image.Image


@dataclass(frozen=True)
class Source:
    """A list of labelled images or sounds.

    Parameters
    ----------
    name : str
        The data set's name, as it stands in the provenance.
    ids : tuple of str
        (N,) sample ids: POSIX paths from the source's root, or split/index.
    labels : array of int
        (N,) index of the leaf class.
    classes, parents : tuple of str, array of int
        (C,) names and parents, leaves first (see `embedbench.files.samples.Samples`).
    read : callable
        Sample number to its encoded bytes or its image; safe to call from several threads.
    split : array of int or None
        (N,) the source's own split, or None where it has none.
    revision, licence : str
        What is known of them; empty or "not stated" where nothing is.
    in_order : bool
        Whether going back to an earlier sample is slow, so that one thread must read.
    holds : str
        `images` or `sounds`.
    """

    name: str
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    parents: NDArray[np.int64]
    read: Callable[[int], Content]
    split: NDArray[np.uint8] | None = None
    revision: str = ""
    licence: str = "not stated"
    in_order: bool = False
    holds: str = "images"


def open_image(content: Content) -> Image.Image:
    """Return an image from encoded bytes; raise one of Pillow's errors over damaged ones."""
    if isinstance(content, Image.Image):
        return content
    return Image.open(io.BytesIO(content))
