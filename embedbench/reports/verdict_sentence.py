"""The verdict on a table in one sentence: who leads, who may be level, who is behind.

Nobody leads where nothing is decided. Then the sentence says which difference could have been seen.
"""

import math
from collections.abc import Sequence

from embedbench.scores.learner_verdicts import SEEDS, RowVerdict
from embedbench.scores.run_record import FINAL

from .compare_learners import judge
from .headings_and_units import difference_text, is_percent, metric_name, value_text
from .result_rows import Row
from .results import TableVerdicts

LEARNED = " among those that learned the new sessions"
IMBALANCED = 0.05  # by so much the largest class is above chance where that is said
NAMED = 3  # learners named in a list, before "and 4 more"


def verdict(rows: Sequence[Row], judged: TableVerdicts | None = None) -> str:
    """One sentence on the rows of a table; what is not known is left out of it.

    The leader has the highest final score, by the base score of the table, and some row is behind
    it; the verdicts on the rows say that (`scores.learner_verdicts`).
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
    idle = [row for row in scored if row not in ranked and row is not best]
    table = _Table(rows, judged or judge(rows))
    if len(every) == 1:
        return f"none, of one learner: {best.label} has {_level(best)}"
    among = LEARNED if idle and ranked[0] is best else ""
    first, *others = table.compare(ranked, among)
    if ranked[0] is not best:
        first = (
            f"{best.label} has {_final_text(best)} but did not learn the new sessions; of the "
            f"learners that did, {first}"
        )
    parts = [first, *others]
    if idle:
        parts.append(f"{_names(idle)} did not learn the new sessions")
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
    ideal = row.group.offline
    guess = row.group.chance
    name = metric_name(FINAL, row.group.score)
    levels = []
    if not math.isnan(ideal):
        levels.append(f"offline: {_percent(ideal)}")
    elif "omega_all" in row.metrics and row.is_open("omega_all"):
        levels.append("offline: open")
    if not math.isnan(guess):
        levels.append(f"chance: {_percent(guess)}")
    largest = row.group.largest_class
    if largest > guess + IMBALANCED:
        levels.append(f"the largest class always: {_percent(largest)}")
    return f"{_final_text(row)} {name}" + (f" ({', '.join(levels)})" if levels else "")


class _Table:
    """The rows of a table and their verdicts."""

    def __init__(self, rows: Sequence[Row], judged: TableVerdicts) -> None:
        self.rows, self.judged = rows, judged

    def verdict(self, row: Row) -> RowVerdict:
        """The verdict on a row that has one."""
        place = next(i for i, other in enumerate(self.rows) if other is row)
        found = self.judged.rows[place]
        assert found is not None
        return found

    def compare(self, ranked: Sequence[Row], among: str = "") -> list[str]:
        """What is said of learners, best first: of the first, then of the others.

        `among` says which they are, if they are not all of the table.
        """
        leader, *rest = ranked
        if not rest:
            return [f"{leader.label} has {_level(leader)}"]
        of = {id(row): self.verdict(row) for row in ranked}
        behind = [row for row in rest if of[id(row)].behind]
        level = [row for row in rest if of[id(row)].behind is False]
        unknown = [row for row in rest if of[id(row)].behind is None]
        if len(unknown) == len(rest):
            return [self._undecidable(leader, rest[0], among)]
        place = next(i for i, row in enumerate(self.rows) if row is leader)
        if any(place in of[id(row)].above for row in behind):
            parts = [f"{leader.label} leads with {_level(leader)}"]
        elif behind:
            parts = [f"nobody leads: {leader.label} has the highest mean, {_level(leader)}"]
        else:
            parts = [f"nothing is decided{among}: {_highest(leader, level)}"]
        named = level
        if not behind:  # `_highest` has named those with the leader's mean
            named = [row for row in level if not _is_equal(row, leader)]
        if named:
            parts.append(f"{_names(named)} may be level")
        parts += [self._behind(behind, place)] if behind else [self._seen(level)]
        if unknown:
            parts.append(f"nothing can be said of {_names(unknown)}")
        return parts

    def _undecidable(self, leader: Row, following: Row, among: str) -> str:
        return (
            f"nothing is decided{among}: {leader.label} has {_level(leader)} and "
            f"{following.label}, the next, {_final_text(following)}; without stored answers or "
            f"{self.judged.units} in common, three where all differences are equal, nothing can be "
            "said of the difference"
        )

    def _behind(self, behind: Sequence[Row], leader: int) -> str:
        """Who is behind, by at least how much, and below which row if that is not the leader."""
        metric = self.judged.metric
        bounds = [self.verdict(row).behind_by_least for row in behind]
        unit = " points" if is_percent(metric) else ""
        said = [*self._sources(behind, leader), *self._without_seeds(behind)]
        sources = "".join(f", {text}" for text in said)
        if len(behind) == 1:
            by = f"{value_text(bounds[0], metric)}{unit}"
            return f"{behind[0].label} is behind by at least {by} (at 5 %{sources})"
        if len(behind) > NAMED + 1:
            by = f"{value_text(min(bounds), metric)} to {value_text(max(bounds), metric)}"
        else:
            by = _join([value_text(bound, metric) for bound in bounds])
        return (
            f"{_names(behind)} are behind, by at least {by}{unit} ({len(behind)} statements, each "
            f"at 5 %{sources})"
        )

    def _sources(self, behind: Sequence[Row], leader: int) -> list[str]:
        """Rows that bounds come from, if not from the leader: "that of si from ewc"."""
        by_source: dict[int, list[Row]] = {}
        for row in behind:
            against = self.verdict(row).against
            if against is not None and against != leader:
                by_source.setdefault(against, []).append(row)
        return [
            f"that of {_names(rows)} from {self.rows[source].label}"
            for source, rows in by_source.items()
        ]

    def _without_seeds(self, rows: Sequence[Row]) -> list[str]:
        """Rows whose difference over other seeds is not known: one run, or equal by chance."""
        found = [row for row in rows if SEEDS not in self.verdict(row).parts]
        if not found:
            return []
        whose = "" if len(found) == len(rows) else f"that of {_names(found)} "
        return [f"{whose}over the test sample alone"]

    def _seen(self, level: Sequence[Row]) -> str:
        """The smallest difference to the best that could have been seen, where none was."""
        found = [self.verdict(row) for row in level]
        metric = self.judged.metric
        units = self.judged.units
        closest = min(found, key=lambda verdict: verdict.detectable)
        seen = difference_text(closest.detectable, metric)
        text = f"no difference to the best under {seen} could have been seen"
        if SEEDS in closest.parts:
            text += f" with {closest.n} {units}"
        least = closest.detectable_any_seeds
        if least > 0 and SEEDS in closest.parts:
            text += (
                f", and with any number of {units} none under about "
                f"{difference_text(least, metric)}, by the test sample"
            )
        return text


def _highest(leader: Row, level: Sequence[Row]) -> str:
    """Who has the highest mean, which rows may share."""
    equal = [row for row in level if _is_equal(row, leader)]
    if equal:
        return f"{_names([leader, *equal])} have the same mean, {_level(leader)}"
    return f"{leader.label} has the highest mean, {_level(leader)}"


def _is_equal(row: Row, other: Row) -> bool:
    return math.isclose(final_score(row), final_score(other))


def _names(rows: Sequence[Row]) -> str:
    """Labels in a list; many are counted, but for the first."""
    labels = [row.label for row in rows]
    if len(labels) > NAMED + 1:
        labels = [*labels[:NAMED], f"{len(rows) - NAMED} more"]
    return _join(labels)


def _join(words: Sequence[str]) -> str:
    """A list in words: "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
