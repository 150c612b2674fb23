"""Hashes of the contents of samples: from what the rows of a block were computed.

A name, a number or a date does not say what a sample holds. A block of rows belongs to a source as
long as the source has the contents that the block was computed from, and no longer.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from PIL import Image

from embedbench.system.cpu_threads import cores

from .source import Content, Source

SIZE = 16  # bytes: the first of a SHA-256
NOTHING = bytes(SIZE)  # of a sample that cannot be read
READERS = 16  # most threads that read
_ORIENTATION = 0x0112  # the EXIF tag


def content_hash(content: Content) -> bytes:
    """Return the hash of a sample's content: of encoded bytes, or of a decoded image.

    Two images may have the same values and other modes, sizes or palettes, so these count, too.
    """
    if isinstance(content, bytes):
        return hashlib.sha256(content).digest()[:SIZE]
    digest = hashlib.sha256(_form(content).encode())
    digest.update(content.tobytes())
    return digest.digest()[:SIZE]


def _form(image: Image.Image) -> str:
    """Return all that decides how the values of a decoded image are shown."""
    palette = image.getpalette("RGBA") if image.mode in ("P", "PA") else None
    turned = image.getexif().get(_ORIENTATION)
    return repr((image.mode, image.size, palette, image.info.get("transparency"), turned))


def read_hash(source: Source, i: int) -> bytes:
    """Return the hash of what a source has as sample i now."""
    with suppress(Exception):  # readers raise errors of many kinds on damaged bytes
        return content_hash(source.read(i))
    return NOTHING


def changed_samples(
    source: Source, blocks: Iterable[tuple[range, Sequence[bytes]]]
) -> Iterator[list[int]]:
    """Yield, for each block, the samples whose content is not what the block was computed from.

    A block is its samples and their hashes. Contents are read and hashed, and not decoded where the
    source has encoded ones; nothing is computed.
    """
    with ThreadPoolExecutor(min(cores(), READERS), thread_name_prefix="hash") as pool:
        for rows, hashes in blocks:
            now = pool.map(read_hash, [source] * len(rows), rows)
            pairs = zip(rows, now, hashes, strict=True)
            yield [i for i, there, computed_from in pairs if there != computed_from]
