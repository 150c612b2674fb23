"""Answers of multi-label runs: by hand as Python sets, and drawn at random."""

import numpy as np

from embedbench.array_types import Bools
from embedbench.scores.label_set_predictions import LabelSets, pack

Sets = list[set[int]]


def mark(sets: Sets, n_classes: int) -> Bools:
    """(n, C) whether a class is in a set."""
    return np.array([[c in labels for c in range(n_classes)] for labels in sets])


def label_sets(
    y: Sets, answers: list[Sets], introduces: Sets, parents: list[int], split: list[int]
) -> LabelSets:
    """One moment a session."""
    n, sessions = len(parents), len(introduces)
    new = mark(introduces, n)
    return LabelSets(
        ids=np.arange(len(y)),
        split=np.array(split),
        y=pack(mark(y, n)),
        introduces=new,
        parents=np.array(parents),
        session=np.arange(sessions),
        samples_seen=10 * np.arange(1, sessions + 1),
        seen=np.logical_or.accumulate(new),
        answer=np.stack([pack(mark(given, n)) for given in answers]),
        undecided=np.zeros(sessions, dtype=np.int64),
    )


def above(c: int, parents: list[int]) -> set[int]:
    """A class and all above it."""
    return {c} | (above(parents[c], parents) if parents[c] >= 0 else set())


# Two polar bears, a brown bear and a bus.
BEAR, BUS, POLAR, BROWN = range(4)
BEARS = label_sets(
    [{BEAR, POLAR}, {BEAR, POLAR}, {BEAR, BROWN}, {BUS}],
    [
        [{BEAR}, {BEAR, BUS}, {BEAR}, {BUS}],
        [{BEAR, POLAR}, {POLAR}, {BEAR, POLAR}, set()],
        [{BEAR, POLAR, BROWN}, {POLAR}, {BEAR, BROWN}, {BUS}],
    ],
    [{BEAR, BUS}, {POLAR}, {BROWN}],
    [-1, -1, BEAR, BEAR],
    [0] * 4,
)


def random_label_sets(seed: int, n_classes: int, share: float) -> LabelSets:
    """Sessions of one to five classes; some samples get nothing, some everything.

    The classes are a forest, whose numbers say nothing about their places.
    """
    rng = np.random.default_rng(seed)
    parents, numbers = [-1] * n_classes, rng.permutation(n_classes).tolist()
    for i in range(1, n_classes):
        if rng.random() < 0.7:
            parents[numbers[i]] = numbers[int(rng.integers(i))]
    order = rng.permutation(n_classes).tolist()
    introduces: Sets = []
    while order:
        size = int(rng.integers(1, 6))
        introduces.append(set(order[:size]))
        order = order[size:]
    split = rng.integers(0, 2, 60).tolist()
    y = [above(int(rng.integers(n_classes)), parents) for _ in split]
    answers, seen = [], set[int]()
    for new in introduces:
        seen |= new
        given = [{c for c in seen if rng.random() < share} for _ in split]
        for i in range(0, 60, 7):
            given[i], given[i + 1] = set(), set(seen)
        for i in range(3, 60, 3):
            given[i] = y[i] & seen
        answers.append(given)
    return label_sets(y, answers, introduces, parents, split)
