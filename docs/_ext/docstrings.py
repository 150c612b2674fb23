"""Our docstrings as Markdown and for Sphinx."""

from __future__ import annotations

import re
from textwrap import indent

from embedbench.config.describe_settings import NOTED

CODE = re.compile(r"(`[^`]*`|\*\*\w+\*\*)")


def markdown(text: str) -> str:
    """Prose of a docstring as Markdown, with **Source** and **Departs** as definitions."""
    pieces = NOTED.split(text)
    result = escaped(pieces[0])
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        first, *more = _capital(body.strip()).split("\n\n")
        result += f"\n\n{title}\n: " + escaped(first).replace("\n", "\n  ") + "\n"
        result += "".join(f"\n{indent(escaped(p), '  ')}\n" for p in more)
    return result


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
