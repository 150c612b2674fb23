"""The protocol contract: embedding files in, a stream out; and what protocols share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Ints, digest
from embedbench.errors import UserError, unknown
from embedbench.files.file import FINAL, EmbeddingFile
from embedbench.files.layout import PIXELS
from embedbench.files.samples import TEST, TRAIN, VAL

from .layers import layer_columns
from .stream import EvalSet, Session, Stream, StreamSpec
from .table import Images, Table, View, standardised

ORDERS = ("natural", "random", "size")
SCALES = ("auto", "none", "l2", "rms", "standard")


@dataclass(kw_only=True)
class Protocol(ABC):
    """How embedding files become a stream. Fields are its parameters; the seed is not one.

    Parameters
    ----------
    validation : "train": the file's own validation split, or `val_fraction` of each class's
        training samples where it has none. "test": the test data of the session, to imitate a
        paper; flagged
    val_fraction : share of each class's training samples, in (0, 1)
    scale : "none"; "l2" (each vector to length 1); "rms" (each vector to root mean square 1, so
        to length √D); "standard" (mean 0, deviation 1 per column over session 0's training data,
        clipped to ±5); "auto": none for flat pixels, standard otherwise. Images: "none" (values
        between 0 and 1), "standard" (per channel, not clipped) or "auto" (standard)
    observe_batch : samples in the batches that online learners are given; 0: the stream is not
        online, and learners get whole sessions
    evaluate_every : samples of the stream after which online learners are evaluated, besides the
        ends of the sessions; 0: never
    """

    validation: str = "train"
    val_fraction: float = 0.1
    scale: str = "auto"
    observe_batch: int = 10
    evaluate_every: int = 0

    name: ClassVar[str]
    normalise_new: ClassVar[bool] = False
    teaches_all: ClassVar[bool] = True  # every training sample comes; False: by design some do not
    several_files: ClassVar[bool] = False  # takes two files or more instead of one

    def __post_init__(self) -> None:
        if self.validation not in ("train", "test"):
            raise unknown("validation", self.validation, ("train", "test"))
        if self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES)
        if not 0 < self.val_fraction < 1:
            raise UserError(f"val_fraction must lie in (0, 1), got {self.val_fraction}")
        for what, number, least in (
            ("observe_batch", self.observe_batch, 0),
            ("evaluate_every", self.evaluate_every, 0),
        ):
            if number < least:
                raise UserError(f"{what} must be at least {least}, got {number}")

    @abstractmethod
    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        """Make the stream; `seed` draws orders and permutations only."""

    def recipe(self) -> str:
        """Name and parameters as canonical JSON; an order file by its content, not its path."""
        told = {"protocol": self.name, **dataclasses.asdict(self)}
        if told.get("order", "natural") not in ORDERS:
            told["order"] = Path(told["order"]).read_text(encoding="utf-8")
        return json.dumps(told, sort_keys=True)

    def order_record(self) -> dict[str, Any] | None:
        """What a record keeps of the class order: its kind, and of a file its name and SHA-256;
        None where the protocol orders no classes."""
        order = getattr(self, "order", None)
        if order is None:
            return None
        if order in ORDERS:
            return {"kind": order, "name": None, "digest": None}
        data = Path(order).read_bytes()
        told = _order_file(order)[1]
        sha = hashlib.sha256(data).hexdigest()
        return {"kind": told.get("kind", "file"), "name": Path(order).name, "digest": sha}


@dataclass(frozen=True)
class Split:
    """Row numbers of one file by role, (n,) each, ascending."""

    train: Ints
    val: Ints
    test: Ints


def one_file(files: Sequence[EmbeddingFile], name: str) -> EmbeddingFile:
    """The only file; an error where a protocol is given several."""
    if len(files) != 1:
        raise UserError(f"protocol {name!r} takes one embedding file, got {len(files)}")
    return files[0]


def split_rows(file: EmbeddingFile, validation: str, val_fraction: float) -> Split:
    """Roles of the rows. Validation is carved per class, the same for every seed and class order.

    Each class keeps at least one training sample; a class of two to five samples gives one.
    """
    train, val, test = (np.flatnonzero(file.split == s) for s in (TRAIN, VAL, TEST))
    for rows, role in ((train, "training"), (test, "test")):
        if len(rows) == 0:
            raise UserError(
                f"{file.path.name} has no {role} samples; give it a split (--split) when it is made"
            )
    if validation == "test":
        return Split(np.sort(np.concatenate([train, val])), test, test)
    if len(val) == 0:
        rng = np.random.default_rng(0)
        held = []
        for c in np.unique(file.labels[train]):
            rows = rng.permutation(train[file.labels[train] == c])
            held.append(rows[: min(max(1, round(val_fraction * len(rows))), len(rows) - 1)])
        val = np.sort(np.concatenate(held))
        train = np.setdiff1d(train, val)
    return Split(train, val, test)


def load_table(
    file: EmbeddingFile,
    scale: str,
    base_rows: Ints,
    layers: Sequence[str] = (),
    embedding: str = FINAL,
) -> tuple[Table, str, str]:
    """Read a file's embeddings once, followed by the named layers, each part scaled in place; or
    its images, scaled as they are shown.

    `base_rows`, (n,): training rows of session 0, the only data that "standard" may look at.
    A layer given as `embedding` takes the place of the final one, in the digest too.
    Returns the table, its features digest, and the digest of the rows the scaling was fitted to.
    """
    file.tables(layers, embedding)  # refuses unknown ones
    if scale == "auto":
        pixels = file.provenance.get("backbone", {}).get("name") == "pixels"
        scale = "none" if pixels else "standard"
    fitted = digest("fitted", base_rows) if scale == "standard" else ""
    shown = [*([] if embedding == FINAL else [f"{embedding} is the embedding"]), *layers]
    features = digest("features", file.digests["content"], scale, *shown)
    if file.kind == PIXELS:
        return _load_images(file, scale, base_rows), features, fitted
    x = file.read(layers, embedding)
    columns = layer_columns(file, layers, embedding).values()
    for first, end in ((0, file.width(embedding)), *columns):
        _scale(x[:, first:end], scale, base_rows)
    return Table(x), features, fitted


def _load_images(file: EmbeddingFile, scale: str, base_rows: Ints) -> Images:
    if scale not in ("none", "standard"):
        raise UserError(
            f"scale {scale!r} is for vectors, and {file.path.name} holds images; use --set "
            "protocol.scale=standard or none"
        )
    return standardised(file.images(), base_rows) if scale == "standard" else Images(file.images())


def _scale(x: NDArray[np.float32], scale: str, base_rows: Ints) -> None:
    """Scale one embedding (N, D) in place."""
    if scale in ("l2", "rms"):
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.float32(1e-12))
        if scale == "rms":
            x *= np.float32(np.sqrt(x.shape[1]))
    elif scale == "standard":
        base = x[base_rows]
        x -= base.mean(axis=0, dtype=np.float64).astype(np.float32)
        x /= np.maximum(base.std(axis=0, dtype=np.float64), 1e-6).astype(np.float32)
        np.clip(x, -5, 5, out=x)


def class_order(order: str, file: EmbeddingFile, seed: int) -> Ints:
    """Resolve an order to class indices, (C,): "natural", "random" (seeded), "size" (classes with
    the most training and validation samples first, equal ones as in the file), or an order file.

    An order file is a JSON list (or an object with key "order") of class names or indices, or a
    text file with one a line; it must hold every leaf class once.
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
    found = [i if isinstance(i, int) else index.get(str(i), _as_int(str(i))) for i in items]
    bad = [str(i) for i, f in zip(items, found, strict=True) if not 0 <= f < n]
    if bad:
        raise UserError(f"{path} names {bad[0]!r}, which is not one of the file's {n} classes")
    if sorted(found) != list(range(n)):
        raise UserError(
            f"{path} must hold each of the {n} classes once; it holds {len(set(found))} of them "
            f"in {len(found)} entries"
        )
    return np.array(found, dtype=np.int64)


def _order_file(order: str) -> tuple[list[Any], dict[str, Any]]:
    """The entries of an order file, and what a JSON object says beside them."""
    path = Path(order)
    if not path.is_file():
        raise UserError(
            f"order is 'natural', 'random', 'size' or a file; there is no file {order!r}"
        )
    text = path.read_text(encoding="utf-8")
    try:
        loaded = json.loads(text)
        told = loaded if isinstance(loaded, dict) else {}
        items = loaded["order"] if told else loaded
    except (json.JSONDecodeError, KeyError):
        return [line.strip() for line in text.splitlines() if line.strip()], {}
    if not isinstance(items, list):
        raise UserError(f"{path} must hold a JSON list of classes, or one class a line")
    return items, told


def order_notes(order: str, file: EmbeddingFile, sizes: Sequence[int]) -> tuple[str, ...]:
    """What a reader must know where an order file was made for other samples or sessions.

    Parameters
    ----------
    sizes : classes of each session of the stream
    """
    if order in ORDERS:
        return ()
    told, notes = _order_file(order)[1], []
    made_for = told.get("file", {}).get("digests", {}).get("samples")
    if made_for not in (None, file.digests["samples"]):
        notes.append("the class order was made from other samples than this file's")
    if "-task-" in told.get("kind", "") and told.get("sizes") != list(sizes):
        notes.append("the class order was made for sessions of other sizes than this stream's")
    return tuple(notes)


def _as_int(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else -1


def view_session(
    table: Table,
    file: EmbeddingFile,
    split: Split,
    *,
    classes: Ints,
    introduces: Ints | None = None,
    columns: Ints | None = None,
) -> tuple[Session, EvalSet]:
    """The session and eval set of `classes`, seen through a permutation of columns or pixels."""
    width = table.width
    mask = np.zeros(file.samples.n_leaves, dtype=np.bool_)
    mask[classes] = True

    def take(rows: Ints) -> tuple[View, Ints]:
        rows = rows[mask[file.labels[rows]]]
        return View(table, rows, width, columns), file.labels[rows].astype(np.int64)

    (x, y), (val_x, val_y), (test_x, test_y) = take(split.train), take(split.val), take(split.test)
    session = Session(
        x=x,
        y=y,
        val_x=val_x,
        val_y=val_y,
        ids=x.rows,
        classes=classes if introduces is None else introduces,
    )
    return session, EvalSet(x=test_x, y=test_y, ids=test_x.rows, classes=mask)


def flat_spec(
    table: Table, file: EmbeddingFile, layers: Sequence[str] = (), embedding: str = FINAL
) -> StreamSpec:
    """The spec of a single-label stream over one file's leaf classes."""
    return StreamSpec(
        input_shape=table.shape_of(table.width),
        n_classes=file.samples.n_leaves,
        layers=layer_columns(file, layers, embedding),
        scaling=table.scaling,
    )
