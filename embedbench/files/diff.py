"""The figures behind ``diff``: shared samples, cosines, neighbours, a quick probe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Ints

from . import disk, layout
from .file import EmbeddingFile
from .samples import TEST, TRAIN, Samples
from .text import aligned

QUERIES = 500  # rows whose nearest neighbour is looked up
AMONG = 10_000  # rows among which it is looked for


def shared_rows(a: Samples, b: Samples) -> tuple[Ints, Ints]:
    """Return the rows of the samples that both have, (M,) in each, in the order of ``a``."""
    row_of = {name: row for row, name in enumerate(b.ids.tolist())}
    pairs = [(row, row_of[name]) for row, name in enumerate(a.ids.tolist()) if name in row_of]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def sample_differences(a: Samples, b: Samples, rows_a: Ints, rows_b: Ints) -> dict[str, Any]:
    """Return how many samples are shared, stand elsewhere, or differ in class or split."""
    names_a = np.array(a.classes)[a.labels[rows_a]]
    names_b = np.array(b.classes)[b.labels[rows_b]]
    return {
        "shared": len(rows_a),
        "only_a": len(a.ids) - len(rows_a),
        "only_b": len(b.ids) - len(rows_b),
        "class_differs": int((names_a != names_b).sum()),
        "split_differs": int((a.split[rows_a] != b.split[rows_b]).sum()),
        "same_order": bool((np.diff(rows_b) > 0).all()),
        "same_classes": a.classes == b.classes and bool(np.array_equal(a.parents, b.parents)),
    }


def row_cosines(
    a: EmbeddingFile, b: EmbeddingFile, rows_a: Ints, rows_b: Ints
) -> dict[str, Any] | None:
    """Return the cosine between the two features of each shared sample, summed up.

    Two rows of zeros have cosine 1, a row of zeros and another have 0.
    """
    if not len(rows_a) or a.shape[1:] != b.shape[1:]:
        return None
    parts = []
    for first in range(0, len(rows_a), layout.BLOCK):
        part = slice(first, first + layout.BLOCK)
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
) -> dict[str, Any] | None:
    """Return how many of up to 500 rows have another nearest neighbour by cosine.

    Neighbours are sought among up to 10,000 shared rows, evenly spaced; widths may differ.
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
    """Return the test accuracy of the nearest mean of the classes' training features.

    Every block is verified on the way. None where the file has no train or no test samples.
    """
    labels, split = file.labels, file.split
    sums = np.zeros((file.samples.n_leaves, file.width()))
    counts = np.bincount(labels[split == TRAIN], minlength=len(sums))
    for first, rows in file.blocks("features"):
        part = slice(first, first + len(rows))
        train = split[part] == TRAIN
        one_hot = labels[part][train] == np.arange(len(sums))[:, None]  # (C, n)
        sums += one_hot.astype(np.float32) @ _flat(rows[train]).astype(np.float32)
    if not counts.any() or not (split == TEST).any():
        return None
    known = np.flatnonzero(counts)
    means = (sums[known] / counts[known, None]).astype(np.float32)  # (c, D)
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


def reasons(a: EmbeddingFile, b: EmbeddingFile, found: Mapping[str, Any]) -> list[str]:
    """Return in words why digests do not agree."""
    agree, samples = found["digests"], found["samples"]
    why: list[str] = []
    if not agree["samples"]:
        why += _sample_reasons(samples)
    if not agree["recipe"]:
        changes = list(_changes(_recipe_parts(a), _recipe_parts(b)))
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


def _sample_reasons(samples: Mapping[str, Any]) -> Iterator[str]:
    texts = {
        "only_a": "{} samples are only in a",
        "only_b": "{} samples are only in b",
        "class_differs": "{} shared samples have another class",
        "split_differs": "{} shared samples have another split",
    }
    for key, text in texts.items():
        if samples[key]:
            yield f"samples: {text.format(samples[key])}."
    if not samples["same_order"]:
        yield "samples: the shared samples stand in another order."
    if not samples["same_classes"]:
        yield "samples: the lists of classes or their hierarchy differ."


def _recipe_parts(file: EmbeddingFile) -> dict[str, Any]:
    made = file.provenance
    return {
        "backbone": layout.recipe_backbone(made),
        "preprocessing": made.get("preprocessing") or {},
        "dtype": (made.get("arithmetic") or {}).get("dtype"),
    }


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


def fetch(file: EmbeddingFile, rows: Ints) -> NDArray[np.float64]:
    """Return rows of the features in the asked order, (n, D) or (n, H·W·C), not verified."""
    order = np.argsort(rows)
    ordered = rows[order]
    out = np.empty((len(rows), file.width()))
    with disk.opened(file.path) as stored:
        if len(rows) and ordered[-1] - ordered[0] == len(rows) - 1:
            out[order] = _flat(stored["features"][int(ordered[0]) : int(ordered[-1]) + 1])
        else:
            out[order] = _flat(stored["features"][ordered])
    return out


def _flat(rows: NDArray[Any]) -> NDArray[Any]:
    """Return a row a sample: images as H·W·C values."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _unit(x: NDArray[Any]) -> NDArray[Any]:
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    unit: NDArray[Any] = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    return unit


def _evenly(n: int, most: int) -> Ints:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def diff(a: str | Path, b: str | Path) -> dict[str, Any]:
    """Compare two files, as plain JSON; memory stays flat in the number of rows.

    Returns
    -------
    ``digests`` (which agree), ``reasons`` (why the others do not, in words), ``samples``,
    ``cosine`` per shared row (None where the widths differ), ``neighbours`` and ``scores``.

    Raises
    ------
    UserError
        A file cannot be opened or is damaged.
    """
    one, two = EmbeddingFile.open(a), EmbeddingFile.open(b)
    agree = {key: one.digests[key] == two.digests[key] for key in ("samples", "recipe", "content")}
    score_a, score_b = probe_accuracy(one), probe_accuracy(two)
    rows = shared_rows(one.samples, two.samples)
    found = {
        "a": str(one.path),
        "b": str(two.path),
        "digests": agree,
        "samples": sample_differences(one.samples, two.samples, *rows),
        "cosine": row_cosines(one, two, *rows),
        "neighbours": neighbour_changes(one, two, *rows),
        "scores": {
            "what": "nearest class mean, test accuracy",
            "a": score_a,
            "b": score_b,
            "moved": None if score_a is None or score_b is None else score_b - score_a,
        },
    }
    return {**found, "reasons": reasons(one, two, found)}


def diff_text(found: Mapping[str, Any]) -> str:
    """Return what ``diff`` found as text."""
    samples, cosine, near = found["samples"], found["cosine"], found["neighbours"]
    scores = found["scores"]
    lines = [("a", found["a"]), ("b", found["b"])]
    lines += [(key, "agree" if same else "differ") for key, same in found["digests"].items()]
    lines.append(("shared samples", f"{samples['shared']:,}"))
    if cosine is None:
        lines.append(("cosine per row", "not defined: no shared samples of equal width"))
    else:
        values = ", ".join(f"{k} {cosine[k]:.7f}" for k in ("min", "p1", "p5", "median", "mean"))
        lines.append(("cosine per row", f"{values}; lowest: {cosine['lowest']}"))
    if near is not None:
        lines.append(
            (
                "neighbours",
                f"{near['changed']} of {near['queries']} nearest neighbours changed "
                f"(by cosine, among {near['among']:,} rows)",
            )
        )
    if scores["moved"] is None:
        lines.append(("scores", "a file has no train or no test samples"))
    else:
        lines.append(
            (
                "scores",
                f"{scores['what']}: a {scores['a']:.4f}, b {scores['b']:.4f}, "
                f"moved {scores['moved']:+.4f}",
            )
        )
    lines += [("why" if number == 0 else "", text) for number, text in enumerate(found["reasons"])]
    return aligned(lines)
