"""Learners that err on images only, and the checks that must catch it."""

from typing import Any, ClassVar

import torch
from faults import caught_by
from honest_learners import Looks
from torch import Tensor

from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Context, Tags
from embedbench.streams.stream import Session, StreamSpec


class _Shown(Looks):
    """Knows whether it is shown images."""

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.images = len(spec.input_shape) > 1
        super().start(spec, seeds, device)


@caught_by("learns blobs")
class SeesNothing(_Shown):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(x * 0 if self.images else x)


@caught_by("same seed same predictions")
class FollowsTheGlobalState(_Shown):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = super().learn(session, ctx)
        if self.images:
            self.sums += 1e-3 * (torch.initial_seed() % 7)
        return log


@caught_by("scores ignore how batches are cut")
class AnswersByTheBatch(_Shown):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(x - x.mean(0) if self.images and len(x) else x)


@caught_by("state round trips")
class ForgetsHowOftenItLooked(_Shown):
    begin: ClassVar = {"looked": 0}

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.looked += 1
        log = super().learn(session, ctx)
        if self.images:
            self.sums *= self.looked
        return log


@caught_by("footprint counts the state")
class WeighsNoImage(_Shown):
    tags: ClassVar[Tags] = Tags(images=True)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.extra = torch.zeros(100_000 if self.images else 0)

    state: ClassVar[dict[str, str]] = {**Looks.state, "extra": "transient"}
