"""Names and words with bytes that are not UTF-8, as text that files and records can hold.

Python gives each such byte of a path or of the command line as half of a character (\\udce9 for the
byte e9), which neither JSON nor HDF5 can hold. A path that is only opened stays as it is. A name
that is written goes through `as_text`, a command line through `join_words`. `check_text` refuses
what has to be read back letter by letter, before any work is done.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from embedbench.errors import UserError

_HALVES = re.compile("[\ud800-\udfff]")
# A word of `join_words`: one in $'…', or one as `shlex` quotes it.
_WORD = re.compile(
    r"""\s*(?:\$'((?:[^'\\]|\\.)*)'(?=\s|$)|((?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))", re.DOTALL)


def as_text(name: str) -> str:
    r"""A name with an escape for each byte that is not UTF-8; any other name as it is.

    >>> as_text("donn\udce9es.h5")
    'donn\\xe9es.h5'
    """
    return _HALVES.sub(_escape, name)


def _escape(half: re.Match[str]) -> str:
    code = ord(half[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def join_words(words: Iterable[str]) -> str:
    r"""Words as a command line that a shell takes apart again, all of it text.

    >>> join_words(["embedbench", "run", "a b.h5", "donn\udce9es.h5"])
    "embedbench run 'a b.h5' $'donn\\xe9es.h5'"
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if not _HALVES.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{as_text(plain)}'"


def split_words(command: str) -> list[str]:
    r"""The words of a command line that `join_words` made; ValueError if it is none.

    >>> split_words(r"embedbench run $'donn\xe9es.h5'") == ["embedbench", "run", "donn\udce9es.h5"]
    True
    """
    words = []
    end = 0
    command = command.rstrip()
    while end < len(command):
        match = _WORD.match(command, end)
        if match is None:
            raise ValueError("no word, or a quotation that does not end")
        words += [_ESCAPE.sub(_unescape, match[1])] if match[2] is None else shlex.split(match[2])
        end = match.end()
    return words


def _unescape(escape: re.Match[str]) -> str:
    byte, half, letter = escape.groups()
    if byte:
        return chr(0xDC00 + int(byte, 16))
    return chr(int(half, 16)) if half else letter


RENAME = "rename what it names, or go into its folder and name it from there"


def check_text(value: Any, name: str, remedy: str = RENAME) -> None:
    """Refuse plain values with a text that files and records cannot hold; `name` names them."""
    if isinstance(value, str):
        if _HALVES.search(value):
            raise UserError(
                name,
                remedy,
                expected="a text in UTF-8",
                got=as_text(value),
            )
    elif isinstance(value, Mapping):
        for key, part in value.items():
            check_text(key, f"a key of {name}", remedy)
            check_text(part, f"{name}.{key}", remedy)
    elif isinstance(value, list | tuple):
        for part in value:
            check_text(part, name, remedy)
