"""The tables of a report that say what was answered: label sets, or within the session."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from embedbench.scores.record import Record
from embedbench.scores.stats import Stat, number, signed

from .rows import Row

Data = dict[str, Any]
PAIRS = (("accuracy", "within_accuracy"), ("class_accuracy", "within_class_accuracy"))
# heading, where in a record's label-set results, percent or a plain number
LABELS = (
    ("pw-JS", "pw_js", True),
    ("JS", "js", True),
    ("exact match", "exact_match", True),
    ("superclass pw-JS", "superclass_pw_js", True),
    ("subclass precision", "subclass_precision", True),
    ("labels given", "labels_predicted", False),
    ("labels true", "labels_true", False),
)
# curves drawn beside that of the main score; those that are fractions
CURVES = (
    ("superclass_pw_js", "Superclasses alone: pw-JS"),
    ("subclass_precision", "Precision among subclasses"),
)


def has_labels(record: Record) -> bool:
    """Whether a record is of a stream of label sets."""
    return bool(record["score"] == "pw_js")


def final(record: Record, name: str) -> float:
    """A base score or a curve after the last session."""
    if name in record["by_score"]:
        return number(record["by_score"][name]["metrics"]["final_accuracy"])
    return number(record["curves"][name][-1])


def stats(row: Row) -> list[Stat]:
    """The columns of `LABELS`, over the runs of a row."""
    return [Stat.of(final(r, name) for r in row.used) for _, name, _ in LABELS]


def by_answer(rows: Sequence[Row], entries: Sequence[Data]) -> Data:
    """The table beside the main one of an HTML report, for rows and what stands for them there."""
    used = [(r, e) for r, e in zip(rows, entries, strict=True) if r.used]
    table: Data = {"labels": [], "within": [], "same_answers": False}
    if has_labels(rows[0].records[0]):
        table["labels"] = [_labels(r) | {"row": e} for r, e in used]
        table["label_heads"] = [(head, percent) for head, _, percent in LABELS]
    else:
        table["within"] = [_within(r) | {"row": e} for r, e in used]
        table["same_answers"] = _same_answers(rows)
    return table


def _labels(row: Row) -> Data:
    """Scores and sizes of the label sets after the last session."""
    cells = []
    for stat, (_, _, percent) in zip(stats(row), LABELS, strict=True):
        cells.append(cell(stat, 1, 100, row) if percent else cell(stat, 2, 1, row))
    return {"cells": cells}


def _within(row: Row) -> Data:
    """Final accuracy over all classes seen and within the session, per sample and per class."""
    cells = []
    for names in PAIRS:
        values = [[final(r, name) for r in row.used] for name in names]
        gap = [b - a for a, b in zip(*values, strict=True)]
        cells += [cell(Stat.of(found), 1, 100, row) for found in (*values, gap)]
    return {"cells": cells}


def _same_answers(rows: Sequence[Row]) -> bool:
    """Both answers agree in every run: each session has all classes."""
    pairs = [(final(r, a), final(r, b)) for row in rows for r in row.used for a, b in PAIRS]
    return all(a == b for a, b in pairs)


def cell(stat: Stat | None, decimals: int, factor: float, row: Row) -> Data:
    """Mean, half-width and the value of each run, as text."""
    if stat is None or math.isnan(stat.mean):
        return {"mean": "–", "half": "", "each": ""}
    half = "" if math.isnan(stat.half) else f"{factor * stat.half:.{decimals}f}"
    values = [signed(factor * v, decimals) for v in stat.values]
    each = [f"seed {r['run']}: {v}" for r, v in zip(row.used, values, strict=True)]
    return {"mean": signed(factor * stat.mean, decimals), "half": half, "each": ", ".join(each)}
