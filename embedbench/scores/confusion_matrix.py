"""Confusion matrices: which classes the test samples of each class are given, at one moment.

Entry [a, b] is the share of the samples of class a that were given class b. Rows and columns of
classes that were not seen, and rows without a test sample, are NaN.
"""

import numpy as np

from embedbench.array_types import Bools, Floats, Ints


def confusion_of_classes(y: Ints, given: Ints, seen: Bools) -> Floats:
    """(C, C) shares where a sample has one class and gets one.

    A sample without an answer counts in the size of its class alone, so that its row sums to less
    than 1.

    Parameters
    ----------
    y, given : array of int
        (n,) true class of each sample, and that given to it; -1 where there is no answer.
    seen : array of bool
        (C,) classes seen so far.

    Examples
    --------
    >>> y, given = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, -1])
    >>> confusion_of_classes(y, given, np.array([True, True]))
    array([[0.75, 0.25],
           [0.  , 0.5 ]])
    """
    n_classes = len(seen)
    answered = given >= 0
    pairs = y[answered] * n_classes + given[answered]
    counts = np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)
    return _shares(counts, np.bincount(y, minlength=n_classes), seen)


def confusion_of_sets(true: Bools, given: Bools, seen: Bools) -> Floats:
    """(C, C) shares where a sample has several labels and gets several.

    A sample counts in the row of each of its labels, so rows do not sum to 1.

    **Source**: Abdelsalam et al. (2021, IIRC), Figure 6 and Appendix D.6.

    Parameters
    ----------
    true, given : array of bool
        (n, C) labels of each sample, and those given to it.
    seen : array of bool
        (C,) classes seen so far.

    Examples
    --------
    >>> true = np.array([[1, 1], [1, 0], [1, 0], [1, 0]], np.bool_)
    >>> given = np.array([[1, 1], [1, 1], [1, 0], [0, 0]], np.bool_)
    >>> confusion_of_sets(true, given, np.array([True, True]))
    array([[0.75, 0.5 ],
           [1.  , 1.  ]])
    """
    counts = np.zeros((len(seen), len(seen)), dtype=np.int64)
    for label in np.flatnonzero(seen):
        counts[label] = given[true[:, label]].sum(axis=0)
    return _shares(counts, true.sum(axis=0), seen)


def learned_sessions(seen: Bools) -> Ints:
    """(C,) the session that brought each class; -1 for a class that was not seen.

    Parameters
    ----------
    seen : array of bool
        (T, C) classes seen after each session.

    >>> learned_sessions(np.array([[False, True, False], [True, True, False]]))
    array([ 1,  0, -1])
    """
    result: Ints = np.where(seen.any(axis=0), seen.argmax(axis=0), -1)
    return result


def _shares(counts: Ints, sizes: Ints, seen: Bools) -> Floats:
    """Counts as shares of the size of each row, NaN where nothing was seen or tested."""
    shares: Floats = counts / np.where(sizes > 0, sizes, np.nan)[:, None]
    shares[~seen] = np.nan
    shares[:, ~seen] = np.nan
    return shares
