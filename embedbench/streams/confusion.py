"""The confusion matrix of a linear probe, from which class orders are made.

**Source**: Masana et al. (2020), §3. **Departs**: see `embedbench.streams.orders`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Ints
from embedbench.errors import UserError, unknown
from embedbench.files.file import EmbeddingFile
from embedbench.files.samples import TRAIN

HOW = ("cross-fitted", "train")
FOLDS = 5
ALPHAS = (1e1, 1e2, 1e3, 1e4, 1e5)  # ridge penalties


def confusion_matrix(file: EmbeddingFile, how: str, seed: int) -> NDArray[np.int64]:
    """M, (C, C): number of training samples of class i that a linear probe takes for class j ≠ i.

    Only the file's training split is read; the diagonal is 0. The probe is ridge regression on the
    one-hot classes, with features standardised and clipped to ±5. Its penalty is chosen from
    `ALPHAS`: fitted to four fifths of every class, the probe must be best on the first fifth.

    Parameters
    ----------
    how : str
        "cross-fitted": each fifth of the samples is classified by a probe fitted to the other four
        fifths. "train": all samples are classified by one probe fitted to all of them.
    """
    if how not in HOW:
        raise unknown("confusion", how, HOW)
    rows = np.flatnonzero(file.split == TRAIN)
    n, y = file.samples.n_leaves, file.labels[rows]
    if len(np.unique(y)) < 2:
        raise UserError(f"{file.path.name} has training samples of fewer than two classes")
    x = file.read()[rows]
    mixed = np.random.default_rng(seed).permutation(len(y))
    mixed = mixed[np.argsort(y[mixed], kind="stable")]  # class by class, mixed within
    fifth = np.empty_like(mixed)
    fifth[mixed] = np.arange(len(y)) % FOLDS
    held = fifth == 0
    right = [(_probe(a, x[~held], y[~held], x[held]) == y[held]).mean() for a in ALPHAS]
    alpha = ALPHAS[int(np.argmax(right))]
    answer = np.empty_like(y)
    if how == "train":
        answer = _probe(alpha, x, y, x)
    else:
        for fold in range(FOLDS):
            out = fifth == fold
            answer[out] = _probe(alpha, x[~out], y[~out], x[out])
    matrix = np.bincount(y * n + answer, minlength=n * n).reshape(n, n)
    np.fill_diagonal(matrix, 0)
    return matrix


def _probe(alpha: float, x: NDArray[np.float32], y: Ints, asked: NDArray[np.float32]) -> Ints:
    """Classes that a linear probe, fitted to x and y, predicts for `asked`."""
    from sklearn.linear_model import RidgeClassifier

    mean, deviation = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)

    def scaled(values: NDArray[np.float32]) -> NDArray[np.float32]:
        clipped: NDArray[np.float32] = np.clip((values - mean) / deviation, -5, 5)
        return clipped

    answer: Ints = RidgeClassifier(alpha=alpha).fit(scaled(x), y).predict(scaled(asked))
    return answer
