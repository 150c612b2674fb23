"""Views of one table, joined: what `Stream.merged` is made of."""

from collections.abc import Sequence

import numpy as np

from embedbench.arrays import Ints, Labels

from .view import View, rows_of, table_of


def view_columns(view: View) -> Ints:
    """The column permutation of a view; empty if it has none."""
    return np.zeros(0, dtype=np.int64) if view.columns is None else view.columns


def merge(parts: Sequence[tuple[View, Ints, Labels]]) -> tuple[View, Ints, Labels]:
    """Join views of one table; each sample id once, at its first appearance; sorted by id."""
    first = parts[0][0]
    if any(table_of(v) is not table_of(first) for v, _, _ in parts):
        raise ValueError("merged() joins views of one table only; take `references` one by one")
    taken = np.zeros(0, dtype=np.int64)
    keep = []
    for view, ids, y in parts:
        new = ~np.isin(ids, taken)
        taken = np.concatenate([taken, ids[new]])
        if new.any() and not np.array_equal(view_columns(view), view_columns(first)):
            raise ValueError("merged() cannot join new samples seen through different permutations")
        keep.append((rows_of(view)[new], ids[new], y[new]))
    rows, ids, y = (np.concatenate([k[i] for k in keep]) for i in range(3))
    order = np.argsort(ids, kind="stable")
    view = View(table_of(first), rows[order], first.width, first.columns)
    return view, ids[order], y[order]
