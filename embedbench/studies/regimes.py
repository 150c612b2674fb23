"""Several presets of one study: each is a regime, and all have the same sessions of classes."""

from dataclasses import replace

from embedbench.errors import UserError

from .presets import preset
from .set_options import Key, Settings
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
