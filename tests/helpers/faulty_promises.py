"""Learners that say of themselves what is not so, and the checks that must catch it."""

from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from faults import caught_by
from honest_learners import Good, Looks, ManyLabels, Neighbours
from torch import Tensor
from torch.nn.functional import cross_entropy

from embedbench.checks.check_building_blocks import CheckFailed
from embedbench.config.run_seeds import Seeds
from embedbench.learning.exemplars import Memory
from embedbench.learning.footprint import Footprint, tensor_bytes
from embedbench.learning.learner import Context, Tags
from embedbench.learning.net_learner import ReplayLearner
from embedbench.learning.training_loop import train
from embedbench.models.mlp import MLP
from embedbench.streams.stream import Session, StreamSpec


@caught_by("goes on inside a session")
class DrawsBetweenSteps(MLP):  # a generator of its own, which no checkpoint knows
    tags: ClassVar[Tags] = Tags()

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(self.learned)

        def objective(x: Tensor, y: Tensor) -> Tensor:
            noise = 0.01 * torch.randn(x.shape, generator=draw) if self.net.training else 0
            return cross_entropy(self.net(x + noise), y)

        return train(self, session, ctx, objective=objective)


@caught_by("no sample is kept in secret")
class KeepsTheLastBatch(Good):
    def note(self, session: Session) -> None:
        self.last = session.x.tensor()[:1]


@caught_by("no sample is kept in secret")
class KeepsItInAClosure(Good):
    def note(self, session: Session) -> None:
        self.again = lambda: session.x


@caught_by("no sample is kept in secret")
class KeepsItInDisguise(Good):
    def note(self, session: Session) -> None:
        self.last = session.x.tensor() * 2 + 1


@caught_by("no sample is kept in secret")
class ForgetsToCountSamples(Neighbours):
    def footprint(self) -> Footprint:
        return Footprint(memory=tensor_bytes(self.x, self.y))


@caught_by("no sample is kept in secret")
class CountsSamplesWithoutTag(Good):
    def footprint(self) -> Footprint:
        return Footprint(samples=tensor_bytes(self.sums, self.counts))


@caught_by("memory stays within its limit")
class KeepsMoreThanItsMemory(Neighbours):
    memory: Memory = field(default_factory=lambda: Memory(select="random"))


@caught_by("memory stays within its limit")
class NeverStoresASample(ReplayLearner):  # `train_with_exemplars` would have chosen some
    memory: Memory = field(default_factory=Memory)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return self.train(self.exemplars.join(session), ctx)


@caught_by("evaluating changes nothing", "state round trips")
class AddsUpWhenEvaluated(Good):  # in other pieces where it is evaluated more often
    def prepare(self) -> None:
        self.sums += self.sums / 1024


@caught_by("footprint counts the state")
class WeighsNothing(Good):
    def footprint(self) -> Footprint:
        return Footprint()


@caught_by("footprint counts the state")
class WeighsTenfold(Good):
    def footprint(self) -> Footprint:
        return Footprint(means=10 * tensor_bytes(self.sums, self.counts))


@caught_by("tags are true")
class ObservesToo(Good):
    def observe(self, x: Tensor, y: Tensor) -> None:
        raise AssertionError("never called")


@caught_by("tags are true")
class SaysItDoesNotLearn(Good):
    tags: ClassVar[Tags] = Tags(learns=False)


@caught_by("tags are true")
class SaysItNeedsIds(Good):
    tags: ClassVar[Tags] = Tags(needs_session_id=True)


@caught_by("tags are true")
class SaysItNeedsLayers(Good):
    tags: ClassVar[Tags] = Tags(needs_layers=True)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = super().learn(session, ctx)
        self.sums[:, 12:] = 0
        return log

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(torch.cat([x[:, :12], torch.zeros_like(x[:, 12:])], dim=1))


@caught_by(
    *("learns blobs", "same seed same predictions", "scores ignore how batches are cut"),
    *("state round trips", "footprint counts the state", "only sessions so far matter"),
)
class SaysItTakesManyLabels(Good):
    tags: ClassVar[Tags] = Tags(multilabel=True)

    def note(self, session: Session) -> None:
        if session.y.ndim == 2:
            raise CheckFailed("labels of two dimensions")


@caught_by("learns blobs")
class TakesTheFirstOfManyLabels(ManyLabels):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        y = session.y
        first = y & (np.cumsum(y, axis=1) == 1) if y.ndim == 2 else y
        return super().learn(replace(session, y=first), ctx)


@caught_by("learns blobs")
class LearnsBatchesOnly(Good):
    tags: ClassVar[Tags] = Tags(online=True)

    def observe(self, x: Tensor, y: Tensor) -> None:
        self.sums.index_add_(0, y, x)
        self.counts.index_add_(0, y, torch.ones(len(y)))

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {}


class _Shown(Looks):  # knows whether it is shown images
    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.images = len(spec.input_shape) > 1
        super().start(spec, seeds, device)


@caught_by("learns blobs")
class SeesNothing(_Shown):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(x * 0 if self.images else x)


@caught_by("scores ignore how batches are cut")
class AnswersByTheBatch(_Shown):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(x - x.mean(0) if self.images and len(x) else x)
