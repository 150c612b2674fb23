"""The verdict on a table in one sentence: who leads, who is behind, who may be level."""

import math
from collections.abc import Sequence

from embedbench.scores.run_record import FINAL

from .compare_learners import judge
from .headings_and_units import difference_text, value_text
from .result_rows import Row
from .results import TableVerdicts

NAMED = 3  # learners named in a list, before "and 4 more"


def verdict(rows: Sequence[Row], judged: TableVerdicts | None = None) -> str:
    """One sentence on the rows of a table; what is not known is left out of it.

    The leader has the highest final score: accuracy, or pw-JS where answers are label sets.
    Who is behind say the verdicts on the rows (`scores.learner_verdicts`).
    Rows come best first; `judged` are their verdicts, if they are known.
    """
    every = [row for row in rows if row.learns]
    scored = [row for row in every if row.used and not math.isnan(final_score(row))]
    if not scored:
        lost = "no learner has runs with a final score, and without NaN or divergence"
        return f"no learner can be ranked: {lost if every else 'the table has chance only'}"
    best = scored[0]
    if _is_flagged(best, "chance-level"):
        return f"no learner is clearly above chance: the best, {best.label}, has {_level(best)}"
    ranked = [row for row in scored if not _is_flagged(row, "not-learned")]
    if not ranked:
        return f"no learner learned the new sessions: the best, {best.label}, has {_level(best)}"
    lead = f"{ranked[0].label} leads with {_level(ranked[0])}"
    if ranked[0] is not best:
        lead = (
            f"{best.label} has {_final_text(best)} but did not learn the new sessions; of the "
            f"learners that did, {lead}"
        )
    idle = [row for row in scored if row not in ranked and row is not best]
    others = _others(ranked, rows, judged or judge(rows))
    parts = [lead, *others]
    parts += [f"{_names(idle)} did not learn the new sessions"] if idle else []
    if gone := [row for row in every if not row.used]:
        verb = "has" if len(gone) == 1 else "have"
        parts.append(f"{_names(gone)} {verb} no run without NaN or divergence")
    return "; ".join(parts)


def final_score(row: Row) -> float:
    """The mean final score of a row; NaN where it has none."""
    return row.metrics[FINAL].mean


def _percent(value: float) -> str:
    return f"{value_text(value, FINAL)} %"


def _final_text(row: Row) -> str:
    return _percent(final_score(row))


def _is_flagged(row: Row, flag: str) -> bool:
    """Whether most of the runs used have a flag."""
    return 2 * sum(flag in run.flags for run in row.used) > len(row.used)


def _level(row: Row) -> str:
    """The final score of a row, beside those of the offline reference and of chance."""
    ideal, guess = row.group.offline, row.group.chance
    name = f"final {row.group.kind.NOUN}"
    levels = []
    if not math.isnan(ideal):
        levels.append(f"offline: {_percent(ideal)}")
    elif "omega_all" in row.metrics and row.is_open("omega_all"):
        levels.append("offline: open")
    if not math.isnan(guess):
        levels.append(f"chance: {_percent(guess)}")
    return f"{_final_text(row)} {name}" + (f" ({', '.join(levels)})" if levels else "")


def _others(ranked: Sequence[Row], rows: Sequence[Row], judged: TableVerdicts) -> list[str]:
    rest = ranked[1:]
    if not rest:
        return ["there is no other learner to compare it with"]
    of = {id(row): v for row, v in zip(rows, judged.rows, strict=True) if v is not None}
    behind = [row for row in rest if of[id(row)].behind]
    level = [row for row in rest if of[id(row)].behind is False]
    unknown = [row for row in rest if of[id(row)].behind is None]
    if len(unknown) == len(rest):
        return [
            f"the next is {rest[0].label} with {_final_text(rest[0])}, and without stored "
            f"answers or two {judged.units} in common nothing can be said of the "
            "difference"
        ]
    parts = []
    if behind:
        least = difference_text(min(of[id(row)].behind_by_least for row in behind))
        verb = "is" if len(behind) == 1 else "are"
        parts.append(f"{_names(behind)} {verb} behind (by at least {least})")
    parts += [f"{_names(level)} may be level"] if level else []
    parts += [f"nothing can be said of {_names(unknown)}"] if unknown else []
    return parts


def _names(rows: Sequence[Row]) -> str:
    """Labels in a list; many are counted, but for the first."""
    *first, last = [row.label for row in rows]
    if len(first) > NAMED:
        first, last = first[:NAMED], f"{len(rows) - NAMED} more"
    return f"{', '.join(first)} and {last}" if first else last
