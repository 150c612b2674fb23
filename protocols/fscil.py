"""Few-shot class-incremental learning: a base session with all samples, then N-way K-shot ones."""

import gzip
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, ClassVar, Literal

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.streams import make_sessions as tools
from embedbench.streams.class_subset import ALL, OrderedFile, order_chosen
from embedbench.streams.load_table import layer_names, load_table
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream

# The published lists: the benchmarks are Tao et al.'s (2020), the lists those of CEC (Zhang et al.,
# 2021) that later papers use: all training images of session 0, and five of each class after it.

# classes of session 0, and of each later session
LISTS = {"cifar100": (60, 5), "cub200": (100, 10), "mini-imagenet": (60, 5)}
SHOT = 5
NUMBERED = re.compile("train/([0-9]{1,8})")  # sample ids of CIFAR-100, whose lists have numbers


def read_list(name: str) -> list[list[str]]:
    """The lines of each session's list: numbers of training images (CIFAR-100), or their paths."""
    asset = resources.files("embedbench") / "assets" / "fscil" / f"{name}.txt.gz"
    text = gzip.decompress(asset.read_bytes()).decode()
    return [session.splitlines() for session in text.split("\n\n")]


def listed_rows(name: str, file: EmbeddingFile, pool: Ints) -> list[Ints]:
    """The rows that the list of each session names, in its order.

    The lists of CIFAR-100 hold numbers: those of sample ids `train/NUMBER`, or else positions in
    `pool`, the file's training rows (n,), ascending. The other lists hold paths, which are matched
    by their last part, the image's name.
    """
    sessions = read_list(name)
    numbered = name == "cifar100"
    row = _by_number(file, pool) if numbered else {_last(file.sample_ids[k]): k for k in pool}
    keys = [[_last(line) for line in lines] for lines in sessions]
    missing = [line for line in itertools.chain(*sessions) if _last(line) not in row]
    if missing:
        raise UserError(
            f"the lists of {name} name {sum(map(len, sessions))} training images, and "
            f"{len(missing)} of them are not among the training samples of {file.path.name}, the "
            f"first {missing[0]!r}",
            "extract the data set with its official split and sample ids",
        )
    rows = [np.array([row[key] for key in session], dtype=np.int64) for session in keys]
    _check_classes(name, file, rows)
    return rows


def _by_number(file: EmbeddingFile, pool: Ints) -> dict[str, int]:
    """Row of each training sample by its number in the data set."""
    ids = [NUMBERED.fullmatch(i) for i in file.sample_ids[pool].tolist()]
    numbers = [str(int(i[1])) for i in ids if i]
    if len(numbers) < len(pool):
        numbers = list(map(str, range(len(pool))))
    return dict(zip(numbers, pool.tolist(), strict=True))


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _check_classes(name: str, file: EmbeddingFile, rows: list[Ints]) -> None:
    """Refuse a file whose labels do not fit the lists."""
    base, way = LISTS[name]
    seen: set[int] = set()
    for k, taught in enumerate(rows):
        classes, counts = np.unique(file.labels[taught], return_counts=True)
        new = {*classes.tolist()} - seen
        fits = len(new) == len(classes) == (way if k else base)
        if not fits or (k and (counts != SHOT).any()):
            raise UserError(
                f"{file.path.name} has its samples or labels in another order than the lists of "
                f"{name}: those of session {k} are of {len(classes)} classes, {len(new)} new",
                "extract the data set again",
            )
        seen |= new


WAY = 5
Drawn = tuple[Ints, Ints]  # classes of a session, and rows of its training samples


@dataclass(kw_only=True)
class FSCIL(Protocol):
    """Few-shot class-incremental learning, the session id hidden.

    Session 0 teaches its classes with all their training samples. Each later session teaches N new
    classes with K samples each. All classes seen so far are tested after each session.

    **Source**: Tao et al. (2020); Tang et al. (2024), §4.1 and §5.1: CIFAR-100 and miniImageNet
    60 + 8 × 5 classes with 5 shots, CUB-200 100 + 10 × 10 with 5; published lists, see
    `embedbench.protocols.fscil`.

    **Departs**: validation data comes from the base session only, carved as in every protocol, so
    that the base is taught with 90 % of its samples. Later sessions have none, and their shots may
    be any training samples. With `scale="auto"` a file with layers is not scaled, because the
    field's cosine classifiers take directions from the origin. Classes without test samples, or
    with fewer than K training samples, replace others in the base session; classes after the last
    whole session are left out. Notes name them. Flipped copies (`extract --flip`) are taught in the
    base session alone: shots are drawn, and counted, among the images themselves.

    Parameters
    ----------
    lists : str
        A published list, "cifar100", "cub200" or "mini-imagenet", which has its own base, way,
        shots and order; "": sessions are generated.
    base : int
        Classes of session 0; 0: 60 % of the classes.
    way : int
        N, new classes of each later session; 0: 5, or fewer for `novel` sessions.
    novel : int
        Later sessions that `way` = 0 leaves room for where the classes after the base suffice.
    shot : int
        K, training samples of each new class. The draw depends on the seed and not on the class
        order; a smaller K takes the first of the samples of a larger one.
    sessions : int
        Number of sessions, base included; 0: as many as fit.
    order, layers, embedding : str
        As in `incremental-class`.
    loss : str
        As in `incremental-class`. It concerns learners that train a head in later sessions, such
        as `mlp` or `ewc`; few-shot learners compare the classes seen in any case.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "fscil", base=24, way=4, shot=5)
    >>> [len(session.y) for session in stream.sessions]
    [216, 20, 20, 20, 20]
    """

    lists: str = ""
    base: Annotated[int, at_least(0)] = 0
    way: Annotated[int, at_least(0)] = 0
    shot: Annotated[int, at_least(1)] = SHOT
    sessions: Annotated[int, at_least(0)] = 0
    order: str = "natural"
    layers: str = "all"
    embedding: str = FINAL
    loss: Literal["all", "seen", "session"] = later("all", earlier="all")
    novel: Annotated[int, at_least(1)] = later(3, earlier=1)

    name: ClassVar[str] = "fscil"
    teaches_all: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lists:
            return
        if self.lists not in LISTS:
            raise unknown("lists", self.lists, LISTS)
        defaults = {"base": 0, "way": 0, "shot": SHOT, "order": "natural", "classes": ALL}
        given = [what for what, default in defaults.items() if getattr(self, what) != default]
        if given:
            raise UserError(
                f"the lists of {self.lists} have classes, a base, way, shot and order of their own",
                f"drop protocol.{given[0]}, or protocol.lists",
            )

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        taken = tools.one_file(files, self.name, self.validation)
        chosen = order_chosen(taken, self.classes, self.order, seed)
        file = chosen.file
        split = tools.split_rows(file, self.validation, self.val_fraction, self.val_by)
        held_out = self.validation == "train"
        pool = split.train
        if held_out and (self.lists or self.val_by == "sample"):  # shots may be held-out samples
            pool = np.flatnonzero(file.split == TRAIN)
        originals = np.setdiff1d(pool, tools.flipped_copies(file))
        if self.lists:
            drawn, notes = self._listed(file, originals)
        else:
            drawn, notes = self._generated(file, originals, chosen, seed)
        base_classes, base = drawn[0]
        base = tools.with_copies(file, base)  # shots have none: K samples are K images
        sizes = np.bincount(file.labels[split.train], minlength=file.samples.n_leaves)
        few = tools.mean_rows(sizes, len(base_classes)) < self.scale_least
        val = split.val
        if held_out:
            val = val[np.isin(file.labels[val], base_classes)]
        base = np.setdiff1d(base, tools.with_copies(file, val))
        train = np.sort(np.concatenate([base, *(rows for _, rows in drawn[1:])]))
        split = tools.Split(train, val, split.test)
        layers = layer_names(file, self.layers)
        scale = "none" if self.scale == "auto" and file.layers else self.scale
        table, features, fitted = load_table(file, scale, base, layers, self.embedding, few=few)
        if self.embedding != FINAL:
            notes = (*notes, f"the layer {self.embedding} stands in the place of the embedding")
        pairs = tools.limit_losses(
            [tools.view_session(table, file, split, classes=c) for c, _ in drawn], self.loss
        )
        return self.make_stream(
            tools.flat_spec(table, file, layers, self.embedding, loss=self.loss),
            pairs,
            [file],
            features,
            fitted=fitted,
            notes=notes,
            origin=(file, self.embedding),
        )

    def _listed(self, file: EmbeddingFile, pool: Ints) -> tuple[list[Drawn], tuple[str, ...]]:
        """The sessions of a published list; no notes."""
        rows = listed_rows(self.lists, file, pool)
        if self.sessions and not 2 <= self.sessions <= len(rows):
            raise UserError(
                "sessions",
                expected=f"2 to {len(rows)} with the lists of {self.lists}",
                got=self.sessions,
            )
        drawn = []
        for taught in rows[: self.sessions or None]:
            classes, first = np.unique(file.labels[taught], return_index=True)
            drawn.append((classes[np.argsort(first)], taught))  # in the order of the list
        return drawn, ()

    def _generated(
        self, file: EmbeddingFile, pool: Ints, chosen: OrderedFile, seed: int
    ) -> tuple[list[Drawn], tuple[str, ...]]:
        """Sessions drawn by the seed, and notes."""
        labels = file.labels[pool]
        n = file.samples.n_leaves
        few = np.bincount(labels, minlength=n) < self.shot
        untested = np.bincount(file.labels[file.split == TEST], minlength=n) == 0
        order = chosen.order
        early = (few | untested)[order]  # classes that cannot come later
        cuts = self._cuts(n, int(early.sum()), int(untested.sum()))
        *classes, left = np.split(np.concatenate([order[early], order[~early]]), cuts)
        drawn = [(classes[0], pool[np.isin(labels, classes[0])])]
        for new in classes[1:]:
            shots = [
                np.random.default_rng([seed, c]).permutation(pool[labels == c])[: self.shot]
                for c in new
            ]
            drawn.append((new, np.concatenate(shots)))
        notes = [
            f"{what}: {', '.join(file.classes[c] for c in some)}"
            for what, some in (
                ("classes without test samples, in the base session", np.flatnonzero(untested)),
                (
                    f"classes of fewer than {self.shot} training samples, in the base session",
                    np.flatnonzero(few),
                ),
                ("classes left out, after the last whole session", left),
            )
            if len(some)
        ]
        return drawn, (*chosen.notes, *notes)

    def _cuts(self, n: int, early: int, untested: int) -> list[int]:
        """Positions in the order at which sessions 1, 2, … begin, and where the last one ends.

        Of n classes, `early` belong to session 0, and `untested` have no test samples.
        """
        base = self.base or round(0.6 * n)
        least = max(early, untested + 1)
        if not least <= base < n:
            raise UserError(
                "base",
                "set protocol.base, or lower protocol.shot",
                expected=f"{least} to {n - 1} for {n} classes, of which {early} have no test "
                f"samples or fewer than {self.shot} training samples and come first",
                got=base,
            )
        way = self.way or max(1, min(WAY, (n - base) // self.novel))
        most = 1 + (n - base) // way
        if most < 2:
            raise UserError(
                "way", expected=f"at most {n - base}, the classes after a base of {base}", got=way
            )
        if self.sessions and not 2 <= self.sessions <= most:
            raise UserError(
                "sessions",
                expected=f"2 to {most} for {n} classes, a base of {base} and {way} a session",
                got=self.sessions,
            )
        return [base + way * k for k in range(self.sessions or most)]
