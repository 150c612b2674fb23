"""Reading and decoding ahead, in threads, while the backbone is at work."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from embedbench.errors import UserError

from .backbones import Backbone
from .sources import Content, Source

AHEAD = 4  # batches that are decoded or being decoded beside the one in use: bounds the memory

# What Pillow, zipfile and zlib raise over damaged bytes.
_BAD = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    Image.DecompressionBombError,
    UserError,
)


@dataclass(frozen=True)
class Decoded:
    """One image: its bytes as the backbone wants them, its content hash, or what is wrong."""

    pixels: NDArray[np.uint8] | None
    digest: bytes = bytes(16)
    problem: str = ""


def open_image(content: Content) -> Image.Image:
    """Return an image from encoded bytes; raise one of Pillow's errors over damaged ones."""
    if isinstance(content, Image.Image):
        return content
    return Image.open(io.BytesIO(content))


def first_image(source: Source) -> Image.Image:
    """Return the first image that can be decoded."""
    for i in range(len(source.ids)):
        try:
            image = open_image(source.read(i))
            image.load()
        except _BAD:
            continue
        return image
    raise UserError(f"none of the {len(source.ids)} images of {source.name} can be decoded.")


def decode(source: Source, i: int, backbone: Backbone) -> Decoded:
    """Read, hash and prepare image i."""
    try:
        content = source.read(i)
        image = open_image(content)
        pixels = backbone.prepare(image)
    except _BAD as error:
        return Decoded(None, problem=_told(error))
    digest = hashlib.sha256(content if isinstance(content, bytes) else image.tobytes()).digest()
    return Decoded(pixels, digest[:16])


def _told(error: Exception) -> str:
    """Return what is wrong, the same words each time: they stand in the file."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow knows"
    return " ".join(str(error).split()) or type(error).__name__


def decoded(
    source: Source, batches: Sequence[range], backbone: Backbone, workers: int
) -> Iterator[tuple[range, list[Decoded]]]:
    """Yield each batch of sample numbers with its images, decoded by ``workers`` threads."""
    waiting: deque[tuple[range, list[Future[Decoded]]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    try:
        for batch in batches:
            waiting.append((batch, [pool.submit(decode, source, i, backbone) for i in batch]))
            if len(waiting) > AHEAD:
                ready, futures = waiting.popleft()
                yield ready, [future.result() for future in futures]
        while waiting:
            ready, futures = waiting.popleft()
            yield ready, [future.result() for future in futures]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
