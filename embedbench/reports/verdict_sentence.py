"""The verdict on a table in one sentence: who leads, by how much, at what cost."""

import math
from collections.abc import Sequence
from itertools import accumulate

from embedbench.scores.number_text import amount, megabytes
from embedbench.scores.run_record import FINAL

from .compare_learners import TableVerdicts, judge, plain_unit
from .headings_and_units import difference_text, value_text
from .result_rows import Row, has_labels

NAMED = 3  # learners named in a list, before "and 4 more"
LONG = 48  # characters of the names in a list, that is fewer names where they have settings


def verdict(rows: Sequence[Row], judged: TableVerdicts | None = None) -> str:
    """One sentence on the rows of a table; what is not known is left out of it.

    The leader has the highest final score: accuracy, or pw-JS where answers are label sets.
    Who is behind say the verdicts on the rows (`scores.learner_verdicts`).
    Rows come best first; `judged` are their verdicts, if they are known.
    """
    every = [row for row in rows if row.learns]
    scored = [row for row in every if row.used and not math.isnan(_final(row))]
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
            f"{best.label} has {_percent(_final(best))} but did not learn the new sessions; of the "
            f"learners that did, {lead}"
        )
    idle = [row for row in scored if row not in ranked and row is not best]
    others = _others(ranked, rows, judged or judge(rows))
    parts = [lead, _cost(ranked[0]), _by_gacc(ranked), *others]
    parts += [f"{_names(idle)} did not learn the new sessions"] if idle else []
    parts += [_lost(every)]
    return "; ".join(filter(None, parts))


def _final(row: Row) -> float:
    return row.metrics[FINAL].mean


def _percent(value: float) -> str:
    return f"{value_text(value, FINAL)} %"


def _is_flagged(row: Row, flag: str) -> bool:
    """Whether most of the runs used have a flag."""
    return 2 * sum(flag in run.flags for run in row.used) > len(row.used)


def _level(row: Row) -> str:
    """The final score of a row, beside those of the offline reference and of chance."""
    ideal, guess = row.group.offline, row.group.chance
    name = "final pw-JS" if has_labels(row.group.first) else "final accuracy"
    levels = []
    if not math.isnan(ideal):
        levels.append(f"offline: {_percent(ideal)}")
    elif "omega_all" in row.metrics and row.is_open("omega_all"):
        levels.append("offline: open")
    if not math.isnan(guess):
        levels.append(f"chance: {_percent(guess)}")
    return f"{_percent(_final(row))} {name}" + (f" ({', '.join(levels)})" if levels else "")


def _others(ranked: Sequence[Row], rows: Sequence[Row], judged: TableVerdicts) -> list[str]:
    leader, *rest = ranked
    if not rest:
        return ["there is no other learner to compare it with"]
    of = {id(row): v for row, v in zip(rows, judged.rows, strict=True) if v is not None}
    behind = [row for row in rest if of[id(row)].behind]
    level = [row for row in rest if of[id(row)].behind is False]
    unknown = [row for row in rest if of[id(row)].behind is None]
    if len(unknown) == len(rest):
        return [
            f"the next is {rest[0].label} with {_percent(_final(rest[0]))}, and without stored "
            f"answers or two {plain_unit(judged.units)} in common nothing can be said of the "
            "difference"
        ]
    parts = []
    if behind:
        least = difference_text(min(of[id(row)].behind_by_least for row in behind))
        verb = "is" if len(behind) == 1 else "are"
        parts.append(f"{_names(behind)} {verb} behind (by at least {least})")
    parts += [f"{_names(level)} may be level{_cheapest(level, leader)}"] if level else []
    parts += [f"nothing can be said of {_names(unknown)}"] if unknown else []
    return parts


def _names(rows: Sequence[Row]) -> str:
    """Labels in a list; what is many or long is counted, but for the first."""
    labels = [row.label for row in rows]
    fit = sum(end <= LONG for end in accumulate(map(len, labels)))
    if len(labels) > 1 and (len(labels) > NAMED + 1 or fit < len(labels)):
        named = max(1, min(fit, NAMED))
        labels = [*labels[:named], f"{len(labels) - named} more"]
    *first, last = labels
    return f"{', '.join(first)} and {last}" if first else last


def _cost(row: Row) -> str:
    size, seconds = row.footprint.get("total"), row.seconds["learn"].mean
    parts = [] if size is None else [f"holds {megabytes(size)} MB"]
    parts += [] if math.isnan(seconds) else [f"learns in {amount(seconds)} s"]
    return f"it {' and '.join(parts)}" if parts else ""


def _cheapest(level: Sequence[Row], leader: Row) -> str:
    """Which of those that may be level needs the least memory, if the leader needs more."""
    sizes = {row.label: row.footprint.get("total", math.inf) for row in level}
    least = min(level, key=lambda row: sizes[row.label])
    if sizes[least.label] >= leader.footprint.get("total", -math.inf):
        return ""
    seconds = least.seconds["learn"].mean
    time = "" if math.isnan(seconds) else f" (it learns in {amount(seconds)} s)"
    who = "holds only" if len(level) == 1 else f"of these {least.label} holds least,"
    return f", and {who} {megabytes(sizes[least.label])} MB{time}"


def _by_gacc(ranked: Sequence[Row]) -> str:
    means = {row.label: row.number("gacc").mean for row in ranked}
    known = {label: value for label, value in means.items() if not math.isnan(value)}
    if not known:
        return ""
    best = max(known, key=lambda label: known[label])
    if best == ranked[0].label:
        return f"it also leads by gAcc ({_percent(known[best])})"
    return f"by gAcc {best} leads ({_percent(known[best])})"


def _lost(every: Sequence[Row]) -> str:
    lost = [row for row in every if not row.used]
    verb = "has" if len(lost) == 1 else "have"
    return f"{_names(lost)} {verb} no run without NaN or divergence" if lost else ""
