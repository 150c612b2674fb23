"""The checks of a contract, and what ends one: a demand that is not met, or nothing to check."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Checks(list[Callable[[T], None]]):
    """The checks of one contract, in order."""

    def add(self, check: Callable[[T], None]) -> Callable[[T], None]:
        """Add a check; a decorator."""
        self.append(check)
        return check


class CheckFailed(Exception):  # noqa: N818  (a verdict, not an error)
    """A check failed; one sentence says what was expected and what came."""


class NotApplicable(Exception):  # noqa: N818  (likewise)
    """The check asks nothing of this learner or protocol."""


def applies_where(held: object) -> None:
    """Raise `NotApplicable` unless the condition held."""
    if not held:
        raise NotApplicable


def demand(held: object, sentence: str) -> None:
    """Raise `CheckFailed(sentence)` unless the condition `held` is true."""
    if not held:
        raise CheckFailed(sentence)
