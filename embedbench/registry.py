"""Names to classes: learners, protocols, and what is given as package.module:Class.

The rooms are listed by their file names; a module is imported when it is asked for.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import inspect
import os
import sys
import types
import typing
from pathlib import Path
from typing import Any, cast

from embedbench.errors import UserError, unknown
from embedbench.learner import Learner
from embedbench.protocol import Protocol

ENTRY_POINTS = "embedbench.learners"
# Other names that the literature gives to learners of ours: the same class, and settings of it that
# go with the name; a preset's lie below them, those of the command line above.
ALIASES = {
    "finetune": "mlp",
    "incremental-joint": "joint",
    "er-infinite": "er",
    "icarl-cnn": "icarl",
    "icarl-norm": "icarl",
}
_WITH: dict[str, dict[str, Any]] = {
    "er-infinite": {"memory.select": "all"},
    "icarl-cnn": {"answer": "logits"},
    "icarl-norm": {"answer": "logits", "head": "cosine"},
}
_UNIONS = (typing.Union, types.UnionType)


def _stems(room: str) -> dict[str, str]:
    """Public modules of a room: command-line name → module name, by file name alone."""
    folder = Path(__file__).parent / room
    stems = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))
    return {s.replace("_", "-"): f"embedbench.{room}.{s}" for s in stems}


def learner_names() -> list[str]:
    """Names of the learners that ship, aliases too, and of those that installed packages offer."""
    offered = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return sorted({*_stems("models"), *ALIASES, *(e.name for e in offered)})


def protocol_names() -> list[str]:
    """Names of the protocols."""
    return sorted(_stems("protocols"))


def learner_class(name: str) -> type[Learner]:
    """The learner called `name`, or `package.module:Class` from outside."""
    if ":" in name:
        return cast(type[Learner], _outside(name, Learner))
    stem = name.replace("_", "-")
    stem = ALIASES.get(stem, stem)
    modules = _stems("models")
    if stem in modules:
        return cast(type[Learner], _only_subclass(modules[stem], Learner))
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return cast(type[Learner], entry.load())
    raise unknown("learner", name, learner_names())


def alias_settings(name: str) -> dict[str, Any]:
    """The settings that go with a name in `ALIASES`; none with other names.

    >>> alias_settings("er-infinite"), alias_settings("finetune"), alias_settings("er")
    ({'memory.select': 'all'}, {}, {})
    """
    return dict(_WITH.get(name.replace("_", "-"), {}))


def protocol_class(name: str) -> type[Protocol]:
    """The protocol called `name`."""
    stem = name.replace("_", "-")
    modules = _stems("protocols")
    if stem not in modules:
        raise unknown("protocol", name, modules)
    return cast(type[Protocol], _only_subclass(modules[stem], Protocol))


def _only_subclass(module_name: str, base: type) -> type:
    module = importlib.import_module(module_name)
    found = [
        c
        for n, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, base) and c.__module__ == module_name and not n.startswith("_")
    ]
    if len(found) != 1:
        raise UserError(f"{module_name} must hold one public {base.__name__}, it has {len(found)}")
    return found[0]


def _outside(name: str, base: type) -> type:
    """Import `package.module:Class`; the working directory counts as a place to look."""
    module_name, _, class_name = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as e:
        raise UserError(f"cannot import {module_name!r} for {name!r}: {e}") from e
    found = getattr(module, class_name, None)
    if found is None:
        raise UserError(f"module {module_name!r} has no {class_name!r}")
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise UserError(f"{name!r} is not a subclass of embedbench's {base.__name__}")
    return found


def make(cls: type, settings: dict[str, Any], *, name: str, start: Any = None) -> Any:
    """Build a dataclass from nested settings; text values are read as the field's type.

    Parameters
    ----------
    settings : field → value; dots or nested dicts reach into nested dataclasses, whose other fields
        stay as the default of the outer one has them
    name : the prefix that errors show, as in `ewc.lam`
    start : a `cls` that gives the values of other fields, or None: the defaults
    """
    if not dataclasses.is_dataclass(cls):
        raise UserError(f"{name} must be a dataclass; put @dataclass above its class")
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls) if f.init]
    nested: dict[str, dict[str, Any]] = {}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        head, _, rest = key.partition(".")
        head = head.replace("-", "_")
        if head not in names:
            raise unknown(f"setting of {name}", head, names)
        if rest:
            nested.setdefault(head, {})[rest] = value
        elif isinstance(value, dict) and dataclasses.is_dataclass(hints[head]):
            nested.setdefault(head, {}).update(value)
        else:
            values[head] = _read(value, hints[head], f"{name}.{head}")
    for head, inner in nested.items():
        if not dataclasses.is_dataclass(hints[head]):
            raise UserError(
                f"{name}.{head} is a single value; it has no setting {next(iter(inner))!r}"
            )
        default = _default(cls, head) if start is None else getattr(start, head)
        values[head] = make(cast(type, hints[head]), inner, name=f"{name}.{head}", start=default)
    try:
        return cls(**values) if start is None else dataclasses.replace(start, **values)
    except TypeError as e:  # a field without a default that was not given
        raise UserError(f"{name} cannot be made: {e}; give it with --set {name}.…") from e


def _default(cls: type, name: str) -> Any:
    """The default of a dataclass's field; None where it has none."""
    (found,) = (f for f in dataclasses.fields(cls) if f.name == name)
    if found.default_factory is not dataclasses.MISSING:
        return found.default_factory()
    return None if found.default is dataclasses.MISSING else found.default


def _read(value: Any, hint: Any, name: str) -> Any:
    """Read a text value as `hint`; other values must fit it already."""
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    if isinstance(value, str):
        if type(None) in options and value.lower() in ("none", "null"):
            return None
        for option in options:
            try:
                if option is bool and value.lower() in ("true", "false", "1", "0", "yes", "no"):
                    return value.lower() in ("true", "1", "yes")
                if option in (int, float, str):
                    return cast(type, option)(value)
            except ValueError:
                continue
    elif value is None and type(None) in options:
        return None
    elif isinstance(value, bool) == (bool in options) and (
        isinstance(value, tuple(o for o in options if isinstance(o, type)))
        or (float in options and isinstance(value, int))
    ):
        return float(cast(float, value)) if float in options and int not in options else value
    expected = getattr(hint, "__name__", str(hint))
    raise UserError(f"{name} must be {expected}, got {value!r}")
