"""A register of learners with one fault each."""

from collections.abc import Callable
from dataclasses import dataclass

from embedbench.learning.learner import Learner

MUTANTS: list[tuple[type[Learner], set[str]]] = []


def caught_by(*checks: str) -> Callable[[type[Learner]], type[Learner]]:
    """Register a mutant with the names of the checks that it must fail."""

    def register(cls: type[Learner]) -> type[Learner]:
        cls = dataclass(cls)
        MUTANTS.append((cls, set(checks)))
        return cls

    return register
