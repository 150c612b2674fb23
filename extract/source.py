"""The contract of a source: samples by id; and opening what a file holds, within bounds.

Files come from other people. Whatever one of them holds, opening it runs no other program, and
takes less than a gigabyte and a few seconds.
"""

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from embedbench.array_types import Bools, Bytes, Floats, Ints, Strings
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError
from embedbench.storage.regular_files import open_regular

Content = bytes | Image.Image

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # not EPS: it is a program
PNG = b"\x89PNG\r\n\x1a\n"  # begins one
PIXELS = 50 * 2**20  # most of an image; a camera's 50 megapixels are 8192 x 6144
BYTES = 128 * 2**20  # most of a file
HEADER = 32 * 2**20  # most that is read of an image before its pixels
READS = 1_000_000  # most calls of `read` that decoding takes
SCANS = 100  # most of a progressive JPEG of `PIXELS` pixels
RATIO = 200  # most of an image's longer side to its shorter one
ID_BYTES, ID_LEVELS = 512, 32  # most of a sample's id
NAME = 200  # characters of the name of a file that cannot be a sample


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
        (C,) names and parents, leaves first (see `embedbench.files.sample_metadata.Samples`).
    read : callable
        Function from a sample's number to its encoded bytes or image; it is thread-safe.
    split : array of int or None
        (N,) the source's own split; None if it has none.
    domain, group : array of str or None
        (N,) the optional columns of the file; None if it has none.
    time : array of float or None
        (N,) seconds or a frame number.
    revision, licence : str
        Revision and licence; empty or "not stated" if unknown.
    holds : str
        `images` or `sounds`.
    refused : tuple of (str, str)
        Names of files that are not among the samples because they cannot be read, and why.
    remark : str
        Line on what was taken, what was left out and what was guessed; empty: nothing to say.
    left_out : tuple of str
        Phrases on what is not among the samples and not in `refused`: how many files, and why.
    package : (str, str) or None
        Name and version of the package whose code opened it; None: ours, or a file of yours.
    flipped : array of bool or None
        (N,) whether a sample is the flipped copy of an image, which `read` gives as it is; None:
        none is.
    """

    name: str
    ids: tuple[str, ...]
    labels: Ints
    classes: tuple[str, ...]
    parents: Ints
    read: Callable[[int], Content]
    split: Bytes | None = None
    domain: Strings | None = None
    group: Strings | None = None
    time: Floats | None = None
    revision: str = ""
    licence: str = "not stated"
    holds: str = "images"
    refused: tuple[tuple[str, str], ...] = ()
    remark: str = ""
    left_out: tuple[str, ...] = ()
    package: tuple[str, str] | None = None
    flipped: Bools | None = None

    @property
    def columns(self) -> dict[str, Strings | Floats]:
        """The optional columns that it has."""
        named = {"domain": self.domain, "group": self.group, "time": self.time}
        return {name: values for name, values in named.items() if values is not None}

    @property
    def digest(self) -> str:
        """SHA-256 of the list of samples."""
        return hashlib.sha256("\0".join(self.ids).encode()).hexdigest()


def unusable(name: str, source: str, problem: str) -> UserError:
    """Return the error for a sample that cannot be used."""
    return UserError(
        f"{name} of {source} cannot be used ({problem})",
        "repair or remove it, or leave it out with --skip-bad",
    )


def escape_name(name: str) -> str:
    r"""Return a file's name, cut if it is long, with escapes for what is no text.

    >>> escape_name("cat-\udcff.png")
    'cat-\\udcff.png'
    """
    short = name if len(name) <= NAME else f"{name[:NAME]}…"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in short)


def id_problem(name: str) -> str:
    """Return why a path cannot be a sample's id; empty if it can."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > ID_BYTES:
        return f"its name has {size:,} bytes; at most {ID_BYTES} are possible"
    if name.count("/") > ID_LEVELS:
        return f"it lies {name.count('/')} folders deep; at most {ID_LEVELS} are possible"
    return ""


def size_problem(size: int) -> str:
    """Return why a file of a size in bytes cannot be a sample; empty if it can."""
    return f"{size:,} bytes; at most {BYTES:,} are possible" if size > BYTES else ""


@check_arguments
def read_sample(path: str | Path) -> bytes:
    """Return the bytes of a sample's file; an OSError if it is no regular one."""
    return read_bytes(path)


def read_bytes(path: str | Path) -> bytes:
    """Do what `read_sample` does, for callers whose path needs no look at its type."""
    with open_regular(path) as file:
        problem = size_problem(os.fstat(file.fileno()).st_size)
        if problem:
            raise UserError(problem)
        return file.read()


class EncodedSample(io.BytesIO):
    """Encoded bytes for a reader that goes through them in Python, chunk by chunk.

    A few megabytes of empty chunks or of one long comment keep such a reader busy for minutes, and
    its lists take much more memory than the chunks. So `reads` bounds the calls of `read`, and
    `header` the bytes that may be asked for; None: any number.
    """

    def __init__(self, content: bytes, reads: int, header: int | None = None) -> None:
        super().__init__(content)
        self.reads = reads
        self.header = header

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        data = super().read(size)
        self.reads -= 1
        if self.header is not None and size is not None and size >= 0:
            self.header -= len(data)
        if self.reads < 0 or (self.header is not None and self.header < 0):
            raise UserError("too many chunks, tags or comments")
        return data


def open_image(content: Content) -> Image.Image:
    """Return an image from encoded bytes, before its pixels are decoded.

    One larger than the bounds of this module is a UserError; Pillow raises many kinds.
    """
    if isinstance(content, Image.Image):
        _check(content.size)
        return content
    if content[:2] in (b"P1", b"P2", b"P3"):
        raise UserError("a PPM written as text", "save it in the binary form")
    if content.startswith(PNG) and len(content) <= READS:
        # Its reader goes on by a byte or more with each call. Counting calls takes as long as all
        # else of opening a small one.
        image = Image.open(io.BytesIO(content), formats=("PNG",))
    else:
        file = EncodedSample(content, READS, HEADER)
        image = Image.open(file, formats=FORMATS)
        file.header = None
    _check(image.size)
    # each scan of a progressive JPEG goes over all its pixels; within a scan there is no such pair
    if image.format in ("JPEG", "MPO"):
        scans = content.count(b"\xff\xda")
        if scans * image.width * image.height > SCANS * PIXELS:
            raise UserError(f"a JPEG of {scans} scans")
    return image


def _check(size: tuple[int, int]) -> None:
    """Raise UserError for an image that is too large, or that resizing would make so."""
    short, long = sorted(size)
    if short * long > PIXELS:
        raise UserError(f"{size[0]}x{size[1]} pixels; at most {PIXELS:,} are possible")
    if long > RATIO * short:
        raise UserError(
            f"{size[0]}x{size[1]} pixels; one side may be at most {RATIO} times the other"
        )
