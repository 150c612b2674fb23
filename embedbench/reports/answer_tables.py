"""The report's tables of answers: label sets, or answers within the session."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from embedbench.scores.mean_intervals import Stat, format_signed
from embedbench.scores.run_record import RunRecord

from .result_rows import Row

PAIRS = (("accuracy", "within_accuracy"), ("class_accuracy", "within_class_accuracy"))
ROUNDING = 1e-9  # half-widths below it are of equal numbers
# heading, key in a record's label-set results, percent or a plain number
LABELS = (
    ("pw-JS", "pw_js", True),
    ("JS", "js", True),
    ("exact match", "exact_match", True),
    ("superclass pw-JS", "superclass_pw_js", True),
    ("subclass precision", "subclass_precision", True),
    ("labels given", "labels_predicted", False),
    ("labels true", "labels_true", False),
)
# curves drawn beside that of the main score; the ones that are fractions
CURVES = (
    ("superclass_pw_js", "Superclasses alone: pw-JS"),
    ("subclass_precision", "Precision among subclasses"),
)


def has_labels(record: RunRecord) -> bool:
    """Whether a record is of a stream of label sets."""
    return record.score == "pw_js"


def final(record: RunRecord, name: str) -> float:
    """The value of a base score or a curve after the last session."""
    if name in record.by_score:
        return record.by_score[name].metrics["final_accuracy"]
    curve = (record.curves or {}).get(name)
    return curve[-1] if curve else math.nan


def stats(row: Row) -> list[Stat]:
    """The columns of `LABELS`, over the runs of a row."""
    return [Stat.of(final(r, name) for r in row.used) for _, name, _ in LABELS]


def by_answer(rows: Sequence[Row], entries: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The second table of an HTML report; `entries` are the rows of the main table."""
    used = [(r, e) for r, e in zip(rows, entries, strict=True) if r.used]
    table: dict[str, object] = {"labels": [], "within": [], "same_answers": False}
    if has_labels(rows[0].records[0]):
        table["labels"] = [{"cells": _labels(r), "row": e} for r, e in used]
        table["label_heads"] = [(head, percent) for head, _, percent in LABELS]
    else:
        table["within"] = [{"cells": _within(r), "row": e} for r, e in used]
        table["same_answers"] = _same_answers(rows)
    return table


def _labels(row: Row) -> list[TableCell]:
    """Scores and sizes of the label sets after the last session."""
    cells = []
    for stat, (_, _, percent) in zip(stats(row), LABELS, strict=True):
        cells.append(cell(stat, 1, 100, row) if percent else cell(stat, 2, 1, row))
    return cells


def _within(row: Row) -> list[TableCell]:
    """Final accuracy over all classes seen and within the session, per sample and per class."""
    cells = []
    for names in PAIRS:
        values = [[final(r, name) for r in row.used] for name in names]
        gap = [b - a for a, b in zip(*values, strict=True)]
        cells += [cell(Stat.of(each), 1, 100, row) for each in (*values, gap)]
    return cells


def _same_answers(rows: Sequence[Row]) -> bool:
    """Whether both answers agree in every run, since each session has all classes."""
    pairs = [(final(r, a), final(r, b)) for row in rows for r in row.used for a, b in PAIRS]
    return all(a == b for a, b in pairs)


def are_equal(row: Row) -> bool:
    """Whether a row has several runs, and all gave the same answers.

    A deterministic learner does so where the seed decides nothing of the stream.
    """
    answers = {(r.predictions_sha256, r.metrics["final_accuracy"]) for r in row.used}
    return len(row.used) > 1 and len(answers) == 1 and row.used[0].predictions_sha256 is not None


def is_exact(stat: Stat, row: Row) -> bool:
    """Whether a number has no interval: of one run, or of equal runs."""
    return math.isnan(stat.half) or (are_equal(row) and stat.half < ROUNDING)


@dataclass(frozen=True)
class TableCell:
    """A number of an HTML table as text: mean, half-width of the interval, value of each run."""

    mean: str
    half: str = ""
    each: str = ""


def cell(stat: Stat | None, decimals: int, factor: float, row: Row) -> TableCell:
    """A number over the runs of a row, as text for a table."""
    if stat is None or math.isnan(stat.mean):
        return TableCell("–")
    half = "" if is_exact(stat, row) else f"{factor * stat.half:.{decimals}f}"
    values = [format_signed(factor * v, decimals) for v in stat.values]
    each = [f"seed {r.run}: {v}" for r, v in zip(row.used, values, strict=True)]
    return TableCell(format_signed(factor * stat.mean, decimals), half, ", ".join(each))
