"""What the official package says about IIRC: makes the fixtures and the shipped lists.

Run where the PyPI package `iirc` 1.0.1 and NumPy are installed, and nothing of this project:

    python tools/iirc_official.py fixtures tests/protocols/iirc_official.json
    python tools/iirc_official.py lists embedbench/assets/iirc

The fixtures of ImageNet take some minutes. The package's own data set code divides synthetic label
lists; images are stubs that carry the number of their row. A fixture is a hash for every session of
the (row, class) pairs that it shows, see `pairs_hash`. Rows are those of `iirc_files.label_list`:
class r mod K for row r, training rows first.
"""

import contextlib
import hashlib
import importlib
import io
import json
import os
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

# classes, training and test samples of each class, of the synthetic label lists
LISTS = {
    "iirc-cifar": (100, 500, 100),
    "iirc-imagenet-full": (998, 1300, 50),
    "iirc-imagenet-lite": (998, 1300, 50),
    "incremental-cifar": (100, 500, 100),
    "incremental-imagenet-full": (1000, 50, 2),
    "incremental-imagenet-lite": (1000, 50, 2),
}
PARTS = {"train": "train", "intask": "intask_valid", "posttask": "posttask_valid", "test": "test"}


def pairs_hash(rows: Any, classes: Any) -> str:
    """16 hex digits of the SHA-256 of (row, class) pairs, sorted, as little-endian int64.

    Classes count through all names of the list, leaves and inner nodes, in alphabetical order.
    """
    pairs = np.stack([np.asarray(rows), np.asarray(classes)], axis=1).astype("<i8")
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return hashlib.sha256(pairs.tobytes()).hexdigest()[:16]


class _Pixels:
    """Stands for an image; the reshaped, transposed and opened image is its row number."""

    def __init__(self, row: int) -> None:
        self.row = row

    def reshape(self, *_: Any) -> "_Pixels":
        return self

    transpose = reshape


class _Rows:
    """Stands for the array of all images, from row `first` on."""

    def __init__(self, first: int) -> None:
        self.first = first

    def __getitem__(self, index: int) -> _Pixels:
        return _Pixels(self.first + int(index))


def _package() -> tuple[Any, Any]:
    """The package's loader and its data set class, without Pillow."""
    pillow, image = types.ModuleType("PIL"), types.ModuleType("PIL.Image")
    image.Image = object
    image.fromarray = lambda pixels: pixels.row
    pillow.Image = image
    sys.modules |= {"PIL": pillow, "PIL.Image": image}
    loader = importlib.import_module("iirc.datasets_loader")
    base = importlib.import_module("iirc.lifelong_dataset.base_dataset").BaseDataset

    class Dataset(base):
        def __getitem__(self, index: int) -> Any:
            return self.get_item(index)

    return loader, Dataset


def _datasets(loader: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Samples as the package loads them, by part, images replaced by row numbers; its settings."""
    k, train, test = LISTS[name]
    if name.endswith("cifar"):
        names = sorted(_metadata(loader, "cifar100_classes")["classes"])
        raw = {
            "train": {b"data": _Rows(0), b"fine_labels": np.arange(k * train) % k},
            "test": {b"data": _Rows(k * train), b"fine_labels": np.arange(k * test) % k},
            "meta": {b"fine_label_names": [n.encode() for n in names]},
        }
        loader.unpickle = lambda path: raw[os.path.basename(path)]
        return loader._get_dataset(_official(name), "root")
    wnids = sorted(_wnids(loader, name))
    counts, listdir = {"train": train, "val": test}, os.listdir

    def listed(path: str) -> list[str]:
        parent, folder = os.path.split(path)
        if folder in counts:
            return wnids
        return [f"{i:05d}.JPEG" for i in range(counts[os.path.basename(parent)])]

    os.listdir = listed
    try:
        datasets, settings = loader._get_dataset(_official(name), "root")
    finally:
        os.listdir = listdir
    index, first = {w: i for i, w in enumerate(wnids)}, {"train": 0, "val": k * train}

    def row(path: str) -> int:
        _, split, wnid, file = path.split("/")
        return first[split] + int(file[:5]) * k + index[wnid]

    return {p: [(row(path), y) for path, y in d] for p, d in datasets.items()}, settings


def _official(name: str) -> str:
    return name.replace("-", "_").replace("cifar", "cifar100")


def _metadata(loader: Any, stem: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(loader.metadata_root) / f"{stem}.json").read_text())
    return found


def _wnids(loader: Any, name: str) -> list[str]:
    if name.startswith("incremental"):
        found: list[str] = _metadata(loader, "imagenet_classes")["classes"]
        return found
    told = _metadata(loader, "iirc_imagenet_hierarchy_wnids")
    return [c for v in told["super_classes"].values() for c in v] + list(told["other_sub_classes"])


def _configurations(loader: Any, name: str) -> list[list[list[str]]]:
    stem = _official(name) + "_task_configurations"
    n = len(_metadata(loader, stem))
    return [loader._get_tasks_configuration(_official(name), i)[0] for i in range(n)]


def _parents(loader: Any, name: str) -> dict[str, str | None]:
    """The class above each one, None at the top; leaves in the package's order."""
    if name == "incremental-cifar":
        return dict.fromkeys(_metadata(loader, "cifar100_classes")["classes"])
    if name.startswith("incremental"):
        return dict.fromkeys(_metadata(loader, "imagenet_classes")["classes"])
    stem = "cifar100_hierarchy" if name == "iirc-cifar" else "imagenet_hierarchy_wnids"
    told = _metadata(loader, f"iirc_{stem}")
    found = {c: node for node, below in told["super_classes"].items() for c in below}
    return found | dict.fromkeys(told["other_sub_classes"]) | dict.fromkeys(told["super_classes"])


# --- fixtures ---


def _shown(data: Any, number: dict[str, int]) -> str:
    """The hash of what a data set shows now: its rows with the labels that it gives them."""
    rows, classes = [], []
    for index in range(len(data.cur_task_data_ids)):
        row, *labels = data.get_item(index)
        for label in labels:
            if label != "None":
                rows.append(row)
                classes.append(number[label])
    return pairs_hash(rows, classes)


def _sessions(data: Any, tasks: Iterable[int], number: dict[str, int]) -> list[str]:
    """A hash a session, from an unseen start."""
    data.seen_classes, found = [], []
    for task in tasks:
        data.choose_task(task)
        found.append(_shown(data, number))
    return found


def fixtures(loader: Any, cls: Any, name: str) -> list[dict[str, list[str]]]:
    """Hashes of every session of every configuration, by part.

    Training data is divided once, with the sessions of all configurations one after the other: the
    package divides it session by session, and to do so again for each would take an hour.
    """
    datasets, settings = _datasets(loader, name)
    configurations = _configurations(loader, name)
    number = {c: i for i, c in enumerate(sorted(_parents(loader, name)))}
    setup = "CIL" if name.startswith("incremental") else "IIRC"
    shares = {
        "superclass_data_pct": settings["superclass_data_pct"],
        "subclass_data_pct": settings["subclass_data_pct"],
        "superclass_sampling_size_cap": settings["superclass_sampling_size_cap"],
    }
    found: list[dict[str, list[str]]] = [{} for _ in configurations]
    for part, official in PARTS.items():
        joined = [task for tasks in configurations for task in tasks]
        test = part in ("posttask", "test")
        data = cls(datasets[official], joined, setup=setup, test_mode=test, **shares)
        first = 0
        for i, tasks in enumerate(configurations):
            numbers = range(first, first + len(tasks))
            found[i][part] = _sessions(data, numbers, number)
            first += len(tasks)
    if name == "iirc-cifar":
        for i, tasks in enumerate(configurations):
            found[i] |= _told_more(cls(datasets["train"], tasks, **shares), number)
    return found


def _told_more(data: Any, number: dict[str, int]) -> dict[str, list[str]]:
    """Training data with complete information, of one session and of all so far."""
    data.enable_complete_information_mode()
    sessions = range(len(data.tasks))
    found = {"complete": _sessions(data, sessions, number), "cumulative": []}
    data.seen_classes = []
    for task in sessions:
        data.load_tasks_up_to(task)
        found["cumulative"].append(_shown(data, number))
    return found


# --- lists ---


def lists(loader: Any, name: str) -> str:
    """The hierarchy and the configurations in the project's form, a session a line."""
    told = {"source": f"PyPI iirc 1.0.1, {_official(name)}", "parents": _parents(loader, name)}
    if "imagenet" in name:
        words = _metadata(loader, "iirc_imagenet_hierarchy_words")
        wnids = _metadata(loader, "iirc_imagenet_hierarchy_wnids")
        both = [*zip(wnids["super_classes"].values(), words["super_classes"].values(), strict=True)]
        both.append((wnids["other_sub_classes"], words["other_sub_classes"]))
        told["words"] = {a: b for ids, names in both for a, b in zip(ids, names, strict=True)}
    head = json.dumps(told, ensure_ascii=False, separators=(",", ":"))[:-1]
    body = ",\n\n".join(
        ",\n".join(json.dumps(s, separators=(",", ":")) for s in tasks).join("[]")
        for tasks in _configurations(loader, name)
    )
    return f'{head},\n"configurations":[\n{body}\n]}}\n'


def main(what: str, where: str, *names: str) -> None:
    """Write the fixtures (one file) or the lists (one file each) of all names, or of some."""
    loader, cls = _package()
    path = Path(where)
    if what == "lists":
        for name in names or LISTS:
            (path / f"{name}.json").write_text(lists(loader, name), encoding="utf-8")
        return
    found = json.loads(path.read_text()) if path.exists() else {}
    for name in names or LISTS:
        with contextlib.redirect_stdout(io.StringIO()):
            found[name] = fixtures(loader, cls, name)
    text = json.dumps(found, indent=0).replace(',\n"', ',"') + "\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
