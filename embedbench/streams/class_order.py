"""The order of the classes in a stream: natural, drawn, or from an order file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.arrays import Ints
from embedbench.errors import UserError
from embedbench.files.file import EmbeddingFile
from embedbench.files.samples import TEST

ORDERS = ("natural", "random", "size")


def class_order(order: str, file: EmbeddingFile, seed: int) -> Ints:
    """Resolve an order to class indices, (C,).

    Parameters
    ----------
    order : str
        "natural"; "random" (seeded); "size" (by decreasing number of training and validation
        samples, ties as in the file); or the path of an order file. An order file is a JSON list of
        class names or indices, a JSON object with such a list at "order", or a text file with one
        class per line. It must hold every leaf class once.
    file : EmbeddingFile
        The file that holds the classes.
    seed : int
        Seed of "random".
    """
    n = file.samples.n_leaves
    if order == "natural":
        return np.arange(n)
    if order == "random":
        return np.random.default_rng(seed).permutation(n)
    if order == "size":
        return np.argsort(-np.bincount(file.labels[file.split != TEST], minlength=n), kind="stable")
    path, items = Path(order), _order_file(order)[0]
    index = {c: i for i, c in enumerate(file.classes[:n])}
    indices = [i if isinstance(i, int) else index.get(str(i), _as_int(str(i))) for i in items]
    bad = [str(i) for i, f in zip(items, indices, strict=True) if not 0 <= f < n]
    if bad:
        raise UserError(f"{path} names {bad[0]!r}, which is not one of the file's {n} classes")
    if sorted(indices) != list(range(n)):
        raise UserError(
            f"{path} must hold each of the {n} classes once; it holds {len(set(indices))} of them "
            f"in {len(indices)} entries"
        )
    return np.array(indices, dtype=np.int64)


def _order_file(order: str) -> tuple[list[Any], dict[str, Any]]:
    """The entries of an order file, and the whole object if it is a JSON object."""
    path = Path(order)
    if not path.is_file():
        raise UserError(
            f"order is 'natural', 'random', 'size' or a file; there is no file {order!r}"
        )
    text = path.read_text(encoding="utf-8")
    try:
        loaded = json.loads(text)
        content = loaded if isinstance(loaded, dict) else {}
        items = loaded["order"] if content else loaded
    except (json.JSONDecodeError, KeyError):
        return [line.strip() for line in text.splitlines() if line.strip()], {}
    if not isinstance(items, list):
        raise UserError(f"{path} must hold a JSON list of classes, or one class a line")
    return items, content


def order_notes(order: str, file: EmbeddingFile, sizes: Sequence[int]) -> tuple[str, ...]:
    """Notes for the reader, if an order file was made for other samples or other sessions.

    Parameters
    ----------
    sizes : sequence of int
        Number of classes in each session of the stream.
    """
    if order in ORDERS:
        return ()
    content, notes = _order_file(order)[1], []
    made_for = content.get("file", {}).get("digests", {}).get("samples")
    if made_for not in (None, file.digests["samples"]):
        notes.append("the class order was made from other samples than this file's")
    if "-task-" in content.get("kind", "") and content.get("sizes") != list(sizes):
        notes.append("the class order was made for sessions of other sizes than this stream's")
    return tuple(notes)


def _as_int(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else -1
