"""Tables of the settings of learners and protocols, from their fields and their docstrings."""

from __future__ import annotations

import dataclasses
from typing import Any

from docstrings import cell, markdown, parameters, parts, table

from embedbench.fields import later_fields


def settings(cls: type, groups: dict[str, type], above: str) -> str:
    """The fields of a dataclass as a table, those that its docstring describes first.

    Parameters
    ----------
    cls : type
        The dataclass.
    groups : dict
        Gets the dataclasses that are values of a setting.
    above : str
        The path from the page to reference/, "" or "../".
    """
    known: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__[:-1]):
        known |= parameters(base)
    own, earlier, rows = parameters(cls), later_fields(cls), []
    for field in sorted(dataclasses.fields(cls), key=lambda f: f.name not in own):
        kind_, text = known.get(field.name, (str(field.type), ""))
        default = default_of(field)
        if dataclasses.is_dataclass(default):
            kind_, value = group_of(default, groups, above)
        else:
            kind_, value = f"*{kind_}.*", f"`{typed(default)}`" if typed(default) else ""
        if field.name in earlier and earlier[field.name] != default:
            text += f" Runs made before this setting was added had `{typed(earlier[field.name])}`."
        rows.append((f"`{field.name}`", value, f"{kind_} {cell(markdown(text))}"))
    return table(("setting", "default", "what it means"), rows) if rows else "None."


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def group_of(default: Any, groups: dict[str, type], above: str) -> tuple[str, str]:
    """A dataclass that is the value of a setting: a link to its page, and what it changes."""
    group = type(default)
    name = group.__name__
    home, _, module = group.__module__.rpartition(".")
    if (
        home == "embedbench.models" and module[0] != "_"
    ):  # the reference learner has another learner as a setting
        link = f"[`{module}`]({above}learners/{module}.md)"
    else:
        groups[name] = group
        link = f"[{name}]({above}settings.md#{name.lower()})"
    changed = [f for f in dataclasses.fields(group) if default_of(f) != getattr(default, f.name)]
    values = ", ".join(f"`{f.name}={typed(getattr(default, f.name))}`" for f in changed)
    return f"{link}.", values


def typed(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, tuple | list):
        return ",".join(map(typed, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def settings_page(groups: dict[str, type]) -> str:
    """The settings that many learners and protocols share."""
    text = "# Settings that learners share\n\nEach is a group: `--set mlp.stop.epochs=5`."
    waiting = dict(groups)
    while waiting:
        name = min(waiting)
        cls = waiting.pop(name)
        inner: dict[str, type] = {}
        body = settings(cls, inner, "")
        waiting |= {k: v for k, v in inner.items() if k not in groups}
        groups |= inner
        text += f"\n\n## {name}\n\n{markdown(parts(cls)[''])}\n\n{body}"
    return text + "\n"
