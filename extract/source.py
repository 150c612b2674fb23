"""The contract of a source: samples by id; and opening an image."""

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
        The data set's name in the provenance.
    ids : tuple of str
        (N,) sample ids: POSIX paths from the source's root, or split/index.
    labels : array of int
        (N,) index of the leaf class.
    classes, parents : tuple of str, array of int
        (C,) names and parents, leaves first (see `embedbench.files.samples.Samples`).
    read : callable
        Function from a sample's number to its encoded bytes or image; it is thread-safe.
    split : array of int or None
        (N,) the source's own split; None if it has none.
    revision, licence : str
        Revision and licence; empty or "not stated" if unknown.
    in_order : bool
        Whether one thread must read, because going back to an earlier sample is slow.
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
    """Return an image from encoded bytes; damaged bytes raise one of Pillow's errors."""
    if isinstance(content, Image.Image):
        return content
    return Image.open(io.BytesIO(content))
