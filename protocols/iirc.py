"""IIRC: classes on several levels, one label at a time, superclasses before their subclasses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.config.setting_ranges import at_least, within
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.streams.class_subset import ALL
from embedbench.streams.feature_tables import Table
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import (
    flipped_copies,
    mean_rows,
    notes_on_held_groups,
    one_file,
    with_copies,
)
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.taught_classes import notes_on_classes
from embedbench.streams.view import View

from . import _hierarchy
from ._hierarchy import Hierarchy


@dataclass(kw_only=True)
class IIRC(Protocol):
    """Incremental implicitly-refined classification: some labels in training, all at test.

    A sample has a label on every level of the hierarchy. A session teaches some classes, each with
    its own share of the samples, and gives only the labels of its own classes. The same sample may
    come again in a later session, with a finer label. At test and in post-task validation, samples
    are scored against all their labels that have been introduced.

    **Source**: Abdelsalam et al. (2021), §2 to §4 and Table 1 to 3; shares, splits and class orders
    are those of the authors' package `iirc` 1.0.1. Its code does not shuffle; unlike the paper's
    Algorithm 3, it gives a subclass 80 % of the samples, not all.

    **Departs**: the hierarchy may have any depth. An inner node takes the first 40 % of its list
    and passes the last 80 % on, so that a class two levels down gets 64 %; the cap of 8 counts the
    leaves below a node. On two levels this is the package's rule. A share is at least one sample,
    and a class of two or more samples gives at least one to validation (the package rounds down to
    none). Flipped copies (`extract --flip`) are not dealt to validation, and those of validation
    samples are not taught. Class orders for hierarchies without published ones are ours. Samples
    without an introduced class (ImageNet-lite) are left out. Samples in no share are never taught,
    in any mode, as in the package. The package reads real ImageNet in an order in which some
    classes begin in their middle; here the samples of a class come in the order of the file.
    Numbers that need the real counts of ImageNet (totals of Table 1, 3,762 of bird) are not
    checked.

    Parameters
    ----------
    hierarchy : str
        "file" (classes and parents of the embedding file), a published one by name ("iirc-cifar",
        "iirc-imagenet-full", "iirc-imagenet-lite", and the class-incremental "incremental-cifar",
        "incremental-imagenet-full", "incremental-imagenet-lite"), which replaces the file's own.
    configuration : int or None
        Number of the published class order; None: the order seed, modulo their number. If the
        hierarchy has no published class orders: the seed that draws one.
    base : int
        Classes of session 0 in a drawn order, all of the top level; 0: two thirds of its
        superclasses (10 of 15 in CIFAR-100), or half of the classes if there are none.
    step, sessions : int
        Sizes of the later sessions in a drawn order; give one of the two. step: new classes per
        session, 0: 5. sessions: number of sessions, base included.
    information : str
        "incomplete": labels of the session's classes; "complete": of all classes so far;
        "cumulative": as "complete", with the samples of all sessions so far (incremental joint).
    superclass_share, subclass_share, cap : float, float, int
        An inner node takes the first share of its samples (0.4), less by cap / leaves where it is
        over more leaves than the cap (8), and passes the last share on to its children (0.8).
    validation, val_by : str
        "train" and "sample" only.
    val_fraction : float
        Share of each class's training samples for in-task validation, and the same share for
        post-task validation; 0: the share of the hierarchy's authors, 0.1, or 0.04 for ImageNet. If
        a file has validation samples, the first half of each class is for in-task and the other
        half for post-task validation; then no training samples are held out.
    observe_batch : int
        As in every protocol; by default 0: online learners, too, get whole sessions.

    Examples
    --------
    >>> from embedbench import build_stream
    >>> stream = build_stream("known:emoji-vit", "iirc")
    >>> len(stream.sessions), stream.spec.multilabel
    (10, True)
    """

    hierarchy: str = "file"
    configuration: Annotated[int, at_least(0)] | None = None
    base: Annotated[int, at_least(0)] = 0
    step: Annotated[int, at_least(0)] = 0
    sessions: Annotated[int, at_least(0)] = 0
    information: Literal["incomplete", "complete", "cumulative"] = "incomplete"
    superclass_share: Annotated[float, within("(0, 1]")] = 0.4
    subclass_share: Annotated[float, within("(0, 1]")] = 0.8
    cap: Annotated[int, at_least(1)] = 8
    val_fraction: Annotated[float, within("(0, 0.5)")] = 0.0
    observe_batch: int = 0

    name: ClassVar[str] = "iirc"

    def __post_init__(self) -> None:
        if self.val_fraction == 0:
            self.val_fraction = _hierarchy.PUBLISHED.get(self.hierarchy, 0.1)
        super().__post_init__()
        if self.validation != "train":
            raise UserError(
                "iirc.validation",
                "iirc has in-task and post-task validation data by its rules",
                expected="train",
                got=self.validation,
            )
        if self.val_by != "sample":
            raise UserError(
                "iirc.val_by",
                "the rules of iirc take validation data by sample; give the file a validation "
                "split that keeps groups whole (--split FILE)",
                expected="sample",
                got=self.val_by,
            )
        if self.classes != ALL:
            raise UserError(
                "iirc.classes",
                "the hierarchy of iirc says which classes there are",
                expected=ALL,
                got=self.classes,
            )

    def build(self, files: Sequence[EmbeddingFile], *, seed: int) -> Stream:
        file = one_file(files, self.name, self.validation)
        if self.hierarchy == "file":
            hierarchy = _hierarchy.file_hierarchy(file)
        else:
            hierarchy = _hierarchy.named_hierarchy(self.hierarchy, file)
        order, note = self._order(hierarchy, seed)
        roles = leaf_roles(file, hierarchy, self.val_fraction)
        taught = self._share_out(hierarchy, roles.train)
        validated = self._share_out(hierarchy, roles.intask)
        rows = tuple(union(taught[node] for node in nodes) for nodes in order)
        val_rows = tuple(union(validated[node] for node in nodes) for nodes in order)
        tops = [len(taught[node]) for node in np.flatnonzero(hierarchy.parents == -1)]
        few = mean_rows(np.array(tops), len(order[0])) < self.scale_least
        table, features, fitted = load_table(file, self.scale, rows[0], few=few)
        introduced = np.sort(np.concatenate(order))
        paths = hierarchy.above[hierarchy.leaf][:, introduced]
        paths[hierarchy.leaf == -1] = False
        classes = tuple(np.searchsorted(introduced, nodes) for nodes in order)
        sessions = _Sessions(table, file.labels, paths, classes, rows, val_rows, self.information)
        whole = replace(
            sessions,
            classes=(np.arange(len(introduced)),),
            rows=(union(rows),),
            val_rows=(union(val_rows),),
        )
        parents = hierarchy.parents[introduced]
        spec = StreamSpec(
            table.shape_of(table.width), len(introduced), multilabel=True, scaling=table.scaling
        )
        return Stream(
            spec=spec,
            sessions=sessions,
            eval_sets=(
                sessions.eval_set("test", np.flatnonzero(file.split == TEST)),
                sessions.eval_set("val", union(roles.posttask)),
            ),
            recipe=self.recipe(),
            features=features,
            samples=(file.digests["samples"],),
            fitted=fitted,
            observe_batch=self.observe_batch,
            evaluate_every=self.evaluate_every,
            notes=(
                *notes_on_classes(file),
                note,
                *_notes(file, hierarchy, roles, whole),
            ),
            whole=whole,
            classes=tuple(hierarchy.classes[k] for k in introduced),
            parents=np.where(parents == -1, -1, np.searchsorted(introduced, parents)),
        )

    def _share_out(self, hierarchy: _hierarchy.Hierarchy, by_leaf: "ByLeaf") -> list[Ints]:
        """The rows of each node, (K,) lists, from those of each leaf."""
        return share_out(hierarchy, by_leaf, self.superclass_share, self.subclass_share, self.cap)

    def _order(self, hierarchy: _hierarchy.Hierarchy, seed: int) -> tuple[tuple[Ints, ...], str]:
        """The nodes of each session, and the origin of the order."""
        published = hierarchy.configurations
        if not published:
            number = seed if self.configuration is None else self.configuration
            order = draw_sessions(hierarchy, self.base, self.step, self.sessions, number)
            return order, f"class order drawn over {hierarchy.name} with seed {number}"
        if self.base or self.step or self.sessions:
            raise UserError(
                f"hierarchy {hierarchy.name} brings its class orders",
                "leave base, step and sessions at 0",
            )
        number = seed % len(published) if self.configuration is None else self.configuration
        if number >= len(published):
            raise UserError(
                "configuration",
                expected=f"0 to {len(published) - 1} with hierarchy {hierarchy.name}",
                got=number,
            )
        return published[number], f"class order: configuration {number} of {hierarchy.name}"


@dataclass(frozen=True)
class _Sessions(Sequence[Session]):
    """The sessions of a stream; each is made anew at every access.

    A session of ImageNet has (35,000, 1083) bool labels; those of all sessions take up to 20 GB.

    Parameters
    ----------
    labels : array of int
        (N,) the file's label of each row.
    paths : array of bool
        (L, C) the classes of each label.
    classes, rows, val_rows : tuple of array of int
        For each session, the classes that it introduces, its training and its validation rows.
    information : str
        As in `IIRC`.
    """

    table: Table
    labels: Ints
    paths: Bools
    classes: tuple[Ints, ...]
    rows: tuple[Ints, ...]
    val_rows: tuple[Ints, ...]
    information: str

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[t] for t in range(len(self))[index]]
        t = range(len(self))[index]
        first = 0 if self.information == "cumulative" else t
        rows = union(self.rows[first : t + 1])
        val_rows = union(self.val_rows[first : t + 1])
        seen = np.zeros(self.paths.shape[1], dtype=np.bool_)
        seen[np.concatenate(self.classes[: t + 1])] = True
        visible = np.zeros(self.paths.shape[1], dtype=np.bool_)
        visible[self.classes[t]] = True
        labels = self.paths & (visible if self.information == "incomplete" else seen)
        return Session(
            x=self._view(rows),
            y=labels[self.labels[rows]],
            val_x=self._view(val_rows),
            val_y=labels[self.labels[val_rows]],
            ids=rows,
            classes=self.classes[t],
            loss_classes=seen,
        )

    def eval_set(self, split: str, rows: Ints) -> EvalSet:
        """An eval set of all `rows` that have a label, with all their labels."""
        has_label = self.paths.sum(axis=1) > 0  # (L,)
        rows = rows[has_label[self.labels[rows]]]
        everything = np.ones(self.paths.shape[1], dtype=np.bool_)
        y = self.paths[self.labels[rows]]
        return EvalSet(x=self._view(rows), y=y, ids=rows, classes=everything, split=split)

    def _view(self, rows: Ints) -> View:
        return View(self.table, rows, self.table.width)


def _notes(
    file: EmbeddingFile, hierarchy: Hierarchy, roles: "LeafRoles", whole: _Sessions
) -> list[str]:
    """Notes for the reader on samples that the stream leaves out or divides."""
    notes = []
    if (hierarchy.parents == -1).all():
        notes.append(
            f"{hierarchy.name} has no hierarchy, so that every sample has one label, as in "
            "incremental-class; --set protocol.hierarchy=… names one"
        )
    dropped = [file.classes[k] for k in np.flatnonzero(hierarchy.leaf == -1)]
    if dropped:
        named = ", ".join(dropped[:3])
        if len(dropped) > 3:
            named += ", …"
        notes.append(f"{len(dropped)} classes that {hierarchy.name} has not are left out: {named}")
    untaught = sum(len(rows) for _, rows in roles.train) - len(whole.rows[0])
    if untaught:
        notes.append(f"{untaught} training samples are in no class's share and are not taught")
    if (file.split == VAL).any():
        notes.append("the file's validation samples: half in-task, half post-task validation")
    notes += notes_on_held_groups(
        file,
        whole.rows[0],
        union([*whole.val_rows, *roles.posttask]),
        by_group=False,
        remedy="a validation split of the file (--split FILE) can keep them whole",
    )
    return notes


# --- random class orders: the class above comes in an earlier session ---


STEP = 5


def draw_sessions(
    hierarchy: _hierarchy.Hierarchy, base: int, step: int, sessions: int, seed: int
) -> tuple[Ints, ...]:
    """The nodes of each session, every node once and strictly after the one above it.

    Session 0 has `base` superclasses of the top level (0: two thirds of them, or half of the
    classes of a flat hierarchy); if they do not suffice, also leaves of the top level. Later
    sessions draw `step` (0: 5) from the nodes whose parent has been taught; the last one takes the
    rest, and one is smaller when too few classes are eligible. With `sessions` they share the
    classes after `base` evenly. If a branch has as many levels left as there are sessions, its next
    node is taken without a draw.
    """
    parents = hierarchy.parents
    heights = _heights(hierarchy)
    n = len(parents)
    top = parents == -1
    supers = int((top & (heights > 1)).sum())
    if not base:
        base = _ceil(2 * supers, 3) if supers else max(1, n // 2)
    most = min(int(top.sum()), n - 1)
    if base > most:
        raise UserError(
            "base", expected=f"between 1 and {most}, the classes that may come first", got=base
        )
    total = _number(heights, top, base, step, sessions)
    least = step
    if not step and not sessions:
        least = STEP
    rng = np.random.default_rng(seed)
    left = np.ones(n, dtype=np.bool_)
    drawn: list[Ints] = []
    while left.any():
        may = left & (top | ~left[parents])
        remaining = total - len(drawn)
        must = heights >= remaining
        # an even share of what is left, so that the last sessions are not overfull
        quota = max(least, _ceil(left.sum(), remaining)) if drawn else base
        # in session 0 superclasses come first; otherwise the order is random
        last = (heights == 1) & (not drawn)
        order = np.lexsort((rng.permutation(n), last, ~must))
        take = order[may[order]][:quota]  # all that must are in it: each heads `remaining` nodes
        left[take] = False
        drawn.append(take)
    return tuple(drawn)


def _ceil(n: int, parts: int) -> int:
    """n / parts, rounded up."""
    return -(-n // parts)


def _heights(hierarchy: _hierarchy.Hierarchy) -> Ints:
    """(K,) number of levels from each node down, its own level included."""
    depth = hierarchy.above.sum(axis=1, dtype=np.int16)
    deepest = (hierarchy.above * depth[:, None]).max(axis=0)
    heights: Ints = (deepest - depth + 1).astype(np.int64)
    return heights


def _number(heights: Ints, top: Bools, base: int, step: int, sessions: int) -> int:
    """The number of sessions, T."""
    n = len(heights)
    if sessions and step:
        raise UserError(f"give step or sessions, not both; got {step} and {sessions}")
    tall = int((top & (heights == heights.max())).sum())
    least = max(2, int(heights.max()) + (tall > base))  # one session for each level
    if not sessions:
        return max(1 + _ceil(n - base, step or STEP), least)
    if not least <= sessions <= n - base + 1:
        raise UserError(
            "sessions",
            expected=f"{least} to {n - base + 1} for {n} classes on {heights.max()} levels and a "
            f"base of {base}",
            got=sessions,
        )
    return sessions


# --- the samples with which each class is taught: their roles, and shares ---


ByLeaf = list[tuple[int, Ints]]  # leaves with rows


class LeafRoles(NamedTuple):
    """The rows of each leaf by what they are for."""

    train: ByLeaf
    intask: ByLeaf  # validation in the session
    posttask: list[Ints]  # validation after it


def leaf_roles(file: EmbeddingFile, hierarchy: Hierarchy, val_fraction: float) -> LeafRoles:
    """The training, in-task and post-task validation rows of each leaf, not shuffled.

    Flipped copies are not dealt to validation, and those of validation samples are left out.
    """
    train = np.flatnonzero(file.split == TRAIN)
    val = np.flatnonzero(file.split == VAL)
    originals = _by_label(file, np.setdiff1d(train, flipped_copies(file)))
    brought = _by_label(file, val)
    intask: ByLeaf = []
    posttask: list[Ints] = []
    taken = np.flatnonzero(hierarchy.leaf != -1).tolist()
    for label in taken:
        held = brought[label]
        first = _ceil(len(held), 2)
        if not len(val):
            mine = originals[label]
            n = len(mine)
            share = max(1, int(val_fraction * n))
            first = min(share, n - 1)
            second = min(share, n - 1 - first)
            held = mine[: first + second]
        intask.append((int(hierarchy.leaf[label]), held[:first]))
        posttask.append(held[first:])
    validation = union([*(rows for _, rows in intask), *posttask])
    left = _by_label(file, np.setdiff1d(train, with_copies(file, validation)))
    taught = [(int(hierarchy.leaf[label]), left[label]) for label in taken]
    if not (file.split == TEST).any():
        raise UserError(
            f"{file.path.name} has no test samples", "give it a split (--split) when it is made"
        )
    return LeafRoles(taught, intask, posttask)


def _by_label(file: EmbeddingFile, rows: Ints) -> list[Ints]:
    """The `rows` (n,), ascending, of each label."""
    labels = file.labels[rows]
    counts = np.bincount(labels, minlength=file.samples.n_leaves)
    return np.split(rows[np.argsort(labels, kind="stable")], np.cumsum(counts)[:-1])


def share_out(
    hierarchy: Hierarchy,
    by_leaf: Iterable[tuple[int, Ints]],
    upper: float,
    lower: float,
    cap: int,
) -> list[Ints]:
    """The samples that each node is taught with: (K,) lists, each ascending.

    Each leaf's list of samples, ascending, goes down the tree. A node takes the first `upper` of
    the list and passes the last `lower` of it to the node below; the leaf takes all that it gets. A
    node over more than `cap` leaves takes the share cap / leaves · upper. Shares are rounded down,
    but are at least one sample.
    """
    given: list[list[Ints]] = [[] for _ in hierarchy.parents]
    for leaf, rows in by_leaf:
        for node in hierarchy.chain(leaf)[:-1]:
            n = int(hierarchy.n_leaves[node])
            share = min(1, cap / n) * upper
            given[node].append(rows[: max(1, int(share * len(rows)))])
            rows = rows[-max(1, int(lower * len(rows))) :]
        given[leaf].append(rows)
    return [union(parts) for parts in given]


def union(parts: Iterable[Ints]) -> Ints:
    """All rows of some lists, each once, ascending; faster than `np.unique`, which hashes."""
    rows = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    return rows[np.diff(rows, prepend=-1) > 0]
