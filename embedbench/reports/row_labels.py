"""The labels of rows: a learner's name, and the settings that tell it from its namesakes."""

from __future__ import annotations

from typing import Any

from embedbench.scores.run_record import RunRecord


def labels(learners: list[list[RunRecord]]) -> list[str]:
    """A label for each list of runs: the learner's name; for namesakes, what differs, too."""
    each = [(runs[0].learner, flat(runs[0].learner_params)) for runs in learners]
    result = []
    for name, settings in each:
        same = [other for n, other in each if n == name]
        keys = [k for k in settings if any(s.get(k) != settings[k] for s in same)]
        result.append(" ".join([name, *(f"{k}={value(settings[k])}" for k in keys)]))
    return result


def value(setting: Any) -> str:
    """A setting as text."""
    return f"{setting:g}" if isinstance(setting, float) else str(setting)


def flat(params: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one dictionary with dotted names."""
    settings: dict[str, Any] = {}
    for key, setting in params.items():
        if isinstance(setting, dict):
            settings |= flat(setting, f"{prefix}{key}.")
        else:
            settings[prefix + key] = setting
    return settings
