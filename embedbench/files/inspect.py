"""Looking at embedding files: a card of one, its damage, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import DamagedFileError

from . import disk, layout
from .file import EmbeddingFile
from .samples import SPLITS
from .text import aligned

NORM_ROWS = 1024  # rows that a card reads
_RUNS = 4  # in this many runs, so that a big file answers at once


def card(file: EmbeddingFile) -> dict[str, Any]:
    """Return what is in a file, as plain JSON, reading at most 1,024 rows of its features."""
    samples = file.samples
    leaves = samples.n_leaves
    counts = np.stack(
        [np.bincount(samples.labels[samples.split == s], minlength=leaves) for s in range(3)]
    )  # (3, leaves)
    per_class = {
        name: {
            "min": int(row.min()),
            "median": float(np.median(row)),
            "max": int(row.max()),
            "empty": int((row == 0).sum()),
        }
        for name, row in zip(SPLITS, counts, strict=True)
        if row.sum()
    }
    names = zip(samples.classes, counts.T.tolist(), strict=False)
    return {
        "path": str(file.path),
        "format_version": layout.VERSION,
        "kind": file.kind,
        "bytes": file.path.stat().st_size,
        "shape": list(file.shape),
        "dtype": file.dtype.name,
        "layers": file.layers,
        "samples": {s: int(row.sum()) for s, row in zip(SPLITS, counts, strict=True)},
        "classes": {"leaves": leaves, "inner": len(samples.classes) - leaves},
        "per_class": per_class,
        "class_counts": {name: dict(zip(SPLITS, row, strict=True)) for name, row in names},
        "norms": _norms(file),
        "digests": file.digests,
        "provenance": file.provenance,
    }


def _norms(file: EmbeddingFile) -> dict[str, Any]:
    """Return the Euclidean norms of evenly spaced runs of rows, not verified."""
    n, length = file.shape[0], NORM_ROWS // _RUNS
    if n <= NORM_ROWS:
        runs = [(0, n)]
    else:
        starts = np.linspace(0, n - length, _RUNS).astype(int).tolist()
        runs = [(start, start + length) for start in starts]
    with disk.opened(file.path) as stored:
        rows = np.concatenate([stored["features"][a:b] for a, b in runs]).astype(np.float64)
    norms = np.linalg.norm(rows.reshape(len(rows), file.width()), axis=1)
    return {
        "rows": len(rows),
        "runs": len(runs),
        "min": float(norms.min()),
        "mean": float(norms.mean()),
        "max": float(norms.max()),
    }


def card_text(found: Mapping[str, Any]) -> str:
    """Return a card as text."""
    n, *sample = found["shape"]
    classes, norms, made = found["classes"], found["norms"], found["provenance"]
    layers = ", ".join(f"{name} ({width})" for name, width in found["layers"].items()) or "none"
    lines = [
        ("file", f"{found['path']} ({_megabytes(found['bytes'])})"),
        ("format", f"{layout.FORMAT} {found['format_version']}, kind {found['kind']}"),
        ("features", f"{' x '.join(f'{size:,}' for size in (n, *sample))} {found['dtype']}"),
        ("layers", layers),
        ("samples", ", ".join(f"{count:,} {s}" for s, count in found["samples"].items() if count)),
        ("classes", f"{classes['leaves']} leaves, {classes['inner']} inner nodes"),
    ]
    for name, row in found["per_class"].items():
        text = f"min {row['min']}, median {row['median']:g}, max {row['max']}"
        empty = f"; {row['empty']} classes have none" if row["empty"] else ""
        lines.append((f"{name} per class", text + empty))
    sample = "all rows" if norms["rows"] == n else f"{norms['rows']} rows in {norms['runs']} runs"
    lines.append(
        (
            "norms",
            f"min {norms['min']:.4g}, mean {norms['mean']:.4g}, max {norms['max']:.4g} ({sample})",
        )
    )
    for part in ("backbone", "preprocessing", "arithmetic", "source", "split"):
        values = made.get(part) or {}
        lines.append(
            (part, ", ".join(f"{k} {v}" for k, v in values.items() if v not in ("", None)))
        )
    lines.append(("skipped", f"{len(made.get('skipped', []))} samples"))
    made_by = " ".join(f"{k} {v}" for k, v in (made.get("made_by") or {}).items())
    lines.append(
        ("made", f"{made.get('date_utc', 'at an unknown date')} by {made_by or 'unknown'}")
    )
    lines += [(f"{key} digest", value) for key, value in sorted(found["digests"].items())]
    return aligned(lines + _redundancy_lines(found.get("redundancy")))


def _redundancy_lines(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return what ``redundancy`` found, where it was asked for."""
    if found is None:
        return []
    cut = found["intervals"]
    return [
        (
            "redundancy",
            f"{found['kept']} of {found['features']:,} features are not redundant "
            f"({100 * found['share']:.1f} %; FCBF, {found['relevant']} bear on the class)",
        ),
        (
            "intervals",
            f"{found['discretisation']}, {cut['min']} to {cut['max']} a feature, median "
            f"{cut['median']:g}; {found['samples']:,} samples, {found['seconds']:.1f} s",
        ),
    ]


def verify(path: str | Path) -> list[str]:
    """Check everything in a file.

    Returns
    -------
    One sentence for each run of damaged rows, and for what else is wrong; none where all is well.

    Raises
    ------
    UserError
        There is no such file, or it is not an embedding file.
    """
    path = Path(path)
    try:
        file = EmbeddingFile.open(path)
    except DamagedFileError as error:
        return [str(error), *_damage_sentences(path)]
    sentences = _damage_sentences(path)
    if sentences:
        return sentences
    for table in file.tables(list(file.layers)):
        for first, rows in file.blocks(table):
            bad = first + np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))
            sentences += [f"row {row} of {table} holds NaN or infinite values." for row in bad]
    return sentences


def _damage_sentences(path: Path) -> list[str]:
    """Return one sentence for each run of neighbouring damaged blocks."""
    try:
        damage = disk.damaged_rows(path)
    except DamagedFileError:  # not even the checksums can be read
        return []
    sentences = []
    runs = groupby(enumerate(damage), key=lambda e: (e[1][0], e[1][1] // layout.BLOCK - e[0]))
    for (table, _), run in runs:
        blocks = [block for _, block in run]
        sentences.append(
            f"rows {blocks[0][1]} to {blocks[-1][2] - 1} of {table} do not match their checksums."
        )
    return sentences


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
