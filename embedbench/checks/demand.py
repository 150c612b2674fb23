"""The failure of a check, and the function that raises it."""

from __future__ import annotations


class CheckFailed(Exception):  # noqa: N818  (a verdict, not an error)
    """A check failed; one sentence says what was expected and what came."""


def demand(held: object, sentence: str) -> None:
    """Raise `CheckFailed(sentence)` unless the condition `held` is true."""
    if not held:
        raise CheckFailed(sentence)
