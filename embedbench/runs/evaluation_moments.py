"""The moments at which a learner is evaluated: the ends of sessions, and sample counts online."""

from dataclasses import dataclass

from embedbench.array_types import Bools
from embedbench.streams.stream import Stream


@dataclass(frozen=True)
class Moment:
    """A moment of evaluation: the current session, samples so far, and classes seen, (C,)."""

    session: int
    samples: int
    seen: Bools


def lesson_ends(stream: Stream, number: int, before: int, *, online: bool) -> list[int]:
    """The samples of a session at each evaluation moment in it; the last is its end.

    `before` are the training samples of the earlier sessions; `online` says whether the learner
    learns batches as they come, where the stream has them.
    """
    n, size, every = len(stream.sessions[number].x), stream.observe_batch, stream.evaluate_every
    batches = range(size, n, size) if online and size and every else ()
    return [*(e for e in batches if (before + e - size) // every < (before + e) // every), n]


def moments(stream: Stream, *, online: bool) -> list[tuple[int, int]]:
    """Session and training samples so far at each evaluation moment of a run."""
    result, before = list[tuple[int, int]](), 0
    for number, session in enumerate(stream.sessions):
        ends = lesson_ends(stream, number, before, online=online)
        result += [(number, before + end) for end in ends]
        before += len(session.x)
    return result
