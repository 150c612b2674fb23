"""A register of learners with one fault each, and what finds them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from embedbench.checks.conformance_suite import run_checks
from embedbench.learning.learner import Learner

MUTANTS: list[tuple[type[Learner], set[str]]] = []


def caught_by(*checks: str) -> Callable[[type[Learner]], type[Learner]]:
    """Register a mutant with the names of the checks that it must fail."""

    def register(cls: type[Learner]) -> type[Learner]:
        cls = dataclass(cls)
        MUTANTS.append((cls, set(checks)))
        return cls

    return register


def name_of(value: Any) -> str:
    """The name of a class or a check, for the ids of tests."""
    return str(getattr(value, "__name__", value)).replace("_", "-")


def failures(checks: Sequence[Callable[[Any], None]], subject: Any) -> dict[str, str]:
    """The messages of the checks that fail, by name."""
    return {r.name: r.message for r in run_checks(checks, subject) if not r.passed}


def must_fail(
    checks: Sequence[Callable[[Any], None]], subject: Any, names: set[str], turn: int
) -> dict[str, str]:
    """Exactly the checks of these names fail; `turn` says which third of the others is run.

    Returns what they say, by name.
    """
    every = os.environ.get("THOROUGH") == "1"
    some = [
        check
        for i, check in enumerate(checks, start=turn)
        if every or i % 3 == 0 or check.__name__.replace("_", " ") in names
    ]
    said = failures(some, subject)
    assert set(said) == names, said
    return said
