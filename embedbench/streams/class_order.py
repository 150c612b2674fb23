"""The order of the classes in a stream: natural, drawn, or from an order file."""

import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.format_versions import check_schema
from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST
from embedbench.storage.regular_files import read_text

SCHEMA = "embedbench-order/1.0"  # of the files that `make_class_order` makes
ORDERS = ("natural", "random", "size", "icarl1993")
_PAPER = "Masana et al. (2020)"
# Every order that has a name: what it is, with its source, and how many classes it orders. `run`
# takes the first four by name, `order` writes the others to a file.
NAMED = {
    "natural": ("as in the file", "any"),
    "random": ("drawn by the seed", "any"),
    "size": ("largest classes first, for run --order alone", "any"),
    "icarl1993": ("drawn by NumPy's seed 1993, as in iCaRL's code (Rebuffi et al., 2017)", "any"),
    "icarl_87": ("of CIFAR-100, begins with 87, as libraries repeat it from iCaRL's code", "100"),
    "coarse": ("group by group of the file's hierarchy, or of CIFAR-100's superclasses", "any"),
    "max-confusion": (f"classes that a probe confuses lie side by side, {_PAPER}", "any"),
    "min-confusion": (f"classes that a probe confuses lie far apart, {_PAPER}", "any"),
    "increasing-task-confusion": (f"late sessions are the most confused, {_PAPER}", "any"),
    "equal-task-confusion": (f"all confusion within sessions, {_PAPER}", "any"),
    "decreasing-task-confusion": (f"early sessions are the most confused, {_PAPER}", "any"),
    **{
        f"cifar100-{kind}-confusion": (f"of CIFAR-100, published by {_PAPER}", "100")
        for kind in ("max", "min", "increasing-task", "equal-task", "decreasing-task")
    },
}


def class_order(order: str, file: EmbeddingFile, seed: int) -> Ints:
    """Resolve an order to class indices, (C,).

    Parameters
    ----------
    order : str
        "natural"; "random" (seeded); "size" (by decreasing number of training and validation
        samples, ties as in the file); "icarl1993" (see `icarl1993`); or the path of an order
        file. An order file is a JSON list of class names or indices, a JSON object with such a list
        at "order", or a text file with one class per line. It must hold every leaf class once.
    file, seed : EmbeddingFile, int
        The file that holds the classes, and the seed of "random".
    """
    n = file.samples.n_leaves
    if order == "natural":
        return np.arange(n)
    if order == "random":
        return np.random.default_rng(seed).permutation(n)
    if order == "size":
        return np.argsort(-np.bincount(file.labels[file.split != TEST], minlength=n), kind="stable")
    if order == "icarl1993":
        return icarl1993(file)
    path, items = Path(order), _order_file(order).order
    index = {c: i for i, c in enumerate(file.classes[:n])}
    indices = [i if isinstance(i, int) else index.get(str(i), _as_int(str(i))) for i in items]
    if sorted(indices) != list(range(n)):
        # without its text: a study of another person may name any file of this machine
        known = len({*indices} & {*range(n)})
        raise UserError(
            f"{path} must hold each of the {n} classes once; it holds {known} of them in "
            f"{len(indices)} entries"
        )
    return np.array(indices, dtype=np.int64)


def icarl1993(file: EmbeddingFile) -> Ints:
    """iCaRL's `np.random.seed(1993); np.random.shuffle(order)`, over CIFAR-100's own numbers."""
    numbers = np.random.RandomState(1993).permutation(file.samples.n_leaves)
    labels = cifar100_labels(file)
    return numbers if labels is None else labels[numbers]


def published_orders() -> dict[str, list[Any]]:
    """The orders of CIFAR-100 that ship, by name, and its classes."""
    asset = resources.files("embedbench") / "assets" / "cifar100_orders.json"
    published: dict[str, list[Any]] = json.loads(asset.read_text(encoding="utf-8"))
    return published


def cifar100_labels(file: EmbeddingFile) -> Ints | None:
    """(100,) the file's class for each label of CIFAR-100; None for other data."""
    leaves = [name.lower().replace(" ", "_") for name in file.classes[: file.samples.n_leaves]]
    names = published_orders()["classes"]
    if sorted(leaves) != sorted(names):
        return None
    return np.array([leaves.index(name) for name in names])


@dataclass(frozen=True)
class _OrderFile(JsonRecord):
    """An order file; `embedbench.streams.make_class_order.make_order` has more keys."""

    order: tuple[str | int, ...]
    kind: str = ""


def _order_file(order: str) -> _OrderFile:
    """The content of an order file."""
    path = Path(order)
    if not path.is_file():
        raise UserError(
            f"order is {', '.join(map(repr, ORDERS))} or a file; there is no file {order!r}"
        )
    text = read_text(path)
    try:
        loaded = parse_json(text, order)
    except UserError:
        return _OrderFile(tuple(line.strip() for line in text.splitlines() if line.strip()))
    if not isinstance(loaded, list | dict):
        raise UserError(f"{path} must hold a JSON list of classes, or one class a line")
    schema = loaded.get("schema") if isinstance(loaded, dict) else None
    if isinstance(schema, str) and schema.startswith("embedbench-order/"):  # not of another tool
        check_schema(order, schema, SCHEMA, "embedbench order writes one")
    return _OrderFile.from_json({"order": loaded} if isinstance(loaded, list) else loaded, order)


def _as_int(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else -1
