"""Class hierarchies of any depth over the classes of an embedding file, and published class orders.

A hierarchy is a forest. Its nodes are numbered leaves first, as in an embedding file.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile

# published hierarchies that ship with the project, and the validation fraction of their authors
PUBLISHED = {
    "iirc-cifar": 0.1,
    "iirc-imagenet-full": 0.04,
    "iirc-imagenet-lite": 0.04,
    "incremental-cifar": 0.1,
    "incremental-imagenet-full": 0.04,
    "incremental-imagenet-lite": 0.04,
}


MOST = 10_000  # classes of a hierarchy: a table of all pairs is made


@dataclass(frozen=True)
class Hierarchy:
    """A class hierarchy over the classes of an embedding file. K nodes, leaves first.

    Parameters
    ----------
    name : str
        Name of the hierarchy in messages.
    classes : tuple of str
        (K,) names.
    parents : array of int
        (K,) the node above each one, -1 at the top.
    leaf : array of int
        (L,) the leaf of each of the file's L labels; -1 if the hierarchy lacks it.
    configurations : tuple of tuple of array of int
        Class orders that the hierarchy comes with, each a list of sessions of nodes; may be empty.
    """

    name: str
    classes: tuple[str, ...]
    parents: Ints
    leaf: Ints
    configurations: tuple[tuple[Ints, ...], ...] = ()

    @cached_property
    def above(self) -> Bools:
        """(K, K) row k: node k itself and all nodes above it."""
        above = np.eye(len(self.parents), dtype=np.bool_)
        at = self.parents.copy()
        while len(k := np.flatnonzero(at != -1)):
            above[k, at[k]] = True
            at[k] = self.parents[at[k]]
        return above

    @cached_property
    def n_leaves(self) -> Ints:
        """(K,) leaves at or below each node."""
        is_leaf = ~np.isin(np.arange(len(self.parents)), self.parents)
        counts: Ints = self.above[is_leaf].sum(axis=0)
        return counts

    def chain(self, leaf: int) -> list[int]:
        """The nodes from the top down to a leaf."""
        nodes = [leaf]
        while (parent := int(self.parents[nodes[-1]])) != -1:
            nodes.append(parent)
        return nodes[::-1]


# --- where hierarchies come from ---


def file_hierarchy(file: EmbeddingFile) -> Hierarchy:
    """The hierarchy that an embedding file carries."""
    name = file.path.name
    n = len(file.classes)
    if n > MOST:
        raise UserError(f"{name} has {n:,} classes; iirc takes at most {MOST:,}")
    return Hierarchy(name, file.classes, file.parents, np.arange(file.samples.n_leaves))


def named_hierarchy(name: str, file: EmbeddingFile) -> Hierarchy:
    """A published hierarchy over the classes of an embedding file.

    Its JSON object has `parents`, {class: the class above it, or null}; `configurations`, a list of
    class orders, each a list of sessions of names; and maybe `words`, {leaf: another name}.
    """
    loaded = json.loads(hierarchy_text(name))
    words = loaded.get("words", {})
    parents = loaded["parents"]  # by class, the one above it
    inner = {above for above in parents.values() if above is not None}
    for above in list(parents.values()):
        if above is not None:
            parents.setdefault(above, None)  # one at the top need not be listed
    leaves = [c for c in parents if c not in inner]
    classes = [*leaves, *[c for c in parents if c in inner]]
    number = {c: k for k, c in enumerate(classes)}
    leaf = np.full(file.samples.n_leaves, -1)
    leaf[_labels(name, leaves, words, file)] = np.arange(len(leaves))
    configurations = []
    for sessions in loaded["configurations"]:
        nodes = [np.array([number[c] for c in session], dtype=np.int64) for session in sessions]
        configurations.append(tuple(nodes))
    return Hierarchy(
        name,
        tuple(f"{words[c]} ({c})" if c in words else c for c in classes),
        np.array([-1 if parents[c] is None else number[parents[c]] for c in classes]),
        leaf,
        tuple(configurations),
    )


def hierarchy_text(name: str) -> str:
    """The JSON text of a published hierarchy."""
    if name not in PUBLISHED:
        raise unknown("hierarchy", name, ["file", *PUBLISHED])
    asset = resources.files("embedbench") / "assets" / "iirc" / f"{name}.json"
    return asset.read_text(encoding="utf-8")


def _labels(
    name: str, leaves: Sequence[str], words: dict[str, str], file: EmbeddingFile
) -> list[int]:
    """The file's label of each leaf, each another one.

    A leaf matches by either of its names: exactly, or without regard to case and separators if that
    names only one class.
    """
    file_classes = file.classes[: file.samples.n_leaves]
    count = Counter(map(_plain, file_classes))
    exact = {c: k for k, c in enumerate(file_classes)}
    plain = {_plain(c): k for k, c in enumerate(file_classes) if count[_plain(c)] == 1}
    labels: list[int] = []
    missing = []
    for leaf in leaves:
        names = [leaf, words.get(leaf, leaf)]
        hits = [exact[n] for n in names if n in exact]
        hits += [plain[_plain(n)] for n in names if _plain(n) in plain]
        if hits and hits[0] not in labels:
            labels.append(hits[0])
        else:
            missing.append(leaf)
    if missing:
        raise UserError(
            f"{file.path.name} lacks {len(missing)} of the {len(leaves)} classes of hierarchy "
            f"{name}, or has no training samples of them, the first {missing[0]!r}",
            "take a file that has them, or hierarchy=file",
        )
    return labels


def _plain(name: str) -> str:
    return name.casefold().replace("_", " ").replace("-", " ").strip()
