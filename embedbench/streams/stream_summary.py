"""A stream in numbers: what each session introduces and holds, class by class; the digests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from embedbench.array_types import Ints, Labels
from embedbench.config.json_records import JsonRecord

from .stream import Stream


@dataclass(frozen=True)
class SessionSummary(JsonRecord):
    """One session: names of the classes that it introduces, and its numbers of samples."""

    classes: tuple[str, ...]
    train: int
    val: int


@dataclass(frozen=True)
class StreamSummary(JsonRecord):
    """A stream in numbers.

    Parameters
    ----------
    title : str
        Protocol, files and seed.
    sessions : tuple of SessionSummary
        The sessions, in order.
    tests : tuple of int
        Samples of each eval set; there is one a session, but for label sets.
    digests : dict
        The four digests.
    notes : tuple of str
        What the protocol decided for these files.
    """

    title: str
    sessions: tuple[SessionSummary, ...]
    tests: tuple[int, ...]
    digests: dict[str, str]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, stream: Stream, title: str, names: Sequence[str]) -> Self:
        """The summary of a stream; `names`, (C,), are those of its classes."""
        sessions = tuple(
            SessionSummary(tuple(names[c] for c in s.classes.tolist()), len(s.x), len(s.val_x))
            for s in stream.sessions
        )
        tests = tuple(len(e.x) for e in stream.eval_sets)
        return cls(title, sessions, tests, stream.digests, stream.notes)


# --- samples of each class, session by session ---


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
