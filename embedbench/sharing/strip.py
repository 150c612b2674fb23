"""Records without the paths of the machine that they were made on.

A path of a file tells who made a run and where, and nothing that another machine can use: its last
part stays. Names of classes are never changed.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

KEPT = ("classes",)  # keys of a record whose texts may look like paths, such as /m/09x0r

_ABSOLUTE = re.compile(r"file:/|[/~\\]|[A-Za-z]:[/\\]|\.\.?[/\\]")
_INSIDE = re.compile(r"(?<![\w.:/\\~-])(?:file:/+|~[\w.-]*/|/|[A-Za-z]:[/\\])[^\s'\"<>|:;,()]+")
_SCHEME = re.compile(r"(?!file:)[A-Za-z][\w+.-]+:")  # https://…, hf://…, known:NAME
_KEY = re.compile(r"(--)?[\w.:-]+")


def without_paths(record: dict[str, Any]) -> dict[str, Any]:
    """The JSON values of a record, or of a card, without directories.

    Every file named in `command` keeps its name alone, and so does every absolute path anywhere
    else. URLs stay.
    """
    result: dict[str, Any] = {}
    for key, value in record.items():
        if key == "command" and isinstance(value, str):
            result[key] = command_without_paths(value)
        else:
            result[key] = value if key in KEPT else _walked(value)
    return result


def command_without_paths(command: str) -> str:
    """A command line whose files have lost their directories; empty if it is none.

    >>> command_without_paths("embedbench run /home/a/x.h5 --out ../runs --set a.order=o/b.json")
    'embedbench run x.h5 --out runs --set a.order=b.json'
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return shlex.join([_word(word) for word in words])


def text_without_paths(text: str) -> str:
    """A text whose absolute paths have lost their directories.

    >>> text_without_paths("/home/a b/x.h5"), text_without_paths("read from /home/a/x.h5: 3 rows")
    ('x.h5', 'read from x.h5: 3 rows')
    """
    if _ABSOLUTE.match(text) and "\n" not in text:
        return _last_name(text)
    return _INSIDE.sub(lambda match: _last_name(match[0]), text)


def _walked(value: Any) -> Any:
    if isinstance(value, str):
        return text_without_paths(value)
    if isinstance(value, dict):
        return {text_without_paths(k): _walked(v) for k, v in value.items()}
    return [_walked(v) for v in value] if isinstance(value, list) else value


def _word(word: str) -> str:
    """One word of a command: a file, or `key=value` with one value or several."""
    key, equals, value = word.partition("=")
    if equals and _KEY.fullmatch(key):
        return key + equals + ",".join(map(_last_name, value.split(",")))
    return _last_name(word)


def _last_name(path: str) -> str:
    """The last part of a path, as far as it has one; a URL as it is."""
    if _SCHEME.match(path) and not re.match(r"[A-Za-z]:[/\\]", path):
        return path
    return re.split(r"[/\\]+", path.rstrip("/\\"))[-1] or path
