"""The files of docs/streams.md, as npz that `embedbench import` reads.

    python tools/cut_streams.py faces faces100.npz faces.npz
    python tools/cut_streams.py spoken spoken100.npz spoken.npz
    python tools/cut_streams.py mnist FOLDER mnist.npz
    python tools/cut_streams.py emoji emoji-all.npz emoji.npz

`faces`: the ten families with the most images, eight type faces each, evenly through their names;
every fourth is a test face; the means of 2 x 2 pixels. `spoken`: every fourth speaker by name is a
test speaker; the means of two bands. `mnist`: the first 500 training and 100 test images of each
digit. `emoji`: the npz of `embedbench export`, with the vendor, which is in the sample's name.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.files.formats.mnist_idx import read_idx
from embedbench.files.raw_pixels import pixels_recipe
from embedbench.files.sample_metadata import TEST, TRAIN

Arrays = dict[str, NDArray[Any]]


def halves(values: NDArray[Any]) -> NDArray[np.float16]:
    return values.astype(np.float16)


def faces(source: Path) -> Arrays:
    with np.load(source) as given:
        family, face, labels = given["groups"], given["face"], given["labels"]
        names, counts = np.unique(family, return_counts=True)
        rows, split = [], []
        for name in names[np.argsort(-counts, kind="stable")][:10]:
            each = np.unique(face[family == name])
            for k, chosen in enumerate(each[(np.arange(8) * (len(each) / 8)).astype(int)]):
                mine = np.flatnonzero((family == name) & (face == chosen))
                rows.append(mine)
                split.append(np.full(len(mine), TEST if k % 4 == 3 else 0))
        kept = np.concatenate(rows)
        grey = given["features"][kept][..., 0].astype(np.float32)
        return {
            "features": halves(
                grey.reshape(-1, 16, 2, 16, 2).mean((2, 4)).reshape(len(kept), 256) / 255
            ),
            "labels": labels[kept],
            "class_names": given["class_names"],
            "split": np.concatenate(split),
            "domain": family[kept],
        }


def spoken(source: Path) -> Arrays:
    with np.load(source) as given:
        speaker = given["speaker"]
        bands = given["features"].astype(np.float32).reshape(len(speaker), 10, 64, 2)
        return {
            "features": halves(bands.mean(3).reshape(len(speaker), 640)),
            "labels": given["labels"],
            "class_names": given["class_names"],
            "split": np.where(np.isin(speaker, np.unique(speaker)[3::4]), TEST, 0),
            "domain": speaker,
            "group": speaker,
        }


def mnist(source: Path) -> Arrays:
    samples, images = read_idx(source)
    parts = []
    for split, n in ((TRAIN, 500), (TEST, 100)):
        mine = [np.flatnonzero((samples.split == split) & (samples.labels == d)) for d in range(10)]
        parts.append(np.sort(np.concatenate([rows[:n] for rows in mine])))
    kept = np.concatenate(parts)
    recipe = {**pixels_recipe(), "preprocessing": {"scale": "value", "layout": "row by row"}}
    named = {**recipe, "source": {"name": "mnist-part", "revision": "", "licence": ""}}
    return {
        "features": halves(images[kept].reshape(len(kept), 784) / 255).astype(np.float32),
        "provenance": np.array(json.dumps(named)),
        "labels": samples.labels[kept],
        "class_names": np.array(samples.classes),
        "split": samples.split[kept],
    }


def emoji(source: Path) -> Arrays:
    with np.load(source) as given:
        arrays = {name: given[name] for name in given.files}
    arrays["features"] = halves(arrays["features"])
    arrays["domain"] = np.array([name.rsplit(".", 2)[1] for name in arrays["sample_ids"]])
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    makers: dict[str, Callable[[Path], Arrays]] = {
        f.__name__: f for f in (faces, spoken, mnist, emoji)
    }
    parser.add_argument("what", choices=makers)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    asked = parser.parse_args()
    arrays = makers[asked.what](asked.source)
    np.savez(asked.out or Path(f"{asked.what}.npz"), **arrays)  # type: ignore[arg-type]  # its stub takes the names for options


if __name__ == "__main__":
    main()
