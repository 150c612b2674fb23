"""A part of `make_faces.py`'s images as a zip that `embedbench extract` reads.

    python tools/cut_faces.py faces.npz faces-a.zip --every 8 --first 0 --order 0

`train/SUPERCLASS/NUMBER/FACE.png` has every 8th training face from the first, `test/…` all test
faces. The classes are numbered anew by a permutation drawn from `--order`, so that a base session
of the first classes is a random choice of characters.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

SPLITS = {"train": 0, "test": 2}
STAMP = (1980, 1, 1, 0, 0, 0)  # of every member: the same images give the same bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--every", type=int, default=8, help="of the training faces")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--order", type=int, default=0, help="seed of the classes' numbers")
    asked = parser.parse_args()
    with np.load(asked.source) as given:
        arrays = {name: given[name] for name in ("features", "labels", "split")}
        superclasses = given["superclasses"]
    numbers = np.random.default_rng(asked.order).permutation(len(superclasses))
    with zipfile.ZipFile(asked.out, "w") as archive:
        for name, code in SPLITS.items():
            for label, number in enumerate(numbers):  # each class has the faces in one order
                rows = np.flatnonzero((arrays["split"] == code) & (arrays["labels"] == label))
                for face, row in enumerate(rows):
                    if name == "train" and face % asked.every != asked.first:
                        continue
                    image = io.BytesIO()
                    Image.fromarray(arrays["features"][row, ..., 0]).save(image, "png")
                    place = f"{name}/{superclasses[label]}/{number:02}/{face:03}.png"
                    archive.writestr(zipfile.ZipInfo(place, STAMP), image.getvalue())


if __name__ == "__main__":
    main()
