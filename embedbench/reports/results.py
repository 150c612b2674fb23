"""One results table: rows of runs and of printed means, grouped, averaged, paired and judged.

Every view of runs is made of it. A *measurement* is what means count: runs that share a seed are
one (their mean), unless all do; equal answers, bit for bit, are one, too. So three runs of a
learner that no seed changes are one measurement, which has no interval.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, unknown
from embedbench.scores import learner_verdicts, metric_jackknife, record_files
from embedbench.scores.label_set_predictions import kind_of
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metric_jackknife import LeftOut, find_metric
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.unrecorded_metrics import LOWER as LOWER_OF_ANSWERS

from .data_frame import data_frame
from .equal_answers import find_alike
from .headings_and_units import is_cost
from .row_names import RowNames, check_apart
from .run_rows import matching
from .run_values import leave_out_groups, order_name, run_value
from .sample_groups import SampleGroups
from .table_metric import BASE_SCORES

if TYPE_CHECKING:
    import pandas

    from embedbench.scores.run_answers import RunAnswers

KEYS = ("stream", "learner", "setting", "order", "seed")  # what tells rows apart
# metrics where less is better
LOWER = ("average_forgetting", "per_class_forgetting", *LOWER_OF_ANSWERS)
PRINTED = "only its mean is known, of no single seed"
NO_PARTNER = "no row of the other has its seeds, or more than one"


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One run; or a mean of several, ours or printed by somebody.

    Parameters
    ----------
    learner, stream, setting, order : str
        What it is of, as its table names them.
    seed : int or None
        The seed of the run; None for a mean.
    seeds : Seeds or None
        The four seeds, where they are known.
    values : mapping
        Name → number of the run, or `Stat` of a mean; anything else that `where` may ask for.
    record : RunRecord or None
        Of a run with a record: `run_value` reads what `values` has not.
    answers : str or None
        SHA-256 of its answers; None where it is not known.
    place : Path or None
        The directory of its answers, if they are there.
    reader : callable or None
        Reads them, and may use them for something else; None: `record_files.read_predictions`.
    without : LeftOut or None
        Its final score without each group of the test sample, if that is known already.
    lower : frozenset of str
        Metrics of other people where less is better; `LOWER` has ours.
    curves : mapping
        Base score → its value after each session, of results without a record: a number, or `Stat`.
    """

    learner: str
    stream: str = ""
    setting: str = ""
    order: str = ""
    seed: int | None = None
    seeds: Seeds | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    record: RunRecord | None = None
    answers: str | None = None
    place: Path | None = None
    reader: "Callable[[Path, RunRecord], RunAnswers] | None" = None
    without: LeftOut | None = None
    lower: frozenset[str] = frozenset()
    curves: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, record: RunRecord, place: Path | None = None, **names: Any) -> "Result":
        """A run by its record; `names` are fields, such as the label of its row as `learner`."""
        given = {"learner": record.learner, "order": order_name(record), **names}
        given |= {"seed": record.seed, "seeds": record.seeds}
        return cls(record=record, answers=record.predictions_sha256, place=place, **given)

    @property
    def label(self) -> str:
        """The learner, and its setting where namesakes have others."""
        return f"{self.learner} {self.setting}" if self.setting else self.learner

    @property
    def is_comparable(self) -> bool:
        """Whether verdicts compare it: a run of one seed, of anything but `chance`."""
        return self.seed is not None and (self.record is None or self.record.learns)

    @property
    def may_hold_groups(self) -> bool:
        """Whether its answers hold the groups of the test samples, if the file has any."""
        made = self.record
        return made is not None and made.answers == "full" and made.imported is None

    @property
    def names(self) -> dict[str, Any]:
        """What conditions may ask for: its values, and what tells it apart."""
        return {**self.values, **{key: getattr(self, key) for key in KEYS}}

    def value(self, metric: str, moment: int | None = None, eval_set: int | None = None) -> float:
        """A value of a run, or the mean of a mean; NaN where there is none."""
        given = self._given(metric, moment, eval_set)
        if isinstance(given, Stat):
            return given.mean
        if given is not None:
            return float(given)
        return run_value(self.record, metric, moment, eval_set) if self.record else math.nan

    def _given(self, metric: str, moment: int | None, eval_set: int | None) -> Any:
        """What is known of a value without its record; a `Stat` is of the moment of its mean."""
        given = self.values.get(metric)
        if moment is None:
            return given
        if eval_set is None and metric in self.curves:
            curve = self.curves[metric]
            return curve[moment] if moment < len(curve) else math.nan
        return given if isinstance(given, Stat) else None

    def leave_out(self, metric: str, groups: SampleGroups | None) -> LeftOut | None:
        """A metric without each group, or sample; None without answers that allow it."""
        if self.without is not None or self.place is None or self.record is None:
            return self.without
        try:
            answers = (self.reader or record_files.read_predictions)(self.place, self.record)
        except UserError:  # a record is enough for a table
            return None
        group = None if groups is None else groups.of_samples(answers.ids, answers.group)
        return leave_out_groups(answers, self.record, metric, group)


@dataclass(frozen=True)
class Results:
    """Rows, to be narrowed, averaged, paired and judged; every mean in a view is made here."""

    rows: tuple[Result, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.rows)

    def where(self, conditions: Mapping[str, Any] | None = None, /, **more: Any) -> "Results":
        """The rows that have these values, or one of a list of values."""
        wanted = {**(conditions or {}), **more}
        keep = matching([row.names for row in self.rows], wanted)
        return Results(tuple(row for row, kept in zip(self.rows, keep, strict=True) if kept))

    def group(self, *by: str) -> dict[tuple[Any, ...], "Results"]:
        """The rows with the same values of some of `KEYS`, in order of appearance."""
        groups: dict[tuple[Any, ...], list[Result]] = {}
        for row in self.rows:
            groups.setdefault(tuple(getattr(row, key) for key in by), []).append(row)
        return {key: Results(tuple(rows)) for key, rows in groups.items()}

    # --- means ---

    @cached_property
    def shares(self) -> list["Share"]:
        """Rows that are one measurement, as they share a seed; and their answers, if known."""
        several = len({row.seed for row in self.rows}) > 1
        units: dict[Hashable, list[Result]] = {}
        for i, row in enumerate(self.rows):
            shared = several and row.seed is not None
            units.setdefault((row.stream, row.seed) if shared else i, []).append(row)
        result = []
        for rows in units.values():
            answers = frozenset(row.answers for row in rows if row.answers is not None)
            known = all(row.answers is not None for row in rows)
            result.append(Share(rows, answers if known else None))
        return result

    @cached_property
    def measured(self) -> list[list[Result]]:
        """The rows of each measurement: those that share a seed, and equal answers once.

        As `measurements` has them, for what is no single number; there equal answers of two values,
        such as Ω of different references, count twice, and so do costs.
        """
        result = []
        taken: set[frozenset[str]] = set()
        for rows, answers in self.shares:
            if answers is None:
                result.append(rows)
            elif answers not in taken:
                result.append(rows)
                taken.add(answers)
        return result

    def measurements(
        self, metric: str, moment: int | None = None, eval_set: int | None = None
    ) -> list[float]:
        """(n,) what a mean counts: runs that share a seed once, and equal answers once."""
        cost = is_cost(metric)  # which is not in the answers
        values: dict[Hashable, float] = {}
        for i, (rows, answers) in enumerate(self.shares):
            value = _mean([row.value(metric, moment, eval_set) for row in rows])
            key: Hashable = i if cost or answers is None else (answers, repr(value))
            values.setdefault(key, value)
        return list(values.values())

    @property
    def varied(self) -> str:
        """What its runs vary: "seeds", or in words those of the four that differ; "" of one run."""
        names = varied_seeds(row.seeds for row in self.rows)
        if names and len(names) < len(fields(Seeds)):
            return f"{' and '.join(names)} seeds"
        return "seeds" if names or len(self.rows) > 1 else ""

    def stat(self, metric: str, moment: int | None = None, eval_set: int | None = None) -> Stat:
        """The mean of all rows over their measurements; of a printed row alone what it says."""
        given = [row._given(metric, moment, eval_set) for row in self.rows]
        if len(given) == 1 and isinstance(given[0], Stat):
            return given[0]
        if any(row.seed is not None for row in self.rows) and any(
            isinstance(value, Stat) for value in given
        ):
            names = ", ".join(dict.fromkeys(row.learner for row in self.rows))
            raise UserError(
                f"{names}: a mean cannot be averaged with single runs: {PRINTED}",
                "name them differently, or take the means of the runs first",
            )
        return Stat.of(self.measurements(metric, moment, eval_set))

    def mean(
        self,
        *metrics: str,
        over: str | Sequence[str] = ("orders", "seeds"),
        moment: int | None = None,
        eval_set: int | None = None,
    ) -> "Results":
        """One row for each group of rows that differ in `over` alone.

        Parameters
        ----------
        *metrics : str
            Their `values`: a `Stat` each.
        over : str or sequence of str
            Of "streams", "learners", "settings", "orders" and "seeds". Means of means are taken
            one after the other: `mean(m, over="seeds").mean(m, over="streams")`.
        moment, eval_set : int or None
            As in `run_value`.
        """
        words = [over] if isinstance(over, str) else list(over)
        for word in words:
            if word.removesuffix("s") not in KEYS:
                raise unknown("what to average over", word, [f"{key}s" for key in KEYS])
        kept = [key for key in KEYS if f"{key}s" not in words]
        result = []
        for key, rows in self.group(*kept).items():
            blank: dict[str, Any] = {"learner": "", **dict(zip(kept, key, strict=True))}
            stats = {name: rows.stat(name, moment, eval_set) for name in metrics}
            result.append(Result(**blank, values=stats))
        return Results(tuple(result))

    # --- pairs ---

    def pair(self, other: "Results", by: Callable[[Result], Hashable] | None = None) -> "Pairs":
        """Rows of this table with those of another on the same stream with the same four seeds.

        `by` is what rows of a pair have in common, if that is something else.
        """
        key = by or (lambda row: (row.stream, row.order, row.seed, row.seeds))
        partners: dict[Hashable, list[Result]] = {}
        for row in other:
            if row.seed is not None:
                partners.setdefault(key(row), []).append(row)
        pairs = Pairs([], [])
        for row in self:
            found = partners.get(key(row), []) if row.seed is not None else []
            if len(found) == 1:
                pairs.rows.append((row, found[0]))
            elif found:
                pairs.alone.append((row, f"{len(found)} rows of the other have its seeds"))
            else:
                pairs.alone.append((row, PRINTED if row.seed is None else NO_PARTNER))
        theirs = {id(b) for _, b in pairs.rows}
        for row in other:
            if id(row) not in theirs:
                pairs.alone.append((row, PRINTED if row.seed is None else NO_PARTNER))
        return pairs

    # --- verdicts: learner × unit ---

    def is_lower(self, metric: str) -> bool:
        """Whether less of a metric is better."""
        return metric in LOWER or any(metric in row.lower for row in self.rows)

    @cached_property
    def learners(self) -> list[str]:
        """The labels of its rows, in order of appearance."""
        return list(dict.fromkeys(row.label for row in self.rows))

    @cached_property
    def orders(self) -> list[str]:
        """The class orders, in order of appearance."""
        return list(dict.fromkeys(row.order for row in self.rows))

    @cached_property
    def units(self) -> str:
        """What learners are paired by: orders where there are several, seeds, or single seeds.

        Where each seed draws its own order, these are the seeds. Runs that share their seed are
        paired by those of the four that were set, such as "init seeds".
        """
        if len(self.orders) > 1:
            blocks = {(row.order, row.seed) for row in self.rows}
            return "seeds" if len(blocks) == len(self.orders) else "orders"
        if len({row.seed for row in self.rows}) > 1:
            return "seeds"
        return self.varied or "seeds"

    def _unit(self, row: Result) -> Hashable:
        if len(self.orders) > 1:
            return row.order
        return row.seed if len({row.seed for row in self.rows}) > 1 else row.seeds

    @cached_property
    def cells(self) -> list[list[list[Result]]]:
        """The runs of each learner in each unit."""
        units = dict.fromkeys(self._unit(row) for row in self.rows)
        place = {unit: i for i, unit in enumerate(units)}
        cells: list[list[list[Result]]] = [[[] for _ in units] for _ in self.learners]
        number = {learner: i for i, learner in enumerate(self.learners)}
        for row in self.rows:
            cells[number[row.label]][place[self._unit(row)]].append(row)
        return cells

    @property
    def answers(self) -> list[list[list[str | None]]]:
        """The answers of the runs of each learner in each unit."""
        return [[[run.answers for run in runs] for runs in row] for row in self.cells]

    def matrix(self, metric: str) -> Floats:
        """(k, n) learner × unit: means over the runs that share a unit; NaN without one."""
        return np.array(
            [[_mean([run.value(metric) for run in runs]) for runs in row] for row in self.cells]
        )

    def verdicts(
        self, metric: str, *, over: learner_verdicts.Over = "seeds and samples"
    ) -> "TableVerdicts":
        """Who is behind whom, see `learner_verdicts`; rows of no single seed cannot be compared."""
        streams = {row.stream for row in self.rows}
        if len(streams) > 1:
            raise UserError(
                f"verdicts are on one stream, and there are {len(streams)}", "say where(stream=…)"
            )
        runs = Results(tuple(row for row in self.rows if row.is_comparable))
        sample = NOT_SAMPLED if over == "seeds" else runs._sample_share(metric)
        verdicts: list[learner_verdicts.RowVerdict] = []
        if runs.rows:
            verdicts = learner_verdicts.compare_with_best(
                runs.matrix(metric),
                sample.share,
                alike=find_alike(runs.answers),
                lower=self.is_lower(metric),
            )
        places = [self.learners.index(name) for name in runs.learners]
        rows: list[learner_verdicts.RowVerdict | None] = [None] * len(self.learners)
        for place, verdict in zip(places, verdicts, strict=True):
            rows[place] = verdict.move(places)
        return TableVerdicts(rows, runs.units, sample.counted, metric, sample.why)

    def _sample_share(self, metric: str) -> "SampleBasis":
        """What the test sample does, what it is counted in, and why not in groups."""
        runs = [run.record for run in self.rows if run.record]
        is_sampled = metric in BASE_SCORES or find_metric(metric) is not None
        if len(self.learners) < 2 or not is_sampled or len(runs) < len(self.rows):
            return NOT_SAMPLED
        if not kind_of(runs[0].score).rates_samples():
            return NOT_SAMPLED
        made, why = self._leave_out(metric)
        rows: list[list[list[LeftOut]]] = []
        for row in self.cells:
            rows.append([])
            for unit in row:
                each = [made[id(run)] for run in unit]
                known = [one for one in each if one is not None]
                rows[-1].append(known if len(known) == len(each) else [])
        left_out = itertools.chain(*itertools.chain(*rows))
        counted = "groups" if any(one.grouped for one in left_out) else "samples"
        return SampleBasis(metric_jackknife.share_of_rows(rows), counted, why)

    def _leave_out(self, metric: str) -> tuple[dict[int, LeftOut | None], str]:
        """`Result.leave_out` of each run by its `id`, all by groups or all by samples; and why."""
        groups = SampleGroups()
        # those whose answers may hold groups first, so that the others are read once
        ordered = sorted(self.rows, key=lambda row: not row.may_hold_groups)
        made = {id(row): row.leave_out(metric, groups) for row in ordered}
        for row in self.rows:
            left = made[id(row)]
            if groups.known and left is not None and not left.grouped:
                made[id(row)] = row.leave_out(metric, groups)
        why = groups.find_fault(left.grouped for left in made.values() if left is not None)
        if why:
            made = {id(row): row.leave_out(metric, None) for row in self.rows}
        return made, why

    # --- as data ---

    def to_rows(
        self, *metrics: str, moment: int | None = None, eval_set: int | None = None
    ) -> list[dict[str, Any]]:
        """One dictionary for each row and metric: `KEYS`, moment, eval set, and the number."""
        result = []
        at = {"moment": moment, "eval_set": eval_set}
        for row in self.rows:
            names = {key: getattr(row, key) for key in KEYS}
            for metric in metrics:
                value = row.value(metric, moment, eval_set)
                numbers = {"value": value, "half_95": math.nan, "sd": math.nan, "n": 1}
                stat = row.values.get(metric)
                if isinstance(stat, Stat):
                    numbers |= {"half_95": stat.half, "sd": stat.sd, "n": stat.n}
                result.append({**names, **at, "metric": metric, **numbers})
        return result

    def to_pandas(self, *metrics: str) -> "pandas.DataFrame":
        """The same as a data frame; needs pandas."""
        return data_frame(self.to_rows(*metrics))


def name_results(rows: Sequence[Result], names: RowNames) -> list[Result]:
    """The same rows with the names that they are given; refuses to make one row of two."""
    named = []
    for row in rows:
        label = names.label(row.learner, row.learner, [row.setting] if row.setting else [])
        end = f" {row.setting}"
        keeps = bool(row.setting) and label.endswith(end)
        learner = label.removesuffix(end) if keeps else label
        named.append(replace(row, learner=learner, setting=row.setting if keeps else ""))
    check_apart([row.label for row in rows], [row.label for row in named])
    return named


class Share(NamedTuple):
    """Rows that are one measurement."""

    rows: list[Result]
    answers: frozenset[str] | None  # None where some are unknown


class Pairs(NamedTuple):
    """Rows of two tables that belong together, and those without a partner, with the reason."""

    rows: list[tuple[Result, Result]]
    alone: list[tuple[Result, str]]

    def stats(self, metric: str) -> tuple[Stat, Stat, Stat]:
        """The means of both sides over the pairs, and that of the second less the first."""
        first, second = (Results(rows) for rows in zip(*self.rows, strict=True))
        gaps = []
        for a, b in self.rows:
            gap = b.value(metric) - a.value(metric)
            both = f"{a.answers} {b.answers}" if a.answers and b.answers else None
            gaps.append(replace(a, record=None, answers=both, values={metric: gap}))
        return first.stat(metric), second.stat(metric), Results(tuple(gaps)).stat(metric)


class TableVerdicts(NamedTuple):
    """The verdict on each row of a table, None where it is not compared."""

    rows: Sequence[learner_verdicts.RowVerdict | None]
    units: str  # what n counts
    groups: str = "samples"  # what the test sample is counted in: samples, or groups of them
    metric: str = FINAL
    why: str = ""  # it is not counted in the groups that some runs have


class SampleBasis(NamedTuple):
    """The test sample's share of the differences of rows."""

    share: learner_verdicts.SampleShare | None = None  # None where it is unknown
    counted: str = "samples"  # what the test sample is counted in: samples, or groups of them
    why: str = ""  # it is not counted in the groups that some runs have


NOT_SAMPLED = SampleBasis()


def column_stats(rows: Iterable[Iterable[float]]) -> list[Stat]:
    """The mean of each column of numbers that have a row for each run; [] without any run."""
    each = [{str(k): value for k, value in enumerate(row)} for row in rows]
    results = Results(tuple(Result(learner="", values=values) for values in each))
    return [results.stat(name) for name in (each[0] if each else ())]


def _mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    if len(values) == 1:
        return values[0]
    return float(np.mean(values)) if values else math.nan


def varied_seeds(each: Iterable[Seeds | None]) -> list[str]:
    """Those of the four seeds in which some runs differ."""
    known = [vars(seeds) for seeds in each if seeds is not None]
    names = known[0] if known else ()
    return [name for name in names if len({seeds[name] for seeds in known}) > 1]


def variations(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[RunRecord]]:
    """One learner's independent runs, and the variations of them.

    Among runs with one `seed`, keep those whose four seeds were overridden least; the others are
    variations of them and would be counted twice.
    """
    each = [(r, len(vars(r.seeds).items() - vars(Seeds.of(r.seed)).items())) for r in runs]
    least: dict[int, int] = {}
    for r, n in each:
        least[r.seed] = min(n, least.get(r.seed, n))
    alone = [r for r, n in each if n == least[r.seed]]
    return alone, [r for r, n in each if n > least[r.seed]]
