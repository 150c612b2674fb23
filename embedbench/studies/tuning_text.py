"""The text on a search: its choice and score, the scores of all trials, and what is left open."""

from collections.abc import Mapping, Sequence
from math import inf, isnan, nan
from typing import Any

from embedbench.config.run_seeds import format_seeds
from embedbench.streams.stream import Stream

from .tuning_rule import is_equal, rises


def outcome(log: Mapping[str, Any], trial: Stream) -> str:
    """Text on a search: its choice and score, the scores of all trials, and what is left open.

    `log` is what `tune` returns, `trial` the stream of the trials.
    """
    tried = [t["settings"] for t in log["tried"]]
    scores = [_score(t.get("average_incremental_accuracy")) for t in log["tried"]]
    n = len(trial.sessions)
    samples = sum(len(e.x) for e in trial.eval_sets[:n])
    score = "pw-JS" if trial.spec.multilabel else "accuracy"
    several = log.get("seeds")
    seeds = f"seeds {format_seeds(several)}" if several else f"seed {log['seed']}"
    head = (
        f"tuned {log['learner']} on {seeds}: {_choice(log)}, by average incremental "
        f"{score} on {samples} validation samples of {'1 session' if n == 1 else f'{n} sessions'}"
    )
    values = [",".join(settings.values()) for settings in tried]
    each = " · ".join(f"{v}→{_percent(s)}" for v, s in zip(values, scores, strict=True))
    doubts = _doubts(log, tried, scores)
    return "\n".join(
        [head, f"  {','.join(log['chosen'])} → %: {each}", *(f"  {d}" for d in doubts)]
    )


def _choice(log: Mapping[str, Any]) -> str:
    """What was chosen, and by how much the best one differs from the default."""
    text = ", ".join(f"{name}={value}" for name, value in log["chosen"].items())
    values = (log.get(name) for name in ("gain", "standard_error"))
    gain, error = (nan if value is None else 100 * value for value in values)
    if log["chosen"] != log.get("default"):
        return text if isnan(gain) else f"{text} (+{gain:.1f} ± {error:.1f} points)"
    within = "" if not gain > 0 else f"; the best is only {gain:.1f} ± {error:.1f} points above it"
    return f"default kept ({text}{within})"


def _score(value: object) -> float:
    """A score of a log; -inf where it is undefined."""
    return float(value) if isinstance(value, float | int) and not isnan(value) else -inf


def _percent(score: float) -> str:
    return "–" if score == -inf else f"{100 * score:.1f}"


def _doubts(
    log: Mapping[str, Any], tried: Sequence[dict[str, str]], scores: Sequence[float]
) -> list[str]:
    """Sentences on what the scores leave open."""
    chosen = log["chosen"]
    best = scores[tried.index(chosen)]
    if len(tried) > 1 and all(is_equal(score, best) for score in scores):
        what = "values" if len(chosen) == 1 else "combinations"
        scored = "have no score" if best == -inf else f"scored {_percent(best)} %"
        used = "the default" if log.get("seeds") else "the first"
        return [
            f"all {len(tried)} {what} {scored}: nothing was decided, and {used} is used; try "
            "values far beyond these, or more sessions (--tune-sessions)"
        ]
    edge = log.get("edge")
    if edge is None:
        edge = [name for name in chosen if rises(tried, scores, chosen, name)]
    if not edge:
        return []
    where = "is at the edge of its grid" if len(edge) == 1 else "are at the edge of their grids"
    values = ", ".join(f"{name}={chosen[name]}" for name in edge)
    return [f"{values} {where}, a value beyond may be better"]
