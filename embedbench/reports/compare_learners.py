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

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedbench.array_types import Array, Floats
from embedbench.errors import UserError, unknown
from embedbench.scores import learner_verdicts, metric_jackknife, record_files, unrecorded_metrics
from embedbench.scores.metric_jackknife import LeftOut, find_metric
from embedbench.scores.offline_references import reference_values
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import FINAL, ClassOrder, RunRecord
from embedbench.scores.single_label_scores import SCORES

from .headings_and_units import difference_text
from .result_rows import LATER, Group, Row, run_value, searches, stream_title
from .run_rows import labels

USUAL = 5  # seeds; with fewer a table says which difference could have been seen
# metrics where less is better
LOWER = ("average_forgetting", "per_class_forgetting", *unrecorded_metrics.LOWER)
Block = tuple[str, str]  # order, seeds


@dataclass(frozen=True)
class ComparisonStudy:
    """Scores of learners on blocks; the best learner comes first."""

    title: str  # protocol and files
    metric: str
    scores: dict[str, dict[Block, float]]  # label → block → score, a fraction
    lower: bool = False  # whether less is better, of a metric that is not in `LOWER`
    notes: tuple[str, ...] = ()  # remarks on the learners
    # label, block → makes the score without each group of the test sample
    answers: Mapping[tuple[str, Block], Callable[[], LeftOut | None]] = field(default_factory=dict)

    @property
    def learners(self) -> list[str]:
        return list(self.scores)

    @cached_property
    def orders(self) -> list[str]:
        """Class orders, in the order of the learners' runs."""
        return list(dict.fromkeys(o for values in self.scores.values() for o, _ in values))

    @property
    def is_lower(self) -> bool:
        return self.lower or self.metric in LOWER

    @property
    def units(self) -> str:
        """The units of an interval: `orders`, or `seeds`, also where each draws its own order."""
        if len(self.orders) < 2:
            return "seeds"
        blocks = {block for each in self.scores.values() for block in each}
        return "seeds" if len(blocks) == len(self.orders) else "orders"

    def by_order(self, label: str) -> dict[str, list[float]]:
        """Order → the learner's scores on it, one per set of seeds."""
        result: dict[str, list[float]] = {}
        for (order, _), value in self.scores[label].items():
            result.setdefault(order, []).append(value)
        return result

    def mean(self, label: str) -> float:
        """Mean over orders of the mean over seeds."""
        return float(np.mean([np.mean(v) for v in self.by_order(label).values()]))

    def best_first(self) -> "ComparisonStudy":
        """The same with the best mean first."""
        order = sorted(self.scores, key=self.mean, reverse=not self.is_lower)
        return replace(self, scores={label: self.scores[label] for label in order})

    def _columns(self) -> dict[str, list[list[Block]]]:
        """Label → unit, and the blocks of the learner that are in it."""
        which = 0 if len(self.orders) > 1 else 1
        units = dict.fromkeys(b[which] for each in self.scores.values() for b in each)
        each = self.scores.items()
        return {name: [[b for b in of if b[which] == u] for u in units] for name, of in each}

    @cached_property
    def values(self) -> Floats:
        """(k, units) means over blocks; units are orders where there are several, else seeds."""
        return np.array(
            [
                [np.mean([self.scores[label][b] for b in bs]) if bs else math.nan for bs in row]
                for label, row in self._columns().items()
            ]
        )

    @cached_property
    def _share(self) -> tuple[Floats | None, int, bool]:
        """The variances by the test sample, the number of its groups, and whether it has any."""
        if not self.answers or len(self.scores) < 2:
            return None, 0, False
        rows = []
        for label, row in self._columns().items():
            made = [
                [self.answers[label, b]() if (label, b) in self.answers else None for b in blocks]
                for blocks in row
            ]
            known = [[run for run in blocks if run is not None] for blocks in made]
            rows.append([a if len(a) == len(b) else [] for a, b in zip(known, made, strict=True)])
        variances, groups = metric_jackknife.share_of_rows(rows)
        grouped = any(run.grouped for row in rows for blocks in row for run in blocks)
        return variances, groups, grouped

    @property
    def groups(self) -> str:
        """The unit that the test sample is counted in."""
        return "groups" if self._share[2] else "samples"

    @cached_property
    def verdicts(self) -> list[learner_verdicts.RowVerdict]:
        """The verdict on each learner."""
        share = self._share[:2]
        return learner_verdicts.compare_with_best(self.values, *share, lower=self.is_lower)

    @property
    def judged(self) -> "TableVerdicts":
        """Its verdicts, with what they count."""
        return TableVerdicts(self.verdicts, self.units, self.groups, self.metric)


class TableVerdicts(NamedTuple):
    """The verdict on each row of a table, None where it is not compared."""

    rows: Sequence[learner_verdicts.RowVerdict | None]
    units: str  # what n counts
    groups: str = "samples"  # what the test sample is counted in: samples, or groups of them
    metric: str = FINAL


def judge(rows: Sequence[Row]) -> TableVerdicts:
    """The verdicts on the final scores of a table; chance, and what has none, is not compared."""
    each = {str(i): measure_runs([row], FINAL) for i, row in enumerate(rows) if row.learns}
    study = make_study("", FINAL, each, rows[0].group)
    verdicts = dict(zip(study.scores, study.verdicts if study.scores else (), strict=True))
    in_order = [verdicts.get(str(i)) for i in range(len(rows))]
    return TableVerdicts(in_order, study.units, study.groups)


def describe_verdicts(judged: TableVerdicts) -> list[str]:
    """Say in sentences what the verdicts of a table rest on."""
    compared = [v for v in judged.rows if v is not None]
    tested = [v for v in compared if v.behind is not None]
    if not tested:
        nothing = f"no verdict (–): that takes two {judged.units} in common, or stored answers"
        return [nothing] if len(compared) > 1 else []
    n = sorted({v.n for v in tested})
    entered = dict.fromkeys(part for v in tested for part in v.parts)
    count = max(v.groups for v in tested)
    seeds = "–".join(map(str, dict.fromkeys((n[0], n[-1]))))
    words = {
        learner_verdicts.SEEDS: f"{seeds} {judged.units}",
        learner_verdicts.SAMPLE: f"the test sample ({count:,} {judged.groups})",
    }
    over = " and ".join(text for part, text in words.items() if part in entered)
    over += ", ± over seeds alone" if len(entered) == 2 else " alone"
    lines = [
        "behind by: mean paired difference to the best (≥: at least so much; without it a row may "
        f"be level), over {over}; a bound per row, with normal residuals"
    ]
    if n[0] < USUAL:
        seen = difference_text(float(np.median([v.detectable for v in tested])), judged.metric)
        lines.append(
            f"fewer than {USUAL} {judged.units}: in half of the rows no difference under {seen} "
            "can be seen"
        )
    return lines


def studies(rows: Sequence[Row], metric: str = "final_accuracy") -> list[ComparisonStudy]:
    """Every study among the runs of a report; left-out runs are not included."""
    rows = [row for row in rows if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    together: dict[str, list[Row]] = {}
    for row in rows:
        together.setdefault(_key(row.records[0]), []).append(row)
    known = [o for o in together.values() if any(r.used and metric in r.metrics for r in o)]
    return [_study(those, metric) for those in known]


def _key(run: RunRecord) -> str:
    params = LATER | {k: v for k, v in run.protocol_params.items() if k != "order"}
    files = [f.digests for f in run.all_files]
    key = [run.protocol, params, files, run.digests.features, run.score]
    return json.dumps([*key, run.reference.preset], sort_keys=True)


def order_name(run: RunRecord) -> str:
    """The name of a run's class order; two runs on one stream have the same order."""
    order = run.order or ClassOrder(run.protocol_params.get("order", "drawn"))
    kind, name = str(order.kind), order.name
    if name is None:
        return f"{kind} {run.seeds.order}" if kind in ("random", "drawn") else Path(kind).stem
    name = Path(name).stem
    return name if kind in ("file", name) else f"{kind} ({name})"


class MeasuredRun(NamedTuple):
    """A run in a comparison: its record, its score, and where its answers are, if they are."""

    record: RunRecord
    value: float
    place: Path | None

    @property
    def block(self) -> Block:
        """The order and the seeds by which it is paired."""
        return order_name(self.record), str(self.record.seeds)


def measure_runs(rows: Sequence[Row], metric: str) -> list[MeasuredRun]:
    """The runs of some rows that have a score."""
    every = ((row, r, run_value(r, metric)) for row in rows for r in row.used)
    return [
        MeasuredRun(r, value, row.place_of(r)) for row, r, value in every if not math.isnan(value)
    ]


def _study(rows: Sequence[Row], metric: str) -> ComparisonStudy:
    by_learner: dict[str, list[Row]] = {}
    for row in rows:
        key = json.dumps([row.learner, row.params], sort_keys=True)
        by_learner.setdefault(key, []).append(row)
    each = list(by_learner.values())
    names = labels([[r for row in those for r in row.records] for those in each])
    named, group = dict(zip(names, each, strict=True)), rows[0].group
    used = {n: [r for row in those for r in row.used] for n, those in named.items()}
    measured = {n: measure_runs(those, metric) for n, those in named.items()}
    tuned = [f"{n} ({how})" for n, runs in used.items() if measured[n] and (how := searches(runs))]
    notes = [f"tuned on validation data: {', '.join(tuned)}"] if tuned else []
    study = make_study(stream_title(group.first), metric, measured, group, notes)
    if not study.scores:
        raise UserError(
            f"{metric} is undefined in every run of {group.first.protocol}", "name another --metric"
        )
    return study.best_first()


def make_study(
    title: str,
    metric: str,
    learners: Mapping[str, Sequence[MeasuredRun]],
    group: Group,
    notes: Sequence[str] = (),
) -> ComparisonStudy:
    """A study of the learners that have runs; it knows where their answers are.

    `group` says whether less is better, and whether verdicts are over seeds alone.
    """
    learners = {label: runs for label, runs in learners.items() if runs}
    outside = group.outside.get(metric)
    study = ComparisonStudy(
        title,
        metric,
        {label: {run.block: run.value for run in runs} for label, runs in learners.items()},
        lower=outside is not None and outside.lower_is_better,
        notes=tuple(notes),
    )
    runs = [run for each in learners.values() for run in each]
    score = group.first.score
    sampled = find_metric(metric) is not None and score in SCORES
    if not (runs and sampled) or group.over == "seeds":
        return study
    # plain answers hold no groups: then every sample is one, in all runs
    grouped = all(run.record.answers == "full" and run.record.imported is None for run in runs)
    answers = {
        (label, run.block): partial(_left_out, run.place, run.record, metric, grouped=grouped)
        for label, each in learners.items()
        for run in each
        if run.place is not None
    }
    return replace(study, answers=answers)


def _left_out(place: Path, run: RunRecord, metric: str, *, grouped: bool) -> LeftOut | None:
    """A metric without each group, or sample; None without answers of one class a sample."""
    try:
        answers = record_files.read_predictions(place, run)
    except UserError:  # a record is enough for a table
        return None
    if not isinstance(answers, Predictions):
        return None
    answers = answers if grouped else replace(answers, group=None)
    return leave_out_groups(answers, run, metric, answers.group)


def leave_out_groups(
    answers: Predictions, run: RunRecord, metric: str, groups: Array | None
) -> LeftOut | None:
    """A metric of a run without each of its (n,) groups, or samples; None without a jackknife."""
    function = find_metric(metric)
    if function is None:
        return None
    return metric_jackknife.leave_out_metric(
        answers,
        run.score,
        function,
        reference_values(run.reference, run.score),
        groups=groups,
        class_sizes=run.n_train_by_class,
    )
