"""Names to classes: learners, protocols, and classes given as package.module:Class.

Names are the file names in `models` and `protocols`; a module is imported only when it is needed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from pathlib import Path
from typing import Any, cast

from embedbench.errors import UserError, unknown
from embedbench.learning.learner import Learner
from embedbench.plugins import outside
from embedbench.streams.protocol import Protocol

ENTRY_POINTS = "embedbench.learners"
# Other names in the literature for learners that we have: the same class, with these settings. They
# override a preset; the command line overrides them.
ALIASES = {
    "finetune": "mlp",
    "incremental-joint": "joint",
    "er-infinite": "er",
    "icarl-cnn": "icarl",
    "icarl-norm": "icarl",
    "fel-2012": "fel",
}
_WITH: dict[str, dict[str, Any]] = {
    "er-infinite": {"memory.select": "all"},
    "icarl-cnn": {"answer": "logits"},
    "icarl-norm": {"answer": "logits", "head": "cosine"},
    "fel-2012": {"value": "sign"},
}


def _names(room: str) -> list[str]:
    """Command-line names of the public modules of a room, from the file names alone."""
    folder = Path(__file__).parents[1] / room
    stems = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
    return [stem.replace("_", "-") for stem in stems]


def _module(room: str, name: str) -> str | None:
    """The module of a command-line name; None where the room has none."""
    known = name.replace("_", "-") in _names(room)
    return f"embedbench.{room}.{name.replace('-', '_')}" if known else None


def learner_names() -> list[str]:
    """Names of the learners in `models`, their aliases, and learners of installed packages."""
    offered = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return sorted({*_names("models"), *ALIASES, *(e.name for e in offered)})


def protocol_names() -> list[str]:
    """Names of the protocols."""
    return _names("protocols")


def learner_class(name: str) -> type[Learner]:
    """The learner called `name`, or an external class given as `package.module:Class`."""
    if ":" in name:
        return cast(type[Learner], _outside(name, Learner))
    plain = name.replace("_", "-")
    module = _module("models", ALIASES.get(plain, plain))
    if module is not None:
        return cast(type[Learner], _only_subclass(module, Learner))
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return cast(type[Learner], entry.load())
    raise unknown("learner", name, learner_names())


def alias_settings(name: str) -> dict[str, Any]:
    """The settings that belong to a name in `ALIASES`; none for other names.

    >>> alias_settings("er-infinite"), alias_settings("finetune"), alias_settings("er")
    ({'memory.select': 'all'}, {}, {})
    """
    return dict(_WITH.get(name.replace("_", "-"), {}))


def protocol_class(name: str) -> type[Protocol]:
    """The protocol called `name`."""
    module = _module("protocols", name)
    if module is None:
        raise unknown("protocol", name, protocol_names())
    return cast(type[Protocol], _only_subclass(module, Protocol))


def _only_subclass(module_name: str, base: type) -> type:
    module = importlib.import_module(module_name)
    classes = [
        c
        for n, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, base) and c.__module__ == module_name and not n.startswith("_")
    ]
    if len(classes) != 1:
        n = len(classes)
        raise UserError(f"{module_name} must hold one public {base.__name__}, it has {n}")
    return classes[0]


def _outside(name: str, base: type) -> type:
    """The subclass of `base` called `package.module:Class`."""
    cls = outside(name)
    if not (inspect.isclass(cls) and issubclass(cls, base)):
        raise UserError(f"{name!r} is not a subclass of embedbench's {base.__name__}")
    return cls
