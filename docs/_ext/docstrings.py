"""Our docstrings as Markdown and for Sphinx: prose, settings, **Source** and **Departs**."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
NOTED = re.compile(r"\s*\*\*(Source|Departs|Differs)\*\*: ?")
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$")
CODE = re.compile(r"(`[^`]*`|\*\*\w+\*\*)")


def parts(thing: Any) -> dict[str, str]:
    """The sections of a docstring by title; what comes before the first at "".

    Parameters
    ----------
    thing : object
        A class or a function with a numpydoc docstring.
    """
    text = inspect.cleandoc(vars(thing).get("__doc__") or getattr(thing, "__doc__", "") or "")
    head, *rest = SECTION.split(text)
    return {"": head.strip(), **{t: s.strip() for t, s in zip(rest[::2], rest[1::2], strict=True)}}


def parameters(thing: Any) -> dict[str, tuple[str, str]]:
    """What a docstring says of its parameters: name → type, description.

    `a, b : float` gives both the same description.
    """
    known: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in parts(thing).get("Parameters", "").splitlines():
        entry = ENTRY.match(line)
        if entry:
            names = [name.lstrip("*") for name in entry[1].split(", ")]
            known |= dict.fromkeys(names, (entry[2] or "", ""))
        else:
            known |= {n: (known[n][0], f"{known[n][1]} {line.strip()}".strip()) for n in names}
    return known


def markdown(text: str) -> str:
    """Prose of a docstring as Markdown, with **Source** and **Departs** as definitions."""
    pieces = NOTED.split(text)
    result = escaped(pieces[0])
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        first, *more = _capital(body.strip()).split("\n\n")
        result += f"\n\n{title}\n: {indented(escaped(first))}\n"
        result += "".join(f"\n  {indented(escaped(p))}\n" for p in more)
    return result


def indented(text: str) -> str:
    """Lines after the first moved to the right by two."""
    return text.replace("\n", "\n  ")


def escaped(text: str) -> str:
    """Formulas in prose lose no star or bar to Markdown; code stays as it is."""
    return "".join(
        piece if i % 2 else re.sub(r"([*_<>\[\]$])", r"\\\1", piece)
        for i, piece in enumerate(CODE.split(text))
    )


def literal(line: str) -> str:
    """A line of a docstring as reStructuredText: stars, bars and final underscores mean nothing."""
    special = re.compile(r"(?<=\S)\*(?!\*)|(?<=\S )\*(?!\*)|\||(?<=\w)_(?!\w)")
    return "".join(
        piece if i % 2 else special.sub(lambda found: f"\\{found[0]}", piece)
        for i, piece in enumerate(CODE.split(line))
    )


def cell(text: str) -> str:
    """Markdown in a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _capital(text: str) -> str:
    """A first lower-case letter as a capital one, where the first word is a plain one."""
    first = text.split(maxsplit=1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [[*head], *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
