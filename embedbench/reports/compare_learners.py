"""Learners against each other over seeds and class orders: `report --compare`, `report --by order`.

A study is a set of runs that differ only in learner, class order and seed. Learners are paired on
blocks; a block is one class order with one set of seeds. If there are several orders, every
interval is over orders (each order counts with its mean over seeds), because runs on one order are
not independent evidence about other orders. Where each seed draws its own order, these are the
seeds. If there is one order, intervals are over seeds, and the result holds for that order only.

Who is behind whom says `scores.learner_verdicts` alone, here and in the tables, the figure of
ranks and the board. The test sample's share of its intervals is computed when it is asked for, from
stored answers; `scores.metric_jackknife` says for which metrics. Others have the seeds' share.
"""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from embedbench.array_types import Floats
from embedbench.errors import UserError, unknown
from embedbench.scores import learner_verdicts
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import FINAL, RunRecord

from .headings_and_units import difference_text
from .result_rows import Row, earlier_settings, searches, stream_title
from .results import Result, Results, TableVerdicts
from .run_rows import labels

Reader = Callable[[Path, RunRecord], RunAnswers]
FEWER = 0.9  # of the groups, where a line says that they count as fewer
USUAL = 5  # seeds; with fewer a table says which difference could have been seen


@dataclass(frozen=True)
class ComparisonStudy:
    """Runs of learners on blocks, compared by one metric; the best learner comes first."""

    title: str  # protocol and files
    metric: str
    results: Results  # the runs that have a score; the learner of each is its label
    notes: tuple[str, ...] = ()  # remarks on the learners
    over: learner_verdicts.Over = "seeds and samples"
    score: str = ""  # the base score of the metric

    @property
    def learners(self) -> list[str]:
        return self.results.learners

    @property
    def orders(self) -> list[str]:
        """Class orders, in the order of the learners' runs."""
        return self.results.orders

    @property
    def units(self) -> str:
        """The units of an interval, see `Results.units`."""
        return self.results.units

    @property
    def is_lower(self) -> bool:
        return self.results.is_lower(self.metric)

    @cached_property
    def values(self) -> Floats:
        """(k, units) means over blocks; units are orders where there are several, else seeds."""
        return self.results.matrix(self.metric)

    def mean(self, label: str) -> float:
        """Mean over orders of the mean over seeds."""
        values = self.values[self.learners.index(label)]
        return float(np.mean(values[~np.isnan(values)]))

    def best_first(self) -> "ComparisonStudy":
        """The same with the best mean first."""
        order = sorted(self.learners, key=self.mean, reverse=not self.is_lower)
        rows = sorted(self.results, key=lambda row: order.index(row.learner))
        return replace(self, results=Results(tuple(rows)))

    @cached_property
    def judged(self) -> TableVerdicts:
        """Its verdicts, with what they count."""
        return self.results.verdicts(self.metric, over=self.over)

    @property
    def verdicts(self) -> list[learner_verdicts.RowVerdict]:
        """The verdict on each learner."""
        return [verdict for verdict in self.judged.rows if verdict is not None]

    @property
    def groups(self) -> str:
        """The unit that the test sample is counted in."""
        return self.judged.groups


def judge(rows: Sequence[Row], reader: Reader | None = None) -> TableVerdicts:
    """The verdicts on the final scores of a table; chance, and what has none, is not compared.

    Answers are read for them once: they are kept with the table. `reader` reads them, see `Result`.
    """
    kept = rows[0].group.judged
    key = tuple(map(id, rows))
    if key not in kept:  # the rows are kept, too, so that no others have their ids
        kept[key] = (_judge(rows, reader), tuple(rows))
    judged: TableVerdicts = kept[key][0]
    return judged


def _judge(rows: Sequence[Row], reader: Reader | None) -> TableVerdicts:
    each = {str(i): row for i, row in enumerate(rows) if row.learns}
    over = rows[0].group.over
    measured = [replace(run, reader=reader) for run in measure_runs(each, FINAL)]
    results = Results(tuple(measured))
    study = ComparisonStudy("", FINAL, results, over=over, score=rows[0].group.score)
    places = [int(name) for name in study.learners]
    verdicts: list[learner_verdicts.RowVerdict | None] = [None] * len(rows)
    for place, verdict in zip(places, study.verdicts, strict=True):
        verdicts[place] = verdict.move(places)
    return study.judged._replace(rows=verdicts)


def describe_verdicts(judged: TableVerdicts) -> list[str]:
    """Say in sentences what the verdicts of a table rest on."""
    compared = [v for v in judged.rows if v is not None]
    tested = [v for v in compared if v.behind is not None]
    if len(compared) < 2 and not tested:
        return []
    if not tested:
        return [
            f"no verdict (–): that takes {judged.units} in common, three where all differences "
            "are equal, or stored answers"
        ]
    sentence = (
        "behind by: mean paired difference to the best, and in brackets the 95 % interval of the "
        "distance to whichever row is the best (an end may be that to another one), over "
        f"{_basis(judged, tested)}: above 0 a row is behind, else it may be level; 5 % for each "
        "row, with normal residuals"
    )
    if len(_parts(tested)) == 2:
        single = "seeds" if judged.units == "orders" else judged.units
        sentence += f" · ±: over {single} alone"
    lines = [sentence]
    fewest = min(v.n for v in tested)
    if fewest < USUAL:
        seen = difference_text(float(np.median([v.detectable for v in tested])), judged.metric)
        lines.append(
            f"fewer than {USUAL} {judged.units}: in half of the rows no difference under {seen} "
            "can be seen"
        )
    return lines


def _basis(judged: TableVerdicts, tested: Sequence[learner_verdicts.RowVerdict]) -> str:
    """What the intervals are over: "3 seeds and the test sample (200 samples)"."""
    parts = _parts(tested)
    seeds = f"{count_range(min(v.n for v in tested), max(v.n for v in tested))} {judged.units}"
    if learner_verdicts.SAMPLE not in parts:
        return f"{seeds} alone"
    sample = f"the test sample ({describe_sample(judged)})"
    if learner_verdicts.SEEDS not in parts:
        return f"{sample} alone"
    return f"{seeds} and {sample}"


def _parts(tested: Sequence[learner_verdicts.RowVerdict]) -> set[str]:
    """What the intervals of some rows are made of."""
    parts: set[str] = set()
    for verdict in tested:
        parts.update(verdict.parts)
    return parts


def count_range(fewest: int, most: int) -> str:
    """A number, or two that it is between: "3", "2–5"."""
    return str(fewest) if fewest == most else f"{fewest}–{most}"


def describe_sample(judged: TableVerdicts) -> str:
    """The size of the test sample, and what it is in effect: "21 groups, by their sizes 3.8"."""
    every = [v for v in judged.rows if v is not None and v.groups]
    count = max(v.groups for v in every)
    effective = min(v.effective_groups for v in every)
    text = f"{count:,} {judged.groups}"
    if judged.groups == "groups" and effective < FEWER * count:
        text += f" of unequal weight that count as {effective:,.1f}"
    return f"{text}, as {judged.why}" if judged.why else text


def studies(rows: Sequence[Row], metric: str = "final_accuracy") -> list[ComparisonStudy]:
    """Every study among the runs of a report; left-out runs are not included."""
    rows = [row for row in rows if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    together: dict[str, list[Row]] = {}
    for row in rows:
        together.setdefault(_key(row.records[0]), []).append(row)
    return [
        _study(those, metric)
        for those in together.values()
        if any(row.used and metric in row.metrics for row in those)
    ]


def _key(run: RunRecord) -> str:
    chosen = {k: v for k, v in run.protocol_params.items() if k != "order"}
    params = earlier_settings(run) | chosen
    files = [f.digests for f in run.all_files]
    key = [run.protocol, params, files, run.digests.features, run.score]
    return json.dumps([*key, run.reference.preset], sort_keys=True)


def measure_runs(rows: Mapping[str, Row], metric: str) -> list[Result]:
    """The runs of some rows that have a score; the key of a row is their learner."""
    every = [replace(run, learner=name) for name, row in rows.items() for run in row.results]
    return [run for run in every if not math.isnan(run.value(metric))]


def _study(rows: Sequence[Row], metric: str) -> ComparisonStudy:
    by_learner: dict[str, list[Row]] = {}
    for row in rows:
        key = json.dumps([row.learner, row.params], sort_keys=True)
        by_learner.setdefault(key, []).append(row)
    each = list(by_learner.values())
    group = rows[0].group
    records = [list(itertools.chain(*[row.records for row in those])) for those in each]
    names = labels(records, short=True, names=group.names)
    measured: list[Result] = []
    tuned: list[str] = []
    for name, those in zip(names, each, strict=True):
        mine: list[Result] = []
        used: list[RunRecord] = []
        for row in those:
            mine += measure_runs({name: row}, metric)
            used += row.used
        measured += mine
        how = searches(used)
        if mine and how:
            tuned.append(f"{name} ({how})")
    if not measured:
        raise UserError(
            f"{metric} is undefined in every run of {group.first.protocol}", "name another --metric"
        )
    study = ComparisonStudy(
        stream_title(group.first),
        metric,
        Results(tuple(measured)),
        notes=(f"tuned on validation data: {', '.join(tuned)}",) if tuned else (),
        over=group.over,
        score=group.score,
    )
    return study.best_first()
