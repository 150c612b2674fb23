"""Decode samples into batches, in threads and in order, while a backbone computes."""

import hashlib
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.storage.regular_files import explain_os_error

from .backbone import Backbone
from .source import PIXELS, Content, Source, open_image
from .torchvision_decoder import PILLOW, by_torchvision

AHEAD = 2  # batches that wait beside those in work; this bounds the memory
LARGE = 24 * 2**20  # pixels; a larger image is decoded while no other large one is
REASON = 200  # characters

_one_large = threading.Lock()


@dataclass(frozen=True)
class DecodedSample:
    """One image or sound: as the backbone takes it, its content hash, or what is wrong."""

    ready: Array | None
    digest: bytes = bytes(16)
    problem: str = ""


@contextmanager
def quiet_readers() -> Iterator[None]:
    """Keep readers from printing warnings: about files that are odd, large or damaged."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.filterwarnings("ignore", module=r"torchvision\.io")  # drops its decoders one day
        warnings.filterwarnings("ignore", r"Chunk \(non-data\)|Reached EOF|Incomplete chunk")  # WAV
        yield


def first_image(source: Source) -> Image.Image:
    """Return the first image that can be decoded."""
    with quiet_readers():
        for i in range(len(source.ids)):
            try:
                image = open_image(source.read(i))
                image.load()
            except Exception:  # as in `decode`
                continue
            return image
    raise UserError(f"none of the {len(source.ids)} images of {source.name} can be decoded.")


def decode(source: Source, i: int, backbone: Backbone) -> DecodedSample:
    """Read, hash and prepare sample i."""
    try:
        content = source.read(i)
        ready = _prepared(content, backbone, source.holds)
    except Exception as error:  # readers raise errors of many kinds on damaged bytes
        return DecodedSample(None, problem=_reason(error))
    digest = hashlib.sha256(content if isinstance(content, bytes) else content.tobytes()).digest()
    return DecodedSample(ready, digest[:16])


def _prepared(content: Content, backbone: Backbone, holds: str) -> Array:
    if holds != "images":
        return backbone.prepare(content)
    image = open_image(content)
    with _one_large if image.width * image.height > LARGE else nullcontext():
        if backbone.decoder != PILLOW and isinstance(content, bytes):
            image = by_torchvision(image, content, backbone.device)
        return backbone.prepare(image)


def _reason(error: Exception) -> str:
    """Return what is wrong. The text goes into the file, so it is the same every time."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow knows"
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels; at most {PIXELS:,} are possible"
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    text = explain_os_error(error) if isinstance(error, OSError) else str(error)
    return " ".join(text.split())[:REASON] or type(error).__name__


@dataclass(frozen=True)
class Batch:
    """Consecutive samples, `rows` of the source, and the backbone's output for them.

    `decoded` has the hash or problem of each sample, without the arrays; the tables are of the
    samples that could be decoded, and empty if none could.
    """

    rows: range
    decoded: tuple[DecodedSample, ...]
    tables: dict[str, torch.Tensor]


def compute_batches(
    source: Source, batches: Iterable[range], backbone: Backbone, workers: int
) -> Iterator[Batch]:
    """Yield each batch with its tables, in order.

    `workers` threads read and decode, each one batch at a time. On a CPU they also run the
    backbone: one batch per thread is faster than one batch shared by all threads. On a card this
    thread launches the forward passes while the others decode.
    """
    here = backbone.device.type != "cpu"

    def work(rows: range) -> Callable[[], Batch]:
        decoded = [decode(source, i, backbone) for i in rows]
        good = [sample.ready for sample in decoded if sample.ready is not None]
        ready = np.stack(good) if good else None
        infos = tuple(replace(sample, ready=None) for sample in decoded)

        def forward() -> Batch:
            return Batch(rows, infos, {} if ready is None else backbone.forward(ready))

        if here:
            return forward
        batch = forward()
        return lambda: batch

    waiting: deque[Future[Callable[[], Batch]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="extract")
    try:
        for rows in batches:
            waiting.append(pool.submit(work, rows))
            if len(waiting) > workers + AHEAD:
                yield waiting.popleft().result()()
        while waiting:
            yield waiting.popleft().result()()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
