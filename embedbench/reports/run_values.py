"""Values of one run by name: metrics, curves, costs; and its order."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from embedbench.array_types import Array
from embedbench.scores import metric_jackknife
from embedbench.scores.metric_jackknife import CURVES, LeftOut, find_metric, quote_curve
from embedbench.scores.offline_references import reference_values
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_flags import optimiser_steps
from embedbench.scores.run_record import FINAL, ClassOrder, RunRecord

from .table_metric import show_by


def run_value(
    run: RunRecord, name: str, moment: int | None = None, eval_set: int | None = None
) -> float:
    """A value of a run; NaN if it has none of this name.

    A metric; the number that is quoted for one of `CURVES`; bytes and seconds by their names in a
    row of `Run.row`; `steps` of the optimiser; `passes`, how often a training sample was seen; a
    final score of another base score, or the end of a curve. At a moment (a session, from 0): a
    base score over all classes so far, or on an eval set; or a curve.
    """
    if moment is not None:
        return _value_at(run, name, moment, eval_set)
    table, _, key = name.partition(".")
    if table == "seconds":
        return float(getattr(run.seconds, key, math.nan))
    if table == "bytes":
        return run.footprint.get(key, math.nan)
    if name == "steps":
        return sum(_logged(run, "steps"))
    if name == "passes":
        if not any(run.n_train):
            return math.nan
        return float(np.average(_logged(run, "epochs"), weights=run.n_train))
    if name in CURVES:
        return quote_curve(name, run.curve(name))
    if name in run.metrics:
        return run.metrics[name]
    if name in run.by_score:
        return run.by_score[name].metrics[FINAL]
    curve = run.curve(name)
    return curve[-1] if curve else math.nan


def _value_at(run: RunRecord, name: str, moment: int, eval_set: int | None) -> float:
    score = run.by_score.get(run.score if name == FINAL else name)
    values: Sequence[float] = run.curve(name)
    if score is not None:
        values = score.pooled if eval_set is None else [row[eval_set] for row in score.R]
    return values[moment] if moment < len(values) else math.nan


def _logged(run: RunRecord, name: str) -> list[float]:
    """A number of the learner's log for each session; 0 for one without training data."""
    values = []
    for session, n in zip(run.sessions, run.n_train, strict=True):
        value = float(session.log.get(name, math.nan))
        if name == "steps":
            value = optimiser_steps(run, session.log)
        values.append(value if n else 0.0)
    return values


def order_name(run: RunRecord) -> str:
    """The name of a run's class order; two runs on one stream have the same order."""
    order = run.order or ClassOrder(run.protocol_params.get("order", "drawn"))
    kind = str(order.kind)
    name = order.name
    if name is None:
        return f"{kind} {run.seeds.order}" if kind in ("random", "drawn") else Path(kind).stem
    name = Path(name).stem
    return name if kind in ("file", name) else f"{kind} ({name})"


def count_orders(runs: Iterable[RunRecord]) -> int:
    """How many class orders runs have; 0 where the protocol orders no classes."""
    return len({order_name(run) for run in runs if run.order is not None})


def leave_out_groups(
    answers: RunAnswers, run: RunRecord, metric: str, groups: Array | None
) -> LeftOut | None:
    """A metric of a run without each of its (n,) groups, or samples; None without a jackknife."""
    if metric in run.by_score:  # its final score
        run = show_by(run, metric)
        metric = FINAL
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
