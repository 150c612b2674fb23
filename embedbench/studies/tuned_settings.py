"""What a search chose: as settings, in the record, and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import inf, isclose, isnan
from typing import Any, NamedTuple

from embedbench.runs.run_spec import RunSpec
from embedbench.streams.stream import Stream

FEW = 200  # validation samples: one answer is half a point or more


class _Trial(NamedTuple):
    """The settings of a trial, and its score; -inf where that is undefined."""

    settings: Mapping[str, str]
    score: float

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())

    @property
    def value(self) -> str:
        """The values alone, without a space."""
        return ",".join(self.settings.values())

    @property
    def percent(self) -> str:
        return "–" if self.score == -inf else f"{100 * self.score:.1f}"

    def is_equal(self, other: _Trial) -> bool:
        """Whether two trials have the same score, up to rounding."""
        return isclose(self.score, other.score, rel_tol=1e-12)


def outcome(log: Mapping[str, Any], trial: Stream) -> str:
    """What a search chose, by which score; what every trial scored; and what that leaves open.

    Parameters
    ----------
    log : mapping
        What `tune` returns.
    trial : Stream
        The stream of the trials, as `trial_stream` makes it.
    """
    trials = [_trial(t) for t in log["tried"]]
    best = next(t for t in trials if t.settings == log["chosen"])
    n = len(trial.sessions)
    samples = sum(len(e.x) for e in trial.eval_sets[:n])
    score = "pw-JS" if trial.spec.multilabel else "accuracy"
    head = (
        f"tuned {log['learner']} on seed {log['seed']}: {best.text}, by average incremental "
        f"{score} on {samples} validation samples of {'1 session' if n == 1 else f'{n} sessions'}"
    )
    doubts = _doubts(trials, best, 1 / samples)
    if samples < FEW:
        other = f"--seed {log['seed'] + 1} with another --out"
        doubts.append(f"few samples decide little: see whether {other} chooses the same")
    names = ",".join(best.settings)
    scores = " · ".join(f"{t.value}→{t.percent}" for t in trials)
    return "\n".join([head, f"  {names} → %: {scores}", *(f"  {d}" for d in doubts)])


def _trial(tried: Mapping[str, Any]) -> _Trial:
    score = tried.get("average_incremental_accuracy")
    if not isinstance(score, float | int) or isnan(score):
        score = -inf
    return _Trial(tried["settings"], score)


def _doubts(trials: Sequence[_Trial], best: _Trial, answer: float) -> list[str]:
    """Sentences on what the scores leave open; one sample makes about `answer` of a score."""
    equal = [t for t in trials if t.is_equal(best)]
    if len(equal) == len(trials) > 1:
        what = "values" if len(best.settings) == 1 else "combinations"
        scored = "have no score" if best.score == -inf else f"scored {best.percent} %"
        return [
            f"all {len(trials)} {what} {scored}: nothing was decided, and the first is used; try "
            "values far beyond these, or more sessions (--tune-sessions)"
        ]
    doubts = []
    if len(equal) > 1:
        *first, last = (t.value for t in equal)
        doubts.append(f"{', '.join(first)} and {last} scored the same, and {best.value} is used")
    near = [t.value for t in trials if t not in equal and best.score - t.score <= answer]
    if near:
        who = f"{', '.join(near)} {'is' if len(near) == 1 else 'are'}"
        doubts.append(f"{who} within one answer of the best ({100 * answer:.1f} points)")
    edge = [f"{k}={v}" for k, v in best.settings.items() if _rises(trials, best, k)]
    if edge:
        where = "is at the edge of its grid" if len(edge) == 1 else "are at the edge of their grids"
        doubts.append(f"{', '.join(edge)} {where}, a value beyond may be better")
    return doubts


def _rises(trials: Sequence[_Trial], best: _Trial, name: str) -> bool:
    """Whether the best value of a setting is at the edge of its numbers and better than the next.

    The next is the neighbour in size, with the other settings of the best.
    """
    rest = {k: v for k, v in best.settings.items() if k != name}
    line = [t for t in trials if {k: v for k, v in t.settings.items() if k != name} == rest]
    try:
        line.sort(key=lambda t: float(t.settings[name]))
    except ValueError:
        return False
    if len(line) < 3 or best not in (line[0], line[-1]):
        return False
    neighbour = line[1] if best == line[0] else line[-2]
    return best.score > neighbour.score and not best.is_equal(neighbour)


def chosen_items(log: Mapping[str, Any]) -> list[str]:
    """The chosen settings as `--set` items."""
    return [f"{log['learner']}.{name}={value}" for name, value in log["chosen"].items()]


def with_log(cell: RunSpec, logs: Sequence[Mapping[str, Any]]) -> RunSpec:
    """The cell with the log of its learner's search, to be stored in the record."""
    mine = [dict(log) for log in logs if log["learner"] == cell.learner.name]
    return dataclasses.replace(cell, tuning=mine[0]) if mine else cell
