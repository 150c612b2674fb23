"""Feature redundancy: how many features inform on the class beyond all better features.

**Source**: Kemker et al. (2018), supplement, "Fast Correlation Based Filter": Eq. 5-8, Table S9,
Fig. S4; the filter is Yu and Liu (2003), the intervals are Fayyad and Irani (1993).

**Departs**: the paper states neither how features were discretised nor the threshold δ. Here δ = 0,
and intervals come from the MDL principle on the class labels, or hold equally many samples. All
samples but the test samples are used. By hand: scikit-learn has neither the filter nor MDL.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Array, Bools, Floats, Ints
from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.system.callback_types import Progress

from .discretise_features import DiscretisedFeatures, discretise, xlog
from .embedding_file import EmbeddingFile
from .sample_metadata import TEST

BATCH = 32  # features that are compared with the others at a time
COLUMNS = 512  # features whose one-hot codes are in memory at a time
ROWS = 2048  # samples whose one-hot codes are in memory at a time
SLACK = 1e-9  # values of SU that differ by less count as equal, since they are sums of floats


def symmetric_uncertainty(joint: Array) -> float:
    """SU of two variables from their joint counts, (a, b): 2 IG / (H + H), Eq. 5 to 8.

    It is 0 if they are independent or neither varies, and 1 if each determines the other.

    >>> symmetric_uncertainty(np.array([[3, 0], [0, 5]]))
    1.0
    """
    n = joint.sum()

    def entropy(counts: Array) -> float:
        p = counts[counts > 0] / n
        return float(-(p * np.log2(p)).sum())

    a, b = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return 2 * (a + b - entropy(joint)) / (a + b) if a + b > 0 else 0.0


def su_between(a: DiscretisedFeatures, b: DiscretisedFeatures) -> Floats:
    """SU of every feature of `a` with every feature of `b`, (A, B).

    Joint counts come from products of one-hot codes, exact in float32 up to 2^24 samples.
    """
    parts = [slice(i, i + COLUMNS) for i in range(0, len(b.bins), COLUMNS)]
    joint = [_joint_entropies(a, b.take(part)) for part in parts]
    both = a.entropies[:, None] + b.entropies  # (A, B)
    gain = both - np.concatenate(joint, axis=1) if joint else both
    return 2 * np.divide(gain, both, out=np.zeros_like(both), where=both > SLACK)


def _joint_entropies(a: DiscretisedFeatures, b: DiscretisedFeatures) -> Floats:
    """(A, B) entropy of every pair, bits."""
    n = a.values.shape[1]
    counts = np.zeros((int(a.bins.sum()), int(b.bins.sum())), dtype=np.float32)
    for first in range(0, n, ROWS):
        rows = slice(first, first + ROWS)
        counts += a.one_hot(rows).T @ b.one_hot(rows)  # (Σ bins, r) @ (r, Σ bins)
    terms = xlog(n)[counts.astype(np.int32)]
    for axis, bins in enumerate((a.bins, b.bins)):
        terms = np.add.reduceat(terms, np.cumsum(bins) - bins, axis=axis)
    joint: Floats = math.log2(n) - terms / n
    return joint


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
    counts = (
        np.bincount(v.astype(np.int64) * n_classes + y, minlength=bins * n_classes)
        for v, bins in zip(codes.values, codes.bins.tolist(), strict=True)
    )
    return np.array([symmetric_uncertainty(c.reshape(-1, n_classes)) for c in counts])


def fcbf(
    codes: DiscretisedFeatures,
    relevance: Floats,
    delta: float = 0.0,
    progress: Progress = lambda *_: None,
) -> Ints:
    """The features that are kept, by decreasing SU with the class (ties: lower index first).

    Features with SU(f, class) ≤ δ are dropped. Then each remaining feature p, the best one first,
    removes every later q with SU(p, q) ≥ SU(q, class). SU(p, q) is computed for kept features p
    only, a batch of them at a time.

    Parameters
    ----------
    relevance : array of float
        (F,) SU of every feature with the class.
    delta : float
        Threshold δ.
    """
    left = np.argsort(-relevance, kind="stable")
    left = left[relevance[left] > delta + SLACK]
    n_relevant = len(left)
    kept: list[int] = []
    while len(left):
        progress(n_relevant - len(left), n_relevant)
        batch, left = left[:BATCH], left[BATCH:]
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
class Intervals(JsonRecord):
    """Intervals per feature: the fewest, the median and the most."""

    min: int
    median: float
    max: int


@dataclass(frozen=True)
class Redundancy(JsonRecord):
    """The number of features that are not redundant (Table S9).

    Parameters
    ----------
    features, kept, relevant : int
        Features of the file, those that are not redundant, and those that inform on the class.
    share : float
        `kept` divided by `features`.
    delta : float
        The threshold δ of the filter.
    discretisation : str
        How features were cut into intervals: mdlp or frequency.
    intervals : Intervals
        Intervals per feature.
    samples, classes : int
        Number of samples that were used, and of their classes.
    seconds : float
        Duration.
    features_kept : tuple of int
        The columns kept.
    """

    features: int
    kept: int
    share: float
    relevant: int
    delta: float
    discretisation: str
    intervals: Intervals
    samples: int
    classes: int
    seconds: float
    features_kept: tuple[int, ...]


def redundancy(
    file: EmbeddingFile,
    method: str = "mdlp",
    *,
    progress: Callable[..., None] = lambda *_: None,
) -> tuple[Redundancy, DiscretisedFeatures]:
    """Filter the features of a file; return the result, and the intervals.

    Parameters
    ----------
    method : str
        Discretisation, see `discretise`.
    progress : callable
        Called with (done, total, stage).
    """
    rows = file.split != TEST
    if not rows.any():
        raise UserError(f"{file.path.name} has no samples but test samples")
    began = time.perf_counter()
    y = file.labels[rows]
    codes = discretise(file.read()[rows], y, method, lambda *n: progress(*n, "intervals"))
    relevance = class_su(codes, y)
    kept = fcbf(codes, relevance, progress=lambda *n: progress(*n, "filter"))
    result = Redundancy(
        features=len(codes.bins),
        kept=len(kept),
        share=len(kept) / len(codes.bins),
        relevant=int((relevance > SLACK).sum()),
        delta=0.0,
        discretisation=method,
        intervals=Intervals(
            int(codes.bins.min()), float(np.median(codes.bins)), int(codes.bins.max())
        ),
        samples=len(y),
        classes=len(np.unique(y)),
        seconds=time.perf_counter() - began,
        features_kept=tuple(kept.tolist()),
    )
    return result, codes
