"""Our docstrings as Markdown and for Sphinx."""

from __future__ import annotations

import re

CODE = re.compile(r"(`[^`]*`|\*\*\w+\*\*)")
# Stars, bars and final underscores, which mean nothing in our prose.
MARKUP = re.compile(r"(?<=\S)\*(?!\*)|(?<=\S )\*(?!\*)|\||(?<=\w)_(?!\w)")


def escaped(text: str) -> str:
    """Prose as Markdown: formulas lose no star or bar; code, **Source** and **Departs** stay."""
    pieces = enumerate(CODE.split(text))
    return "".join(p if i % 2 else re.sub(r"([*_<>\[\]$])", r"\\\1", p) for i, p in pieces)


def literal(line: str) -> str:
    """A line of a docstring as reStructuredText."""
    pieces = enumerate(CODE.split(line))
    return "".join(p if i % 2 else MARKUP.sub(r"\\\g<0>", p) for i, p in pieces)


def cell(text: str) -> str:
    """Markdown in a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
