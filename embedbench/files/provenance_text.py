"""The provenance of a file, and its optional columns, as lines of a card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pretrained import LISTED
from .provenance import read_weights_entry

Line = tuple[str, str]


def provenance_lines(made: Mapping[str, Any], n_leaves: int) -> Iterator[Line]:
    """Yield the provenance of a file of so many leaf classes, one line per part."""
    for part in ("backbone", "preprocessing", "arithmetic", "source", "split"):
        values = made.get(part) or {}
        values = {k: values[k] for k in sorted(values, key=lambda k: k != "name")}  # it comes first
        yield part, ", ".join(f"{k} {_words(v)}" for k, v in values.items() if v not in ("", None))
    weights = read_weights_entry(made)
    if made.get("weights"):
        values = {
            "backbone": weights.backbone,
            "licence": weights.licence,
            "pretrained on": ", ".join(weights.pretrained_on),
        }
        yield "weights", ", ".join(f"{k} {v}" for k, v in values.items() if v)
    for data_set, names in weights.classes_seen.items():
        first = ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
        yield "classes seen", f"{len(names)} of {n_leaves} are in {data_set} by name: {first}"
    yield "skipped", f"{len(made.get('skipped', []))} samples"
    made_by = " ".join(f"{k} {v}" for k, v in (made.get("made_by") or {}).items())
    yield "made", f"{made.get('date_utc', 'at an unknown date')} by {made_by or 'unknown'}"


def _words(value: Any) -> str:
    """A value of the provenance; of a table the names, and once what is said of all of them."""
    if not isinstance(value, Mapping):
        return str(value)
    said = ", ".join(dict.fromkeys(map(str, value.values())))
    return f"{' '.join(value)} ({said})"


def column_words(values: NDArray[Any]) -> str:
    """Return an optional column (N,) in words.

    >>> column_words(np.array(["art", "photo", "art"]))
    '2 values of 1 to 2 samples: art, photo'
    >>> column_words(np.array([3.0, 0.5]))
    '0.5 to 3, 2 values'
    """
    names, counts = np.unique(values, return_counts=True)
    if values.dtype.kind == "f":
        return f"{names[0]:g} to {names[-1]:g}, {len(names):,} values"
    first = ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
    return f"{len(names):,} values of {counts.min():,} to {counts.max():,} samples: {first}"
