"""How values of runs are called and written: one heading, unit and rounding in every view."""

import math

from embedbench.scores.label_set_predictions import KINDS
from embedbench.scores.learner_verdicts import ROUNDING
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import amount, format_signed, megabytes
from embedbench.scores.run_record import FINAL
from embedbench.scores.unknown_class_detection import SIGNALS
from embedbench.scores.unrecorded_metrics import RAW

AVERAGE, FORGETTING = "average_accuracy", "average_forgetting"
INCREMENTAL = "average_incremental_accuracy"
OMEGAS = ("omega_base", "omega_new", "omega_all")
STREAMING = "omega_streaming"
COUNTS = ("labels_predicted", "labels_true")  # of labels to a sample
# the base scores: in words, as the axis of a figure or a sentence has them
SCORE_NAMES = {
    score: kind.NAMES.get(score, score.replace("_", " ")) for kind in KINDS for score in kind.SCORES
}
IN_WORDS = {"hacc": "harmonic mean", "performance_drop": "performance dropping rate"}
# what a heading of one of them means
SCORE_MEANINGS = {score: meaning for kind in KINDS for score, meaning in kind.MEANINGS.items()}
HEADINGS = {
    INCREMENTAL: "AIA %",
    "behind": "behind by (95 %)",
    **{name: f"Ω_{name.removeprefix('omega_')}" for name in (*OMEGAS, STREAMING)},
    AVERAGE: "AA %",
    FORGETTING: "AF %",
    "bwt": "BWT %",
    "fwt": "FWT %",
    "raa": "RAA %",
    "raf": "RAF %",
    "base_accuracy": "base accuracy %",
    "novel_accuracy": "novel accuracy %",
    "hacc": "harmonic mean %",
    "performance_drop": "PD %",
    "gacc": "gAcc %",
    "gacc_exact": "gAcc (integral) %",
    "old_accuracy": "old accuracy %",
    "new_accuracy": "new accuracy %",
    "pw_js": "pw-JS %",
    "js": "JS %",
    "exact_match": "exact match %",
    "superclass_pw_js": "superclass pw-JS %",
    "subclass_precision": "subclass precision %",
    "labels_predicted": "labels given",
    "labels_true": "labels true",
    **{f"unknown_auroc_by_{name}": f"AUROC by {name} %" for name in SIGNALS},
    "calibration_error": "calibration error %",
    "bytes.total": "MB",
    "bytes.samples": "samples MB",
    "seconds.learn": "learn s",
    "seconds.evaluate": "evaluate s",
}
# what Ω's share is of, and what a short heading of a report's tables means, in their order
SHARES = {
    "omega_base": "the first session",
    "omega_all": "all so far",
    STREAMING: "all so far",
}
MEANINGS = {
    "omega_new": "Ω_new: score on each new session",
    AVERAGE: "AA: average accuracy of sessions at the end",
    FORGETTING: "AF: average forgetting, from a session's best",
    "base_accuracy": "base: classes of the first session, at the end",
    "novel_accuracy": "novel: all other classes, at the end",
    "hacc": "harmonic mean: of base and novel",
    "performance_drop": (
        "PD: performance drop, the score after the first session, less that at the end"
    ),
    "gacc": "gAcc: area over the weight of the base classes, mean of sessions",
    "gacc_exact": (
        "gAcc (integral): area over the weight of the base classes, mean of sessions; the paper's "
        "grid needs a base that is a multiple of the later sessions' classes"
    ),
    "old_accuracy": "old: classes of all sessions but the last, at the end",
    "new_accuracy": "new: classes of the last session, at the end",
    "passes": "passes: over the data",
    "steps": "steps: of the optimiser",
    "bytes.total": "MB: held at the end",
}


def metric_name(name: str, score: str | None = None) -> str:
    """A metric in words, in a table of one base score."""
    name = score if name == FINAL and score else name
    short = name.rpartition(":")[2]  # of a function of yours
    return SCORE_NAMES.get(name) or IN_WORDS.get(name) or short.replace("_", " ")


def describe_score(score: str, *, incremental: bool) -> list[str]:
    """What the columns of a base score are: after the last session, and averaged over sessions."""
    at_the_end = f"{SCORE_MEANINGS.get(score, metric_name(score))}, at the end"
    over_sessions = "AIA: average incremental accuracy, over sessions"
    if score == "accuracy":  # what papers call them
        at_the_end += " (A_last)"
        over_sessions += " (A_avg)"
    return [at_the_end, over_sessions] if incremental else [at_the_end]


def is_percent(name: str) -> bool:
    """Whether views have a value in percent: all fractions but Ω."""
    return not (name.startswith("omega") or name in (*RAW, *COUNTS) or is_cost(name))


def is_cost(name: str) -> bool:
    """Whether a value is one of bytes, seconds, passes or steps: less is better."""
    return name.startswith(("bytes.", "seconds.")) or name in ("passes", "steps")


def heading(name: str, score: str | None = None) -> str:
    """The heading of a value's column, in a table of one base score: the final score is that."""
    if name == FINAL:
        name = score or "final"
    if name in SCORE_NAMES and name not in HEADINGS:
        return f"{name.replace('_', ' ')} %"
    short = name.rpartition(":")[2]  # of a function of yours
    short = short.replace("_", " ") if ":" in name else short
    return HEADINGS.get(name, f"{short} %" if is_percent(name) else short)


def value_text(value: float | None, name: str) -> str:
    """A value as a view writes it: percent, MB, seconds, or a plain number; – where undefined."""
    if value is None or math.isnan(value):
        return "–"
    if is_cost(name):
        return megabytes(value) if name.startswith("bytes.") else amount(value)
    if is_percent(name):
        return format_signed(100 * value, 1)
    return format_signed(value, 2 if name in COUNTS else 3)


def stat_text(stat: Stat, name: str) -> str:
    """A mean and the half-width of its interval; costs have none.

    Nor have runs that all have the same value: by chance, or because no seed changes it.
    """
    mean = value_text(stat.mean, name)
    if mean == "–" or math.isnan(stat.half) or is_equal(stat) or is_cost(name):
        return mean
    return f"{mean} ±{value_text(stat.half, name)}"


EQUAL = "no ±: equal in all runs"


def is_equal(stat: Stat) -> bool:
    """Whether all runs of a mean have the same value, up to rounding."""
    return stat.half < ROUNDING  # False of NaN


def difference_text(value: float, name: str = FINAL) -> str:
    """A difference with its unit."""
    text = value_text(value, name)
    return f"{text} points" if is_percent(name) else text
