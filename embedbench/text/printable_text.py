"""Printable text: without control characters, which could move a terminal's cursor."""

import re

# Control characters, marks that change the direction of text, ends of lines, and surrogates (bytes
# of a file name that are no text).
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SPACES = "\t\n\v\f\r\x85\u2028\u2029"


def printable(text: str, *, lines: bool = False) -> str:
    """Text for a terminal or a page, on one line unless the ends of `lines` are kept.

    >>> printable("cat\\x1b[31m\\ndog")
    'cat[31m dog'
    """

    def instead(match: re.Match[str]) -> str:
        character = match[0]
        if character == "\n" and lines:
            return character
        if character in _SPACES:
            return " "
        return "�" if character >= "\ud800" else ""

    return _CONTROL.sub(instead, text)
