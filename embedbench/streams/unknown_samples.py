"""Far samples: those of a second file, which no session teaches, beside the test samples."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from embedbench.array_types import Bools, Bytes, Ints
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.equal_contents import row_hashes
from embedbench.files.file_digests import recipe_backbone
from embedbench.files.sample_metadata import TEST

from .class_order import number_of
from .load_table import load_like
from .stream import Stream
from .view import View, rows_of, table_of


def with_far_samples(stream: Stream, file: EmbeddingFile, other: EmbeddingFile) -> Stream:
    """The stream with the samples of another file in `far`, scaled as its features are.

    They are the test rows of that file, or all rows where it has none, but those of classes whose
    names are taught in the stream, too. The digests of the stream stay.

    Parameters
    ----------
    stream : Stream
        A stream of one file with one label a sample.
    file : EmbeddingFile
        The first file of the stream.
    other : EmbeddingFile
        The other file.

    Raises
    ------
    UserError
        The stream cannot have far samples, the features are not of one kind, none is left, or all
        are samples of the stream under other names of classes.
    """
    name = other.path.name
    first, *sets = stream.eval_sets
    same = all(e.x.joinable(first.x) and e.candidates is None for e in (first, *sets))
    table = table_of(first.x)
    if stream.spec.multilabel or not same or not (table.scales or table.scaling):
        raise UserError(
            "--unknown needs a stream of one label a sample, of one file that load_table reads, "
            "with the same columns in every session and answers among all classes seen",
            "leave it out",
        )
    is_stated = _check_kind(file, other, [*table.scales])
    taught = {_key(name) for name in _taught_names(stream, file)}
    rows = np.flatnonzero(other.split == TEST)
    rows = rows if len(rows) else np.arange(len(other.split))
    present = np.unique(other.labels[rows])
    shared = [c for c in present if _key(other.classes[c]) in taught]
    by_number = any(number_of(other.classes[c]) is not None for c in shared)
    if len(shared) == len(present):
        remedy = "give --unknown a file of other classes"
        if by_number:
            remedy += ", or one with names in the place of numbers"
        raise UserError(
            f"every class of {name} has the name of one that the stream teaches: none is unknown",
            remedy,
        )
    rows = rows[~np.isin(other.labels[rows], shared)]
    equal = _rows_in_stream(stream, file, other, rows)
    if equal.all():
        raise UserError(
            f"all {len(rows):,} samples of {name} that would be unknown are in the stream, too, "
            "under other classes: none is unknown",
            "give --unknown a file of other samples",
        )
    note = f"{len(rows):,} samples of {len(present) - len(shared)} classes of {name} are unknown"
    if shared:
        note += f"; the other {len(shared)} are left out, because the stream teaches them"
        if by_number:
            note += ": equal numbers are taken for one class"
    if not is_stated:
        note += "; which backbone made their features, or the stream's, is not stated"
    if equal.any():
        example = other.sample_ids[rows[equal]][0]
        note += f"; {equal.sum():,} of them are in the stream, too, under other classes"
        note += f" (equal features, first {example})"
    far = View(load_like(table, other), rows, first.x.width)
    return replace(stream, far=far, notes=(*stream.notes, note))


def _taught_names(stream: Stream, file: EmbeddingFile) -> set[str]:
    """The classes of the file that sessions teach, which may have other labels in the stream."""
    rows = np.concatenate([session.ids for session in stream.sessions])
    return {file.classes[c] for c in np.unique(file.labels[rows])}


def _rows_in_stream(stream: Stream, file: EmbeddingFile, other: EmbeddingFile, rows: Ints) -> Bools:
    """Return (n,) which rows of another file have the features of samples of the stream."""
    views = [session.x for session in stream.sessions]
    views += [session.val_x for session in stream.sessions]
    views += [each.x for each in stream.eval_sets]
    used = np.unique(np.concatenate([rows_of(view) for view in views]))
    known = {one.tobytes() for one in _hashes(file)[used]}
    given = _hashes(other)
    return np.array([given[row].tobytes() in known for row in rows], np.bool_)


def _hashes(file: EmbeddingFile) -> Bytes:
    """Return the hash (N, 16) of each row of features, as float32 or bytes of images."""
    blocks = []
    for _, rows in file.blocks("features"):
        plain = rows if rows.dtype == np.uint8 else rows.astype(np.float32, copy=False)
        blocks.append(row_hashes(plain))
    return np.concatenate(blocks)


def _key(name: str) -> str | Fraction:
    """What is equal for two names of one class: numbers by their value."""
    number = number_of(name)
    return name if number is None else number


def _check_kind(file: EmbeddingFile, other: EmbeddingFile, parts: list[str]) -> bool:
    """Refuse a file of other features than the stream's; return whether both state a backbone."""
    made = [recipe_backbone(f.provenance) for f in (other, file)]
    stated = all(b.get("name", "unknown") != "unknown" for b in made)
    alike = other.kind == file.kind and (made[0] == made[1] or not stated)
    if alike:
        other.tables([part.removeprefix("layers/") for part in parts if part != "features"])
        shapes = [[f.form(p)[1][1:] for p in parts or ["features"]] for f in (other, file)]
        alike = shapes[0] == shapes[1]
    if not alike:
        raise UserError(
            f"{other.path.name} and {file.path.name} have features of different kinds, shapes or "
            f"backbones ({_describe(other)}; {_describe(file)}), which would tell them apart",
            f"make it by the backbone of {file.path.name}, or leave out --unknown",
        )
    return stated


def _describe(file: EmbeddingFile) -> str:
    shape = " × ".join(map(str, file.shape[1:]))
    return f"{file.kind} {shape} by {recipe_backbone(file.provenance).get('name', 'unknown')}"
