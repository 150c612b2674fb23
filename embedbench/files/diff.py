"""Differences between two embedding files: samples, bits, directions, neighbours and scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Floats, Ints
from embedbench.config.json_records import JsonRecord
from embedbench.text.terminal_text import align_pairs

from . import file_digests, hdf5_layout, integrity_checks
from .embedding_file import EmbeddingFile
from .sample_metadata import TEST, TRAIN, Samples

PROBE = "nearest class mean, test accuracy"
_TEXTS = {
    "only_a": "{} samples are only in a",
    "only_b": "{} samples are only in b",
    "class_differs": "{} shared samples have another class",
    "split_differs": "{} shared samples have another split",
}


@dataclass(frozen=True)
class Diff(JsonRecord):
    """The differences between two embedding files.

    Parameters
    ----------
    digests : dict
        For each digest, whether it is the same in both files.
    samples : dict
        Numbers of samples: `shared`, `only_a`, `only_b`; shared ones of another class or split,
        `class_differs`, `split_differs`. Whether the shared ones come in the same order,
        `same_order`, and classes and hierarchy agree, `same_classes`.
    cosine : dict or None
        Cosines between the two features of each shared sample: `rows`, their number; `min`, `p1`,
        `p5` (quantiles), `median`, `mean`; `lowest`, the id of the sample with the lowest one. None
        if there are none, or if the widths differ.
    neighbours : dict or None
        Of `queries` rows, `changed` have another nearest neighbour among `among` rows. None if
        fewer than three samples are shared.
    scores : dict
        The accuracy of a quick probe (`what`) on each file, `a` and `b`, None if it has no train or
        no test samples, and how far it `moved`.
    reasons : tuple of str
        Why digests differ, in words.
    """

    a: str
    b: str
    digests: dict[str, bool]
    samples: dict[str, Any]
    cosine: dict[str, Any] | None
    neighbours: dict[str, int] | None
    scores: dict[str, Any]
    reasons: tuple[str, ...]


def diff(a: str | Path, b: str | Path) -> Diff:
    """Compare two files; memory does not grow with the number of rows."""
    one, two = EmbeddingFile.open(a), EmbeddingFile.open(b)
    keys = [*hdf5_layout.DIGESTS, *(["columns"] if one.columns or two.columns else [])]
    agree = {key: one.digests.get(key) == two.digests.get(key) for key in keys}
    score_a, score_b = probe_accuracy(one), probe_accuracy(two)
    rows = shared_rows(one.samples, two.samples)
    samples = sample_differences(one.samples, two.samples, *rows)
    moved = None if score_a is None or score_b is None else score_b - score_a
    return Diff(
        a=str(one.path),
        b=str(two.path),
        digests=agree,
        samples=samples,
        cosine=row_cosines(one, two, *rows),
        neighbours=neighbour_changes(one, two, *rows),
        scores={"what": PROBE, "a": score_a, "b": score_b, "moved": moved},
        reasons=(*_reasons(one, two, agree, samples), *column_reasons(one, two, *rows)),
    )


def _reasons(
    a: EmbeddingFile, b: EmbeddingFile, agree: dict[str, bool], samples: dict[str, Any]
) -> list[str]:
    """Return in words why digests differ."""
    why: list[str] = []
    if not agree["samples"]:
        why += [f"samples: {text.format(samples[k])}." for k, text in _TEXTS.items() if samples[k]]
        if not samples["same_order"]:
            why.append("samples: the shared samples are in another order.")
        if not samples["same_classes"]:
            why.append("samples: the lists of classes or their hierarchy differ.")
    if not agree["recipe"]:
        recipes = [file_digests.recipe(file.provenance) for file in (a, b)]
        changes = list(_changes(recipes[0], recipes[1]))
        why += [f"recipe: {key} is {x!r} in a and {y!r} in b." for key, x, y in changes]
    if not agree["content"] and a.layers != b.layers:
        why.append(f"content: a has layers {a.layers or 'none'}, b has {b.layers or 'none'}.")
    if not agree["content"] and agree["samples"] and agree["recipe"]:
        where = list(_changes(_made_on(a), _made_on(b)))
        text = "; ".join(f"{key}: {x} in a, {y} in b" for key, x, y in where)
        why.append(
            "content: the bits differ although samples and recipe agree "
            f"({text or 'nothing recorded explains it: another machine, or changed features'})."
        )
    if agree["content"] and not agree["samples"]:
        why.append("content: the features agree bit for bit, in the same row order.")
    return why


def _made_on(file: EmbeddingFile) -> dict[str, Any]:
    made = file.provenance
    return {
        "library version": (made.get("backbone") or {}).get("library_version"),
        "arithmetic": made.get("arithmetic"),
        "made by": made.get("made_by"),
    }


def _changes(a: Any, b: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, value in a, value in b) wherever two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            yield from _changes(a.get(name), b.get(name), f"{key}.{name}" if key else name)
    elif a != b:
        yield key, a, b


def diff_text(diff: Diff) -> str:
    """Return a difference as text."""
    cosine, near, scores = diff.cosine, diff.neighbours, diff.scores
    lines = [("a", diff.a), ("b", diff.b)]
    lines += [(key, "agree" if same else "differ") for key, same in diff.digests.items()]
    lines.append(("shared samples", f"{diff.samples['shared']:,}"))
    if cosine is None:
        lines.append(("cosine per row", "not defined: no shared samples of equal width"))
    else:
        names = ("min", "p1", "p5", "median", "mean")
        values = ", ".join(f"{name} {cosine[name]:.7f}" for name in names)
        lines.append(("cosine per row", f"{values}; lowest: {cosine['lowest']}"))
    if near is not None:
        changed = f"{near['changed']} of {near['queries']} nearest neighbours changed"
        lines.append(("neighbours", f"{changed} (by cosine, among {near['among']:,} rows)"))
    if scores["moved"] is None:
        lines.append(("scores", "a file has no train or no test samples"))
    else:
        values = f"a {scores['a']:.4f}, b {scores['b']:.4f}, moved {scores['moved']:+.4f}"
        lines.append(("scores", f"{scores['what']}: {values}"))
    lines += [("why" if number == 0 else "", text) for number, text in enumerate(diff.reasons)]
    return align_pairs(lines)


# --- figures: shared samples, cosines, neighbours, a quick probe ---


QUERIES = 500  # rows whose nearest neighbour is compared
AMONG = 10_000  # rows among which it is searched


def shared_rows(a: Samples, b: Samples) -> tuple[Ints, Ints]:
    """Return the rows of the shared samples in a and in b, (M,) each, in the order of `a`."""
    row_of = {name: row for row, name in enumerate(b.ids.tolist())}
    pairs = [(row, row_of[name]) for row, name in enumerate(a.ids.tolist()) if name in row_of]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def sample_differences(a: Samples, b: Samples, rows_a: Ints, rows_b: Ints) -> dict[str, Any]:
    """Compare the sample lists of two files, given the rows of the shared samples."""
    names_a = np.array(a.classes)[a.labels[rows_a]]
    names_b = np.array(b.classes)[b.labels[rows_b]]
    return {
        "shared": len(rows_a),
        "only_a": len(a.ids) - len(rows_a),
        "only_b": len(b.ids) - len(rows_b),
        "class_differs": int((names_a != names_b).sum()),
        "split_differs": int((a.split[rows_a] != b.split[rows_b]).sum()),
        "same_order": bool((np.diff(rows_b) > 0).all()),
        "same_classes": a.classes == b.classes and np.array_equal(a.parents, b.parents),
    }


def column_reasons(a: EmbeddingFile, b: EmbeddingFile, rows_a: Ints, rows_b: Ints) -> Iterator[str]:
    """Yield in words how the optional columns of two files differ, on the shared samples."""
    for name in hdf5_layout.COLUMNS:
        if (name in a.columns) != (name in b.columns):
            yield f"columns: only {'a' if name in a.columns else 'b'} has {name}."
        elif name in a.columns:
            other = int((a.columns[name][rows_a] != b.columns[name][rows_b]).sum())
            if other:
                yield f"columns: {other} shared samples have another {name}."


def row_cosines(
    a: EmbeddingFile, b: EmbeddingFile, rows_a: Ints, rows_b: Ints
) -> dict[str, Any] | None:
    """Summarise the cosines between the two features of each shared sample.

    Two rows of zeros have cosine 1; a row of zeros and any other row have cosine 0.
    """
    if not len(rows_a) or a.shape[1:] != b.shape[1:]:
        return None
    parts = []
    for first in range(0, len(rows_a), hdf5_layout.BLOCK):
        part = slice(first, first + hdf5_layout.BLOCK)
        x, y = fetch(a, rows_a[part]), fetch(b, rows_b[part])  # (n, D) float64
        same_zero = ~x.any(axis=1) & ~y.any(axis=1)
        parts.append(np.where(same_zero, 1.0, (_unit(x) * _unit(y)).sum(axis=1)))
    cosine = np.concatenate(parts)
    p1, p5, median = np.percentile(cosine, [1, 5, 50]).tolist()
    return {
        "rows": len(cosine),
        "min": float(cosine.min()),
        "p1": p1,
        "p5": p5,
        "median": median,
        "mean": float(cosine.mean()),
        "lowest": str(a.sample_ids[rows_a[int(cosine.argmin())]]),
    }


def neighbour_changes(
    a: EmbeddingFile, b: EmbeddingFile, rows_a: Ints, rows_b: Ints
) -> dict[str, int] | None:
    """Return how many of up to 500 rows have another nearest neighbour by cosine.

    Neighbours are searched among up to 10,000 evenly spaced shared rows; widths may differ.
    """
    if len(rows_a) < 3:
        return None
    among = _evenly(len(rows_a), AMONG)
    queries = _evenly(len(among), QUERIES)
    nearest = []
    for file, rows in ((a, rows_a[among]), (b, rows_b[among])):
        x = _unit(fetch(file, rows).astype(np.float32))  # (n, D)
        likeness = x[queries] @ x.T  # (q, D) @ (D, n) -> (q, n)
        likeness[np.arange(len(queries)), queries] = -np.inf
        nearest.append(likeness.argmax(axis=1))
    changed = int((nearest[0] != nearest[1]).sum())
    return {"queries": len(queries), "among": len(among), "changed": changed}


def probe_accuracy(file: EmbeddingFile) -> float | None:
    """Return the test accuracy of a nearest-class-mean classifier on the features.

    Every block is verified while it is read. None if the file has no train or no test samples.
    """
    labels, split = file.labels, file.split
    sums = np.zeros((file.samples.n_leaves, file.width()))
    for first, rows in file.blocks("features"):
        part = slice(first, first + len(rows))
        train = split[part] == TRAIN
        np.add.at(sums, labels[part][train], _flat(rows[train]))
    known, counts = np.unique(labels[split == TRAIN], return_counts=True)
    if not len(known) or not (split == TEST).any():
        return None
    means = (sums[known] / counts[:, None]).astype(np.float32)  # (C, D)
    offset = (means**2).sum(axis=1) / 2
    correct = 0
    for first, rows in file.blocks("features"):
        part = slice(first, first + len(rows))
        test = split[part] == TEST
        if test.any():
            x = _flat(rows[test]).astype(np.float32)
            answer = known[(x @ means.T - offset).argmax(axis=1)]  # nearest in Euclidean distance
            correct += int((answer == labels[part][test]).sum())
    return correct / int((split == TEST).sum())


def fetch(file: EmbeddingFile, rows: Ints) -> Floats:
    """Return rows of the features in the given order, (n, D) or (n, H·W·C), without verifying."""
    order = np.argsort(rows)
    ordered = rows[order]
    out = np.empty((len(rows), file.width()))
    with integrity_checks.open_embedding_file(file.path) as stored:
        if len(rows) and ordered[-1] - ordered[0] == len(rows) - 1:
            out[order] = _flat(stored["features"][int(ordered[0]) : int(ordered[-1]) + 1])
        else:
            out[order] = _flat(stored["features"][ordered])
    return out


def _flat(rows: Array) -> Array:
    """Return one row per sample; an image becomes H·W·C values."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _unit(x: Array) -> Array:
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    unit: Array = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    return unit


def _evenly(n: int, most: int) -> Ints:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
