"""The check for interrupted runs: they go on, within a session too, with the same result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedbench.learning.learner import Learner, learns_sessions
from embedbench.runs.checkpoint import CheckpointDirectory
from embedbench.streams.stream import Stream

from .demand import applies_where, demand
from .learner_images import FEW, TINY
from .small_streams import as_images, blobs
from .tools import ask, device, learner_check, run, same, small

SHORT = {"epochs": 3, "min_steps": 1}  # few epochs, one of which is the best


class CutOffError(Exception):
    """Raised in place of a power cut."""


class Saboteur(CheckpointDirectory):
    """Saves every checkpoint, and interrupts the run after `after` of them; 0: never."""

    def __init__(self, directory: Path, after: int = 0, **more: Any) -> None:
        super().__init__(directory, **{"decided": {}, "seconds": 0, "device": device(), **more})
        self.after, self.saves, self.inside = after, 0, False

    def _save(self, files: dict[str, bytes]) -> None:
        super()._save(files)
        self.inside |= any(name.startswith("fit-") for name in files)
        self.saves += bool(files)
        if files and self.saves == self.after:
            raise CutOffError


@learner_check
def goes_on_inside_a_session(cls: type[Learner]) -> None:
    """A run that is interrupted at checkpoints, within sessions too, gives the same scores."""
    applies_where(cls.tags.deterministic)
    stream = blobs(cls.tags, FEW, 18, n_val=4)
    if learns_sessions(cls()):
        stream = replace(stream, observe_batch=0)
    inside = _check(lambda: small(cls, **SHORT), stream, 1)
    if cls.tags.images:
        inside |= _check(lambda: small(cls, **{**SHORT, **TINY}), as_images(stream), 4)
    applies_where(inside)


def _check(make: Callable[[], Learner], stream: Stream, after: int) -> bool:
    """Interrupt a run after every `after` checkpoints and compare it with a whole run; return
    whether it has checkpoints within sessions."""
    with tempfile.TemporaryDirectory() as place:
        whole = Saboteur(Path(place) / "whole")
        one, other, saves = make(), make(), 0
        expected, _ = run(stream, one, checkpoint=whole)
        if not whole.inside:
            return False  # "state round trips" checks the ends of sessions
        while saves <= whole.saves:
            checkpoint = Saboteur(Path(place) / "cut", after)
            checkpoint.open()
            try:
                answers, _ = run(stream, other, checkpoint=checkpoint)
                break
            except CutOffError:
                other, saves = make(), saves + checkpoint.saves
    demand(
        saves <= whole.saves,
        f"expected to go on after each of {whole.saves} checkpoints, it began the session again",
    )
    demand(
        same(vars(answers), vars(expected)) and same(ask(one, stream), ask(other, stream)),
        "expected the same scores after being cut off, got others: what a training remembers from "
        "step to step must lie in buffers of the network or in `draws`",
    )
    return True
