"""Settings behind a name, for `embedbench list NAME`: of a learner, a protocol or a preset."""

import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from embedbench import plugins
from embedbench.config.describe_settings import flatten_settings, format_setting
from embedbench.config.docstring_sections import parts, source
from embedbench.config.make_from_settings import make
from embedbench.errors import UserError, unknown
from embedbench.runs import learner_and_protocol_names
from embedbench.streams.protocol import Protocol
from embedbench.studies import presets
from embedbench.text.terminal_text import fit_width, line, terminal_width

from .command_output import show_tables

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text
from .list_entries import KINDS

NAMES: dict[str, Callable[[], Sequence[str]]] = {
    "learners": learner_and_protocol_names.learner_names,
    "protocols": learner_and_protocol_names.protocol_names,
    "presets": presets.preset_names,
}


def show_settings(kind: str | None, name: str, as_json: bool) -> None:
    """Print what a name is, and its settings; of a protocol and a preset of one name, both.

    Parameters
    ----------
    kind : str or None
        A key of `NAMES`; None: those that have the name.

    Raises
    ------
    UserError
        Nothing has the name.
    """
    every = [listed_settings(k, name) for k in ([kind] if kind else _kinds_of(name))]

    def tables() -> "list[Text | Table]":
        from embedbench.text.table_export import make_table

        parts: list[Text | Table] = []
        for data in every:
            table = [make_table(data["settings"])] if data["settings"] else []
            parts += [*map(line, _head(data)), *table]
        return parts

    show_tables(
        every[0] if len(every) == 1 else every,
        lambda _: "\n\n".join(map(_text, every)),
        as_json,
        lambda: [row for data in every for row in data["settings"]],
        tables,
    )


def _head(data: dict[str, Any]) -> list[str]:
    said = [data["name"] + ": " + data["summary"], data["about"]]
    return [*filter(None, said), data["set"] if data["settings"] else "It has no settings."]


def _text(data: dict[str, Any]) -> str:
    """Each setting with its default as `--set` takes it, what it may be, and below it its meaning.

    A table would leave the meanings a narrow column.
    """
    lines = _head(data)
    for row in data["settings"]:
        setting, value, *rest = row.values()
        lines.append("  ".join([f"{setting}={value}", *(f"({kind})" for kind in rest[:1])]))
        lines += [f"    {meaning}" for meaning in rest[1:] if meaning]
    return fit_width("\n".join(lines), terminal_width())


def listed_settings(kind: str, name: str) -> dict[str, Any]:
    """Describe a name of a kind, and its settings as `--set` takes them."""
    if kind not in NAMES:
        raise UserError(
            f"{kind} have no settings; `list KIND NAME` takes one of {', '.join(NAMES)}, "
            "such as embedbench list learners ewc"
        )
    about = _of_preset(name) if kind == "presets" else _of_class(kind, name)
    return {"kind": kind, "name": name, **about}


def _of_preset(name: str) -> dict[str, Any]:
    summary, about = presets.about(name)
    return {
        "summary": summary,
        "about": about,
        "set": f"`run --preset {name}` has these settings; `--set` goes over them.",
        "settings": [{"setting": str(k), "value": v} for k, v in presets.preset(name).items()],
    }


def _of_class(kind: str, name: str) -> dict[str, Any]:
    """Describe a learner, by any of its names, or a protocol."""
    learns = kind == "learners"
    given = learner_and_protocol_names.alias_settings(name) if learns else {}
    cls = (
        learner_and_protocol_names.learner_class
        if learns
        else learner_and_protocol_names.protocol_class
    )(name)
    key = name if learns else "protocol"
    # What the learner does not refuse, in the place of what any memory takes.
    selects = getattr(cls, "selects", ())
    ranges = {"memory.select": f"one of {', '.join(selects)}"} if selects else {}
    rows = [
        {
            "setting": f"{key}.{s.name}",
            "default": format_setting(s.default),
            "values": ", ".join(filter(None, (s.type, ranges.get(s.name, s.range)))),
            "meaning": s.meaning,
        }
        for s in flatten_settings(cls, make(cls, given, name=name) if given else None)
    ]
    summary = parts(cls)[""].partition("\n")[0]
    if name in learner_and_protocol_names.ALIASES:
        settings = ", ".join(f"{k}={format_setting(v)}" for k, v in given.items())
        same = learner_and_protocol_names.ALIASES[name] + (f" with {settings}" if given else "")
        summary = f"another name of {same}. {summary}"
    return {
        "summary": summary,
        "about": f"Source: {text}" if (text := source(cls)) else "",
        "set": f"`run --set {key}.SETTING=VALUE` changes one.",
        "settings": rows,
    }


def _kinds_of(name: str) -> list[str]:
    """The kinds that have a name."""
    if ":" in name:
        thing = plugins.outside(name)
        is_protocol = inspect.isclass(thing) and issubclass(thing, Protocol)
        return ["protocols" if is_protocol else "learners"]
    plain = {name, name.replace("_", "-")}
    kinds = [kind for kind, names in NAMES.items() if plain & {*names()}]
    if kinds:
        return kinds
    if name in learner_and_protocol_names.FIELD_NAMES:
        learner_and_protocol_names.protocol_class(name)  # refuses it, and names ours
    every = [*KINDS, *(known for names in NAMES.values() for known in names())]
    error = unknown("listing", name, KINDS, get_close_matches(name, every, n=1, cutoff=0.6))
    raise UserError(
        f"{error} The name of a learner, a protocol or a preset gives its settings: "
        "embedbench list ewc"
    )
