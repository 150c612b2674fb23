"""Small pictures in odd forms, written byte by byte where Pillow does not write them."""

import io
import struct
import zlib
from typing import Any

from PIL import Image


def png(width: int, bits: int, colour: int, row: bytes, extra: bytes = b"") -> bytes:
    """A PNG of one row; `colour` is 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha."""
    head = struct.pack(">IIBBBBB", width, 1, bits, colour, 0, 0, 0)
    parts = chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(b"\0" + row))
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def trns(*key: int) -> bytes:
    """The chunk that names the one transparent grey or colour."""
    return chunk(b"tRNS", struct.pack(f">{len(key)}H", *key))


def tiff(
    width: int,
    bits: int,
    photometric: int,
    data: bytes,
    *,
    samples: int = 1,
    extra: int | None = None,
    planes: int = 1,
    number: int = 1,
    orientation: int = 1,
    endian: str = "<",
) -> bytes:
    """An uncompressed TIFF of one row.

    `photometric` is 0 white is zero, 1 black is zero, 2 RGB; `extra` 0 unspecified, 1 associated
    alpha, 2 alpha; `planes` 1 together, 2 one by one; `number` 1 unsigned, 2 signed, 3 float.
    """
    n = samples if planes == 2 else 1
    each = len(data) // n
    fields: list[tuple[int, str, list[int]]] = [
        (256, "I", [width]),
        (257, "I", [1]),
        (258, "H", [bits] * samples),
        (259, "H", [1]),
        (262, "H", [photometric]),
        (273, "I", [i * each for i in range(n)]),
        (274, "H", [orientation]),
        (277, "H", [samples]),
        (278, "I", [1]),
        (279, "I", [each] * n),
        (284, "H", [planes]),
        *([] if extra is None else [(338, "H", [extra])]),
        (339, "H", [number] * samples),
    ]
    first = 8 + 2 + 12 * len(fields) + 4  # where values lie that fit no entry
    sizes = [struct.calcsize(f"<{len(values)}{code}") for _, code, values in fields]
    begin = first + sum(size for size in sizes if size > 4)  # where the pixels lie
    rows, large = b"", b""
    for tag, code, values in fields:
        shown = [begin + value for value in values] if tag == 273 else values
        packed = struct.pack(f"{endian}{len(shown)}{code}", *shown)
        here = packed.ljust(4, b"\0")
        if len(packed) > 4:
            here, large = struct.pack(f"{endian}I", first + len(large)), large + packed
        rows += struct.pack(f"{endian}HHI", tag, 3 if code == "H" else 4, len(values)) + here
    head = (b"II*\0" if endian == "<" else b"MM\0*") + struct.pack(f"{endian}I", 8)
    body = struct.pack(f"{endian}H", len(fields)) + rows + struct.pack(f"{endian}I", 0)
    return head + body + large + data


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    """An image as Pillow saves it."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def row(mode: str, *pixels: Any) -> Image.Image:
    """An image of one row."""
    image = Image.new(mode, (len(pixels), 1))
    for x, pixel in enumerate(pixels):
        image.putpixel((x, 0), pixel)
    return image
