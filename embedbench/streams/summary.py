"""A stream in numbers: what each session introduces and holds, and the digests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from embedbench.typed import JsonRecord

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
