"""From frozen to full: one stream, run on embeddings and on the images that they are of.

`report --bridge` pairs the rows of a report by learner, and in them the runs of the same four
seeds. What a row shows of either side, and the gap (images less embeddings), is over these pairs.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.files.layout import PIXELS
from embedbench.scores.record import Record
from embedbench.scores.stats import Stat, number

from .collect import collect
from .rows import Group, Row, stat_json

SCHEMA = "embedbench-bridge/1.0"
MAIN = "final_accuracy"
METRICS = ("omega_all", MAIN, "average_accuracy", "average_forgetting")
CURVES = ("raa", "raf", "gacc")  # of these the mean over the sessions where they are defined
SIDES = {False: "embeddings", True: "images"}

# Digests that two runs of one stream share whatever shows it: how the stream is made, which samples
# are taught when, and which are asked.
SHARED = {"recipe": "protocol or its parameters", "train": "training data", "eval": "test data"}
PERMUTED = (
    ". Columns of embeddings are not permuted as pixels are: on a permutation stream the embedding "
    "file must hold the pixels, extract --backbone pixels"
)


def check_pair(frozen: Mapping[str, str], full: Mapping[str, str]) -> None:
    """Refuse two runs, by their streams' digests, unless they are of one stream.

    Raises
    ------
    UserError
        Recipe, training data or test data differ, or the features do not.
    """
    differ = [what for key, what in SHARED.items() if frozen[key] != full[key]]
    if differ:
        raise UserError(
            f"these two runs are not of one stream: {', '.join(differ)} differ; run the same "
            "protocol, parameters and seed on an embedding file and a pixel file of one source and "
            "split"
        )
    if frozen["features"] == full["features"]:
        raise UserError(
            "these two runs are on the same features; one must be on embeddings, one on images"
        )


def bridge(roots: Sequence[Path]) -> dict[str, Any]:
    """Pairs and what has no partner, as plain data; fractions, bytes, seconds, joules, NaN.

    Raises
    ------
    UserError
        There are no finished runs, or no two of them make a pair; it says why.
    """
    rows = [row for root in roots for row in collect(root) if row.learns]
    sides = {on: [row for row in rows if _on_images(row) == on] for on in SIDES}
    found: dict[tuple[int, int], tuple[Group, Group, list[Any]]] = {}
    why: dict[int, str] = {}  # by a row's id: why it has no partner
    paired: set[int] = set()
    for frozen, full in itertools.product(*sides.values()):
        if frozen.learner != full.learner:
            continue
        try:
            entry = _entry(frozen, full)
        except UserError as e:
            why[id(frozen)] = f"with {full.group.title}: {e}"
            why[id(full)] = f"with {frozen.group.title}: {e}"
            continue
        paired |= {id(frozen), id(full)}
        key = id(frozen.group), id(full.group)
        found.setdefault(key, (frozen.group, full.group, []))[2].append(entry)
    alone = [
        _alone(row, on, why.get(id(row)))
        for on, there in sides.items()
        for row in there
        if id(row) not in paired
    ]
    if not found:
        listed = [f"{a['learner']} ({a['title']}): {a['why']}" for a in alone]
        more = f" (rows without a partner: {len(listed)})" if listed[1:] else ""
        raise UserError(
            "expected runs of one learner on an embedding file and on the pixel file of the same "
            f"source, found no such pair: {listed[0] if listed else 'no learner learned'}{more}"
        )
    return {"schema": SCHEMA, "streams": [_stream(*s) for s in found.values()], "alone": alone}


def _on_images(row: Row) -> bool:
    """Whether a row's runs were shown images; records before there were pixel files do not say."""
    return any(f.get("kind") == PIXELS for f in row.group.first["files"])


def _alone(row: Row, on: bool, why: str | None) -> dict[str, str]:
    """A row without a partner."""
    why = why or f"no run of {row.learner} on {SIDES[not on]}"
    return {"learner": row.label, "title": row.group.title, "on": SIDES[on], "why": why}


def _stream(frozen: Group, full: Group, entries: list[Any]) -> dict[str, Any]:
    """One table: a stream, and its learners on both sides."""
    shown = [
        name
        for name in (*METRICS, *CURVES)
        if not all(math.isnan(e["metrics"][name]["gap"]["mean"]) for e in entries)
    ]
    devices = {
        side: sorted({str(r["environment"].get("device")) for r in group.records})
        for side, group in (("frozen", frozen), ("full", full))
    }
    for entry in entries:
        entry["metrics"] = {name: entry["metrics"][name] for name in shown}
    return {
        "title": f"{frozen.title} → {', '.join(f['name'] for f in full.first['files'])}",
        "score": frozen.first["score"],
        "ideal": {"frozen": frozen.ideals, "full": full.ideals},
        "devices": devices,
        "learners": entries,
    }


def _pairs(frozen: Row, full: Row) -> list[tuple[Record, Record]]:
    """Runs of the same four seeds, each two checked."""
    presets = [row.group.first["reference"]["preset"] for row in (frozen, full)]
    if presets[0] != presets[1]:
        raise UserError(f"Ω of the two runs is normalised differently: {' and '.join(presets)}")
    own = {json.dumps(r["seeds"], sort_keys=True): r for r in full.used}
    keys = ((json.dumps(r["seeds"], sort_keys=True), r) for r in frozen.used)
    found = [(r, own[key]) for key, r in keys if key in own]
    for a, b in found:
        try:
            check_pair(a["digests"], b["digests"])
        except UserError as e:
            raise UserError(f"{e}{PERMUTED if a['protocol'] == 'permutation' else ''}") from None
    if not found:
        raise UserError("these two share no seeds; run both with the same --seeds")
    return found


def _entry(frozen: Row, full: Row) -> dict[str, Any]:
    """One learner: scores and costs of its paired runs on both sides."""
    pairs = _pairs(frozen, full)
    metrics = {
        name: _sides([(_value(a, name), _value(b, name)) for a, b in pairs])
        for name in (*METRICS, *CURVES)
    }
    seconds = _sides([(a["seconds"]["learn"], b["seconds"]["learn"]) for a, b in pairs])
    hours = seconds["full"]["mean"] / 3600
    return {
        "learner": " → ".join(dict.fromkeys([frozen.label, full.label])),
        "trunk": full.params.get("trunk"),
        "n": len(pairs),
        "unpaired": len(frozen.records) + len(full.records) - 2 * len(pairs),
        "metrics": metrics,
        "bytes": _sides([(a["footprint"]["total"], b["footprint"]["total"]) for a, b in pairs]),
        "learn_seconds": seconds,
        "learn_joules": _sides([(_joules(a), _joules(b)) for a, b in pairs]),
        "gap_per_hour": metrics[MAIN]["gap"]["mean"] / hours if hours else math.nan,
    }


def _joules(record: Record) -> float:
    """Joules of learning; NaN where the device did not tell them."""
    return number(record.get("joules", {}).get("learn"))


def _value(record: Record, name: str) -> float:
    """A metric of a run, or the mean of a curve; NaN where a run has none."""
    if name in METRICS:
        return number(record["metrics"].get(name))
    curve = np.array(record.get("curves", {}).get(name, []), dtype=np.float64)  # null is NaN
    defined = curve[~np.isnan(curve)]
    return float(defined.mean()) if len(defined) else math.nan


def _sides(values: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Means over runs on embeddings, on images, and of the differences."""
    frozen, full = zip(*values, strict=True)
    gaps = [b - a for a, b in values]
    found = {"frozen": frozen, "full": full, "gap": gaps}
    return {side: stat_json(Stat.of(v)) for side, v in found.items()}
