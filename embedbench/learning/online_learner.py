"""The base of learners that take steps on the batches of an online stream, and have a memory."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least
from embedbench.streams.stream import Session

from .exemplars import BY_SAMPLE, Memory
from .image_augmentation import Views
from .image_training import augmented_views
from .learner import Context, Tags
from .loss import batch_loss
from .net_learner import ReplayLearner
from .optimisers import OptimiserName

UPDATES = 10  # the default: with ten samples a batch, a step for each sample


@dataclass
class OnlineLearner(ReplayLearner):
    """Base of learners that take steps on each batch of an online stream, and then store it.

    A step adds up the gradients of the batch, by `loss`, and those of samples from memory, by
    `replay`. A method writes these two anew, or `add_gradients` in their place.

    Parameters
    ----------
    batch_size : int
        Samples drawn from memory at each step; with whole sessions also samples per step.
    memory : Memory
        "reservoir", "balanced" or "all"; with whole sessions also "random".
    updates : int
        Steps on each batch, each with its own draw from memory. Not for whole sessions.
    passes : float
        Samples presented for each new one, those from memory included: a batch gets steps until the
        stream so far has had as many, which may be none; 0: `updates` of them.

    Notes
    -----
    **Departs**: most papers take one step, on streams of many thousand samples; a stream of a few
    hundred is not learned by it. docs/fidelity.md has the files that 10 was chosen on.
    """

    batch_size: int = 64
    weight_decay: float = 1e-4
    optimiser: OptimiserName = "sgd"
    memory: Memory = field(default_factory=lambda: Memory(total=2000, select="reservoir"))
    updates: Annotated[int, at_least(1, 1000)] = later(UPDATES, earlier=1)
    passes: Annotated[float, at_least(0, 100_000)] = later(0.0, earlier=0.0)

    selects: ClassVar[tuple[str, ...]] = ("random", *BY_SAMPLE)  # "random": for whole sessions
    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, images=True)
    state: ClassVar[dict[str, str]] = {**ReplayLearner.state, "steps": "transient"}

    def observe(self, x: Tensor, y: Tensor) -> None:
        if self.passes:
            memory = self.exemplars
            memory.given += len(y)
            while memory.presented < self.passes * memory.given:
                self.step(x, y)
                memory.presented += len(y)
        else:
            for _ in range(self.updates):
                self.step(x, y)
        self.store(x, y)

    def effort(self) -> dict[str, int]:
        """The steps so far, and the samples presented in them."""
        return {"steps": self.steps, "presented": self.exemplars.presented}

    def step(self, x: Tensor, y: Tensor) -> None:
        """One step on a batch x (b, D), y (b,), and on samples from memory."""
        draw = np.random.default_rng([self.seeds.batches, self.steps])
        self.net.train()
        self.optimiser_.zero_grad(set_to_none=True)
        self.add_gradients(x, y, draw, augmented_views(self, self.steps))
        self.optimiser_.step()
        self.steps += 1

    def store(self, x: Tensor, y: Tensor) -> None:
        """Offer a batch to the memory, once, after its last step."""
        self.exemplars.add(x, y)

    def add_gradients(self, x: Tensor, y: Tensor, draw: np.random.Generator, view: Views) -> None:
        """Add the gradients of a step on x (b, D), y (b,) to the parameters, which hold none.

        `draw` draws the samples from memory, `view` augments images.
        """
        seen = self.exemplars.seen_with(y)
        self.loss(view(x), y, seen).backward()  # type: ignore[no-untyped-call]  # torch's
        if len(self.exemplars):
            self.replay(draw, view, seen)

    def loss(self, x: Tensor, y: Tensor, classes: Tensor | None) -> Tensor:
        """The loss of new samples x (b, D), y (b,) over `classes` (k,), or over all if None."""
        return batch_loss(self.net(x), y, classes)

    def replay(self, draw: np.random.Generator, view: Views, classes: Tensor | None) -> None:
        """Add the gradients of samples from memory to those of new ones."""
        x, y = self.retrieve(draw, classes)
        loss = batch_loss(self.net(view(x)), y, classes)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def retrieve(self, draw: np.random.Generator, classes: Tensor | None) -> tuple[Tensor, Tensor]:
        """The samples to replay, x (m, D), y (m,): random ones."""
        x, y, _ = self.exemplars.sample(self.batch_size, draw)
        return x, y

    def train_and_replay(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Train on a whole session, with `replay` in every step; return the log.

        The memory is left as it is.
        """
        draw = np.random.default_rng([self.seeds.batches, self.learned])
        seen = self.exemplars.seen_with(torch.from_numpy(session.y))

        def replay() -> None:
            self.replay(draw, augmented_views(self, self.learned, draw), seen)

        hooks: dict[str, Any] = {"draws": draw, "regularise": replay}
        hooks = hooks if len(self.exemplars) else {}
        return self.train(session, ctx, objective=lambda x, y: self.loss(x, y, seen), **hooks)

    def learn_and_store(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Train and replay, then offer the session to the memory; return the log."""
        log = self.train_and_replay(session, ctx)
        self.exemplars.update(session)
        return log
