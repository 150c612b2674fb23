"""Discretise features: cut each into intervals, by MDL or by frequency."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Float32s, Floats, Ints
from embedbench.errors import unknown
from embedbench.system.callback_types import Progress

METHODS = ("mdlp", "frequency")
BINS = 10  # intervals of "frequency"


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
        n = self.values.shape[1]
        counts = (np.bincount(v, minlength=1) for v in self.values)
        return np.array([math.log2(n) - xlog(n)[c].sum() / n for c in counts])

    def one_hot(self, rows: slice) -> Float32s:
        """(r, Σ bins) one column an interval, feature after feature."""
        values = self.values[:, rows].T + (np.cumsum(self.bins) - self.bins)
        out = np.zeros((len(values), int(self.bins.sum())), dtype=np.float32)
        np.put_along_axis(out, values, 1, axis=1)
        return out


def discretise(
    x: Float32s,
    y: Ints,
    method: str = "mdlp",
    progress: Progress = lambda *_: None,
) -> DiscretisedFeatures:
    """Cut the columns of x (n, F) into intervals, open on the left.

    Parameters
    ----------
    method : str
        "mdlp": see `mdlp_cuts`; "frequency": ten intervals of equally many samples, fewer where
        values are tied.
    """
    if method not in METHODS:
        raise unknown("discretisation", method, METHODS)
    n_features = x.shape[1]
    values = np.empty((n_features, len(x)), dtype=np.uint16)
    bins = np.ones(n_features, dtype=np.int64)
    for f in range(n_features):
        progress(f, n_features)
        column = np.ascontiguousarray(x[:, f])
        cuts = mdlp_cuts(column, y) if method == "mdlp" else frequency_cuts(column)
        values[f], bins[f] = np.searchsorted(cuts, column), len(cuts) + 1
    return DiscretisedFeatures(values, bins)


def frequency_cuts(values: Float32s) -> Float32s:
    """The largest values of all intervals but the last, which hold equally many samples."""
    shares = np.arange(1, BINS) / BINS
    cuts = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    kept: Float32s = cuts[cuts < values.max()]
    return kept


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
    n, totals = len(v), np.bincount(y)
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
    price = math.log2(n - 1) + _log2_3k_2(k) - k * h + sum(k_ * h_ for _, h_, k_ in halves)
    return cut if gain > price else 0


def _log2_3k_2(k: int) -> float:
    """log2(3^k - 2), which is k log2 3 where 3^k has no room in a float."""
    return math.log2(3**k - 2) if k < 600 else k * math.log2(3)


@lru_cache(maxsize=2)
def xlog(n: int) -> Floats:
    """(n + 1,) m log2 m for m = 0 … n."""
    m = np.arange(n + 1, dtype=np.float64)
    return m * np.log2(np.maximum(m, 1))
