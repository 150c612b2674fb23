"""Pictures in odd forms, and the pixels that they are, worked out by hand."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from odd_pictures import chunk, png, row, saved, tiff, trns
from PIL import Image

Row = list[Any]
WHITE, RED, GREEN, BLUE = (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255)
RAMP = struct.pack("<4H", 0, 128, 129, 65535)  # / 257: 0, .498, .502, 255
BIG_RAMP = struct.pack(">4H", 0, 128, 129, 65535)
PALETTE = chunk(b"PLTE", bytes([*RED, *GREEN, *BLUE, 255, 255, 0]))
CLEAR = [(255, 0, 0, 255), (0, 255, 0, 0), (0, 0, 255, 128), (10, 20, 30, 1)]
ON_WHITE = [RED, WHITE, (127, 127, 255), (254, 254, 254)]  # c · a / 255 + 255 - a, rounded


def palette_image() -> Image.Image:
    """The four colours of `PALETTE`, in a row."""
    image = row("P", 0, 1, 2, 3)
    image.putpalette([*RED, *GREEN, *BLUE, 255, 255, 0])
    return image


def gif(transparent: int | None = None) -> bytes:
    """A GIF of two frames; the second one shows other colours."""
    second = palette_image().transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    given = {} if transparent is None else {"transparency": transparent}
    return saved(palette_image(), "GIF", save_all=True, append_images=[second], **given)


# name -> (the file, its four pixels on white: a number is a grey, the rules that touch it)
CASES: dict[str, tuple[bytes, Row, set[str]]] = {
    # --- untouched ---
    "rgb.png": (
        saved(row("RGB", RED, GREEN, BLUE, WHITE), "PNG"),
        [RED, GREEN, BLUE, WHITE],
        set(),
    ),
    "grey.png": (saved(row("L", 0, 1, 254, 255), "PNG"), [0, 1, 254, 255], set()),
    "one_bit.png": (saved(row("1", 0, 255, 0, 255), "PNG"), [0, 255, 0, 255], set()),
    "one_bit.pbm": (b"P4 4 1\n\xa0", [0, 255, 0, 255], set()),  # in PBM a one is black
    "four_bits.png": (png(4, 4, 0, b"\x0f\x7f"), [0, 255, 119, 255], set()),
    "palette.png": (saved(palette_image(), "PNG"), [RED, GREEN, BLUE, (255, 255, 0)], set()),
    "opaque_rgba.png": (
        saved(row("RGBA", (*RED, 255), (*GREEN, 255), (*BLUE, 255), (*WHITE, 255)), "PNG"),
        [RED, GREEN, BLUE, WHITE],
        set(),
    ),
    "key_of_no_pixel.png": (png(4, 8, 0, bytes([1, 2, 3, 4]), trns(9)), [1, 2, 3, 4], set()),
    "white_is_zero.tif": (tiff(4, 8, 0, bytes([0, 1, 254, 255])), [255, 254, 1, 0], set()),
    "rgbx.tif": (
        tiff(4, 8, 2, bytes([*RED, 0, *GREEN, 9, *BLUE, 99, *WHITE, 1]), samples=4, extra=0),
        [RED, GREEN, BLUE, WHITE],
        set(),
    ),
    # --- transparency ---
    "rgba.png": (saved(row("RGBA", *CLEAR), "PNG"), ON_WHITE, {"alpha"}),
    "rgba.webp": (
        saved(row("RGBA", *CLEAR), "WEBP", lossless=True, exact=True),
        ON_WHITE,
        {"alpha"},
    ),
    "rgba.tif": (saved(row("RGBA", *CLEAR), "TIFF"), ON_WHITE, {"alpha"}),
    "rgba_lzw.tif": (
        saved(row("RGBA", *CLEAR), "TIFF", compression="tiff_lzw"),
        ON_WHITE,
        {"alpha"},
    ),
    "la.png": (
        saved(row("LA", (100, 255), (100, 0), (0, 128), (200, 64)), "PNG"),
        [100, 255, 127, 241],
        {"alpha"},
    ),
    "palette_alphas.png": (
        png(4, 8, 3, bytes([0, 1, 2, 3]), PALETTE + chunk(b"tRNS", bytes([255, 0, 128, 255]))),
        [RED, WHITE, (127, 127, 255), (255, 255, 0)],
        {"alpha"},
    ),
    "palette_one_alpha.png": (
        png(4, 2, 3, b"\x1b", PALETTE + chunk(b"tRNS", b"\xff\xff\x00")),
        [RED, GREEN, WHITE, (255, 255, 0)],
        {"alpha"},
    ),
    "la.tif": (
        tiff(4, 8, 1, bytes([9, 255, 99, 0, 0, 128, 200, 64]), samples=2, extra=2),
        [9, 255, 127, 241],
        {"alpha"},
    ),
    "rgb_key.png": (
        png(4, 8, 2, bytes([1, 2, 3, 1, 2, 4, 1, 2, 3, 9, 9, 9]), trns(1, 2, 3)),
        [WHITE, (1, 2, 4), WHITE, (9, 9, 9)],
        {"alpha"},
    ),
    "grey_key.png": (png(4, 8, 0, bytes([7, 8, 7, 0]), trns(7)), [255, 8, 255, 0], {"alpha"}),
    "four_bits_key.png": (png(4, 4, 0, b"\x0f\x73", trns(7)), [0, 255, 255, 51], {"alpha"}),
    "two_bits_key.png": (png(4, 2, 0, b"\x1b", trns(1)), [0, 255, 170, 255], {"alpha"}),
    "one_bit_key.png": (png(4, 1, 0, b"\x40", trns(0)), [255] * 4, {"alpha", "nearly_uniform"}),
    "associated.tif": (  # colours that are multiplied already: c + 255 - a
        tiff(4, 8, 2, bytes([100, 50, 0, 128] * 3 + [9, 9, 9, 255]), samples=4, extra=1),
        [(227, 177, 127)] * 3 + [(9, 9, 9)],
        {"alpha"},
    ),
    "grey_associated.tif": (
        tiff(4, 8, 1, bytes([100, 128, 0, 0, 9, 255, 128, 128]), samples=2, extra=1),
        [227, 255, 9, 255],
        {"alpha"},
    ),
    "transparent.gif": (gif(1), [RED, WHITE, BLUE, (255, 255, 0)], {"alpha", "frames"}),
    # --- depth ---
    "deep.png": (png(4, 16, 0, BIG_RAMP), [0, 0, 1, 255], {"depth"}),
    "deep_key.png": (png(4, 16, 0, BIG_RAMP, trns(129)), [0, 0, 255, 255], {"depth", "alpha"}),
    "deep.tif": (tiff(4, 16, 1, RAMP), [0, 0, 1, 255], {"depth"}),
    "deep_big_endian.tif": (tiff(4, 16, 1, BIG_RAMP, endian=">"), [0, 0, 1, 255], {"depth"}),
    "deep_lzw.tif": (
        saved(
            Image.fromarray(np.frombuffer(RAMP, "<u2").reshape(1, 4)),
            "TIFF",
            compression="tiff_lzw",
        ),
        [0, 0, 1, 255],
        {"depth"},
    ),
    "deep_white_is_zero.tif": (tiff(4, 16, 0, RAMP), [255, 255, 254, 0], {"depth"}),
    "twelve_bits.tif": (tiff(4, 12, 1, b"\xff\xf8\x00\x00\x00\x0f"), [255, 128, 0, 1], {"depth"}),
    "deep.pgm": (b"P5 4 1 65535\n" + BIG_RAMP, [0, 0, 1, 255], {"depth"}),
    "ten_bits.pgm": (
        b"P5 4 1 1023\n" + struct.pack(">4H", 0, 512, 1022, 1023),
        [0, 128, 255, 255],
        {"depth"},
    ),
    "fifteen.pgm": (b"P5 4 1 15\n" + bytes([0, 7, 8, 15]), [0, 119, 136, 255], set()),
    "deep_rgb.png": (  # Pillow keeps the upper byte
        png(4, 16, 2, struct.pack(">12H", 0, 255, 256, 65535, 65280, 40000, *[0] * 6)),
        [(0, 0, 1), (255, 255, 156), (0, 0, 0), (0, 0, 0)],
        {"colour_depth"},
    ),
    "deep_rgb_key.png": (
        png(
            4,
            16,
            2,
            struct.pack(">12H", 256, 512, 768, *[65535] * 3, *[0] * 6),
            trns(256, 512, 768),
        ),
        [WHITE, WHITE, (0, 0, 0), (0, 0, 0)],
        {"colour_depth", "alpha"},
    ),
    "deep_la.png": (
        png(4, 16, 4, struct.pack(">8H", 25600, 65535, 25600, 0, 0, 32768, 51200, 16384)),
        [100, 255, 127, 241],
        {"colour_depth", "alpha"},
    ),
    "deep_rgba.png": (
        png(4, 16, 6, struct.pack(">16H", *(part << 8 for pixel in CLEAR for part in pixel))),
        ON_WHITE,
        {"colour_depth", "alpha"},
    ),
    "ten_bits.ppm": (
        b"P6 4 1 1023\n" + struct.pack(">12H", 0, 512, 1023, *[0] * 6, *[1023] * 3),
        [(0, 128, 255), (0, 0, 0), (0, 0, 0), WHITE],
        {"colour_depth"},
    ),
    # --- other colours ---
    "cmyk.tif": (
        saved(row("CMYK", (0, 0, 0, 0), (255, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 255)), "TIFF"),
        [WHITE, (0, 255, 255), RED, (0, 0, 0)],
        {"converted"},
    ),
    "ycbcr.tif": (
        saved(row("YCbCr", *[(y, 128, 128) for y in (0, 9, 99, 255)]), "TIFF"),
        [0, 9, 99, 255],
        {"converted"},
    ),
    # --- several pictures in a file ---
    "frames.gif": (gif(), [RED, GREEN, BLUE, (255, 255, 0)], {"frames"}),
    "frames.png": (
        saved(
            row("RGB", RED, GREEN, BLUE, WHITE),
            "PNG",
            save_all=True,
            append_images=[row("RGB", WHITE, WHITE, RED, RED)],
        ),
        [RED, GREEN, BLUE, WHITE],
        {"frames"},
    ),
    "frames.webp": (
        saved(
            row("RGB", RED, GREEN, BLUE, WHITE),
            "WEBP",
            lossless=True,
            save_all=True,
            append_images=[row("RGB", WHITE, WHITE, RED, RED)],
        ),
        [RED, GREEN, BLUE, WHITE],
        {"frames"},
    ),
    "pages.tif": (
        saved(
            row("L", 0, 1, 254, 255), "TIFF", save_all=True, append_images=[row("L", 9, 9, 9, 9)]
        ),
        [0, 1, 254, 255],
        {"frames"},
    ),
}


def colours(pixels: Row) -> NDArray[Any]:
    """Four pixels as (1, 4, 3); a number is a grey."""
    spread = [[pixel] * 3 if isinstance(pixel, int) else pixel for pixel in pixels]
    return np.array([spread])


STORED = np.arange(1, 7, dtype=np.uint8).reshape(2, 3) * 40
SHOWN = {  # what EXIF's eight values ask for, by the rows and columns of NumPy
    1: STORED,
    2: STORED[:, ::-1],
    3: STORED[::-1, ::-1],
    4: STORED[::-1],
    5: STORED.T,
    6: STORED[::-1].T,  # the first column, read upwards, is the first row
    7: STORED[::-1, ::-1].T,
    8: STORED.T[::-1],
}


def tagged(value: int, form: str, **options: Any) -> bytes:
    """`STORED` with an EXIF tag."""
    exif = Image.Exif()
    exif[0x0112] = value
    return saved(Image.fromarray(STORED), form, exif=exif, **options)
