"""Fields added later to a class of settings; at their earlier value they identify no other run."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .setting_ranges import field_hints

_LATER = "later"  # the key of a field's metadata that holds the value with the earlier behaviour
# The same values for what reads records, which imports no learner or protocol that they name:
# by kind and name, those of groups of settings inside. What is not ours has none here.
_STOP = {"stop": {"perfect": 0}}
_NETWORK = {"passes": 0.0, **_STOP}
_DRAWS = {"memory_batch": 0, "fill": "session", "replay_weight": "sum", **_NETWORK}
_ONLINE = {"updates": 1, **_DRAWS}
_JOINED = {**_ONLINE, "replay_weight": "samples"}
_ER = {"replay_by": "union", **_JOINED}
_EPOCHS = {  # a group that was added as a whole: all its values
    "rule": "epochs",
    "epochs": 20,
    "first_epochs": None,
    "patience": 5,
    "min_steps": 30,
    "monitor": "loss",
    "min_delta": 1e-4,
    "restore": True,
    "ties": "later",
    "target": 0.05,
    "factor": 0.1,
    "lr_min": 0.0,
    "rewind": False,
    "perfect": 0,
}
_MEANS = {"average": "unit"}
_FEL = {"lr_later": None, **_STOP}
_STREAM = {"scale_least": 0, "classes": "all", "val_by": "sample"}
EARLIER: dict[str, dict[str, dict[str, Any]]] = {
    "learner": {
        **dict.fromkeys(("alice", "c-fscil", "nc-fscil"), _STOP),
        **dict.fromkeys(
            (
                *("eeil", "ewc", "finetune", "gdumb", "icarl", "icarl-cnn", "icarl-norm"),
                *("il2m", "incremental-joint", "joint", "lucir", "mas", "mlp", "online-ewc"),
                *("si", "wa"),
            ),
            _NETWORK,
        ),
        "agem": {name: value for name, value in _ONLINE.items() if name != "replay_weight"},
        **dict.fromkeys(("er-ace", "mir"), _ONLINE),
        "gss": _DRAWS,
        "lwf": {"among": "new", **_NETWORK},
        **dict.fromkeys(("er", "er-infinite"), _ER),
        "remind": _JOINED,
        **dict.fromkeys(("ncm", "simplecil"), _MEANS),
        **dict.fromkeys(("fel", "fel-2012"), _FEL),
        "bic": {"hold_out_kept": False, **_NETWORK},
        "derpp": {
            **_ONLINE,
            "fill": "step",
            "optimiser_state": "kept",
            "stop": _EPOCHS,
        },
        "fearnet": dict.fromkeys(("base", "sleep", "bla"), _STOP["stop"]),
        "offline": {"learner": "mlp", "mlp": _NETWORK},
        "ranpac": {"lam_sessions": None, "lam_rule": "session"},
    },
    "protocol": {
        **dict.fromkeys(("iirc", "instance", "mixture", "multi-modal"), _STREAM),
        "domain-incremental": {"loss": "all", **_STREAM},
        "fscil": {"loss": "all", "novel": 1, **_STREAM},
        "incremental-class": {
            "loss": "all",
            "embedding": "final",
            "layers": "none",
            "labels": "class",
            **_STREAM,
        },
        "permutation": {
            "transform": "permutation",
            "angles": "random",
            "loss": "all",
            **_STREAM,
        },
    },
}


def later(default: Any, *, earlier: Any) -> Any:
    """A dataclass field that was added after runs had been made without it.

    With the value `earlier` the class behaves as it did before it had the field. The field is then
    left out of `identity`: finished runs stay finished. Once released, `earlier` never changes. A
    learner or protocol of ours has it in `EARLIER`, too.

    Parameters
    ----------
    default : object
        The default of the field. It may differ from `earlier`.
    earlier : object
        The value that gives the earlier behaviour.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Settings:
    ...     lam: float = 1.0
    ...     decay: float = later(0.0, earlier=0.0)
    >>> identity(Settings()), identity(Settings(decay=0.5))
    ({'lam': 1.0}, {'lam': 1.0, 'decay': 0.5})
    """
    return dataclasses.field(default=default, metadata={_LATER: earlier})


def identity(settings: Any) -> dict[str, Any]:
    """The settings that identify a run: all fields but later ones at their earlier value.

    Recipes, checkpoints and the places of runs are computed from them. Records keep all settings.
    They are nested as by `dataclasses.asdict`.
    """
    kept = dataclasses.asdict(settings)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if _LATER in field.metadata and value == field.metadata[_LATER]:
            del kept[field.name]
        elif dataclasses.is_dataclass(value):
            kept[field.name] = identity(value)
    return kept


def later_fields(cls: type) -> dict[str, Any]:
    """The later fields of a dataclass: name → the value with the earlier behaviour."""
    declared = dataclasses.fields(cls)
    return {f.name: f.metadata[_LATER] for f in declared if _LATER in f.metadata}


def add_missing_fields(cls: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of `cls`, as by `dataclasses.asdict`, of any version, as this one has them.

    A later field that is missing had `earlier`.
    """
    hints = field_hints(cls)
    result = {**later_fields(cls), **settings}
    for name, value in settings.items():
        kind = hints[name].kind if name in hints else None
        if isinstance(value, dict) and dataclasses.is_dataclass(kind):
            result[name] = add_missing_fields(cast(type, kind), value)
    return result


def align_versions(
    each: Sequence[Mapping[str, Any]], earlier: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Settings of one learner or protocol out of several records, as the latest of these has them.

    A setting that only some records have was added later: the others had its value in `earlier`,
    which is that of the name in `EARLIER`.

    Examples
    --------
    >>> align_versions([{"lr": 0.1}, {"lr": 0.1, "passes": 20.0}], EARLIER["learner"]["ewc"])
    [{'lr': 0.1, 'passes': 0.0}, {'lr': 0.1, 'passes': 20.0}]
    """
    names = dict.fromkeys(itertools.chain(*each))
    single = {name: value for name, value in earlier.items() if not isinstance(value, dict)}
    known = [{**single, **settings} for settings in each]
    for settings in known:  # a group that only some have was added as a whole
        for name in names:
            if name not in settings and isinstance(earlier.get(name), dict):
                settings[name] = dict(earlier[name])
    result = [{name: one[name] for name in names if name in one} for one in known]
    for name in names:
        groups = [settings for settings in result if isinstance(settings.get(name), dict)]
        inside = earlier.get(name)
        aligned = align_versions(
            [group[name] for group in groups], inside if isinstance(inside, dict) else {}
        )
        for settings, group in zip(groups, aligned, strict=True):
            settings[name] = group
    return result
