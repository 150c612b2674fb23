"""Far samples: those of a second file, which no session teaches, beside the test samples."""

from dataclasses import replace

import numpy as np

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.file_digests import recipe_backbone
from embedbench.files.sample_metadata import TEST

from .load_table import load_like
from .stream import Stream
from .view import View, table_of

NAMED = 5  # classes in a note


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
        The stream cannot have far samples, the features are not of one kind, or none is left.
    """
    name = other.path.name
    if stream.spec.multilabel:
        raise UserError(
            "--unknown needs the score of an answer, and the answers on this stream are sets of "
            "labels; leave it out"
        )
    first, *sets = stream.eval_sets
    if not all(e.x.joinable(first.x) and e.candidates is None for e in (first, *sets)):
        raise UserError(
            "--unknown needs a stream that shows every session the same columns and lets answers "
            "be any class seen, and this one has several files or permuted columns; leave it out"
        )
    table = table_of(first.x)
    is_stated = _check_kind(file, other, [*table.scales])
    if not table.scales and table.scaling is None:
        raise UserError(
            f"{name} cannot be scaled as the stream is, whose protocol reads features by code of "
            "its own; let it use load_table, or leave out --unknown"
        )
    names = stream.classes or file.classes
    taught = {names[c] for session in stream.sessions for c in session.classes}
    rows = np.flatnonzero(other.split == TEST)
    rows = rows if len(rows) else np.arange(len(other.split))
    present = np.unique(other.labels[rows])
    shared = [c for c in present if other.classes[c] in taught]
    if len(shared) == len(present):
        raise UserError(
            f"every class of {name} has the name of one that the stream teaches, so that none is "
            "unknown; give --unknown a file of other classes"
        )
    rows = rows[~np.isin(other.labels[rows], shared)]
    note = f"{len(rows):,} samples of {len(present) - len(shared)} classes of {name} are unknown"
    if shared:
        listed = ", ".join(other.classes[c] for c in shared[:NAMED])
        more = f" and {len(shared) - NAMED} more" if len(shared) > NAMED else ""
        note += f"; those of {listed}{more} are left out, because the stream teaches such a class"
    note += (
        "" if is_stated else "; which backbone made their features, or the stream's, is not stated"
    )
    far = View(load_like(table, other), rows, first.x.width)
    return replace(stream, far=far, notes=(*stream.notes, note))


def _check_kind(file: EmbeddingFile, other: EmbeddingFile, parts: list[str]) -> bool:
    """Refuse a file whose features are not of the kind of the stream's.

    Returns
    -------
    bool
        Whether both files state their backbone.
    """
    name, base = other.path.name, file.path.name
    remedy = f"make it by the backbone of {base}, or leave out --unknown"
    if other.kind != file.kind:
        raise UserError(f"{name} is of kind {other.kind} and {base} of {file.kind}; {remedy}")
    other.tables([part.removeprefix("layers/") for part in parts if part != "features"])
    for part in parts or ["features"]:
        shapes = [f.form(part)[1][1:] for f in (other, file)]
        if shapes[0] != shapes[1]:
            sizes = [" × ".join(map(str, shape)) for shape in shapes]
            raise UserError(
                f"{name} has {sizes[0]} values a sample and {base} {sizes[1]}; {remedy}"
            )
    made = [recipe_backbone(f.provenance) for f in (other, file)]
    stated = all(b.get("name", "unknown") != "unknown" for b in made)
    if stated and made[0] != made[1]:
        raise UserError(
            f"{name} and {base} were made by different backbones, {made[0]['name']} and "
            f"{made[1]['name']}, which would tell the samples apart; {remedy}"
        )
    return stated
