"""Lines of a printed card or difference."""

from __future__ import annotations


def aligned(lines: list[tuple[str, str]]) -> str:
    """Keys and values, one pair per line; the values are aligned."""
    width = max(len(key) for key, _ in lines)
    return "\n".join(f"{key:<{width}}  {value}" for key, value in lines)
