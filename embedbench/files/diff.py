"""Differences between two embedding files: samples, bits, directions, neighbours and scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Float32s, Ints, Strings
from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.text.terminal_text import align_pairs

from . import file_digests, hdf5_layout
from .embedding_file import EmbeddingFile
from .provenance import list_some
from .sample_contents import RecordedContents, compare_contents, recorded_contents
from .sample_metadata import TEST, TRAIN, Samples

PROBE = "nearest class mean, test accuracy"
QUERIES = 500  # rows whose nearest neighbour is compared
AMONG = 10_000  # rows among which it is searched
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
    contents : dict or None
        Numbers of shared samples whose contents were `compared`, and that have `changed`; `first`,
        the ids of the first of these. None if not both files record the contents.
    """

    a: str
    b: str
    digests: dict[str, bool]
    samples: dict[str, Any]
    cosine: dict[str, Any] | None
    neighbours: dict[str, int] | None
    scores: dict[str, Any]
    reasons: tuple[str, ...]
    contents: dict[str, Any] | None = field(default=None, metadata=ABSENT)


def diff(a: str | Path, b: str | Path) -> Diff:
    """Compare two files, whose features are both in memory."""
    one = EmbeddingFile.open(a)
    two = EmbeddingFile.open(b)
    keys = [*hdf5_layout.DIGESTS, *(["columns"] if one.columns or two.columns else [])]
    agree = {key: one.digests.get(key) == two.digests.get(key) for key in keys}
    x = _features(one)
    y = _features(two)
    scores: list[Any] = [probe_accuracy(one.samples, x), probe_accuracy(two.samples, y)]
    moved = None if None in scores else scores[1] - scores[0]
    rows_a, rows_b = shared_rows(one.samples, two.samples)
    samples = sample_differences(one.samples, two.samples, rows_a, rows_b)
    recorded = [recorded_contents(f.provenance, f.sample_ids) for f in (one, two)]
    ids = one.sample_ids[rows_a]
    contents = compare_contents(recorded[0], recorded[1], (rows_a, rows_b), ids)
    reasons = [
        *_reasons(one, two, agree, samples, (rows_a, rows_b)),
        *_content_reasons(contents, recorded, agree),
    ]
    return Diff(
        a=str(one.path),
        b=str(two.path),
        digests=agree,
        samples=samples,
        cosine=row_cosines(x[rows_a], y[rows_b], ids),
        neighbours=neighbour_changes(x[rows_a], y[rows_b]),
        scores={"what": PROBE, "a": scores[0], "b": scores[1], "moved": moved},
        reasons=tuple(reasons),
        contents=contents,
    )


def _features(file: EmbeddingFile) -> Float32s:
    """Read and verify the features, one row a sample; an image is H·W·C values."""
    rows = [block.reshape(len(block), -1) for _, block in file.blocks("features")]
    return np.concatenate(rows).astype(np.float32, copy=False)


def _reasons(
    a: EmbeddingFile,
    b: EmbeddingFile,
    agree: dict[str, bool],
    samples: dict[str, Any],
    rows: tuple[Ints, Ints],
) -> Iterator[str]:
    """Yield in words how samples, recipes, features and columns differ."""
    if not agree["samples"]:
        yield from (
            f"samples: {text.format(samples[k])}." for k, text in _TEXTS.items() if samples[k]
        )
        if not samples["same_order"]:
            yield "samples: the shared samples are in another order."
        if not samples["same_classes"]:
            yield "samples: the lists of classes or their hierarchy differ."
    for key, x, y in _changes(file_digests.recipe(a.provenance), file_digests.recipe(b.provenance)):
        yield f"recipe: {key} is {x!r} in a and {y!r} in b."
    if a.layers != b.layers:
        yield f"content: a has layers {a.layers or 'none'}, b has {b.layers or 'none'}."
    for name in hdf5_layout.COLUMNS:
        if (name in a.columns) != (name in b.columns):
            yield f"columns: only {'a' if name in a.columns else 'b'} has {name}."
        elif name in a.columns:
            other = int((a.columns[name][rows[0]] != b.columns[name][rows[1]]).sum())
            if other:
                yield f"columns: {other} shared samples have another {name}."


def _content_reasons(
    contents: dict[str, Any] | None,
    recorded: list[RecordedContents | None],
    agree: dict[str, bool],
) -> Iterator[str]:
    """Yield in words what the contents of the samples have to do with other features."""
    if contents is not None and contents["changed"]:
        yield (
            f"contents: {contents['changed']:,} of {contents['compared']:,} shared samples have "
            f"other contents under the same names (first: {list_some(contents['first'])})."
        )
        return
    if agree["content"] or not agree["samples"] or not agree["recipe"]:
        return
    machines = "`inspect` shows the machine and the versions that made each."
    if contents is not None:
        yield f"content: the bits differ although samples, contents and recipe agree; {machines}"
        return
    where = [name for name, there in zip("ab", recorded, strict=True) if there is None]
    known = f"are not recorded in {' and '.join(where)}" if where else "cannot be compared"
    yield (
        "content: the bits differ although samples and recipe agree. The contents of the samples "
        f"{known}, so they may be others under the same names; {machines}"
    )


def _changes(a: Any, b: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, value in a, value in b) wherever two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            yield from _changes(a.get(name), b.get(name), f"{key}.{name}" if key else name)
    elif a != b:
        yield key, a, b


def diff_text(diff: Diff) -> str:
    """Return a difference as text."""
    cosine = diff.cosine
    near = diff.neighbours
    scores = diff.scores
    lines = [("a", diff.a), ("b", diff.b)]
    lines += [(key, "agree" if same else "differ") for key, same in diff.digests.items()]
    lines.append(("shared samples", f"{diff.samples['shared']:,}"))
    if diff.contents is not None:
        changed = diff.contents["changed"]
        compared = diff.contents["compared"]
        lines.append(("their contents", f"{changed:,} of {compared:,} changed"))
    if cosine is not None:
        names = ("min", "p1", "p5", "median", "mean")
        values = ", ".join(f"{name} {cosine[name]:.7f}" for name in names)
        lines.append(("cosine per row", f"{values}; lowest: {cosine['lowest']}"))
    if near is not None:
        changed = f"{near['changed']} of {near['queries']} nearest neighbours changed"
        lines.append(("neighbours", f"{changed} (by cosine, among {near['among']:,} rows)"))
    if scores["moved"] is not None:
        values = f"a {scores['a']:.4f}, b {scores['b']:.4f}, moved {scores['moved']:+.4f}"
        lines.append(("scores", f"{scores['what']}: {values}"))
    lines += [("why" if number == 0 else "", text) for number, text in enumerate(diff.reasons)]
    return align_pairs(lines)


# --- figures: shared samples, cosines, neighbours, a quick probe ---


def shared_rows(a: Samples, b: Samples) -> tuple[Ints, Ints]:
    """Return the rows of the shared samples in a and in b, (M,) each, in the order of `a`."""
    _, rows_a, rows_b = np.intersect1d(a.ids, b.ids, assume_unique=True, return_indices=True)
    order = np.argsort(rows_a)
    return rows_a[order], rows_b[order]


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


def row_cosines(x: Float32s, y: Float32s, ids: Strings) -> dict[str, Any] | None:
    """Summarise the cosines between the two features of each shared sample, (M, D) each.

    Two rows of zeros have cosine 1; a row of zeros and any other row have cosine 0.
    """
    if not len(x) or x.shape != y.shape:
        return None
    cosine = np.empty(len(x))
    for a, b in hdf5_layout.block_ranges(len(x)):
        same_zero = ~x[a:b].any(axis=1) & ~y[a:b].any(axis=1)
        products = (_unit(x[a:b].astype(np.float64)) * _unit(y[a:b].astype(np.float64))).sum(axis=1)
        cosine[a:b] = np.where(same_zero, 1.0, products)
    p1, p5, median = np.percentile(cosine, [1, 5, 50]).tolist()
    return {
        "rows": len(cosine),
        "min": float(cosine.min()),
        "p1": p1,
        "p5": p5,
        "median": median,
        "mean": float(cosine.mean()),
        "lowest": str(ids[int(cosine.argmin())]),
    }


def neighbour_changes(x: Float32s, y: Float32s) -> dict[str, int] | None:
    """Return how many of up to 500 rows have another nearest neighbour by cosine.

    Neighbours are searched among up to 10,000 evenly spaced shared rows; widths may differ.
    """
    if len(x) < 3:
        return None
    among = _evenly(len(x), AMONG)
    queries = _evenly(len(among), QUERIES)
    nearest = []
    for rows in (x, y):
        unit = _unit(rows[among])  # (n, D)
        likeness = unit[queries] @ unit.T  # (q, D) @ (D, n) -> (q, n)
        likeness[np.arange(len(queries)), queries] = -np.inf
        nearest.append(likeness.argmax(axis=1))
    changed = int((nearest[0] != nearest[1]).sum())
    return {"queries": len(queries), "among": len(among), "changed": changed}


def probe_accuracy(samples: Samples, x: Float32s) -> float | None:
    """Return the test accuracy of a nearest-class-mean classifier on features x (N, D).

    None if there are no train or no test samples.
    """
    train = samples.split == TRAIN
    test = samples.split == TEST
    if not train.any() or not test.any():
        return None
    known, labels = np.unique(samples.labels[train], return_inverse=True)
    sums = np.zeros((len(known), x.shape[1]))
    np.add.at(sums, labels, x[train])
    means = (sums / np.bincount(labels)[:, None]).astype(np.float32)  # (C, D)
    offset = (means**2).sum(axis=1) / 2
    answer = known[(x[test] @ means.T - offset).argmax(axis=1)]  # nearest in Euclidean distance
    return float((answer == samples.labels[test]).mean())


def _unit(x: Array) -> Array:
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    unit: Array = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    return unit


def _evenly(n: int, most: int) -> Ints:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
