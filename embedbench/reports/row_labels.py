"""The labels of rows and streams: a name, and the settings that tell it from its namesakes."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedbench.scores.run_record import RunRecord
from embedbench.text.table_export import flatten


def labels(learners: Sequence[Sequence[RunRecord]]) -> list[str]:
    """A label for each list of runs: the learner's name; for namesakes, what differs, too."""
    each = [(runs[0].learner, flatten(runs[0].learner_params)) for runs in learners]
    apart = differences(each)
    return [" ".join([name, *words]) for (name, _), words in zip(each, apart, strict=True)]


def differences(
    each: Sequence[tuple[str, Mapping[str, Any]]], *, absent: bool = True
) -> list[list[str]]:
    """For each name with its settings, those in which its namesakes differ, as `key=value`.

    `absent` says whether a namesake without a setting differs in it.
    """
    result = []
    for name, settings in each:
        same = [other for n, other in each if n == name]
        keys = [
            k
            for k, mine in settings.items()
            if any(other.get(k, None if absent else mine) != mine for other in same)
        ]
        result.append([f"{k}={value(settings[k])}" for k in keys])
    return result


def value(setting: Any) -> str:
    """A setting as text."""
    return f"{setting:g}" if isinstance(setting, float) else str(setting)
