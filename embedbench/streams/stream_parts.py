"""Building blocks of protocols: rows of a split, tables, views."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from embedbench.array_types import Bools, Float32s, Ints, digest
from embedbench.errors import UserError
from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.files.mmap_cache import mapped_table
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.storage import user_cache

from .feature_tables import MappedPart, MappedTable, PixelTable, Table, standardise_images
from .layer_columns import layer_columns
from .scaling import Scale, fit_scaling
from .stream import EvalSet, Session, StreamSpec
from .view import View, rows_of

RESIDENT = 2**28  # bytes; below it, scaling every batch costs more than sharing saves
Taught = tuple[Session, EvalSet]


@dataclass(frozen=True)
class Split:
    """Row numbers of one file by role, (n,) each, ascending."""

    train: Ints
    val: Ints
    test: Ints


def one_file(files: Sequence[EmbeddingFile], name: str) -> EmbeddingFile:
    """Return the only file; refuse several."""
    if len(files) != 1:
        raise UserError(f"protocol {name!r} takes one embedding file, got {len(files)}")
    return files[0]


def split_rows(file: EmbeddingFile, validation: str, val_fraction: float) -> Split:
    """Return the training, validation and test rows of a file.

    A file without validation samples gives `val_fraction` of each class's training samples, the
    same ones for every seed and class order. Each class keeps at least one training sample; a
    class of two to five samples gives one validation sample.
    """
    train, val, test = (np.flatnonzero(file.split == s) for s in (TRAIN, VAL, TEST))
    for rows, role in ((train, "training"), (test, "test")):
        if len(rows) == 0:
            raise UserError(
                f"{file.path.name} has no {role} samples; give it a split (--split) when it is made"
            )
    if validation == "test":
        return Split(np.sort(np.concatenate([train, val])), test, test)
    if len(val) == 0:
        rng = np.random.default_rng(0)
        held = []
        for c in np.unique(file.labels[train]):
            rows = rng.permutation(train[file.labels[train] == c])
            held.append(rows[: min(max(1, round(val_fraction * len(rows))), len(rows) - 1)])
        val = np.sort(np.concatenate(held))
        train = np.setdiff1d(train, val)
    return Split(train, val, test)


def mean_rows(sizes: Ints, n: int) -> float:
    """Samples in a session of n classes of these sizes, in the mean over all class orders."""
    return n * float(sizes.mean())


def load_table(
    file: EmbeddingFile,
    scale: str,
    base_rows: Ints,
    layers: Sequence[str] = (),
    embedding: str = FINAL,
    *,
    few: bool = False,
) -> tuple[Table, str, str]:
    """Read a file's embeddings and the named layers behind them, scaled; or its images.

    The embedding and each layer are scaled in place, each by itself. Images stay bytes, and are
    scaled when they are read from the table. A table of more than RESIDENT bytes is mapped from a
    copy that the processes of the machine share, and scaled when its rows are read, with the same
    bits. Returns the table, its features digest, and the digest of the rows that the scaling was
    fitted to.

    Parameters
    ----------
    scale : str
        See `Protocol`.
    base_rows : array of int
        (n,) training rows of session 0, the only data that "standard" is fitted to.
    layers, embedding : sequence of str, str
        Layers to read, and one that replaces the final embedding, in the digest too.
    few : bool
        Whether session 0 may have too few rows for statistics, so that "auto" takes none; see
        `scale_least`. It must follow from the file and the parameters, never from the drawn order.
    """
    tables = file.tables(layers, embedding)  # refuses unknown layers
    if scale == "auto":
        flat = file.provenance.get("backbone", {}).get("name") == "pixels"
        plain = "none" if flat or file.kind == PIXELS else "rms"
        scale = plain if flat or few else "standard"
    fitted = digest("fitted", base_rows) if scale == "standard" else ""
    chosen = [*([] if embedding == FINAL else [f"{embedding} is the embedding"]), *layers]
    features = digest("features", file.digests["content"], scale, *chosen)
    table: Table
    if file.kind == PIXELS:
        table = _load_images(file, scale, base_rows)
    elif is_mapped(file, layers, embedding):
        parts = {name: _mapped_part(file, name, scale, base_rows) for name in tables}
        table = MappedTable(tuple(parts.values()))
        table.scales = {name: part.scale for name, part in parts.items()}
    else:
        table = _load_resident(file, scale, base_rows, layers, embedding)
    table.scale = scale
    return table, features, fitted


def _load_resident(
    file: EmbeddingFile, scale: str, base_rows: Ints, layers: Sequence[str], embedding: str
) -> Table:
    table = Table(file.read(layers, embedding))
    for name, part in _parts(file, table.values, layers, embedding):
        table.scales[name] = fit_scaling(scale, part.__getitem__, base_rows)
        table.scales[name].apply(part)
    return table


def _parts(
    file: EmbeddingFile, x: Float32s, layers: Sequence[str], embedding: str
) -> Iterator[tuple[str, Float32s]]:
    """Yield the name of each embedding of a file, and its columns of `x`."""
    columns = layer_columns(file, layers, embedding).values()
    bounds = ((0, file.width(embedding)), *columns)
    for name, (first, end) in zip(file.tables(layers, embedding), bounds, strict=True):
        yield name, x[:, first:end]


def load_like(table: Table, other: EmbeddingFile) -> Table:
    """Read another file's embeddings or images, scaled by what `load_table` fitted for `table`."""
    if isinstance(table, PixelTable):
        images = mapped_table(other, "features") if is_mapped(other) else other.images()
        return PixelTable(images, table.factor, table.offset)
    names = [FINAL if n == "features" else n.removeprefix("layers/") for n in table.scales]
    embedding, *layers = names
    if is_mapped(other, layers, embedding):
        return MappedTable([MappedPart(mapped_table(other, n), s) for n, s in table.scales.items()])
    result = Table(other.read(layers, embedding))
    for name, part in _parts(other, result.values, layers, embedding):
        table.scales[name].apply(part)
    return result


def is_mapped(file: EmbeddingFile, layers: Sequence[str] = (), embedding: str = FINAL) -> bool:
    """Whether a table is mapped and shared: it follows from its size alone, and changes no bit."""
    width = file.width(embedding) + sum(file.layers[name] for name in layers)
    return len(file.labels) * width * (1 if file.kind == PIXELS else 4) > RESIDENT


def _mapped_part(file: EmbeddingFile, table: str, scale: str, base_rows: Ints) -> MappedPart:
    """One embedding of a file, mapped; its statistics are kept in the cache."""
    part = MappedPart(mapped_table(file, table), Scale("none" if scale == "standard" else scale))
    if scale != "standard":
        return part
    key = f"{file.digests['content']} {table} {digest(base_rows)}"
    kept = user_cache.load("scaling", key)
    with suppress(TypeError, ValueError):
        mean, deviation = np.array(kept, dtype=np.float32)
        if mean.shape == part.values.shape[1:] and (deviation >= np.float32(1e-6)).all():
            return replace(part, scale=Scale(scale, mean, deviation))
    fitted = fit_scaling(scale, part.raw, base_rows)
    assert fitted.mean is not None
    assert fitted.deviation is not None
    user_cache.save("scaling", key, [fitted.mean.tolist(), fitted.deviation.tolist()])
    return replace(part, scale=fitted)


def _load_images(file: EmbeddingFile, scale: str, base_rows: Ints) -> PixelTable:
    if scale not in ("none", "standard"):
        raise UserError(
            f"scale {scale!r} is for vectors, and {file.path.name} holds images; use --set "
            "protocol.scale=standard or none"
        )
    images = mapped_table(file, "features") if is_mapped(file) else file.images()
    return standardise_images(images, base_rows) if scale == "standard" else PixelTable(images)


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
    mask = class_mask(file, classes)
    mine = Split(*(rows[mask[file.labels[rows]]] for rows in (split.train, split.val, split.test)))
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


def dealt(labels: Ints, parts: Sequence[Ints], held: Ints) -> list[Ints]:
    """Deal validation rows to the sessions that teach their classes, in proportion.

    `labels` (N,) are the classes of all rows, `parts` the training rows of each session, `held`
    (n,) the validation rows. Returns those of each session, ascending: none of a class that it does
    not teach, and a class that no session teaches is left out.
    """
    session = np.repeat(np.arange(len(parts)), [len(p) for p in parts])  # (n_train,) ascending
    taught = labels[np.concatenate(parts)]
    out: list[list[Ints]] = [[] for _ in parts]
    for c in np.unique(labels[held]):
        rows, where = held[labels[held] == c], session[taught == c]
        if len(where):
            even = (2 * np.arange(len(rows)) + 1) * len(where) // (2 * len(rows))
            for k in np.unique(where[even]):
                out[k].append(rows[where[even] == k])
    return [np.sort(np.concatenate([held[:0], *rows])) for rows in out]


def loss_limited(pairs: list[Taught], loss: str) -> list[Taught]:
    """The sessions of a stream, in order, with the classes that their losses may use.

    "all": no session is limited; "seen": each to the classes of the sessions up to it.
    """
    if loss == "all":
        return pairs
    seen = np.logical_or.accumulate([test.classes for _, test in pairs])  # (sessions, C)
    return [(replace(s, loss_classes=mask), e) for (s, e), mask in zip(pairs, seen, strict=True)]


def flat_spec(
    table: Table,
    file: EmbeddingFile,
    layers: Sequence[str] = (),
    embedding: str = FINAL,
    *,
    loss: str = "all",
) -> StreamSpec:
    """The spec of a single-label stream over one file's leaf classes."""
    return StreamSpec(
        input_shape=table.shape_of(table.width),
        n_classes=file.samples.n_leaves,
        layers=layer_columns(file, layers, embedding),
        loss_over_seen=loss == "seen",
        scaling=table.scaling,
    )
