"""Markdown from texts and tables; characters of the texts are never read as markup."""

import re
from collections.abc import Iterable, Sequence
from itertools import count

from .printable_text import printable

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")


def escape_markdown(text: object) -> str:
    """Return a text on one line whose characters mean themselves.

    >>> escape_markdown("a_b <img>")
    'a\\\\_b \\\\<img\\\\>'
    """
    return _MARKUP.sub(r"\\\1", printable(str(text)))


def code(text: object) -> str:
    """Return a text as code on one line.

    >>> code("a`b")
    '``a`b``'
    """
    plain = printable(str(text)).replace("|", "¦") or " "
    runs = [len(run) for run in re.findall("`+", plain)]
    fence = "`" * next(n for n in count(1) if n not in runs)
    space = " " if plain[0] == "`" or plain[-1] == "`" else ""
    return f"{fence}{space}{plain}{space}{fence}"


def link(text: str) -> str:
    """Return an address of the web as a link, any other text as it is.

    >>> link("https://example.org/a b")
    'https://example.org/a b'
    """
    if re.fullmatch(r"https?://[\w.~:/?#@!$&'()*+,;=%-]+", text, re.ASCII):
        return f"<{text}>"
    return escape_markdown(text)


def block(language: str, lines: Iterable[str]) -> str:
    """Return lines as a block of code; control characters and fences within are removed."""
    kept = "\n".join(printable(line).replace("```", "'''") for line in lines)
    return f"```{language}\n{kept}\n```"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """Return a table of cells that are Markdown already; `right` says which columns are numbers."""
    rules = ["---:" if is_right else "---" for is_right in right] or ["---"] * len(head)
    lines = [head, rules, *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
