"""The score matrix: one base score of every eval set at every evaluation moment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from embedbench.array_types import Bools, Floats, Ints

from .array_file import ArrayFile


@dataclass(frozen=True)
class ScoreMatrix:
    """One base score of one run. M moments, E eval sets, C classes; fractions; NaN if undefined.

    Parameters
    ----------
    name : str
        One of the `SCORES` of its kind of answers.
    values : array of float
        (M, E) score of eval set e at moment m.
    pooled : array of float
        (M,) score over the test samples of all sessions learned so far, together.
    session, samples_seen, classes_seen : array of int
        (M,) the same as in `Predictions`.
    n_samples, n_classes, learned : array of int
        (E,) size, number of classes, and the session that introduces the classes of each eval set.
    per_class : array of float
        (M, C) recall of each class over the test samples of all sessions learned so far: the share
        of right answers. NaN where the class was not yet seen or has no test sample, and for label
        sets.
    class_sizes : array of float
        (C,) training samples of each class in the whole stream; NaN where they are not known.
    """

    name: str
    values: Floats
    pooled: Floats
    session: Ints
    samples_seen: Ints
    classes_seen: Ints
    n_samples: Ints
    n_classes: Ints
    learned: Ints
    per_class: Floats
    class_sizes: Floats

    @classmethod
    def of(
        cls,
        name: str,
        p: ArrayFile,
        values: Floats,
        pooled: Floats,
        n_samples: Ints,
        n_classes: Ints,
        per_class: Floats | None = None,
        class_sizes: Sequence[int] | None = None,
    ) -> "ScoreMatrix":
        """A base score of some predictions; what is None is undefined."""
        sizes = np.full(p.seen.shape[1], np.nan) if class_sizes is None else np.array(class_sizes)
        if len(sizes) != p.seen.shape[1]:
            raise ValueError(f"{len(sizes)} sizes of {p.seen.shape[1]} classes")
        return cls(
            name=name,
            values=values,
            pooled=pooled,
            session=p.session,
            samples_seen=p.samples_seen,
            classes_seen=p.seen.sum(axis=1),
            n_samples=n_samples,
            n_classes=n_classes,
            learned=np.arange(values.shape[1]),
            per_class=np.full(p.seen.shape, np.nan) if per_class is None else per_class,
            class_sizes=sizes.astype(np.float64),
        )

    @classmethod
    def from_matrix(cls, values: ArrayLike, session: Sequence[int] | None = None) -> "ScoreMatrix":
        """Scores of a stream with one class and equally many test samples in each session.

        Parameters
        ----------
        values : array of float
            (M, E) score of eval set e at moment m.
        session : sequence of int or None
            (M,) the session of each moment; None: each is the end of one.

        Examples
        --------
        >>> ScoreMatrix.from_matrix([[0.9, 0], [0.6, 0.8]]).pooled
        array([0.9, 0.7])
        """
        table = np.array(values, dtype=np.float64)
        sessions = np.arange(len(table)) if session is None else np.array(session)
        sets = np.arange(table.shape[1])
        seen = sets <= sessions[:, None]  # (M, E)
        return cls(
            name="class_accuracy",
            values=table,
            pooled=np.where(seen, table, 0).sum(axis=1) / seen.sum(axis=1),
            session=sessions,
            samples_seen=10 * np.arange(1, len(table) + 1),
            classes_seen=seen.sum(axis=1),
            n_samples=np.ones_like(sets),
            n_classes=np.ones_like(sets),
            learned=sets,
            per_class=np.where(seen, table, np.nan),
            class_sizes=np.full(len(sets), 10.0),
        )

    @property
    def ends(self) -> Ints:
        """The last moment of each session, (T,)."""
        return np.flatnonzero(np.append(np.diff(self.session) > 0, True))

    @property
    def tested(self) -> Bools:
        """(E,) whether an eval set has samples.

        A session of a blurry stream may introduce no class; there is nothing to test then.
        """
        return np.asarray(self.n_samples > 0)

    @property
    def sizes(self) -> Ints:
        """(E,) what an eval set counts in a mean over test data: its samples, or its classes.

        Its classes also where the two are proportional, so that the last bits are the same.
        """
        samples = self.n_samples
        classes = self.n_classes
        if self.name.endswith("class_accuracy"):
            return classes
        if np.array_equal(samples * classes[0], classes * samples[0]):
            return classes
        return samples

    @property
    def R(self) -> Floats:  # noqa: N802  (the field's name)
        """R[i, j]: score on eval set j after session i, (T, E)."""
        return self.values[self.ends]


def mean_or_nan(values: Sequence[float] | Floats | Ints) -> float:
    """Mean; NaN if there are no values or any value is undefined."""
    return float(np.mean(values)) if len(values) else float("nan")


def mean_of_known(values: Floats, axis: int) -> Floats:
    """The mean along an axis of what is defined; NaN where nothing is.

    >>> mean_of_known(np.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    array([ 2., nan])
    """
    known = ~np.isnan(values)
    counts = known.sum(axis=axis)
    sums = np.where(known, values, 0.0).sum(axis=axis)
    mean: Floats = sums / np.where(counts > 0, counts, np.nan)
    return mean
