"""The samples with which each class of a hierarchy is taught: roles of samples, and shares."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from embedbench.arrays import Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_list import TEST, TRAIN, VAL

from ._hierarchy import Hierarchy


@dataclass(frozen=True)
class Roles:
    """Rows by role, one entry per leaf; `train` and `intask` also name the leaf."""

    train: list[tuple[int, Ints]]
    intask: list[tuple[int, Ints]]
    posttask: list[Ints]


def leaf_roles(file: EmbeddingFile, hierarchy: Hierarchy, val_fraction: float) -> Roles:
    """Roles of the training and validation samples, in the order of the file, not shuffled."""
    train, brought = (_by_label(file, role) for role in (TRAIN, VAL))
    has_val = (file.split == VAL).any()
    roles = Roles([], [], [])
    for label, leaf in enumerate(hierarchy.leaf.tolist()):
        if leaf < 0:
            continue
        mine, held = train[label], brought[label]
        if not has_val:
            n = len(mine)
            first = min(max(1, int(val_fraction * n)), max(n - 1, 0))
            second = min(max(1, int(val_fraction * n)), max(n - 1 - first, 0))
            held, mine = mine[: first + second], mine[first + second :]
        else:
            first = -(-len(held) // 2)
        if not len(mine):
            raise UserError(
                f"{file.path.name} has no training samples of class {file.classes[label]!r}; "
                "give it some, or take a hierarchy without it"
            )
        roles.train.append((leaf, mine))
        roles.intask.append((leaf, held[:first]))
        roles.posttask.append(held[first:])
    if not (file.split == TEST).any():
        raise UserError(
            f"{file.path.name} has no test samples; give it a split (--split) when it is made"
        )
    return roles


def _by_label(file: EmbeddingFile, role: int) -> list[Ints]:
    """The rows of each label in a role, ascending."""
    rows = np.flatnonzero(file.split == role)
    labels = file.labels[rows]
    counts = np.bincount(labels, minlength=file.samples.n_leaves)
    return np.split(rows[np.argsort(labels, kind="stable")], np.cumsum(counts)[:-1])


def share_out(
    hierarchy: Hierarchy,
    by_leaf: Iterable[tuple[int, Ints]],
    upper: float,
    lower: float,
    cap: int,
) -> list[Ints]:
    """The samples that each node is taught with: (K,) lists, each ascending.

    Each leaf's list of samples goes down the tree. A node takes the first `upper` of the list and
    passes the last `lower` of it to the node below; the leaf takes all that it gets. A node over
    more than `cap` leaves takes the share cap / leaves · upper. Shares are rounded down, but are at
    least one sample.

    Parameters
    ----------
    by_leaf : iterable of tuple
        Each leaf with its samples, ascending.
    """
    given: list[list[Ints]] = [[] for _ in hierarchy.parents]
    for leaf, rows in by_leaf:
        for node, share in _shares(hierarchy, leaf, rows, upper, lower, cap):
            given[node].append(share)
    return [union(parts) for parts in given]


def _shares(
    hierarchy: Hierarchy, leaf: int, rows: Ints, upper: float, lower: float, cap: int
) -> Iterator[tuple[int, Ints]]:
    *above, leaf = hierarchy.chain(leaf)
    for node in above:
        n = int(hierarchy.n_leaves[node])
        share = cap / n * upper if n > cap else upper
        yield node, rows[: max(1, int(share * len(rows)))]
        rows = rows[-max(1, int(lower * len(rows))) :]
    yield leaf, rows


def union(parts: Iterable[Ints]) -> Ints:
    """All rows of some lists, each once, ascending; faster than `np.unique`, which hashes."""
    rows = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    return rows[np.diff(rows, prepend=-1) > 0]
