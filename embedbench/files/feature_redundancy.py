"""Feature redundancy: how many features inform on the class beyond all better features.

**Source**: Kemker et al. (2018), supplement, "Fast Correlation Based Filter": Eq. 5-8, Table S9,
Fig. S4; the filter is Yu and Liu (2003), the intervals are Fayyad and Irani (1993).

**Departs**: the paper states neither how features were discretised nor the threshold δ. Here δ = 0,
and intervals come from the MDL principle on the class labels. All samples but the test samples are
used. By hand: scikit-learn has neither the filter nor MDL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Bools, Float32s, Floats, Ints
from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.system.callback_types import Progress

from .embedding_file import EmbeddingFile
from .sample_metadata import TEST

BATCH = 32  # features that are compared with the others at a time
ROWS = 1024  # samples whose one-hot codes are in memory at a time
SLACK = 1e-9  # values of SU that differ by less count as equal, since they are sums of floats


def su_between(a: DiscretisedFeatures, b: DiscretisedFeatures) -> Floats:
    """SU of every feature of `a` with every feature of `b`, (A, B): 2 IG / (H + H), Eq. 5 to 8.

    It is 0 if they are independent or neither varies, and 1 if each determines the other. Joint
    counts come from products of one-hot codes, exact in float32 up to 2^24 samples.
    """
    n = a.values.shape[1]
    counts = np.zeros((int(a.bins.sum()), int(b.bins.sum())), dtype=np.float32)
    for first in range(0, n, ROWS):
        rows = slice(first, first + ROWS)
        counts += a.one_hot(rows).T @ b.one_hot(rows)  # (Σ bins, r) @ (r, Σ bins)
    terms = xlog(n)[counts.astype(np.int32)]
    for axis, bins in enumerate((a.bins, b.bins)):
        terms = np.add.reduceat(terms, np.cumsum(bins) - bins, axis=axis)
    joint = math.log2(n) - terms / n  # (A, B) entropy of every pair, bits
    return _uncertainty(a.entropies[:, None] + b.entropies, joint)


def _uncertainty(both: Floats, joint: Floats) -> Floats:
    """SU from the sums of two entropies, and the joint entropies."""
    return 2 * np.divide(both - joint, both, out=np.zeros_like(both), where=both > SLACK)


def _entropy(values: Ints | NDArray[np.uint16]) -> float:
    """H of a variable (n,), bits (Eq. 6)."""
    n = len(values)
    return math.log2(n) - float(xlog(n)[np.bincount(values)].sum()) / n


def su_matrix(codes: DiscretisedFeatures, progress: Progress = lambda *_: None) -> Floats:
    """SU of every pair of features, (F, F), symmetrical: Fig. S4."""
    n_features = len(codes.bins)
    out = np.zeros((n_features, n_features))
    for first in range(0, n_features, BATCH):
        progress(first, n_features)
        rows = slice(first, first + BATCH)
        out[rows, first:] = su_between(codes.take(rows), codes.take(slice(first, None)))
    return np.triu(out) + np.triu(out, 1).T


def class_su(codes: DiscretisedFeatures, y: Ints) -> Floats:
    """SU of every feature with the class, (F,)."""
    n_classes = int(y.max()) + 1
    joint = np.array([_entropy(v.astype(np.int64) * n_classes + y) for v in codes.values])
    return _uncertainty(codes.entropies + _entropy(y), joint)


def fcbf(
    codes: DiscretisedFeatures,
    relevance: Floats,
    progress: Progress = lambda *_: None,
) -> Ints:
    """The features that are kept, by decreasing SU with the class (ties: lower index first).

    Features with SU(f, class) ≤ δ = 0 are dropped. Then each remaining feature p, the best one
    first, removes every later q with SU(p, q) ≥ SU(q, class). SU(p, q) is computed for kept
    features p only, a batch of them at a time. `relevance` is (F,) SU of each with the class.
    """
    left = np.argsort(-relevance, kind="stable")
    left = left[relevance[left] > SLACK]
    n_relevant = len(left)
    kept: list[int] = []
    while len(left):
        progress(n_relevant - len(left), n_relevant)
        batch = left[:BATCH]
        left = left[BATCH:]
        removes = _removes(codes, relevance, batch, batch)
        alive = np.ones(len(batch), dtype=np.bool_)
        for i in range(len(batch)):
            if alive[i]:
                alive[i + 1 :] &= ~removes[i, i + 1 :]
        batch = batch[alive]
        kept += batch.tolist()
        left = left[~_removes(codes, relevance, batch, left).any(axis=0)]
    return np.array(kept, dtype=np.int64)


def _removes(codes: DiscretisedFeatures, relevance: Floats, p: Ints, q: Ints) -> Bools:
    """(P, Q) whether p makes q redundant."""
    return su_between(codes.take(p), codes.take(q)) >= relevance[q] - SLACK


@dataclass(frozen=True)
class Redundancy(JsonRecord):
    """The number of features that are not redundant (Table S9).

    Parameters
    ----------
    features, kept, relevant : int
        Features of the file, those that are not redundant, and those that inform on the class.
    share : float
        `kept` divided by `features`.
    features_kept : tuple of int
        The columns kept.
    """

    features: int
    kept: int
    share: float
    relevant: int
    features_kept: tuple[int, ...]


def redundancy(
    file: EmbeddingFile,
    *,
    progress: Callable[..., None] = lambda *_: None,
) -> tuple[Redundancy, DiscretisedFeatures]:
    """Filter the features of a file; return also the intervals.

    `progress` is called with (done, total, stage).
    """
    rows = file.split != TEST
    if not rows.any():
        raise UserError(f"{file.path.name} has no samples but test samples")
    y = file.labels[rows]
    codes = discretise(file.read()[rows], y, lambda *n: progress(*n, "intervals"))
    relevance = class_su(codes, y)
    kept = fcbf(codes, relevance, lambda *n: progress(*n, "filter"))
    result = Redundancy(
        features=len(codes.bins),
        kept=len(kept),
        share=len(kept) / len(codes.bins),
        relevant=int((relevance > SLACK).sum()),
        features_kept=tuple(kept.tolist()),
    )
    return result, codes


# --- the intervals of each feature ---


@dataclass(frozen=True)
class DiscretisedFeatures:
    """Discretised features.

    Parameters
    ----------
    values : array of int
        (F, n) number of the interval that each value lies in.
    bins : array of int
        (F,) how many intervals each feature has.
    """

    values: NDArray[np.uint16]
    bins: Ints

    def take(self, features: Ints | slice) -> DiscretisedFeatures:
        """Some of the features."""
        return DiscretisedFeatures(self.values[features], self.bins[features])

    @cached_property
    def entropies(self) -> Floats:
        """(F,) H of each feature, bits (Eq. 6)."""
        return np.array([_entropy(v) for v in self.values])

    def one_hot(self, rows: slice) -> Float32s:
        """(r, Σ bins) one column an interval, feature after feature."""
        values = self.values[:, rows].T + (np.cumsum(self.bins) - self.bins)
        out = np.zeros((len(values), int(self.bins.sum())), dtype=np.float32)
        np.put_along_axis(out, values, 1, axis=1)
        return out


def discretise(
    x: Float32s,
    y: Ints,
    progress: Progress = lambda *_: None,
) -> DiscretisedFeatures:
    """Cut the columns of x (n, F) into intervals, open on the left, by `mdlp_cuts`."""
    n_features = x.shape[1]
    values = np.empty((n_features, len(x)), dtype=np.uint16)
    bins = np.ones(n_features, dtype=np.int64)
    for f in range(n_features):
        progress(f, n_features)
        column = np.ascontiguousarray(x[:, f])
        cuts = mdlp_cuts(column, y)
        values[f], bins[f] = np.searchsorted(cuts, column), len(cuts) + 1
    return DiscretisedFeatures(values, bins)


def mdlp_cuts(values: Float32s, labels: Ints) -> Float32s:
    """The largest values of all intervals but the last, by Fayyad and Irani (1993).

    The cut with the least class entropy is made if its gain exceeds
    (log2(N - 1) + log2(3^k - 2) - k H(S) + k1 H(S1) + k2 H(S2)) / N, k the number of classes; then
    the same on either side.
    """
    order = np.argsort(values)
    v, y = values[order], labels[order].astype(np.uint16)  # NumPy sorts short integers by radix
    by_class = np.argsort(y, kind="stable")
    sizes = np.bincount(y)
    rank = np.empty(len(v), dtype=np.int64)  # how many of its class stand before each sample
    rank[by_class] = np.arange(len(v)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table = xlog(len(v))
    cuts = []
    todo = [(0, len(v), np.zeros_like(sizes))]
    while todo:
        a, b, before = todo.pop()
        cut = _best_cut(v[a:b], y[a:b], rank[a:b] - before[y[a:b]], table)
        if cut:
            cuts.append(v[a + cut - 1])
            passed = np.bincount(y[a : a + cut], minlength=len(sizes))
            todo += [(a, a + cut, before), (a + cut, b, before + passed)]
    return np.sort(np.array(cuts, dtype=values.dtype))


def _best_cut(v: Float32s, y: NDArray[np.uint16], rank: Ints, table: Floats) -> int:
    """Samples on the left of the best cut of sorted values; 0 where it is not worth its bits.

    With f(m) = m log2 m, N H = f(N) - Σ_c f(N_c): from one sample to the next only one N_c changes,
    so all cuts together cost one cumulative sum, whatever the number of classes.
    """
    legal = v[:-1] < v[1:]
    if not legal.any():
        return 0
    n = len(v)
    totals = np.bincount(y)
    after = totals[y] - rank
    left = np.cumsum(table[rank + 1] - table[rank])[:-1]
    right = table[totals].sum() + np.cumsum(table[after - 1] - table[after])[:-1]
    size = np.arange(1, n)
    spread = table[size] - left + table[n - size] - right  # N1 H(S1) + N2 H(S2)
    cut = int(np.argmin(np.where(legal, spread, np.inf))) + 1
    first = np.bincount(y[:cut], minlength=len(totals))
    parts = [
        (m, (table[m] - table[c].sum()) / m, int(np.count_nonzero(c)))
        for m, c in ((n, totals), (cut, first), (n - cut, totals - first))
    ]
    gain = parts[0][0] * parts[0][1] - sum(m * h for m, h, _ in parts[1:])
    (_, h, k), *halves = parts
    price = math.log2(n - 1) + math.log2(3**k - 2) - k * h + sum(k_ * h_ for _, h_, k_ in halves)
    return cut if gain > price else 0


@lru_cache(maxsize=2)
def xlog(n: int) -> Floats:
    """(n + 1,) m log2 m for m = 0 … n."""
    m = np.arange(n + 1, dtype=np.float64)
    return m * np.log2(np.maximum(m, 1))
