"""Small streams for the checks: well separated blobs in a few dimensions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from embedbench.array_types import Bools, Float32s, Ints
from embedbench.learning.learner import Tags
from embedbench.streams.feature_tables import PixelTable, Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View, rows_of, table_of

N_CLASSES = 4
LEVELS = (1 / 32,) * 3, (-4.0,) * 3  # factor and offset that turn bytes into blobs
WIDTH = 12  # columns of the final embedding
LAYER = WIDTH  # columns of an intermediate embedding, for learners that need layers
BATCH = 8  # samples in the batches of online learners
NOISE = 0.2  # deviation of a blob; its centres lie about 5 apart
SESSIONS = ((0, 1), (2,), (3,))
EVERY_CLASS = ((0, 1, 2, 3),)
FEW = ((0, 1), (2,))  # for checks that do not measure accuracy


def blobs(
    tags: Tags,
    sessions: Sequence[Sequence[int]] = SESSIONS,
    sizes: Sequence[int] | int = 24,
    *,
    n_val: int = 6,
    seed: int = 0,
    reveal: bool = False,
) -> Stream:
    """A stream of blobs, as a learner with these tags gets it.

    Parameters
    ----------
    sessions : sequence of sequence of int
        Classes of each session.
    sizes : sequence of int or int
        Training samples of each session, spread over its classes.
    n_val : int
        Validation samples of each session.
    seed : int
        Seed of the samples; the centres of the blobs are the same for every seed.
    reveal : bool
        Give the session id even if the learner does not need it.
    """
    sizes = [sizes] * len(sessions) if isinstance(sizes, int) else sizes
    draw = np.random.default_rng(seed)
    labels: list[Ints] = []  # of each session in turn those of training, validation and test
    for classes, size in zip(sessions, sizes, strict=True):
        for n in (size, n_val, 6 * len(classes)):
            labels.append(np.resize(classes, n))
    values = [_points(y, tags, draw) for y in labels]
    table = Table(np.concatenate(values))
    width = table.values.shape[1]
    rows = np.split(np.arange(len(table.values)), np.cumsum([len(y) for y in labels])[:-1])
    parts = [(View(table, r, width), y) for r, y in zip(rows, labels, strict=True)]
    known: set[int] = set()
    taught = []
    tested = []
    reveal = reveal or tags.needs_session_id
    for t, classes in enumerate(sessions):
        (x, y), (val_x, val_y), (test_x, test_y) = parts[3 * t : 3 * t + 3]
        new = np.array(sorted({*classes} - known), dtype=np.int64)
        known |= {*classes}
        taught.append(Session(x, y, val_x, val_y, rows_of(x), new, None, t if reveal else None))
        tested.append(EvalSet(test_x, test_y, rows_of(test_x), class_mask(classes)))
    layers = {"middle": (WIDTH, WIDTH + LAYER)} if tags.needs_layers else {}
    stream = Stream(
        spec=StreamSpec((width,), N_CLASSES, layers=layers, reveals_session_id=reveal),
        sessions=tuple(taught),
        eval_sets=tuple(tested),
        recipe="blobs",
        features=f"blobs {seed}",
        samples=("blobs",),
        observe_batch=BATCH,
    )
    return stream.merged() if tags.offline else stream


def permuted_blobs(tags: Tags) -> Stream:
    """Two sessions of all classes, the second with permuted columns; session ids are revealed."""
    one = blobs(tags, EVERY_CLASS, reveal=True)
    session = one.sessions[0]
    test = one.eval_sets[0]
    columns = np.random.default_rng(0).permutation(session.x.width)
    again = replace(
        session,
        x=replace(session.x, columns=columns),
        val_x=replace(session.val_x, columns=columns),
        classes=session.classes[:0],
        session_id=1,
    )
    sets = (test, replace(test, x=replace(test.x, columns=columns)))
    stream = replace(one, sessions=(session, again), eval_sets=sets)
    return stream.merged() if tags.offline else stream


def as_images(stream: Stream) -> Stream:
    """A stream of blobs as 3 x 8 x 8 images; each of the 12 columns is a one-colour square.

    The values of the images are those of the blobs, rounded to a level of grey.
    """
    values = table_of(stream.sessions[0].x).values
    small = np.clip(128 + 32 * values, 0, 255).astype(np.uint8).reshape(-1, 2, 2, 3)
    table = PixelTable(small.repeat(4, axis=1).repeat(4, axis=2), *LEVELS)
    return replace(
        with_views(stream, lambda view: View(table, rows_of(view), 64)),
        spec=replace(stream.spec, input_shape=(3, 8, 8), scaling=LEVELS),
        features=f"{stream.features} as images",
    )


def family_blobs(tags: Tags, size: int = 96, *, n_val: int = 16) -> Stream:
    """Three sessions of label sets: classes 0 and 1, then 2 below 0, then 3 below 1.

    Labels are incomplete: samples of 2 and 3 are first taught with the class above as their label,
    later with their own. They are tested for both labels. The same holds for validation data.
    """
    one = blobs(tags, EVERY_CLASS, size, n_val=n_val)
    base = one.sessions[0]
    test = one.eval_sets[0]
    leaf = np.eye(N_CLASSES, dtype=np.bool_)
    above = leaf | leaf[np.array([0, 1, 0, 1])]  # (C, C) the labels of a leaf
    seen = np.zeros(N_CLASSES, dtype=np.bool_)
    taught = []
    for classes in SESSIONS:
        mask = class_mask(classes)
        seen = seen | mask
        y = above[base.y] & mask
        val_y = above[base.val_y] & mask
        mine = y.any(axis=1)
        held = val_y.any(axis=1)
        x = base.x.select(np.flatnonzero(mine))
        val_x = base.val_x.select(np.flatnonzero(held))
        new = np.array(classes, dtype=np.int64)
        taught.append(Session(x, y[mine], val_x, val_y[held], rows_of(x), new, seen))
    y = above[test.y]
    return replace(
        one,
        spec=replace(one.spec, multilabel=True),
        sessions=tuple(taught),
        eval_sets=(replace(test, y=y), replace(test, y=y, split="val")),
        whole=(replace(base, y=above[base.y], val_y=above[base.val_y], loss_classes=seen),),
        parents=np.array([-1, -1, 0, 1]),
        observe_batch=0,
    )


def each_kind(tags: Tags) -> dict[str, Stream]:
    """A small stream of each kind that a learner with these tags takes."""
    streams = {"vectors": blobs(tags, FEW, 18)}
    if tags.images:
        streams["images"] = as_images(blobs(tags, FEW, 17))  # a last batch of one
    if tags.multilabel:
        sets = family_blobs(tags, 24)
        streams["label sets"] = sets.merged() if tags.offline else sets
    return streams


def with_views(stream: Stream, change: Callable[[View], View]) -> Stream:
    """The stream with each view of its sessions and eval sets changed."""
    sessions = (replace(s, x=change(s.x), val_x=change(s.val_x)) for s in stream.sessions)
    sets = (replace(e, x=change(e.x)) for e in stream.eval_sets)
    return replace(stream, sessions=tuple(sessions), eval_sets=tuple(sets))


def on_table(view: View, table: Table) -> View:
    """The view with another table behind it."""
    return View(table, rows_of(view), view.width, view.columns)


def class_mask(classes: Sequence[int]) -> Bools:
    """(C,) bool, true for `classes`."""
    mask = np.zeros(N_CLASSES, dtype=np.bool_)
    mask[list(classes)] = True
    return mask


def _points(y: Ints, tags: Tags, draw: np.random.Generator) -> Float32s:
    width = WIDTH + LAYER if tags.needs_layers else WIDTH
    noise = draw.normal(0, NOISE, (len(y), width)).astype(np.float32)
    # (C, D) the same for every stream, and for the final and the intermediate embedding
    centres = np.random.default_rng(7).normal(size=(N_CLASSES, WIDTH)).astype(np.float32)
    return np.tile(centres, width // WIDTH)[y] + noise
