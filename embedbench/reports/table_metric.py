"""The metric of a table: one base score for all its runs, which its header names.

A record has every base score of its answers under `by_score`, and at the top those of one of them,
`score`. A table shows the one that `--metric` names; else the one that its runs were made to show
(`metric` in a record: of a preset, or `run --metric`); else accuracy, per sample, as papers print
it. All that a table is made of takes the runs of `show_by`, in which that score is at the top: so
means, ranks, verdicts, Ω, RAA and figures are of one score.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from embedbench.errors import unknown
from embedbench.plugins import absent, entry_points_by_name
from embedbench.scores.label_set_predictions import KINDS, kind_of
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.metrics import all_metrics
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.unrecorded_metrics import FUNCTIONS

USUAL = "accuracy"
BASE_SCORES = tuple(name for kind in KINDS for name in kind.SCORES)
# the names that papers and other tools have for columns of every table
ALIASES = {
    "a_last": FINAL,
    "a_avg": "average_incremental_accuracy",
    "a_auc": "average_anytime_accuracy",
    "aia": "average_incremental_accuracy",
    "aa": "average_accuracy",
    "af": "average_forgetting",
    "harmonic_mean": "hacc",
    "pd": "performance_drop",
}
# what stands beside a score per sample where classes differ in size
PER_CLASS = {"accuracy": "class_accuracy", "within_accuracy": "within_class_accuracy"}


def meant(name: str) -> str:
    """The metric that a name means: one of `ALIASES`, in small letters or not, or itself."""
    return ALIASES.get(name.lower(), name)


def named_by_column(name: str) -> str:
    """The metric that a column of somebody's table is of, in any case of letters; else its name.

    >>> [named_by_column(name) for name in ("A_Last", "Accuracy", "Speed")]
    ['final_accuracy', 'accuracy', 'Speed']
    """
    known = meant(name)
    if known != name:
        return known
    ours = {*BASE_SCORES, *all_metrics(), *FUNCTIONS, *CURVES, FINAL}
    return name.lower() if name.lower() in ours else name


def split_names(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The base score that names of `--metric` choose, the first one, and the others.

    Raises
    ------
    UserError
        No metric has a name.
    """
    every = [meant(name) for name in names]
    known = [*BASE_SCORES, *all_metrics(), *FUNCTIONS, *CURVES, *entry_points_by_name("metrics")]
    for name in every:
        if ":" not in name and name not in known:
            raise absent("metrics", name, [*known, "A_last", "A_avg", "A_auc"])
    chosen = first_score(every)
    return chosen, [name for name in every if name != chosen]


def first_score(names: Iterable[str]) -> str | None:
    """The first base score among some names."""
    return next((name for name in names if name in BASE_SCORES), None)


def choose_score(runs: Sequence[RunRecord], wanted: str | None = None) -> str:
    """The base score of the table that some runs make.

    `wanted` is what the user named. Runs that were made to show different scores show the usual.

    Raises
    ------
    UserError
        The runs do not have the score that the user named.
    """
    known = [name for name in runs[0].by_score if all(name in run.by_score for run in runs)]
    if wanted is not None:
        if wanted not in known:
            raise unknown(f"base score of {runs[0].protocol} runs", wanted, known)
        return wanted
    learning = [run for run in runs if run.learns] or runs
    stated = {run.metric or USUAL for run in learning}
    score = stated.pop() if len(stated) == 1 else USUAL
    return score if score in known else runs[0].score


def show_by(run: RunRecord, score: str) -> RunRecord:
    """A run with another of its base scores at the top.

    Metrics of its answers, which are of no score, stay, and so do the curves of label sets.
    """
    if score == run.score:
        return run
    shown = run.by_score[score]
    usual = run.by_score[run.score]
    of_answers = {k: v for k, v in run.metrics.items() if k not in usual.metrics}
    of_all = bool(kind_of(score).DETAILS)  # curves are of the answers, and not of one score
    return replace(
        run,
        score=score,
        R=shown.R,
        pooled=shown.pooled,
        metrics=of_answers | shown.metrics,
        curves=run.curves if of_all else shown.curves,
        moments=None,  # are of the score that was at the top
    )
