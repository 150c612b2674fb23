"""Hostile JSON: one place of a document is changed, or the text itself."""

import json
from typing import Any

import numpy as np

VALUES: list[Any] = [
    None, True, [], {}, "", "x", -1, 0, 2**63, 10**400, -(10**30), 0.5, float("nan"), float("inf"),
    1e308, "\x1b]0;title\x07\x1b[2J", "../../../etc/passwd", "/etc/passwd",
    "<script>alert(1)</script>", "[red]rich[/red]", "\u202e\u0000", "é" * 5000, [[[[]]]],
    {"a": {"b": None}}, [1, "two", None], "os:system", "pkg.mod:Name",
]  # fmt: skip
TEXTS = [
    b"", b"[]", b"null", b"3", b"\"text\"", b"{", b"{}", b"\xff\xfe\x00", b"\x80abc",
    b"[" * 200_000, b"{\"a\":" * 100_000, b"1" * 1_000_000, b"NaN",
    b"{\"schema\": \"embedbench-record/1.0\"}",
]  # fmt: skip


def hostile(text: str, draw: np.random.Generator) -> bytes:
    """A document with one to three changed places; one in eight is another text."""
    if draw.integers(8) == 0:
        return TEXTS[draw.integers(len(TEXTS))]
    document = json.loads(text)
    for _ in range(int(draw.integers(1, 4))):
        _change(document, draw)
    return json.dumps(document).encode()


def _change(document: Any, draw: np.random.Generator) -> None:
    """Change, remove or add one value at a random place."""
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = keys[draw.integers(len(keys))]
        if isinstance(at[key], dict | list) and at[key] and draw.integers(3):
            at = at[key]
            continue
        break
    how = draw.integers(6)
    if how == 0:
        del at[key]
    elif how == 1 and isinstance(at, list):
        at.append(at[key])
    elif how == 1:
        at[f"{key}\x1b[31m"] = at[key]
    else:
        at[key] = VALUES[draw.integers(len(VALUES))]
