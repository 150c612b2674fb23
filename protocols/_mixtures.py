"""Which session teaches which training sample, by the rules of four papers; rows and labels only.

Each rule returns one array of rows a session, ascending. `rows` are (n,) training rows, `labels`
are (N,) the classes of all rows, `classes` are the classes of the stream in its order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embedbench.arrays import Ints
from embedbench.errors import UserError

TRIES = 1000


def i_blurry(
    rows: Ints,
    labels: Ints,
    classes: Ints,
    sessions: int,
    shares: tuple[float, float],
    rng: np.random.Generator,
) -> list[Ints]:
    """The first N of the classes are disjoint; of the others, M of the samples go anywhere.

    Disjoint and blurry classes are shared out to the sessions evenly, in their order. Each session
    gives ⌊M n⌋ of the n samples of its blurry classes to a pool, drawn at random. The pool is
    shuffled and dealt to all sessions in equal parts, so that a sample may come back.

    **Source**: Koh et al. (2022), CLIB, i-Blurry-N-M: their published splits, whose rule Moon et
    al. (2023) give as code. **Departs**: where the sessions do not divide a number, that code
    leaves classes or samples out. Here they are shared out as evenly as possible; the first
    sessions get one more disjoint class, the last ones one more blurry class.

    Parameters
    ----------
    shares : tuple of float
        N and M, each 0 to 1.
    """
    disjoint, blurry = _shared(classes, shares[0])
    apart = np.array_split(disjoint, sessions)
    sizes = [len(part) for part in np.array_split(blurry, sessions)][::-1]
    major = np.split(blurry, np.cumsum(sizes)[:-1])
    mixed = [rng.permutation(_of(rows, labels, part)) for part in major]
    moved = [int(_floor(len(own) * shares[1])) for own in mixed]
    pool = rng.permutation(np.concatenate([own[:n] for own, n in zip(mixed, moved, strict=True)]))
    back = np.array_split(pool, sessions)
    return [
        np.sort(np.concatenate([_of(rows, labels, apart[k]), mixed[k][moved[k] :], back[k]]))
        for k in range(sessions)
    ]


def si_blurry(
    rows: Ints,
    labels: Ints,
    classes: Ints,
    sessions: int,
    shares: tuple[float, float],
    rng: np.random.Generator,
) -> list[Ints]:
    """As `i_blurry`, with random numbers of classes and of moved samples in each session.

    The borders between the sessions' disjoint classes are drawn, those between their blurry classes
    too. The pool holds M of all blurry samples; it is cut at random borders into what each session
    gives and gets back. A session gives no more than it has.

    **Source**: Moon et al. (2023), MVP, Si-Blurry; the rule as in their code. **Departs**: it is
    drawn again until every session has training samples.
    """
    disjoint, blurry = _shared(classes, shares[0])
    for _ in range(TRIES):
        apart = np.split(disjoint, _borders(len(disjoint), sessions, rng))
        major = np.split(blurry, _borders(len(blurry), sessions, rng))
        mixed = [rng.permutation(_of(rows, labels, part)) for part in major]
        total = int(_floor(sum(map(len, mixed)) * shares[1]))
        ends = np.array([0, *_borders(total, sessions, rng), total])
        moved = np.diff(ends).tolist()
        given = [own[:n] for own, n in zip(mixed, moved, strict=True)]
        back = np.split(rng.permutation(np.concatenate(given)), ends[1:-1])
        parts = [
            np.sort(np.concatenate([_of(rows, labels, apart[k]), mixed[k][moved[k] :], back[k]]))
            for k in range(sessions)
        ]
        if all(map(len, parts)):
            return parts
    raise UserError(
        f"si-blurry left a session without training samples in each of {TRIES} draws; use fewer "
        "protocol.sessions"
    )


def repetition(
    rows: Ints,
    labels: Ints,
    classes: Ints,
    sessions: int,
    slots: int,
    rng: np.random.Generator,
) -> list[Ints]:
    """Every session has K slots, and every class fills several of them with its samples.

    With T sessions and C classes, a class has ⌊TK/C⌋ slots, one more if it is among the first TK
    mod C of a random order. Its samples are shuffled and cut into as many parts. The sessions are
    filled from the last to the first: each gets K different classes, drawn from those that have
    parts left; or, if fewer than K classes have any, K parts of those.

    **Source**: Hemati et al. (2023), class-incremental learning with repetition, the slot-based
    generator (their code). **Departs**: all samples of a class are used, where parts of one size
    leave a rest out.

    Parameters
    ----------
    slots : int
        K, at most C.
    """
    n = len(classes)
    every, more = divmod(sessions * slots, n)
    left = dict.fromkeys(classes.tolist(), every)
    for c in rng.permutation(classes)[:more].tolist():
        left[c] += 1
    parts = {
        c: np.array_split(rng.permutation(_of(rows, labels, np.array([c]))), k)
        for c, k in left.items()
        if k
    }
    taught: list[list[Ints]] = [[] for _ in range(sessions)]
    for session in reversed(taught):
        for c in _drawn(left, slots, rng):
            session.append(parts[c].pop(int(rng.integers(len(parts[c])))))
    return [np.sort(np.concatenate(session)) for session in taught]


def long_tailed(
    rows: Ints,
    labels: Ints,
    classes: Ints,
    sessions: int,
    ratio: float,
    rng: np.random.Generator,
    *,
    shuffled: bool,
) -> list[Ints]:
    """Disjoint classes whose sizes fall exponentially: n_i = n_max ρ^(i / (C - 1)), i = 0 … C - 1.

    n_max is the size of the largest class; a class keeps at least one sample, and no more than it
    has. Which samples are kept is drawn. Sizes follow the order of the classes, so that the first
    session has the largest ones, or are shuffled.

    **Source**: Liu et al. (2022), long-tailed class-incremental learning: ordered and shuffled
    LT-CIL; n_i as in their code, cut to an integer.

    Parameters
    ----------
    ratio : float
        ρ, the size of the smallest class by that of the largest, in (0, 1].
    """
    own = {c: rng.permutation(rows[labels[rows] == c]) for c in classes.tolist()}
    largest, last = max(map(len, own.values())), max(len(classes) - 1, 1)
    rank = rng.permutation(len(classes)) if shuffled else np.arange(len(classes))
    kept = {
        c: own[c][: max(1, int(_floor(largest * ratio ** (i / last))))]
        for c, i in zip(classes.tolist(), rank.tolist(), strict=True)
    }
    return [
        np.sort(np.concatenate([rows[:0], *(kept[c] for c in share.tolist())]))
        for share in np.array_split(classes, sessions)
    ]


def _shared(classes: Ints, disjoint: float) -> tuple[Ints, Ints]:
    """The disjoint and the blurry classes."""
    n = int(_floor(len(classes) * disjoint))
    return classes[:n], classes[n:]


def _of(rows: Ints, labels: Ints, classes: Ints) -> Ints:
    """The rows of some classes, in their order."""
    return rows[np.isin(labels[rows], classes)]


def _borders(n: int, sessions: int, rng: np.random.Generator) -> Ints:
    """(sessions - 1,) sorted random positions below n, at which something is cut."""
    return np.sort(rng.integers(0, max(n, 1), sessions - 1))


def _drawn(left: dict[int, int], slots: int, rng: np.random.Generator) -> Sequence[int]:
    """The classes of a session's slots; `left` counts the parts that the classes still have."""
    open_ = [c for c, n in left.items() if n]
    if len(open_) >= slots:
        drawn: list[int] = rng.choice(open_, slots, replace=False).tolist()
        for c in drawn:
            left[c] -= 1
        return drawn
    drawn = []
    for _ in range(slots):
        c = int(rng.choice([c for c, n in left.items() if n]))
        left[c] -= 1
        drawn.append(c)
    return drawn


def _floor(value: float) -> float:
    """⌊value⌋, where a product such as 0.29 · 100 counts as the integer that is meant."""
    return float(np.floor(value + 1e-9))
