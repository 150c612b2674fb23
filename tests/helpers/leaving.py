"""Learners and protocols that leave with what is no Exception, or with an error of a bad kind."""

import os
from dataclasses import dataclass, field
from typing import Any, NoReturn

from embedbench.learning.exemplars import Capacity
from embedbench.models.ncm import NCM
from embedbench.protocols.incremental_class import IncrementalClass


class Whim(BaseException):
    """No Exception."""


class WithoutTextError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class TwoPartsError(Exception):
    """An error that pickle cannot make again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def leave(how: str) -> NoReturn:
    """Leave in this way."""
    if how == "exit":
        raise SystemExit(0)
    if how == "close":
        raise GeneratorExit
    if how == "whim":
        raise Whim("bored")
    if how == "stop":
        raise StopIteration
    if how == "dumb":
        raise WithoutTextError
    if how == "parts":
        raise TwoPartsError("salt", "pepper")
    if how == "local":

        class HereError(Exception):
            """Known to no other process."""

        raise HereError("of a function")
    os._exit(0)


# What a run's failure says of each; `os._exit` ends a process without Python.
SAID = {
    "exit": "SystemExit: 0",
    "close": "GeneratorExit",
    "whim": "Whim: bored",
    "stop": "StopIteration",
    "dumb": "WithoutTextError (it has no readable text)",
    "parts": "TwoPartsError: salt and pepper",
    "local": "HereError: of a function",
}


@dataclass
class Leaves(NCM):
    """NCM, which leaves in one of its methods."""

    how: str = "exit"
    where: str = "scores"

    def _at(self, method: str) -> None:
        if method == self.where:
            leave(self.how)

    def start(self, *args: Any) -> None:
        self._at("start")
        super().start(*args)

    def observe(self, *args: Any) -> None:
        self._at("observe")
        super().observe(*args)

    def prepare(self) -> None:
        self._at("prepare")
        super().prepare()

    def scores(self, *args: Any, **kwargs: Any) -> Any:
        self._at("scores")
        return super().scores(*args, **kwargs)

    def footprint(self) -> Any:
        self._at("footprint")
        return super().footprint()

    def state_dict(self) -> dict[str, Any]:
        self._at("state_dict")
        return super().state_dict()

    def __deepcopy__(self, memo: Any) -> "Leaves":
        self._at("copy")
        return type(self)(**vars(self))


@dataclass
class LeavesWithMemory(Leaves):
    """The same, with room for exemplars, which it does not use."""

    memory: Capacity = field(default_factory=Capacity)


@dataclass
class LeavingStream(IncrementalClass):
    """Incremental classes; of odd seeds of the order there is none."""

    how: str = "exit"

    def build(self, files: Any, *, seed: int) -> Any:
        if seed % 2:
            leave(self.how)
        return super().build(files, seed=seed)
