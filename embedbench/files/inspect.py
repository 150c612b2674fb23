"""Inspect an embedding file: a card of what is in it, and what made it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.text.terminal_text import align_pairs

from . import hdf5_layout
from .embedding_file import EmbeddingFile
from .feature_redundancy import Redundancy
from .provenance import list_some, read_weights_entry
from .sample_contents import KEY, without_each
from .sample_metadata import SPLITS


@dataclass(frozen=True)
class Card(JsonRecord):
    """The contents of a file.

    Parameters
    ----------
    path, format_version, kind, dtype : str
        The file, the version of the format, `embedding` or `pixels`, and the type of the features.
    bytes : int
        Size of the file.
    shape : tuple of int
        Shape of the features; the first axis counts samples.
    layers : dict
        Width of each intermediate embedding.
    samples : dict
        Number of samples in each split.
    classes : dict
        Number of leaf classes, `leaves`, and of nodes above them, `inner`.
    class_counts : dict
        For each leaf class, its number of samples in each split.
    columns : dict or None
        The optional columns, in words; None if there are none.
    redundancy : Redundancy or None
        Redundancy of the features; None if it was not computed.
    """

    path: str
    format_version: str
    kind: str
    bytes: int
    shape: tuple[int, ...]
    dtype: str
    layers: dict[str, int]
    samples: dict[str, int]
    classes: dict[str, int]
    class_counts: dict[str, dict[str, int]]
    digests: dict[str, str]
    provenance: dict[str, Any]
    columns: dict[str, str] | None = field(default=None, metadata=ABSENT)
    redundancy: Redundancy | None = field(default=None, metadata=ABSENT)

    def class_sizes(self) -> dict[str, str]:
        """Return the samples per class in words, for each split that has samples."""
        words = {}
        for split in filter(self.samples.get, SPLITS):
            sizes = [counts[split] for counts in self.class_counts.values()]
            words[split] = f"{min(sizes):,}"
            if min(sizes) < max(sizes):
                words[split] += f" to {max(sizes):,}, median {np.median(sizes):g}"
            if empty := sizes.count(0):
                words[split] += f"; {empty:,} classes have none"
        return words


def card(file: EmbeddingFile) -> Card:
    """Return the card of a file; it reads no row of the features."""
    samples = file.samples
    leaves = samples.n_leaves
    counts = np.stack(
        [np.bincount(samples.labels[samples.split == s], minlength=leaves) for s in range(3)]
    )  # (3, leaves)
    class_counts = {}
    for name, row in zip(samples.classes, counts.T.tolist(), strict=False):  # leaves come first
        class_counts[name] = dict(zip(SPLITS, row, strict=True))
    columns = {name: column_words(values) for name, values in file.columns.items()}
    size = file.path.stat().st_size
    file.check_unchanged()
    return Card(
        path=str(file.path),
        format_version=file.version,
        kind=file.kind,
        bytes=size,
        shape=tuple(file.shape),
        dtype=file.dtype.name,
        layers=dict(file.layers),
        samples={s: int(row.sum()) for s, row in zip(SPLITS, counts, strict=True)},
        classes={"leaves": leaves, "inner": len(samples.classes) - leaves},
        class_counts=class_counts,
        digests=dict(file.digests),
        provenance=without_each(file.provenance),
        columns=columns or None,
    )


def card_text(card: Card) -> str:
    """Return a card as text."""
    shape = " x ".join(f"{size:,}" for size in card.shape)
    layers = ", ".join(f"{name} ({width})" for name, width in card.layers.items())
    samples = ", ".join(f"{count:,} {split}" for split, count in card.samples.items() if count)
    lines = [
        ("file", f"{card.path} ({card.bytes / 1e6:,.1f} MB)"),
        ("format", f"{hdf5_layout.FORMAT} {card.format_version}, kind {card.kind}"),
        ("features", f"{shape} {card.dtype}"),
        ("layers", layers or "none"),
        ("samples", samples),
        ("classes", "{leaves} leaves, {inner} inner nodes".format(**card.classes)),
    ]
    lines += [(f"{split} per class", words) for split, words in card.class_sizes().items()]
    if card.columns is not None:
        lines += card.columns.items()
    lines += provenance_lines(card.provenance, card.classes["leaves"])
    lines += [(f"{key} digest", value) for key, value in sorted(card.digests.items())]
    rest = card.redundancy
    if rest is not None:
        text = f"{rest.kept} of {rest.features:,} features are not redundant "
        text += f"({100 * rest.share:.1f} %; FCBF, {rest.relevant} bear on the class)"
        lines.append(("redundancy", text))
    return align_pairs(lines)


# --- provenance and optional columns, as lines of a card ---


def provenance_lines(made: Mapping[str, Any], n_leaves: int) -> Iterator[tuple[str, str]]:
    """Yield the provenance of a file of so many leaf classes, one line per part."""
    for part in ("backbone", "preprocessing", "arithmetic", "source", "split"):
        values = made.get(part) or {}  # which may be null
        stated = {key: value for key, value in values.items() if value not in ("", None, {})}
        name_first = sorted(stated, key=lambda key: key != "name")
        yield part, ", ".join(f"{key} {_words(stated[key])}" for key in name_first)
    pictures = made.get("pictures")
    if pictures:
        yield "pictures", _picture_words(pictures)
    weights = read_weights_entry(made)
    if made.get("weights"):
        values = {
            "backbone": weights.backbone,
            "licence": weights.licence,
            "pretrained on": ", ".join(weights.pretrained_on),
        }
        yield "weights", ", ".join(f"{k} {v}" for k, v in values.items() if v)
    for data_set, names in weights.classes_seen.items():
        seen = f"{len(names)} of {n_leaves} are in {data_set} by name: {list_some(names)}"
        yield "classes seen", seen
    yield "skipped", f"{len(made.get('skipped', []))} samples"
    if isinstance(contents := made.get(KEY), Mapping):
        yield "contents", f"of the samples: SHA-256 {contents.get('sha256', 'not stated')}"
    made_by = " ".join(f"{k} {v}" for k, v in (made.get("made_by") or {}).items())
    yield "made", f"{made.get('date_utc', 'at an unknown date')} by {made_by or 'unknown'}"


def _picture_words(pictures: Mapping[str, Any]) -> str:
    """The pixel policy of a file, and how many of its pictures each rule touched."""
    policy = ", ".join(f"{key} {value}" for key, value in (pictures.get("policy") or {}).items())
    counts = {key: value for key, value in pictures.items() if isinstance(value, int) and value}
    touched = ", ".join(f"{key} {count:,}" for key, count in counts.items())
    return f"{touched or 'no rule touched one'} ({policy})"


def _words(value: Any) -> str:
    """A value of the provenance; of a table the names, and once what is said of all of them."""
    if not isinstance(value, Mapping):
        return str(value)
    said = ", ".join(dict.fromkeys(map(str, value.values())))
    return f"{' '.join(value)} ({said})"


def column_words(values: Array) -> str:
    """Return an optional column (N,) in words.

    >>> column_words(np.array(["art", "photo", "art"]))
    '2 values of 1 to 2 samples: art, photo'
    >>> column_words(np.array([3.0, 0.5]))
    '0.5 to 3, 2 values'
    """
    names, counts = np.unique(values, return_counts=True)
    if values.dtype.kind == "f":
        return f"{names[0]:g} to {names[-1]:g}, {len(names):,} values"
    sizes = f"{counts.min():,} to {counts.max():,}"
    return f"{len(names):,} values of {sizes} samples: {list_some(names.tolist())}"
