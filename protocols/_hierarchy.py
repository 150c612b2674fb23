"""Class hierarchies of any depth over the classes of an embedding file, and published class orders.

A hierarchy is a forest. Its nodes are numbered leaves first, as in an embedding file.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import levels
from embedbench.storage.regular_files import read_text

# published hierarchies that ship with the project, and the validation fraction of their authors
PUBLISHED = {
    "iirc-cifar": 0.1,
    "iirc-imagenet-full": 0.04,
    "iirc-imagenet-lite": 0.04,
    "incremental-cifar": 0.1,
    "incremental-imagenet-full": 0.04,
    "incremental-imagenet-lite": 0.04,
}


CLASSES, LEVELS = 10_000, 100  # the most of a hierarchy


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

    def __post_init__(self) -> None:
        """Refuse what is above itself, and what is too large for a table of all pairs."""
        on = levels(self.parents)
        if not on.all():
            looped = self.classes[int(on.argmin())]
            raise UserError(
                f"hierarchy {self.name}: class {looped!r} is above itself; mend its parents"
            )
        if len(on) > CLASSES or on.max() > LEVELS:
            raise UserError(
                f"hierarchy {self.name} has {len(on):,} classes on {on.max():,} levels; expected "
                f"at most {CLASSES:,} on {LEVELS}"
            )

    @cached_property
    def above(self) -> Bools:
        """(K, K) row k: node k itself and all nodes above it."""
        above = np.eye(len(self.parents), dtype=np.bool_)
        at = self.parents.copy()
        while (at >= 0).any():
            k = np.flatnonzero(at >= 0)
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
        while (parent := int(self.parents[nodes[-1]])) >= 0:
            nodes.append(parent)
        return nodes[::-1]


# --- where hierarchies come from ---


@dataclass(frozen=True)
class _HierarchyFile(JsonRecord):
    """A JSON file as `named_hierarchy` describes it."""

    parents: dict[str, str | None]
    words: dict[str, str] = field(default_factory=dict)
    configurations: tuple[tuple[tuple[str, ...], ...], ...] = ()


def file_hierarchy(file: EmbeddingFile) -> Hierarchy:
    """The hierarchy that an embedding file carries."""
    leaf = np.arange(file.samples.n_leaves)
    return Hierarchy(file.path.name, file.classes, file.parents, leaf)


def named_hierarchy(name: str, file: EmbeddingFile) -> Hierarchy:
    """A published hierarchy, or that of a JSON file, over the classes of an embedding file.

    The JSON object has `parents`, {class: the class above it, or null}; classes that are above no
    other class are the leaves. It may have `configurations`, a list of class orders, each a list of
    sessions of names; and `words`, {leaf: another name}. A hierarchy has at most 10,000 classes on
    100 levels.
    """
    text = parse_json(hierarchy_text(name), f"hierarchy {name}")
    loaded = _HierarchyFile.from_json(text, f"hierarchy {name}")
    over: dict[str, str | None] = dict(loaded.parents)
    if not over:
        raise UserError(
            f"hierarchy {name} has no classes; 'parents' is {{class: class above or null}}"
        )
    over |= {p: None for p in over.values() if p is not None and p not in over}
    inner = {p for p in over.values() if p is not None}
    leaves = [c for c in over if c not in inner]
    classes = [*leaves, *(c for c in over if c in inner)]
    number = {c: k for k, c in enumerate(classes)}
    parents = np.array([-1 if (p := over[c]) is None else number[p] for c in classes])
    words = loaded.words
    labels = _labels(name, leaves, words, file)
    leaf = np.full(file.samples.n_leaves, -1)
    leaf[labels] = np.arange(len(leaves))
    return Hierarchy(
        name,
        tuple(f"{words[c]} ({c})" if c in words else c for c in classes),
        parents,
        leaf,
        tuple(_configuration(name, tasks, number) for tasks in loaded.configurations),
    )


def hierarchy_text(name: str) -> str:
    """The JSON text of a published hierarchy or of a file."""
    if name in PUBLISHED:
        asset = resources.files("embedbench") / "assets" / "iirc" / f"{name}.json"
        return asset.read_text(encoding="utf-8")
    if not Path(name).is_file():
        raise unknown("hierarchy", name, ["file", *PUBLISHED, "the path of a JSON file"])
    return read_text(Path(name))


def _labels(
    name: str, leaves: Sequence[str], words: dict[str, str], file: EmbeddingFile
) -> list[int]:
    """The file's label of each leaf.

    A leaf matches by either of its names: exactly, or without regard to case and separators if that
    names only one class.
    """
    file_classes = file.classes[: file.samples.n_leaves]
    exact = {c: k for k, c in enumerate(file_classes)}
    count = Counter(map(_plain, file_classes))
    plain = {_plain(c): k for k, c in enumerate(file_classes) if count[_plain(c)] == 1}
    labels = []
    for leaf in leaves:
        names = [leaf, words.get(leaf, leaf)]
        hits = [
            t[key(n)] for t, key in ((exact, str), (plain, _plain)) for n in names if key(n) in t
        ]
        labels.append(hits[0] if hits else -1)
    missing = [c for c, k in zip(leaves, labels, strict=True) if k < 0]
    if missing:
        raise UserError(
            f"{file.path.name} lacks {len(missing)} of the {len(leaves)} classes of hierarchy "
            f"{name}, the first {missing[0]!r}; take a file that has them, or hierarchy=file"
        )
    if len(set(labels)) < len(labels):
        twice = file_classes[next(k for k, n in Counter(labels).items() if n > 1)]
        raise UserError(
            f"class {twice!r} of {file.path.name} fits two classes of hierarchy {name}; name the "
            "classes as the hierarchy does"
        )
    return labels


def _plain(name: str) -> str:
    return name.casefold().replace("_", " ").replace("-", " ").strip()


def _configuration(
    name: str, tasks: Sequence[Sequence[str]], number: dict[str, int]
) -> tuple[Ints, ...]:
    if not all([tasks, *tasks]):
        raise UserError(f"hierarchy {name}: a configuration has a session without classes")
    for c in (c for task in tasks for c in task):
        if c not in number:
            raise UserError(f"hierarchy {name}: a configuration has {c!r}, which 'parents' has not")
    return tuple(np.array([number[c] for c in task], dtype=np.int64) for task in tasks)


def check_configuration(hierarchy: Hierarchy, sessions: Sequence[Ints]) -> None:
    """Raise UserError if a class comes twice, or before or with a class above it."""
    seen = np.zeros(len(hierarchy.parents), dtype=np.bool_)
    for t, nodes in enumerate(sessions):
        for k in nodes:
            parent = hierarchy.parents[k]
            if seen[k] or (parent >= 0 and not seen[parent]):
                what = "comes twice" if seen[k] else "comes before the class above it, or with it"
                raise UserError(
                    f"hierarchy {hierarchy.name}: {hierarchy.classes[k]!r} in session {t} {what}; "
                    "mend the configuration"
                )
        seen[nodes] = True
