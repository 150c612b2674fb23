"""Make images of glyphs: a folder for each character, drawn in every face of a family of fonts.

    python tools/make_glyphs.py OUT [--classes 100] [--draws 2] [--fonts FOLDER]

The characters are chosen at random from the letters and symbols that every face has; one that looks
like an earlier one is left out. Each face draws each character a few times, dark on light, with a
little random rotation, scaling and shift. The files are FACE.K.png: with `embedbench extract OUT
--group '([^/.]+)[.]'` all images of a face are on one side of the split.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = 128  # pixels
CODES = (*range(0x21, 0x250), *range(0x370, 0x590), *range(0x10D0, 0x1100), *range(0x2190, 0x2800))
NONE = "\U0010ffff"  # no font has it, so each draws its sign for a missing glyph
ALIKE = 0.9  # cosine of two pictures that count as the same


def picture(font: ImageFont.FreeTypeFont, text: str) -> Image.Image:
    """A glyph in the middle of a square, light on dark."""
    image = Image.new("L", (SIZE, SIZE))
    ImageDraw.Draw(image).text((SIZE // 2, SIZE // 2), text, fill=255, font=font, anchor="mm")
    return image


def normalised(font: ImageFont.FreeTypeFont, text: str) -> np.ndarray:
    """A glyph's picture cut to its box, 32 × 32, as a vector of length 1."""
    image = picture(font, text)
    box = image.getbbox()
    if box is None:
        return np.zeros(32 * 32)
    values = np.asarray(image.crop(box).resize((32, 32)), dtype=float).ravel()
    return values / np.linalg.norm(values)


def drawable(fonts: list[ImageFont.FreeTypeFont]) -> Iterator[str]:
    """Characters that every face has, in the order of their codes."""
    missing = [f.getmask(NONE).getbbox() and bytes(f.getmask(NONE)) for f in fonts]
    for code in CODES:
        text = chr(code)
        if unicodedata.category(text)[0] not in "LSN":
            continue
        if all(
            f.getbbox(text) and bytes(f.getmask(text)) != m
            for f, m in zip(fonts, missing, strict=True)
        ):
            yield text


def chosen(fonts: list[ImageFont.FreeTypeFont], n: int, draw: np.random.Generator) -> list[str]:
    """Choose `n` characters, no two of which look alike in the first face."""
    characters: list[str] = []
    pictures = np.zeros((0, 32 * 32))
    candidates = list(drawable(fonts))
    for place in draw.permutation(len(candidates)):
        values = normalised(fonts[0], candidates[place])
        if values.any() and (pictures @ values < ALIKE).all():
            characters.append(candidates[place])
            pictures = np.vstack([pictures, values])
        if len(characters) == n:
            return characters
    raise SystemExit(f"only {len(characters)} characters look different, {n} were asked for")


def varied(image: Image.Image, draw: np.random.Generator) -> Image.Image:
    """A glyph turned by up to 15°, sized by 0.7 to 1.1, moved by up to 10 pixels, dark on light."""
    angle, scale = draw.uniform(-15, 15), draw.uniform(0.7, 1.1)
    turned = image.rotate(
        angle, Image.Resampling.BICUBIC, translate=tuple(draw.integers(-10, 11, 2))
    )
    side = round(SIZE * scale)
    sized = turned.resize((side, side), Image.Resampling.BICUBIC)
    ink, paper = draw.integers(0, 90, 3), draw.integers(160, 256, 3)
    whole = Image.new("L", (SIZE, SIZE))
    whole.paste(sized, ((SIZE - side) // 2, (SIZE - side) // 2))
    share = np.asarray(whole, dtype=float)[:, :, None] / 255
    return Image.fromarray((share * ink + (1 - share) * paper).astype(np.uint8))


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--draws", type=int, default=2, help="images of a character per face")
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts/truetype/dejavu"))
    args = parser.parse_args()
    paths = [p for p in sorted(args.fonts.glob("*.ttf")) if "Math" not in p.stem]
    fonts = [ImageFont.truetype(p, round(0.6 * SIZE)) for p in paths]
    draw = np.random.default_rng(0)
    for text in chosen(fonts, args.classes, draw):
        folder = args.out / f"u{ord(text):04x}"
        folder.mkdir(parents=True, exist_ok=True)
        for path, font in zip(paths, fonts, strict=True):
            for k in range(args.draws):
                varied(picture(font, text), draw).save(folder / f"{path.stem}.{k}.png")


if __name__ == "__main__":
    main()
