"""Make images of 100 characters in many type faces: an npz that `embedbench import` reads.

    python tools/make_faces.py faces.npz [--fonts FOLDER]
    embedbench import faces.npz --out faces.h5

The images are 32 × 32, grey, light on dark: the 94 printable ASCII characters and é ü ñ ß ø æ, one
image of each for every face in FOLDER and below that has them all and draws them differently. The
classes lie under five superclasses (upper, lower, digit, mark, accented). The split is by family,
about a sixth for the test, so that no family is in both parts. Nothing is drawn at random: the same
fonts and the same Pillow (with Raqm, as in its wheels) give the same images. With the font packages
of Debian there are some 890 faces of 240 families, 88,800 images: CIFAR-100's shape.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fontTools.ttLib import TTFont
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

ACCENTED = "éüñßøæ"
CHARACTERS = "".join(map(chr, range(0x21, 0x7F))) + ACCENTED
SUPERCLASSES = ("upper", "lower", "digit", "mark", "accented")
TALL, DEEP = "HbdfhklABCDEFG|{}", "gjpqy|{}"  # reach highest above the baseline, lowest below it
SIDE = 32  # pixels
SPAN = 28  # pixels between the highest and the lowest point of a face, at most
EM, LARGEST, SMALLEST = 24, 1.4, 8  # size in pixels, the most it is enlarged by, the least size
INK = 64  # grey values above it are ink
LEAST_INK = 3  # pixels of a character
DISTINCT = 96  # different images a face has at least: others draw capitals for small letters


@dataclass(frozen=True)
class Face:
    """A type face: its path below the folder, its family, its images (100, 32, 32)."""

    path: str
    family: str
    images: NDArray[np.uint8]

    @property
    def test(self) -> bool:
        """Whether its family is in the test split, by the family's name."""
        return int(hashlib.sha256(self.family.encode()).hexdigest(), 16) % 6 == 0


def superclass(character: str) -> str:
    """One of `SUPERCLASSES`."""
    if character in ACCENTED:
        return "accented"
    if character.isdigit():
        return "digit"
    if not character.isalpha():
        return "mark"
    return "upper" if character.isupper() else "lower"


def read_face(path: Path, name: str) -> Face | None:
    """The face of a font file; None if it lacks a character or draws too many alike."""
    with TTFont(path, fontNumber=0, lazy=True) as font:
        if not {ord(c) for c in CHARACTERS} <= set(font.getBestCmap() or ()):
            return None
        names = font["name"]
        family = names.getDebugName(16) or names.getDebugName(1) or path.name
    images = drawn(path)
    ink = (images > INK).sum((1, 2))
    different = len(np.unique(images.reshape(len(images), -1), axis=0))
    if ink.min() < LEAST_INK or different < DISTINCT:
        return None
    return Face(name, family.strip(), images)


def drawn(path: Path) -> NDArray[np.uint8]:
    """The images of all characters, (100, 32, 32), in one size and on one baseline."""
    top, bottom = extent(ImageFont.truetype(path, EM))
    size = max(SMALLEST, int(EM * min(LARGEST, SPAN / max(1, bottom - top))))
    font = ImageFont.truetype(path, size)
    top, bottom = extent(font)
    baseline = (SIDE - (bottom - top)) // 2 - top
    images = np.zeros((len(CHARACTERS), SIDE, SIDE), np.uint8)
    for k, character in enumerate(CHARACTERS):
        left, _, right, _ = font.getbbox(character, anchor="ls")
        image = Image.new("L", (SIDE, SIDE))
        place = (SIDE / 2 - (left + right) / 2, baseline)
        ImageDraw.Draw(image).text(place, character, fill=255, font=font, anchor="ls")
        images[k] = np.asarray(image)
    return images


def extent(font: ImageFont.FreeTypeFont) -> tuple[float, float]:
    """The highest and the lowest point of a face, in pixels below the baseline."""
    return font.getbbox(TALL, anchor="ls")[1], font.getbbox(DEEP, anchor="ls")[3]


def faces(folder: Path) -> Iterator[Face]:
    """The different faces of a folder, sorted by folder and name."""
    seen = set()
    for place, _, files in sorted(os.walk(folder)):
        for file in sorted(f for f in files if f.lower().endswith((".ttf", ".otf"))):
            path = Path(place, file)
            try:
                face = read_face(path, path.relative_to(folder).as_posix())
            except Exception as error:  # fontTools and FreeType raise many kinds on a damaged font
                print(f"{path} is left out: {error}")
                continue
            if face is not None and (key := face.images.tobytes()) not in seen:
                seen.add(key)
                yield face


def arrays(found: list[Face]) -> dict[str, NDArray[np.generic]]:
    """What `import` reads: features, labels, split, groups, sample_ids, classes and parents."""
    each = len(CHARACTERS)
    above = [each + SUPERCLASSES.index(superclass(c)) for c in CHARACTERS]
    return {
        "features": np.concatenate([face.images for face in found])[..., None],
        "labels": np.tile(np.arange(each, dtype=np.uint8), len(found)),
        "split": np.repeat([np.uint8(2 * face.test) for face in found], each),
        "groups": np.repeat([face.family for face in found], each),
        "sample_ids": np.array([f"{f.path}/u{ord(c):04x}" for f in found for c in CHARACTERS]),
        "classes": np.array([*CHARACTERS, *SUPERCLASSES]),
        "parents": np.array([*above, *[-1] * len(SUPERCLASSES)]),
    }


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts"))
    args = parser.parse_args()
    found = list(faces(args.fonts))
    if not found:
        raise SystemExit(f"no font in {args.fonts} has all 100 characters; name a folder: --fonts")
    np.savez_compressed(args.out, **arrays(found))
    families, test = {face.family for face in found}, sum(face.test for face in found)
    print(
        f"{args.out}: {len(found) * len(CHARACTERS)} images in {len(found)} faces of "
        f"{len(families)} families, {test} faces for the test"
    )


if __name__ == "__main__":
    main()
