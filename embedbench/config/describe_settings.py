"""Describe the settings of a dataclass, from its hints and its numpydoc docstring."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    known = inherited_parameters(cls)
    own = parameters(cls)
    hints = field_hints(cls)
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


NOTED = re.compile(r"\s*\*\*(Source|Departs|Differs)\*\*: ?")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$")


def parts(thing: Any) -> dict[str, str]:
    """The sections of a numpydoc docstring by title; what comes before the first at ""."""
    text = inspect.cleandoc(vars(thing).get("__doc__") or getattr(thing, "__doc__", "") or "")
    head, *rest = _SECTION.split(text)
    return {"": head.strip(), **{t: s.strip() for t, s in zip(rest[::2], rest[1::2], strict=True)}}


def parameters(thing: Any) -> dict[str, tuple[str, str]]:
    """The parameters in a docstring: name → type, description.

    `a, b : float` gives both the same type, `a, b : int, str` each its own; the description is one.
    """
    known: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in parts(thing).get("Parameters", "").splitlines():
        entry = _ENTRY.match(line)
        if entry:
            names = [name.lstrip("*") for name in entry[1].split(", ")]
            kinds = (entry[2] or "").split(", ")
            if len(kinds) != len(names):
                kinds = [entry[2] or ""] * len(names)
            known |= {name: (kind, "") for name, kind in zip(names, kinds, strict=True)}
        else:
            known |= {n: (known[n][0], f"{known[n][1]} {line.strip()}".strip()) for n in names}
    return known


def inherited_parameters(cls: type) -> dict[str, tuple[str, str]]:
    """The parameters in the docstrings of a class and of its bases."""
    known: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__[:-1]):
        known |= parameters(base)
    return known


def source(thing: Any) -> str:
    """The paragraph **Source** of a docstring, on one line; empty if it has none."""
    pieces = NOTED.split(parts(thing)[""])
    said = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return " ".join(said.get("Source", "").split("\n\n")[0].split())
