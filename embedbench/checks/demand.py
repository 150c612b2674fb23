"""The errors that end a check: a demand that is not met, or nothing to check."""


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
