"""Sections of numpydoc docstrings: parameters, and the paragraph **Source**."""

import inspect
import re
from typing import Any

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
