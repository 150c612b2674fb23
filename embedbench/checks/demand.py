"""A check that fails says what was demanded."""

from __future__ import annotations


class CheckFailed(Exception):  # noqa: N818  (a verdict, not an error)
    """One sentence on what was expected and what came."""


def demand(held: object, sentence: str) -> None:
    """Raise `CheckFailed(sentence)` unless the condition held."""
    if not held:
        raise CheckFailed(sentence)
