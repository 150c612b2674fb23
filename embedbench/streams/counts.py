"""How many samples of each class a stream has, session by session."""

from __future__ import annotations

import numpy as np

from embedbench.arrays import Ints, Labels

from .stream import Stream


def class_counts(stream: Stream) -> tuple[Ints, Ints]:
    """Samples by class: training samples (T, C) of T sessions, test samples (E, C) of E eval sets.

    A sample of a multi-label stream counts once for each of its classes.
    """
    classes = stream.spec.n_classes
    train = np.stack([_counts(s.y, classes) for s in stream.sessions])
    return train, np.stack([_counts(e.y, classes) for e in stream.eval_sets])


def _counts(y: Labels, classes: int) -> Ints:
    """(C,) how often each class is among some labels."""
    counts: Ints = y.sum(axis=0) if y.ndim == 2 else np.bincount(y, minlength=classes)
    return counts.astype(np.int64)
