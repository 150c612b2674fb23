"""Tables of the settings of learners and protocols, from their fields and their docstrings."""

from __future__ import annotations

import dataclasses
from typing import Any

from docstrings import cell, markdown, parts, table

from embedbench.config.describe_settings import format_setting, get_default, list_settings
from embedbench.config.fields_added_later import later_fields


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
    earlier, rows = later_fields(cls), []
    for setting in list_settings(cls):
        name, default, text = setting.name, setting.default, setting.meaning
        if dataclasses.is_dataclass(default):
            kind_, value = group_of(default, groups, above)
        else:
            kind_ = f"*{', '.join(filter(None, (setting.type, setting.range)))}.*"
            value = f"`{format_setting(default)}`" if format_setting(default) else ""
        if name in earlier and earlier[name] != default:
            text += (
                f" Runs made before this setting was added had `{format_setting(earlier[name])}`."
            )
        rows.append((f"`{name}`", value, f"{kind_} {cell(markdown(text))}"))
    return table(("setting", "default", "what it means"), rows) if rows else "None."


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
    changed = [f for f in dataclasses.fields(group) if get_default(f) != getattr(default, f.name)]
    values = ", ".join(f"`{f.name}={format_setting(getattr(default, f.name))}`" for f in changed)
    return f"{link}.", values


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
