"""A buffer for each class that samples enter one by one, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from embedbench.fields import check_size
from embedbench.learning.states import put_state, take_state

Array = NDArray[Any]

EXSTREAM, KMEANS, RESERVOIR, QUEUE = range(4)
KINDS = ("exstream", "kmeans", "reservoir", "queue")
STATE = ("x", "counts", "held", "seen", "nearest", "apart", "draw")

_fast = njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})


class Clusters:
    """At most B prototypes for each class: means of samples with their counts, or single samples.

    Everything is in main memory and is allocated at the start. Batches are cut from the stream
    without effect: samples enter in their order, one by one.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    n_classes, size, width : int
        C, B and D.
    seed : list of int
        Decides what a reservoir keeps.
    """

    def __init__(self, kind: str, n_classes: int, size: int, width: int, seed: list[int]) -> None:
        check_size("the buffers", n_classes * size * width)
        self.kind, self.size = KINDS.index(kind), size
        self.x = torch.zeros(n_classes, size, width)
        self.counts = torch.zeros(n_classes, size, dtype=torch.int32)  # samples in a prototype
        self.held = torch.zeros(n_classes, dtype=torch.int64)  # prototypes, the first of a class
        self.seen = torch.zeros(n_classes, dtype=torch.int64)  # samples
        pairs = size if kind == "exstream" else 0
        self.nearest = torch.zeros(n_classes, pairs, dtype=torch.int32)  # of the same class
        self.apart = torch.zeros(n_classes, pairs)  # squared distance to it
        self.draw = np.random.default_rng(seed)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Add samples x (b, D) of the classes y (b,), in order.

        Returns
        -------
        Tensor
            (b,) int64, the row of `rows` that each sample went to; -1 if it was not kept.
        """
        drawn = self.draw.random(len(y)) if self.kind == RESERVOIR else np.zeros(len(y))
        samples = np.ascontiguousarray(x.detach().cpu().numpy())
        P, counts, held, seen, nearest, apart = (t.numpy() for t in self.tensors())
        places = np.empty(len(y), np.int64)
        _add(
            self.kind, samples, y.cpu().numpy(), drawn,
            P, counts, held, seen, nearest, apart, places,
        )  # fmt: skip
        return torch.from_numpy(places)

    def full_rows(self) -> Tensor:
        """(n,) the rows of `rows` that hold a prototype; row // B is its class."""
        return (torch.arange(self.size) < self.held[:, None]).flatten().nonzero().flatten()

    @property
    def rows(self) -> Tensor:
        """The prototypes, (C·B, D)."""
        return self.x.flatten(0, 1)

    @property
    def classes(self) -> Tensor:
        """(k,) the classes that have come."""
        return self.held.nonzero().flatten()

    def tensors(self) -> list[Tensor]:
        """All that is kept."""
        return [self.x, self.counts, self.held, self.seen, self.nearest, self.apart]

    def state_dict(self) -> dict[str, Any]:
        """A copy of all state."""
        return {name: take_state(getattr(self, name)) for name in STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        for name in STATE:
            setattr(self, name, put_state(getattr(self, name), state[name]))


@_fast
def _add(
    kind: int,
    x: Array,
    y: Array,
    drawn: Array,
    P: Array,
    counts: Array,
    held: Array,
    seen: Array,
    nearest: Array,
    apart: Array,
    places: Array,
) -> None:
    """Add samples x (b, D) of classes y (b,); `places` (b,) gets where each one went.

    Parameters
    ----------
    drawn : Array
        (b,) uniform in [0, 1), for a reservoir.
    P, counts, held, seen : Array
        (C, B, D), (C, B), (C,), (C,), as in `Clusters`; changed.
    nearest, apart : Array
        (C, B), the nearest other prototype of the class and its squared distance; changed.
    """
    size = P.shape[1]
    for i in range(len(y)):
        c, slot = y[i], held[y[i]]
        if slot < size:
            held[c] += 1
            _put(x[i], slot, P[c], counts[c])
            if kind == EXSTREAM:
                _renew(slot, held[c], P[c], nearest[c], apart[c])
        elif kind == EXSTREAM and size > 1:
            slot = _merge(P[c], counts[c], nearest[c], apart[c])
            _put(x[i], slot, P[c], counts[c])
            _renew(slot, size, P[c], nearest[c], apart[c])
        elif kind in (EXSTREAM, KMEANS):
            slot = _closest(x[i], P[c])
            _include(x[i], slot, P[c], counts[c])
        else:
            slot = seen[c] % size if kind == QUEUE else int(drawn[i] * (seen[c] + 1))
            if slot < size:
                _put(x[i], slot, P[c], counts[c])
        seen[c] += 1
        places[i] = c * size + slot if slot < size else -1


@_fast
def _put(x: Array, slot: int, P: Array, counts: Array) -> None:
    """Make a sample a prototype of its own."""
    P[slot] = x
    counts[slot] = 1


@_fast
def _include(x: Array, slot: int, P: Array, counts: Array) -> None:
    """Make a sample part of a prototype, the mean of its samples."""
    counts[slot] += 1
    p, share = P[slot], np.float32(1 / counts[slot])
    for d in range(len(p)):
        p[d] += share * (x[d] - p[d])


@_fast
def _merge(P: Array, counts: Array, nearest: Array, apart: Array) -> int:
    """Merge the two nearest prototypes into the later one; return the place of the other."""
    a = 0
    for k in range(len(apart)):
        if apart[k] < apart[a]:
            a = k
    first, second = min(a, nearest[a]), max(a, nearest[a])
    n = counts[first] + counts[second]
    share = np.float32(counts[first] / n)
    p, q = P[first], P[second]
    for d in range(len(q)):
        q[d] += share * (p[d] - q[d])
    counts[second] = n
    _renew(second, len(P), P, nearest, apart)
    return int(first)


@_fast
def _renew(slot: int, n: int, P: Array, nearest: Array, apart: Array) -> None:
    """Renew the nearest of n prototypes after the one at `slot` has changed."""
    nearest[slot], apart[slot] = slot, np.float32(np.inf)
    for k in range(n):
        if k == slot:
            continue
        d2 = _squared(P[slot], P[k])
        if d2 < apart[slot]:
            nearest[slot], apart[slot] = k, d2
        if d2 < apart[k] or (d2 == apart[k] and slot < nearest[k]):
            nearest[k], apart[k] = slot, d2
        elif nearest[k] == slot:  # it was the nearest, and has moved away
            _search(k, n, P, nearest, apart)


@_fast
def _search(k: int, n: int, P: Array, nearest: Array, apart: Array) -> None:
    """Compare prototype k with all n."""
    apart[k] = np.float32(np.inf)
    for other in range(n):
        if other != k:
            d2 = _squared(P[k], P[other])
            if d2 < apart[k]:
                nearest[k], apart[k] = other, d2


@_fast
def _closest(x: Array, P: Array) -> int:
    """The nearest prototype."""
    best, least = 0, np.float32(np.inf)
    for k in range(len(P)):
        d2 = _squared(x, P[k])
        if d2 < least:
            best, least = k, d2
    return best


@_fast
def _squared(a: Array, b: Array) -> np.float32:
    """‖a - b‖²."""
    total = np.float32(0)
    for d in range(len(a)):
        away = a[d] - b[d]
        total += away * away
    return total
