"""Fields added later to a class of settings; at their earlier value they identify no other run."""

import dataclasses
from typing import Any, cast

from .setting_ranges import field_hints

_LATER = "later"  # the key of a field's metadata that holds the value with the earlier behaviour


def later(default: Any, *, earlier: Any) -> Any:
    """A dataclass field that was added after runs had been made without it.

    With the value `earlier` the class behaves as it did before it had the field. The field is then
    left out of `identity`: finished runs stay finished. Once released, `earlier` never changes.

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
