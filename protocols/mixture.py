"""Mixture: sessions that share classes, repeat them, or have classes of very different sizes.

`i_blurry`, `si_blurry`, `repetition` and `long_tailed` are the rules. Each returns one array of
rows a session, ascending. `rows` are (n,) training rows, `labels` are (N,) the classes of all rows,
`classes` are the classes of the stream in its order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.setting_ranges import at_least, within
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST
from embedbench.streams import make_sessions as tools
from embedbench.streams.class_subset import order_chosen
from embedbench.streams.load_table import load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream

TRIES = 1000  # draws of "si-blurry"
SETTINGS: dict[str, tuple[str, ...]] = {  # each with the parameters that it alone reads
    "i-blurry": ("disjoint", "blurry"),
    "si-blurry": ("disjoint", "blurry"),
    "repetition": ("slots",),
    "long-tailed": ("imbalance",),
    "long-tailed-shuffled": ("imbalance",),
}


@dataclass(kw_only=True)
class Mixture(Protocol):
    """Class-incremental streams without clean borders: blurry, repeating, or long-tailed.

    A session introduces the classes that no earlier one taught, and tests them from then on. So all
    classes seen so far are tested together, as in CLIB, and average anytime accuracy is its A_AUC.
    A session that introduces nothing has no eval set of its own; metrics of single sessions leave
    it out.

    **Source**: by setting. "i-blurry": Koh et al. (2022), CLIB, i-Blurry-N-M. "si-blurry": Moon et
    al. (2023). "repetition": Hemati et al. (2023), slot-based. "long-tailed" (the largest classes
    first) and "long-tailed-shuffled": Liu et al. (2022), LT-CIL. `task_free`: Aljundi et al.
    (2019), task-free continual learning; CLIB is task-free, too.

    **Departs**: CLIB tests a class from its first sample on, here it is tested from the start of
    the session that has it. Classes without test samples come last. Validation samples, which the
    papers do not have, are dealt to the sessions that teach their class. LT-CIL also has a base
    session of half the classes; here the sessions are equal.
    `embedbench.protocols.mixture` has a function for each rule.

    Parameters
    ----------
    setting : str
        "i-blurry", "si-blurry", "repetition", "long-tailed" or "long-tailed-shuffled".
    sessions : int
        T ≥ 2; 5 in CLIB and Si-Blurry.
    disjoint : float
        N, the share of classes that belong to one session, 0 to 1.
    blurry : float
        M, the share of the other classes' samples that move to any session, 0 to 1.
    slots : int
        K, the classes in each session of "repetition"; 0: half of the classes, or as many as are
        needed to teach each once.
    imbalance : float
        ρ, the size of the smallest class as a share of the largest, in (0, 1].
    order : str
        Order of the classes: "natural", "random" (drawn from the seed), "size", or an order file.
    task_free : bool
        Learners are not to know where a session ends. Only learners of batches are taken; the
        references are as usual. A batch never has samples of two sessions, and an evaluation
        follows every session; with `evaluate_every` there are others in between.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "mixture", sessions=4)
    >>> [len(session.y) for session in stream.sessions]
    [90, 90, 90, 90]
    """

    setting: Literal[
        "i-blurry", "si-blurry", "repetition", "long-tailed", "long-tailed-shuffled"
    ] = "i-blurry"
    sessions: Annotated[int, at_least(2, 10_000)] = 5
    disjoint: Annotated[float, within("[0, 1]")] = 0.5
    blurry: Annotated[float, within("[0, 1]")] = 0.1
    slots: Annotated[int, at_least(0)] = 0
    imbalance: Annotated[float, within("(0, 1]")] = 0.01
    order: str = "random"
    task_free: bool = False

    name: ClassVar[str] = "mixture"
    teaches_all: ClassVar[bool] = False  # long-tailed sessions leave samples out
    reveals_no_future: ClassVar[bool] = False  # classes come back
    checked: ClassVar[tuple[dict[str, Any], ...]] = tuple({"setting": s} for s in SETTINGS)

    def __post_init__(self) -> None:
        super().__post_init__()
        every = set[str]().union(*SETTINGS.values())
        for f in fields(self):
            foreign = f.name in every and f.name not in SETTINGS[self.setting]
            if foreign and getattr(self, f.name) != f.default:
                raise UserError(
                    f"protocol.{f.name} is no parameter of the setting {self.setting!r}",
                    "drop it, or choose another protocol.setting",
                )
        if self.task_free and not self.observe_batch:
            raise UserError(
                "a task-free stream gives batches, and protocol.observe_batch is 0", "use 10"
            )

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        taken = tools.one_file(files, self.name, self.validation)
        chosen = order_chosen(taken, self.classes, self.order, seed)
        file = chosen.file
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        parts = self._parts(file, split.train, chosen.order, seed)
        for k, part in enumerate(parts):
            if not len(part):
                raise UserError(
                    f"no training samples for session {k}",
                    f"use fewer protocol.sessions than {self.sessions}",
                )
        sizes = np.unique(file.labels[split.train], return_counts=True)[1]
        few = self._first(sizes) < self.scale_least
        table, features, fitted = load_table(file, self.scale, parts[0], few=few)
        pairs = tools.teach_parts(table, file, split, parts, self._held(file, split, parts))
        return self.make_stream(
            tools.flat_spec(table, file),
            pairs,
            [file],
            features,
            fitted=fitted,
            notes=chosen.notes,
            task_free=self.task_free,
        )

    def _parts(self, file: EmbeddingFile, train: Ints, order: Ints, seed: int) -> list[Ints]:
        """The training rows of each session; `order` (C,) is that of the classes."""
        tested = tools.class_mask(file, file.labels[file.split == TEST])[order]
        classes = np.concatenate([order[tested], order[~tested]])
        labels = file.labels
        rng = np.random.default_rng([seed, 1])
        if self.setting == "repetition":
            least = -(-len(classes) // self.sessions)  # fewer leave a class without a slot
            slots = self.slots or max(least, len(classes) // 2)
            if not least <= slots <= len(classes):
                raise UserError(
                    "protocol.slots",
                    expected=f"{least} to {len(classes)} for {len(classes)} classes in "
                    f"{self.sessions} sessions",
                    got=slots,
                )
            return repetition(train, labels, classes, self.sessions, slots, rng)
        if self.setting in ("i-blurry", "si-blurry"):
            rule = i_blurry if self.setting == "i-blurry" else si_blurry
            shares = self.disjoint, self.blurry
            return rule(train, labels, classes, self.sessions, shares, rng)
        shuffled = self.setting == "long-tailed-shuffled"
        return long_tailed(
            train, labels, classes, self.sessions, self.imbalance, rng, shuffled=shuffled
        )

    def _first(self, sizes: Ints) -> float:
        """Samples in session 0, of classes of these sizes: see `scale_least`."""
        if self.setting == "si-blurry":
            return 1
        if not self.setting.startswith("long-tailed"):
            return tools.mean_rows(sizes, len(sizes)) / self.sessions
        n = len(sizes)
        whole = len(sizes) // self.sessions
        last = n - 1 if self.setting == "long-tailed-shuffled" else whole
        kept = np.minimum(sizes, int(sizes.max() * self.imbalance ** (last / (n - 1))))
        return tools.mean_rows(kept, whole)

    def _held(self, file: EmbeddingFile, split: tools.Split, parts: list[Ints]) -> Ints:
        """Validation rows; a class that lost training samples loses as large a share of them."""
        label = file.labels
        n = file.samples.n_leaves
        taught = np.bincount(label[np.concatenate(parts)], minlength=n)
        there = np.bincount(label[split.train], minlength=n)
        rows = {c: split.val[label[split.val] == c] for c in np.flatnonzero(there)}
        kept = [mine[: len(mine) * taught[c] // there[c]] for c, mine in rows.items()]
        return np.sort(np.concatenate(kept))


# --- the rules of four papers: which session teaches which training row ---


def i_blurry(
    rows: Ints,
    labels: Ints,
    classes: Ints,
    sessions: int,
    shares: tuple[float, float],
    rng: np.random.Generator,
) -> list[Ints]:
    """The first N of the classes are disjoint; of the others, M of the samples go anywhere.

    N and M are the `shares`, each 0 to 1. Disjoint and blurry classes are shared out to the
    sessions evenly, in their order. Each session gives ⌊M n⌋ of the n samples of its blurry classes
    to a pool, drawn at random. The pool is shuffled and dealt to all sessions in equal parts, so
    that a sample may come back.

    **Source**: Koh et al. (2022), CLIB, i-Blurry-N-M: their published splits, whose rule Moon et
    al. (2023) give as code. **Departs**: where the sessions do not divide a number, that code
    leaves classes or samples out. Here they are shared out as evenly as possible; the first
    sessions get one more disjoint class, the last ones one more blurry class.
    """
    disjoint, blurry = _shared(classes, shares[0])
    apart = np.array_split(disjoint, sessions)
    sizes = [len(part) for part in np.array_split(blurry, sessions)][::-1]
    major = np.split(blurry, np.cumsum(sizes)[:-1])
    mixed = [rng.permutation(_of(rows, labels, part)) for part in major]
    parted = [np.split(own, [int(_floor(len(own) * shares[1]))]) for own in mixed]
    pool = rng.permutation(np.concatenate([moved for moved, _ in parted]))
    back = np.array_split(pool, sessions)
    return [
        np.sort(np.concatenate([_of(rows, labels, apart[k]), parted[k][1], back[k]]))
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
        given = [mixed[k][: moved[k]] for k in range(sessions)]
        back = np.split(rng.permutation(np.concatenate(given)), ends[1:-1])
        parts = [
            np.sort(np.concatenate([_of(rows, labels, apart[k]), mixed[k][moved[k] :], back[k]]))
            for k in range(sessions)
        ]
        if all(map(len, parts)):
            return parts
    raise UserError(
        f"si-blurry left a session without training samples in each of {TRIES} draws",
        "use fewer protocol.sessions",
    )


def repetition(
    rows: Ints,
    labels: Ints,
    classes: Ints,
    sessions: int,
    slots: int,
    rng: np.random.Generator,
) -> list[Ints]:
    """Every session has K `slots`, K ≤ C, and every class fills several of them with its samples.

    With T sessions and C classes, a class has ⌊TK/C⌋ slots, one more if it is among the first TK
    mod C of a random order. Its samples are shuffled and cut into as many parts. The sessions are
    filled from the last to the first: each gets K different classes, drawn from those that have
    parts left; or, if fewer than K classes have any, K parts of those.

    **Source**: Hemati et al. (2023), class-incremental learning with repetition, the slot-based
    generator (their code). **Departs**: all samples of a class are used, where parts of one size
    leave a rest out.
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

    ρ, the `ratio`, is the size of the smallest class by that of the largest, n_max, in (0, 1]; a
    class keeps at least one sample, and no more than it has. Which samples are kept is drawn. Sizes
    follow the order of the classes, so that the first session has the largest ones, or are
    shuffled.

    **Source**: Liu et al. (2022), long-tailed class-incremental learning: ordered and shuffled
    LT-CIL; n_i as in their code, cut to an integer.
    """
    own = {c: rng.permutation(rows[labels[rows] == c]) for c in classes.tolist()}
    largest = max(map(len, own.values()))
    last = max(len(classes) - 1, 1)
    rank = rng.permutation(len(classes)) if shuffled else np.arange(len(classes))
    kept = {}
    for c, i in zip(classes.tolist(), rank.tolist(), strict=True):
        size = int(_floor(largest * ratio ** (i / last)))
        kept[c] = own[c][: max(1, size)]
    of_sessions = []
    for share in np.array_split(classes, sessions):
        parts = [kept[c] for c in share.tolist()]
        of_sessions.append(np.sort(np.concatenate([rows[:0], *parts])))  # a session may have none
    return of_sessions


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
