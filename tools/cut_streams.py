"""The files of docs/streams.md, as npz that `embedbench import` reads; and its tables.

    python tools/cut_streams.py faces faces100.npz faces.npz
    python tools/cut_streams.py spoken spoken100.npz spoken.npz
    python tools/cut_streams.py mnist FOLDER mnist.npz
    python tools/cut_streams.py emoji emoji-all.npz emoji.npz
    python tools/cut_streams.py table runs

`faces`: the ten families with the most images, eight type faces each, evenly through their names;
every fourth is a test face; the means of 2 x 2 pixels. `spoken`: every fourth speaker by name is a
test speaker; the means of two bands. `mnist`: the first 500 training and 100 test images of each
digit. `emoji`: the npz of `embedbench export`, with the vendor, which is in the sample's name.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench import load_runs

Arrays = dict[str, NDArray[Any]]
TEST = 2
COLUMNS = {  # of the tables
    "domain-incremental": ("omega_base", "omega_new", "omega_all", "final_accuracy"),
    "instance": ("omega_streaming", "average_incremental_accuracy", "final_accuracy"),
    "mixture": ("omega_all", "average_anytime_accuracy", "final_accuracy", "per_class_forgetting"),
}


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
            "features": grey.reshape(-1, 16, 2, 16, 2).mean((2, 4)).reshape(len(kept), 256) / 255,
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
            "features": bands.mean(3).reshape(len(speaker), 640),
            "labels": given["labels"],
            "class_names": given["class_names"],
            "split": np.where(np.isin(speaker, np.unique(speaker)[3::4]), TEST, 0),
            "domain": speaker,
            "group": speaker,
        }


def mnist(source: Path) -> Arrays:
    parts = []
    for role, n, split in (("train", 500, 0), ("t10k", 100, TEST)):
        labels = _idx(source / f"{role}-labels-idx1-ubyte.gz")
        images = _idx(source / f"{role}-images-idx3-ubyte.gz")
        rows = np.sort(np.concatenate([np.flatnonzero(labels == d)[:n] for d in range(10)]))
        parts.append(
            (images[rows].reshape(len(rows), 784) / 255, labels[rows], [split] * len(rows))
        )
    x, y, split_ = (np.concatenate(values) for values in zip(*parts, strict=True))
    names = np.array(list("0123456789"))
    return {"features": x, "labels": y.astype(np.int64), "class_names": names, "split": split_}


def _idx(path: Path) -> NDArray[np.uint8]:
    data = gzip.decompress(path.read_bytes())
    axes = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(axes)


def emoji(source: Path) -> Arrays:
    with np.load(source) as given:
        arrays = {name: given[name] for name in given.files}
    arrays["domain"] = np.array([name.rsplit(".", 2)[1] for name in arrays["sample_ids"]])
    return arrays


def table(root: Path) -> None:
    """Print a table for each stream: learners by the metrics of their protocol, percent or Ω."""
    streams: dict[str, list[Any]] = {}
    for run in (loaded.record for loaded in load_runs(root)):
        given = run.protocol_params
        named = [given[k] for k in ("setting", "ordering", "test") if k in given]
        streams.setdefault(" · ".join([run.files[0].name, run.protocol, *named]), []).append(run)
    for name, runs in streams.items():
        metrics = COLUMNS[runs[0].protocol]
        print(f"\n**{name}**\n\n| learner | {' | '.join(metrics)} |")
        print("|---" * (len(metrics) + 1) + "|")
        for run in sorted(runs, key=lambda r: -r.metrics["final_accuracy"]):
            values = [f"{run.metrics[m]:.3f}".replace("nan", "–") for m in metrics]
            print(f"| `{run.learner}` | {' | '.join(values)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    makers: dict[str, Callable[[Path], Arrays]] = {
        f.__name__: f for f in (faces, spoken, mnist, emoji)
    }
    parser.add_argument("what", choices=[*makers, "table"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    asked = parser.parse_args()
    if asked.what == "table":
        table(asked.source)
        return
    arrays = makers[asked.what](asked.source)
    arrays["features"] = arrays["features"].astype(np.float16)
    np.savez(asked.out or Path(f"{asked.what}.npz"), **arrays)  # type: ignore[arg-type]  # its stub takes the names for options


if __name__ == "__main__":
    main()
