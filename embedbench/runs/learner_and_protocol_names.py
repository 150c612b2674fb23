"""The names of learners and protocols, and their classes: ours and those of other people.

Our names are the file names in `models` and `protocols`; `embedbench.plugins` has the others. A
module is imported only when it is needed.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from embedbench import plugins
from embedbench.errors import UserError, unknown
from embedbench.learning.learner import Learner

if TYPE_CHECKING:
    from embedbench.streams.protocol import Protocol

# Other names in the literature for learners that we have: the same class, with these settings. They
# override a preset; the command line overrides them.
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune": ("mlp", {}),
    "incremental-joint": ("joint", {}),
    "er-infinite": ("er", {"memory.select": "all"}),
    "icarl-cnn": ("icarl", {"answer": "logits"}),
    "icarl-norm": ("icarl", {"answer": "logits", "head": "cosine"}),
    "fel-2012": ("fel", {"value": "sign"}),
    "klda": ("randumb", {"features": 5000, "gamma": 1e-4, "shrinkage": 1e-6}),
    "simplecil": ("ncm", {"metric": "cosine", "average": "plain"}),
    "online-ewc": ("ewc", {"merge": "online", "gamma": 0.95}),
}
# What the field calls protocols that have another name here; the nearest name would mislead.
FIELD_NAMES = {
    "class-incremental": "incremental-class",
    "task-incremental": "incremental-class",  # every run has the accuracy within sessions
    "few-shot": "fscil",
    "streaming": "instance",
    "blurry": "mixture",
}


def _names(room: str) -> list[str]:
    """Command-line names of the public modules of a room, from the file names alone."""
    folder = Path(__file__).parents[1] / room
    if not folder.is_dir():  # a clone on Windows, or a zip: links became files of text
        raise UserError(
            f"{folder} must be a link to the folder beside embedbench/",
            "take a copy that has its links (git -c core.symlinks=true clone) and run `pip "
            "install -e .` there",
        )
    stems = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
    return [stem.replace("_", "-") for stem in stems]


def _module(room: str, name: str) -> str | None:
    """The module of a command-line name; None where the room has none."""
    known = name.replace("_", "-") in _names(room)
    return f"embedbench.{room}.{name.replace('-', '_')}" if known else None


def our_learners() -> list[str]:
    """Names of the learners in `models`, and their aliases."""
    return sorted({*_names("models"), *ALIASES})


def our_protocols() -> list[str]:
    """Names of the protocols in `protocols`."""
    return _names("protocols")


def learner_names() -> list[str]:
    """Our learners, and those of installed packages."""
    return sorted({*our_learners(), *plugins.entry_points_by_name("learners")})


def protocol_names() -> list[str]:
    """Our protocols, and those of installed packages."""
    return sorted({*our_protocols(), *plugins.entry_points_by_name("protocols")})


def protocol_name(name: str) -> str:
    """A protocol's name as records have it: ours with `-`, others as they are written."""
    return name.replace("_", "-") if _module("protocols", name) else name


def learner_class(name: str) -> type[Learner]:
    """The learner called `name`, or another one given as `package.module:Class`."""
    plain = name.replace("_", "-")
    module = _module("models", ALIASES.get(plain, (plain,))[0])
    if module is not None:
        return cast(type[Learner], _only_subclass(module, Learner))
    return cast(type[Learner], plugins.subclass("learners", name, Learner, learner_names()))


def alias_settings(name: str) -> dict[str, Any]:
    """The settings that belong to a name in `ALIASES`; none for other names.

    >>> alias_settings("er-infinite"), alias_settings("finetune"), alias_settings("er")
    ({'memory.select': 'all'}, {}, {})
    """
    return dict(ALIASES.get(name.replace("_", "-"), ("", {}))[1])


def protocol_class(name: str) -> type[Protocol]:
    """The protocol called `name`, or another one given as `package.module:Class`."""
    from embedbench.streams.protocol import Protocol  # which opens files

    if name in FIELD_NAMES:
        raise unknown("protocol", name, protocol_names(), [FIELD_NAMES[name]])
    module = _module("protocols", name)
    if module is not None:
        return cast("type[Protocol]", _only_subclass(module, Protocol))
    cls = plugins.subclass("protocols", name, Protocol, protocol_names())
    if not isinstance(getattr(cls, "name", None), str):
        raise UserError(f"{name!r} has no name", 'add to the class: name: ClassVar[str] = "…"')
    return cast("type[Protocol]", cls)


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
