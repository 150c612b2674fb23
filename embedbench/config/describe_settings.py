"""Describe the settings of a dataclass: type, default, range and meaning of each."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .docstring_sections import inherited_parameters, parameters
from .setting_ranges import field_hints

REQUIRED = "(required)"  # in the place of a default


@dataclass(frozen=True)
class Setting:
    """One setting.

    Parameters
    ----------
    name : str
        As `--set` takes it, without the learner's name: "lam", "stop.epochs".
    default : object
        Its default; a dataclass where the setting is a group; `REQUIRED` where it has none.
    type : str
        The type, as the docstring has it.
    range : str
        Which numbers or choices it may be, in words; empty if any.
    meaning : str
        What the docstring says of it.
    """

    name: str
    default: Any
    type: str
    range: str
    meaning: str


def list_settings(cls: type) -> list[Setting]:
    """The fields of a dataclass, those first that its docstring describes; groups as one."""
    known, own, hints = inherited_parameters(cls), parameters(cls), field_hints(cls)
    result = []
    for field in sorted(dataclasses.fields(cls), key=lambda f: f.name not in own):
        kind, text = known.get(field.name, ("", ""))
        hint = hints[field.name]
        if field.init:
            kind = kind or getattr(hint.kind, "__name__", str(hint.kind))
            result.append(Setting(field.name, get_default(field), kind, hint.in_words(), text))
    return result


def flatten_settings(cls: type, made: Any = None, prefix: str = "") -> Iterator[Setting]:
    """All settings of a dataclass, those of its groups in their place, each name after `prefix`.

    The values of `made`, an instance, are the defaults; None: those of the class.
    """
    for setting in list_settings(cls):
        value = setting.default if made is None else getattr(made, setting.name)
        name = prefix + setting.name
        if dataclasses.is_dataclass(value):
            yield from flatten_settings(type(value), value, f"{name}.")
        else:
            yield dataclasses.replace(setting, name=name, default=value)


def get_default(field: dataclasses.Field[Any]) -> Any:
    """The default of a field."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


def format_setting(value: Any) -> str:
    """A value as `--set` takes it.

    >>> format_setting(None), format_setting(0.1), format_setting((1, 2))
    ('none', '0.1', '1,2')
    """
    if isinstance(value, tuple | list):
        return ",".join(map(format_setting, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
