"""Few-shot streams for tests: a base session of many samples, then sessions of a few shots."""

from collections.abc import Sequence

import numpy as np
from toy import blobs

from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View, rows_of

GROUPS = [[0, 1, 2, 3], [4, 5], [6]]  # the classes of three sessions


def few_shot_stream(
    groups: Sequence[Sequence[int]],
    *,
    width: int = 8,
    layers: int = 0,
    n_base: int = 20,
    shots: int = 5,
    n_test: int = 10,
    seed: int = 0,
    spread: float = 0.3,
) -> Stream:
    """A stream of blobs; the first group is the base session, `shots` a class in the others.

    With `layers` the table holds as many intermediate embeddings after the final one: blobs around
    the same centres, with noise of their own.
    """
    n_classes = max(c for g in groups for c in g) + 1
    sizes = [n_base, *[shots] * (len(groups) - 1)]
    labels = [
        np.repeat(g, n) for g, k in zip(groups, sizes, strict=True) for n in (k, n_test)
    ]  # train, test, train, test, …
    everything = np.concatenate(labels)
    tables = [blobs(everything, width, 100 * seed + k, spread) for k in range(1 + layers)]
    table = Table(np.concatenate(tables, axis=1))
    columns = table.values.shape[1]
    ends = np.cumsum([len(y) for y in labels])
    views = [
        View(table, np.arange(e - len(y), e), columns) for e, y in zip(ends, labels, strict=True)
    ]
    sessions, sets = [], []
    for k, group in enumerate(groups):
        (x, test_x), (y, test_y) = views[2 * k : 2 * k + 2], labels[2 * k : 2 * k + 2]
        nothing = View(table, rows_of(x)[:0], columns)
        sessions.append(Session(x, y, nothing, y[:0], rows_of(x), np.array(group)))
        mask = np.isin(np.arange(n_classes), group)
        sets.append(EvalSet(test_x, test_y, rows_of(test_x), mask))
    named = {f"block-{k}": (k * width, (k + 1) * width) for k in range(1, 1 + layers)}
    return Stream(
        spec=StreamSpec((columns,), n_classes, layers=named),
        sessions=tuple(sessions),
        eval_sets=tuple(sets),
        recipe="few shots",
        features=f"few shots {seed}",
        samples=("few shots",),
    )
