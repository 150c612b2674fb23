"""The reference values of a run, α_ideal and the chance level, from its reference runs."""

from dataclasses import dataclass, field

import numpy as np

from embedbench.config.json_records import ABSENT, JsonRecord

from .metrics import Reference

BEST = "best"  # `learner` of references that validation chooses
MISSING = "missing"  # `source` of reference values that were never measured


@dataclass(frozen=True)
class References(JsonRecord):
    """The reference values that the metrics are compared with.

    Parameters
    ----------
    preset : str
        How Ω is normalised: `kemker_table` or `kemker_eq`.
    normalise_new : bool
        Whether Ω_new is divided by α_ideal too (`kemker_table`, permutation streams).
    offline_runs : tuple of str, or tuple of such tuples
        Directories of the runs behind α_ideal, from RUNS. If every session has its own α_ideal, one
        tuple per session.
    chance_run : str or None
        Directory of the chance run on the same stream, from RUNS.
    source : str
        `runs`: measured from those runs; `record`: those runs were deleted and the values here are
        used; `missing`: never measured, so Ω is null.
    ideal : dict or None
        Base score → α_ideal, the mean over the offline runs, or a tuple with that of each session;
        null for `within_…` scores.
    chance : dict or None
        Base score → (T,) the score of the chance run on session j just before session j; null at 0.
    so_far : bool or None
        Whether the α_ideal of a session is that of all data up to it (`instance` streams).
    learner : str or None
        The learner behind α_ideal, or its trunk: `linear`, `slda`, `resnet18`, …; absent: `mlp`
        (before 2026-11-23 trunks for images were not named). `best`: validation chooses it.
    chosen : str or None
        The learner that validation chose, from the logs of the runs behind α_ideal; where they
        differ, each once, with commas. Absent where none was chosen, or before it is known.
    """

    preset: str
    normalise_new: bool
    offline_runs: tuple[str, ...] | tuple[tuple[str, ...], ...]
    chance_run: str | None
    source: str = MISSING
    ideal: dict[str, float | tuple[float, ...]] | None = field(default=None, metadata=ABSENT)
    chance: dict[str, tuple[float, ...]] | None = field(default=None, metadata=ABSENT)
    so_far: bool | None = field(default=None, metadata=ABSENT)
    learner: str | None = field(default=None, metadata=ABSENT)
    chosen: str | None = field(default=None, metadata=ABSENT)

    @property
    def runs(self) -> list[str]:
        """Directories of all reference runs; each once."""
        runs: list[str] = []
        for entry in self.offline_runs:  # a run, or those of a session
            runs += entry if isinstance(entry, tuple) else (entry,)
        if self.chance_run is not None:
            runs.append(self.chance_run)
        return list(dict.fromkeys(runs))

    @property
    def values(self) -> list[float]:
        """Every reference value."""
        values: list[float] = []
        for known in (self.ideal, self.chance):
            for value in () if known is None else known.values():  # one, or one a session
                values += value if isinstance(value, tuple) else (value,)
        return values


def offline_groups(reference: References) -> tuple[list[tuple[str, ...]], bool]:
    """Return the offline runs behind each α_ideal, and whether every session has its own."""
    groups = [runs for runs in reference.offline_runs if isinstance(runs, tuple)]
    if groups:
        return groups, True
    return [tuple(run for run in reference.offline_runs if isinstance(run, str))], False


def reference_values(reference: References, score: str) -> Reference:
    """Return the reference values for the metrics of one base score."""
    ideals = {} if reference.ideal is None else reference.ideal
    chances = {} if reference.chance is None else reference.chance
    ideal = np.array(ideals.get(score, np.nan), dtype=np.float64)
    chance = chances.get(score)
    so_far = np.atleast_1d(ideal) if reference.so_far else None
    return Reference(
        ideal=ideal if so_far is None else float(so_far[-1]),
        chance=None if chance is None else np.array(chance, dtype=np.float64),
        normalise_new=reference.normalise_new,
        preset=reference.preset,
        so_far=so_far,
    )
