"""Sessions and eval sets from the rows of a file, as protocols cut them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Literal

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.config.setting_ranges import require, within
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.raw_pixels import FLIPPED
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.files.train_test_split import stratify_groups

from .feature_tables import Table, check_numbers
from .stream import EvalSet, Session, StreamSpec
from .taught_classes import with_taught_classes
from .view import BLACK, View, rows_of

Taught = tuple[Session, EvalSet]


@dataclass(frozen=True)
class Split:
    """Row numbers of one file by role, (n,) each, ascending."""

    train: Ints
    val: Ints
    test: Ints

    def where(self, mask: Bools) -> "Split":
        """Those of the rows that are true in `mask`, (N,) over all rows of the file."""
        return Split(*(rows[mask[rows]] for rows in (self.train, self.val, self.test)))


@check_arguments
def one_file(files: Sequence[EmbeddingFile], name: str, validation: str = "train") -> EmbeddingFile:
    """Return the only file, with the classes that it teaches; refuse several.

    `validation` is that of the protocol. See `embedbench.streams.taught_classes`.
    """
    if len(files) != 1:
        raise UserError(f"the number of files of protocol {name!r}", expected="1", got=len(files))
    return with_taught_classes(files[0], validation)


@check_arguments
def split_rows(
    file: EmbeddingFile,
    validation: Literal["train", "test", "none"],
    val_fraction: float,
    val_by: Literal["sample", "group"] = "sample",
) -> Split:
    """Return the training, validation and test rows of a file; `validation` is the protocol's.

    A file without validation samples gives `val_fraction` of each class's training samples, the
    same ones for every seed and class order. Each class keeps at least one training sample; a
    class of two to five samples gives one validation sample. Where a file has flipped copies of
    training images, those of validation samples are left out.

    With `val_by` "group" whole groups are held out, of each class nearly as many samples, as
    `stratify_groups` chooses them. A class whose samples are all of one group gives none.
    """
    require(SimpleNamespace(val_fraction=val_fraction), "", val_fraction=within("[0, 1)"))
    train = np.flatnonzero(file.split == TRAIN)
    val = np.flatnonzero(file.split == VAL)
    test = np.flatnonzero(file.split == TEST)
    for rows, role in ((train, "training"), (test, "test")):
        if len(rows) == 0:
            raise UserError(
                f"{file.path.name} has no {role} samples",
                "give it a split (--split) when it is made",
            )
    if validation != "train":
        watched = test if validation == "test" else test[:0]
        return Split(np.sort(np.concatenate([train, val])), watched, test)
    if len(val) == 0:
        originals = np.setdiff1d(train, flipped_copies(file))
        hold_out = _hold_out_groups if val_by == "group" else _hold_out_samples
        val = hold_out(file, originals, val_fraction)
        train = np.setdiff1d(train, with_copies(file, val))
    return Split(train, val, test)


def _hold_out_samples(file: EmbeddingFile, rows: Ints, val_fraction: float) -> Ints:
    """The share of each class's `rows` that is validation data, ascending."""
    rng = np.random.default_rng(0)
    held = []
    for c in np.unique(file.labels[rows]):
        mine = rng.permutation(rows[file.labels[rows] == c])
        held.append(mine[: min(max(1, round(val_fraction * len(mine))), len(mine) - 1)])
    return np.sort(np.concatenate(held))


def _hold_out_groups(file: EmbeddingFile, rows: Ints, val_fraction: float) -> Ints:
    """The `rows` of the groups that are validation data, ascending."""
    names = file.column("group")[rows].tolist()
    held = stratify_groups(names, val_fraction, file.labels[rows], teach_all=True) == TEST
    if not held.any():
        raise UserError(
            "protocol.val_by",
            expected=f"sample, as every group of {file.path.name} has all samples of some class",
            got="group",
        )
    chosen: Ints = rows[held]
    return chosen


def notes_on_held_groups(
    file: EmbeddingFile, train: Ints, val: Ints, *, by_group: bool, remedy: str
) -> tuple[str, ...]:
    """Say where training rows and validation rows that were held out of them share groups.

    Parameters
    ----------
    train, val : array of int
        Rows of the file that a stream trains on, and those that it validates with.
    by_group : bool
        Whether whole groups were held out; then the note says how many.
    remedy : str
        What holds whole groups out, for the note.
    """
    brings_its_own = bool((file.split == VAL).any())
    if "group" not in file.columns or brings_its_own or not len(val):
        return ()
    taught = np.unique(file.columns["group"][train])
    held = np.unique(file.columns["group"][val])
    both = np.intersect1d(taught, held)
    of = f"of {len(np.union1d(taught, held)):,} groups of {file.path.name}"
    if len(both):
        text = f"{len(both):,} {of} are both in the training and in the validation data"
        return (text if by_group else f"{text}; {remedy}",)
    if not by_group:
        return ()
    share = f"{len(val):,} of {len(train) + len(val):,} training samples"
    return (f"validation data are {len(held):,} {of}, {share}",)


def flipped_copies(file: EmbeddingFile) -> Ints:
    """(k,) the rows that are flipped copies of the row before; see `extract --flip`."""
    if "flip" not in file.provenance.get("preprocessing", {}):
        return np.zeros(0, np.int64)
    ids = file.sample_ids
    again = np.char.add(ids[:-1].astype(str), FLIPPED) == ids[1:].astype(str)
    return np.flatnonzero(np.append(False, again))


def with_copies(file: EmbeddingFile, rows: Ints) -> Ints:
    """Some rows of a file (n,), and the flipped copies of them; ascending, each once."""
    return np.union1d(rows, np.intersect1d(rows + 1, flipped_copies(file)))


def whole_groups(file: EmbeddingFile) -> Ints | None:
    """(N,) a number for each row; rows of one number are held out together, or not at all.

    They have one `group`; where a file has no groups, they are an image and its flipped copy. None
    where each row is by itself.
    """
    if "group" in file.columns:
        return np.unique(file.columns["group"], return_inverse=True)[1].astype(np.int64)
    copies = flipped_copies(file)
    if not len(copies):
        return None
    begins = np.ones(len(file.labels), np.int64)
    begins[copies] = 0
    return np.cumsum(begins) - 1


def no_validation_notes(file: EmbeddingFile) -> tuple[str, ...]:
    """What `validation=none` does with the validation samples that a file brings."""
    n = np.count_nonzero(file.split == VAL)
    if not n:
        return ()
    return (f"the {n:,} validation samples of {file.path.name} are trained on",)


def mean_rows(sizes: Ints, n: int) -> float:
    """Samples in a session of n classes of these sizes, in the mean over all class orders."""
    return n * float(sizes.mean())


@check_arguments
def view_session(
    table: Table,
    file: EmbeddingFile,
    split: Split,
    *,
    classes: Ints,
    introduces: Ints | None = None,
    columns: Ints | None = None,
) -> Taught:
    """The session and eval set of `classes`, seen through a permutation of columns or pixels."""
    for name, values, n, least in (
        ("classes", classes, file.samples.n_leaves, 0),
        ("introduces", introduces, file.samples.n_leaves, 0),
        ("columns", columns, table.width, BLACK),
    ):
        if values is not None:
            check_numbers(values, n, name, least)
    mask = class_mask(file, classes)
    mine = split.where(mask[file.labels])
    new = classes if introduces is None else introduces
    return make_session(table, file, mine, classes=classes, introduces=new, columns=columns)


def make_session(
    table: Table,
    file: EmbeddingFile,
    rows: Split,
    *,
    classes: Ints,
    introduces: Ints,
    columns: Ints | None = None,
) -> Taught:
    """The session and eval set of these rows, in their order.

    `classes` are those of the eval set, `introduces` those that are known from this session on;
    `columns` as in `View`.
    """

    def take(which: Ints) -> tuple[View, Ints]:
        return View(table, which, table.width, columns), file.labels[which].astype(np.int64)

    (x, y), (val_x, val_y), (test_x, test_y) = take(rows.train), take(rows.val), take(rows.test)
    ids = rows_of(x)
    session = Session(x=x, y=y, val_x=val_x, val_y=val_y, ids=ids, classes=introduces)
    return session, EvalSet(
        x=test_x, y=test_y, ids=rows_of(test_x), classes=class_mask(file, classes)
    )


def class_mask(file: EmbeddingFile, classes: Ints) -> Bools:
    """(C,) true for `classes`, over the leaf classes of a file."""
    mask = np.zeros(file.samples.n_leaves, dtype=np.bool_)
    mask[classes] = True
    return mask


def deal_validation_rows(labels: Ints, parts: Sequence[Ints], held: Ints) -> list[Ints]:
    """Deal validation rows to the sessions that teach their classes, in proportion.

    `labels` (N,) are the classes of all rows, `parts` the training rows of each session, `held`
    (n,) the validation rows. Returns those of each session, ascending: none of a class that it does
    not teach, and a class that no session teaches is left out.
    """
    session = np.repeat(np.arange(len(parts)), [len(p) for p in parts])  # (n_train,) ascending
    taught = labels[np.concatenate(parts)]
    out: list[list[Ints]] = [[] for _ in parts]
    for c in np.unique(labels[held]):
        rows = held[labels[held] == c]
        where = session[taught == c]
        if len(where):
            even = (2 * np.arange(len(rows)) + 1) * len(where) // (2 * len(rows))
            for k in np.unique(where[even]):
                out[k].append(rows[where[even] == k])
    return [np.sort(np.concatenate([held[:0], *rows])) for rows in out]


def teach_parts(
    table: Table,
    file: EmbeddingFile,
    split: Split,
    parts: Sequence[Ints],
    held: Ints,
    *,
    all_known: bool = False,
) -> list[Taught]:
    """A session for each of the `parts`, training rows in their order, with its validation rows.

    Each introduces, and tests, the classes that no earlier one taught; with `all_known` the first
    does so for all classes. `held` (n,) are the validation rows, which are dealt out.
    """
    labels = file.labels
    pairs = []
    seen = np.zeros(file.samples.n_leaves, dtype=np.bool_)
    for train, val in zip(parts, deal_validation_rows(labels, parts, held), strict=True):
        here = np.ones_like(seen) if all_known else class_mask(file, labels[train])
        new = np.flatnonzero(here & ~seen)
        seen = seen | here
        test = split.test[np.isin(labels[split.test], new)]
        rows = Split(train, val, test)
        tested = new if len(test) else new[:0]
        pairs.append(make_session(table, file, rows, classes=tested, introduces=new))
    return pairs


def limit_losses(pairs: list[Taught], loss: str) -> list[Taught]:
    """The sessions of a stream, in order, with the classes that their losses may use.

    "all": no session is limited; "seen": each to the classes of the sessions up to it; "session":
    each to its classes.
    """
    if loss == "all":
        return pairs
    masks = np.stack([test.classes for _, test in pairs])  # (sessions, C)
    if loss == "seen":
        masks = np.logical_or.accumulate(masks)
    return [(replace(s, loss_classes=mask), e) for (s, e), mask in zip(pairs, masks, strict=True)]


def own_losses(pairs: list[Taught]) -> list[Taught]:
    """The sessions of a stream that share all its classes, a head each: with all in the loss."""
    return [(replace(s, loss_classes=np.ones_like(e.classes)), e) for s, e in pairs]


@check_arguments
def flat_spec(
    table: Table,
    file: EmbeddingFile,
    layers: Sequence[str] = (),
    embedding: str = FINAL,
    *,
    loss: Literal["all", "seen", "session"] = "all",
) -> StreamSpec:
    """The spec of a single-label stream over one file's leaf classes."""
    file.tables(layers, embedding)  # refuses unknown layers
    return StreamSpec(
        input_shape=table.shape_of(table.width),
        n_classes=file.samples.n_leaves,
        layers=layer_columns(file, layers, embedding),
        loss_over_seen=loss == "seen",
        loss_over_session=loss == "session",
        scaling=table.scaling,
    )


def layer_columns(
    file: EmbeddingFile, layers: Sequence[str], embedding: str = FINAL
) -> dict[str, tuple[int, int]]:
    """Columns of each layer in a table with these layers: the first, and the one after the last.

    `embedding` is the layer that replaces the final embedding.
    """
    ends = np.cumsum([file.width(embedding), *(file.layers[name] for name in layers)]).tolist()
    return dict(zip(layers, itertools.pairwise(ends), strict=True))
