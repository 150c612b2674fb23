"""What `--normalise channel` measures, on the training images alone.

The numbers are kept in the user's cache with the hash of what they were measured on, so that an
extraction that goes on decodes its images once.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import PIL

from embedbench.array_types import Ints
from embedbench.errors import UserError
from embedbench.files.sample_metadata import TRAIN
from embedbench.storage import user_cache
from embedbench.system.cpu_threads import cores

from .channel_statistics import LEVELS, ChannelScale
from .content_hashes import read_hash
from .extraction_work import CPU_LANES, Job, decode, first_image, quiet_readers
from .open_backbone import Images
from .source import Source, unusable

KIND = "channels"  # of facts in the user's cache
VERSION = 1  # of the way to measure
PART = 256  # images that a thread takes at a time

T = TypeVar("T")


def measure_channels(job: Job, source: Source) -> ChannelScale:
    """Mean and deviation of each channel over the training images of a source with a split.

    Images are read in several threads. Where the same images were measured before, they are read
    and not decoded.

    Raises
    ------
    UserError
        An image cannot be read, and the job does not leave such images out.
    """
    assert source.split is not None
    rows = np.flatnonzero(source.split == TRAIN)
    parts = np.array_split(rows, max(1, -(-len(rows) // PART)))
    decides = {
        "version": VERSION,
        "reader": PIL.__version__,
        "source": (source.name, source.digest),
        "rows": rows.tolist(),
        "size": job.size,
        "pixels": job.policy.facts(),
        "skip-bad": job.skip_bad,
    }
    key = json.dumps(decides, sort_keys=True)
    with quiet_readers():
        if (known := _recall(key, source, parts)) is not None:
            return known
        images = Images(first_image(source, job.policy), job.size)
        counts = np.zeros((1 if images.mode == "L" else 3, LEVELS), np.int64)
        contents = hashlib.sha256()

        def count(part: Ints) -> tuple[Ints, bytes]:
            return count_levels(job, source, images, part)

        for levels, hashes in _in_threads(count, parts):
            counts += levels
            contents.update(hashes)
    scale = ChannelScale.measured(counts)
    user_cache.save(KIND, key, {"contents": contents.hexdigest(), "scale": str(scale)})
    return scale


def count_levels(job: Job, source: Source, images: Images, rows: Ints) -> tuple[Ints, bytes]:
    """How often each value occurs in each channel, (C, 256), and the hashes of the contents."""
    counts = np.zeros((1 if images.mode == "L" else 3, LEVELS), np.int64)
    hashes = []
    for i in rows.tolist():
        sample = decode(source, i, images, job.policy)
        hashes.append(sample.digest)
        if sample.ready is not None:
            for c in range(len(counts)):
                counts[c] += np.bincount(sample.ready[..., c].ravel(), minlength=LEVELS)
        elif not job.skip_bad:
            raise unusable(source.ids[i], source.name, sample.problem)
    return counts, b"".join(hashes)


def _recall(key: str, source: Source, parts: list[Ints]) -> ChannelScale | None:
    """What was measured before on the same contents; None if nothing was."""
    kept: Any = user_cache.load(KIND, key)
    try:
        measured = kept["contents"]
        scale = ChannelScale.read(kept["scale"])
    except (TypeError, KeyError, AttributeError, ValueError, UserError):
        return None  # nothing, or damaged
    contents = hashlib.sha256()

    def read(part: Ints) -> bytes:
        return b"".join(read_hash(source, i) for i in part.tolist())

    for hashes in _in_threads(read, parts):
        contents.update(hashes)
    return scale if contents.hexdigest() == measured else None


def _in_threads(function: Callable[[Ints], T], parts: list[Ints]) -> Iterator[T]:
    """Yield the value of each part, in order; the first error ends the others."""
    pool = ThreadPoolExecutor(min(cores(), CPU_LANES), thread_name_prefix="channels")
    try:
        yield from pool.map(function, parts)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
