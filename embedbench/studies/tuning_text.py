"""The text on a search: its choice and score, the scores of all trials, and what is left open."""

from collections.abc import Mapping, Sequence
from math import inf, isnan, nan
from typing import Any, NamedTuple

from embedbench.config.run_seeds import format_seeds
from embedbench.streams.stream import Stream

from .tuning_choice import is_equal, rises

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

    def is_equal(self, other: "_Trial") -> bool:
        """Whether two trials have the same score, up to rounding."""
        return is_equal(self.score, other.score)


def outcome(log: Mapping[str, Any], trial: Stream) -> str:
    """Text on a search: its choice and score, the scores of all trials, and what is left open.

    `log` is what `tune` returns, `trial` the stream of the trials.
    """
    trials = [_trial(t) for t in log["tried"]]
    best = next(t for t in trials if t.settings == log["chosen"])
    n = len(trial.sessions)
    samples = sum(len(e.x) for e in trial.eval_sets[:n])
    score = "pw-JS" if trial.spec.multilabel else "accuracy"
    several = log.get("seeds")
    seeds = f"seeds {format_seeds(several)}" if several else f"seed {log['seed']}"
    head = (
        f"tuned {log['learner']} on {seeds}: {_choice(log, best)}, by average incremental "
        f"{score} on {samples} validation samples of {'1 session' if n == 1 else f'{n} sessions'}"
    )
    doubts = _doubts(trials, best, None if several else 1 / samples, log.get("edge"))
    if samples < FEW and not several:
        other = f"--seed {log['seed'] + 1} with another --out"
        doubts.append(f"few samples decide little: see whether {other} chooses the same")
    names = ",".join(best.settings)
    scores = " · ".join(f"{t.value}→{t.percent}" for t in trials)
    return "\n".join([head, f"  {names} → %: {scores}", *(f"  {d}" for d in doubts)])


def _choice(log: Mapping[str, Any], best: _Trial) -> str:
    """What was chosen, and by how much the best one differs from the default."""
    values = (log.get(name) for name in ("gain", "standard_error"))
    gain, error = (nan if value is None else 100 * value for value in values)
    if best.settings != log.get("default"):
        return best.text if isnan(gain) else f"{best.text} (+{gain:.1f} ± {error:.1f} points)"
    within = "" if not gain > 0 else f"; the best is only {gain:.1f} ± {error:.1f} points above it"
    return f"default kept ({best.text}{within})"


def _trial(tried: Mapping[str, Any]) -> _Trial:
    score = tried.get("average_incremental_accuracy")
    if not isinstance(score, float | int) or isnan(score):
        score = -inf
    return _Trial(tried["settings"], score)


def _doubts(
    trials: Sequence[_Trial], best: _Trial, answer: float | None, edge: Sequence[str] | None
) -> list[str]:
    """Sentences on what the scores leave open.

    `answer` is what one sample makes of a score, None: the mean over seeds decided; `edge` are the
    settings at an edge, where the log says so.
    """
    equal = [t for t in trials if t.is_equal(best)]
    used = "the first" if answer else "the default"
    if len(equal) == len(trials) > 1:
        what = "values" if len(best.settings) == 1 else "combinations"
        scored = "have no score" if best.score == -inf else f"scored {best.percent} %"
        return [
            f"all {len(trials)} {what} {scored}: nothing was decided, and {used} is used; try "
            "values far beyond these, or more sessions (--tune-sessions)"
        ]
    doubts = []
    if len(equal) > 1 and answer:
        *first, last = (t.value for t in equal)
        doubts.append(f"{', '.join(first)} and {last} scored the same, and {best.value} is used")
    close = -inf if answer is None else answer
    if near := [t.value for t in trials if t not in equal and best.score - t.score <= close]:
        who = f"{', '.join(near)} {'is' if len(near) == 1 else 'are'}"
        doubts.append(f"{who} within one answer of the best ({100 * close:.1f} points)")
    if edge is None:
        tried, scores = [dict(t.settings) for t in trials], [t.score for t in trials]
        edge = [k for k in best.settings if rises(tried, scores, dict(best.settings), k)]
    if values := [f"{k}={best.settings[k]}" for k in edge]:
        where = "is at the edge of its grid" if len(edge) == 1 else "are at the edge of their grids"
        doubts.append(f"{', '.join(values)} {where}, a value beyond may be better")
    return doubts
