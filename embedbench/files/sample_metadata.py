"""Metadata of samples: ids, labels, splits, and the hierarchy of their classes."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Bytes, Ints, Strings
from embedbench.errors import UserError

from . import file_digests

TRAIN, VAL, TEST = 0, 1, 2
SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": TRAIN, "val": VAL, "valid": VAL, "validation": VAL, "test": TEST}


def levels(parents: Ints) -> Ints:
    """Return the level of each class, 1 at the top; 0 where the path upwards never ends.

    Parameters
    ----------
    parents : array of int
        (C,) index of each class's parent, -1 where there is none.
    """
    n = len(parents)
    above = np.append(np.where(parents < 0, n, parents), n)  # n: beyond the top
    steps = np.append(np.ones(n, dtype=np.int64), 0)
    for _ in range(n.bit_length()):  # 1, 2, 4, … steps up: at last more than a path can have
        steps, above = steps + steps[above], above[above]
    return np.where(above < n, 0, steps)[:n]


@dataclass(frozen=True)
class Samples:
    """The samples of a file, without their features.

    Parameters
    ----------
    ids : array of str
        (N,) names that are stable across teams: POSIX path from the source's root, or split/index.
    labels : array of int
        (N,) index of the leaf class.
    split : array of int
        (N,) TRAIN, VAL or TEST.
    classes : tuple of str
        (C,) names; leaves first, then inner nodes.
    parents : array of int
        (C,) index of each class's parent, -1 where there is none.
    """

    ids: Strings
    labels: Ints
    split: Bytes
    classes: tuple[str, ...]
    parents: Ints

    def __post_init__(self) -> None:
        """Convert every field to its type; labels and splits that are not integers are refused."""
        for name, dtype in (("labels", np.int64), ("split", np.uint8), ("parents", np.int64)):
            values = np.asarray(getattr(self, name))
            if values.size and values.dtype.kind not in "iu":
                raise UserError(f"{name} must be integers, not {values.dtype}; convert them first.")
            if name == "split" and values.size and not 0 <= values.min() <= values.max() <= TEST:
                raise UserError("split must hold 0 (train), 1 (val) or 2 (test) only.")
            object.__setattr__(self, name, values.astype(dtype, copy=False))
        object.__setattr__(self, "ids", np.asarray(self.ids, dtype=np.str_))
        object.__setattr__(self, "classes", tuple(str(name) for name in self.classes))

    @property
    def n_leaves(self) -> int:
        """Number of classes that are nobody's parent; labels lie below it."""
        return len(self.classes) - len(np.unique(self.parents[self.parents >= 0]))

    def check(self) -> None:
        """Raise UserError unless the samples form a valid data set."""
        n = len(self.ids)
        if not n:
            raise UserError("no samples; an embedding file needs at least one row.")
        if self.labels.shape != (n,) or self.split.shape != (n,):
            raise UserError(
                f"{n} sample ids, but labels of shape {self.labels.shape} and splits of shape "
                f"{self.split.shape}; give one of each per sample."
            )
        self._check_hierarchy()
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= self.n_leaves:
            bad = low if low < 0 else high
            row = int(np.flatnonzero(self.labels == bad)[0])
            raise UserError(
                f"label {bad} of sample {str(self.ids[row])!r} (row {row}) is out of range: "
                f"there are {self.n_leaves} leaf classes; number the labels from 0 to "
                f"{self.n_leaves - 1}."
            )
        self._check_ids()

    def _check_ids(self) -> None:
        seen: dict[str, int] = {}
        ids = self.ids.tolist()
        if len(set(ids)) == len(ids):
            return
        for row, name in enumerate(ids):
            first = seen.setdefault(name, row)
            if first == row:
                continue
            splits = SPLITS[self.split[first]], SPLITS[self.split[row]]
            if splits[0] != splits[1]:
                raise UserError(
                    f"sample {name!r} is in {splits[0]} (row {first}) and in {splits[1]} "
                    f"(row {row}); keep each sample in one split."
                )
            raise UserError(
                f"sample id {name!r} is in rows {first} and {row}; "
                "give every sample an id of its own."
            )

    def _check_hierarchy(self) -> None:
        n = len(self.classes)
        parents = self.parents
        if not n or parents.shape != (n,):
            raise UserError(f"{n} classes, but parents of shape {parents.shape}; give one a class.")
        if parents.min() < -1 or parents.max() >= n:
            bad = int(np.flatnonzero((parents < -1) | (parents >= n))[0])
            raise UserError(
                f"the parent of class {self.classes[bad]!r} is {parents[bad]}; a parent must be "
                f"-1 or a class below {n}."
            )
        inner = np.unique(parents[parents >= 0])
        leaves = n - len(inner)
        if len(inner) and inner[0] < leaves:
            raise UserError(
                f"class {self.classes[inner[0]]!r} (index {inner[0]}) has children but comes "
                "before a leaf; list the leaf classes first, then the inner nodes."
            )
        for names in (self.classes[:leaves], self.classes[leaves:]):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise UserError(
                    f"class name {twice[0]!r} occurs twice; give each class its own name."
                )
        on = levels(parents)
        if not on.all():
            name = self.classes[int(on.argmin())]
            raise UserError(f"class {name!r} is its own ancestor; parents must form a tree.")

    def digest(self) -> str:
        """Return the SHA-256 of ids, labels, splits and hierarchy, in row order."""
        return file_digests.samples_digest(
            self.ids, self.labels, self.split, self.classes, self.parents
        )
