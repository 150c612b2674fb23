"""The classes of a stream: those of a file that have training samples.

A file may name classes without samples, as a filtered data set does, and parts of a domain set have
the names of all. They stay in the file. A stream leaves them out, and numbers the others from 0 in
the order of the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from embedbench.array_types import Bools, Ints
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.provenance import list_some
from embedbench.files.sample_metadata import TRAIN, VAL, Samples

from .stream import Stream

NO_SPLIT = 255  # of the samples of classes that a stream leaves out
NAMED = 5  # classes that a note names


@dataclass(frozen=True)
class TaughtSamples(Samples):
    """The samples of a file as a stream sees them; those that it leaves out have no split.

    Parameters
    ----------
    declared : tuple of str
        (L,) the leaf classes that the file names, with and without samples.
    place : array of int
        (L,) the class of the stream that each of them is; -1 where it is left out.
    notes : tuple of str
        What was left out, in words.
    """

    declared: tuple[str, ...]
    place: Ints
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Take the fields as they are: they come from samples that were checked."""


def declared_classes(file: EmbeddingFile) -> tuple[Sequence[str], Ints]:
    """The leaf classes that a file names, (L,), and the class of the stream that each is, or -1."""
    samples = file.samples
    if isinstance(samples, TaughtSamples):
        return samples.declared, samples.place
    return file.classes[: samples.n_leaves], np.arange(samples.n_leaves)


def notes_on_classes(file: EmbeddingFile) -> tuple[str, ...]:
    """Sentences on the classes of a file that a stream leaves out."""
    return file.samples.notes if isinstance(file.samples, TaughtSamples) else ()


def with_taught_classes(file: EmbeddingFile, validation: str = "train") -> EmbeddingFile:
    """The file with the classes that its training samples teach; the same rows and digests.

    Unless validation data comes from training data, the file's validation samples are taught, too.
    """
    roles = (TRAIN,) if validation == "train" else (TRAIN, VAL)
    labels = file.labels[np.isin(file.split, roles)]
    return keep_classes(file, labels, "without training samples")


def has_untaught_classes(file: EmbeddingFile, validation: str = "train") -> bool:
    """Whether a stream leaves out classes of a file."""
    return with_taught_classes(file, validation) is not file


def keep_classes(file: EmbeddingFile, labels: Ints, lack: str) -> EmbeddingFile:
    """The file with the leaf classes among `labels`, and the inner nodes above them.

    `lack` says in a note why the other classes that have samples are left out. Where no class is
    kept, the file stays as it is: that it teaches nothing is said elsewhere.
    """
    n = file.samples.n_leaves
    kept = np.zeros(n, dtype=np.bool_)
    kept[labels] = True
    if kept.all() or not kept.any():
        return file
    nodes = np.flatnonzero(_nodes_to_keep(file, kept))
    number = np.full(len(file.classes) + 1, -1)  # the last entry is for -1, no parent
    number[nodes] = np.arange(len(nodes))
    out = (file.split != NO_SPLIT) & ~kept[file.labels]
    declared, place = declared_classes(file)
    samples = TaughtSamples(
        ids=file.sample_ids,
        labels=number[file.labels],
        split=np.where(kept[file.labels], file.split, np.uint8(NO_SPLIT)),
        classes=tuple(file.classes[c] for c in nodes.tolist()),
        parents=number[file.parents[nodes]],
        declared=tuple(declared),
        place=np.where(place >= 0, number[place], -1),
        notes=(*notes_on_classes(file), *_notes(file, kept, out, lack)),
    )
    return replace(file, samples=samples)


def _nodes_to_keep(file: EmbeddingFile, kept: Bools) -> Bools:
    """(C,) the kept leaves, and all nodes above them."""
    keep = np.zeros(len(file.classes), dtype=np.bool_)
    keep[: len(kept)] = kept
    at = np.flatnonzero(keep)
    while len(at):
        above = file.parents[at]
        at = np.unique(above[above >= 0])
        keep[at] = True
    return keep


def _notes(file: EmbeddingFile, kept: Bools, out: Bools, lack: str) -> list[str]:
    """The classes that are left out: those without samples, and those of the samples `out` (N,)."""
    sampled = np.zeros(len(kept), dtype=np.bool_)
    sampled[file.labels[out]] = True
    notes = []
    for classes, what, samples in (
        (~kept & ~sampled, "without samples", ""),
        (sampled, lack, f" with {np.count_nonzero(out):,} of {len(out):,} samples"),
    ):
        if classes.any():
            names = [file.classes[c] for c in np.flatnonzero(classes)]
            share = f"{len(names):,} of {len(kept):,}{samples}"
            listed = list_some(names, NAMED)
            notes.append(f"classes of {file.path.name} {what} ({share}), left out: {listed}")
    return notes


def class_names(stream: Stream, files: Sequence[EmbeddingFile]) -> list[tuple[str, ...]]:
    """The names of a stream's classes: of all, or of each file where it has several."""
    if stream.classes:
        return [stream.classes]
    whole = [file.classes[: file.samples.n_leaves] for file in files]
    if sum(map(len, whole)) == stream.spec.n_classes:
        return whole
    taught = [with_taught_classes(file, stream.validation) for file in files]
    return [file.classes[: file.samples.n_leaves] for file in taught]
