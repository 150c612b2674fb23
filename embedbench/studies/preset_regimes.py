"""Several presets of one study: each is a regime, and all have the same sessions of classes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from .presets import preset, preset_names
from .set_and_tune_options import Key, Settings
from .study import Study

LAYOUT = ("base", "step", "sessions", "order")  # settings of a protocol that all regimes share
PASSES = Key("passes")


def split_regimes(study: Study) -> dict[str, Study]:
    """The study of each preset, by its name; a study without one is its own, by "".

    What one preset says of base, step, sessions and order of the classes is said of all: their rows
    are compared. What teaches (loss, validation data, batches, passes) is each regime's own.

    Raises
    ------
    UserError
        Two presets have other sessions, or a budget of passes has no preset that takes one.
    """
    names = [name for part in (study.preset or "").split(",") if (name := part.strip())]
    settings = {name: preset(name) for name in names}
    layout: Settings = {}
    for name in names if len(names) > 1 else ():
        for key, value in settings[name].items():
            if key.target != "protocol" or key.name not in LAYOUT or key in study.set:
                continue
            if layout.setdefault(key, value) != value:
                raise UserError(
                    f"the presets {', '.join(names)} say both {layout[key]} and {value} of {key}, "
                    f"and their rows need the same sessions; choose with --set {key}=VALUE"
                )
    if study.budget_passes is not None and not any(PASSES in of for of in settings.values()):
        raise UserError("--budget-passes is for a preset that sets it: --preset equal-passes")
    regimes = {}
    for name in names or [""]:
        mine = layout | study.set
        if study.budget_passes is not None and PASSES in settings[name]:
            mine[PASSES] = f"{study.budget_passes:.17g}"
        regimes[name] = replace(study, preset=name or None, set=mine, budget_passes=None)
    return regimes


def find_regimes(runs: Iterable[tuple[Path, Mapping[str, Any]]]) -> dict[str, list[Path]]:
    """The directories of finished runs under each preset that their commands name.

    What two regimes have alike was run once, by the command of one. Such a run is of the other,
    too, where that has runs of the same stream and gives this learner the same settings. `runs`
    are directories and rows.
    """
    rows = {
        place: (named[1], row)
        for place, row in runs
        if (named := re.search(r" --preset (\S+)", str(row["command"])))
    }
    streams = {(place.parents[1], name) for place, (name, _) in rows.items()}
    shipped = preset_names()

    def is_of(name: str, place: Path, mine: str, row: Mapping[str, Any]) -> bool:
        if name == mine or (place.parents[1], name) not in streams:
            return name == mine
        both = {name, mine} <= {*shipped}  # a file that a record names is not read
        return both and _settings_for(row, name) == _settings_for(row, mine)

    return {
        name: [place for place, of in rows.items() if is_of(name, place, *of)]
        for name in sorted({name for name, _ in rows.values()})
    }


def _settings_for(row: Mapping[str, Any], name: str) -> dict[str, str]:
    """What a preset says of the learner of a run, by the names in its row."""
    learner, result = str(row["learner"]), {}
    for key, value in preset(name).items():
        setting = f"learner.{key.name if key.target == learner else key}"
        if setting in row:
            result[setting] = value
    return result
