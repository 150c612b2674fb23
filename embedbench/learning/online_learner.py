"""The base of learners that take steps on the batches of an online stream, and have a memory."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least
from embedbench.errors import UserError
from embedbench.streams.stream import Session

from .checkpoint_state import put_state, take_state
from .exemplars import BY_SAMPLE, Exemplars, Memory
from .footprint import Stateful
from .image_augmentation import Views
from .image_training import augmented_views
from .learner import Context, Tags
from .loss import batch_loss
from .net_learner import NetLearner, ReplayLearner
from .optimisers import OptimiserName
from .training_loop import Hooks

UPDATES = 10  # the default: with ten samples a batch, a step for each sample

Fill = Literal["session", "step", "first-epoch"]
ReplayWeight = Literal["samples", "sum", "sessions"]
Augment = Callable[[Tensor], Tensor]  # such as `Views`


@dataclass
class OnlineLearner(ReplayLearner):
    """Base of learners that take steps on each batch of an online stream, and then store it.

    A step adds up the gradients of the batch, by `loss`, and those of samples from memory, by
    `replay`. A method writes these two anew, or `step_loss` where one loss has both. If a stream
    gives whole sessions, `learn_and_store` takes the same steps on their batches, epoch by epoch.

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
    memory_batch : int
        Samples drawn from memory at each step; 0: `batch_size`.
    fill : str
        When samples of a whole session enter the memory: "session", when it has ended; "step", each
        batch after its step, in every epoch, so that one sample may be stored twice (as Mammoth
        does); "first-epoch", the same in the first epoch only. By "step", too, a memory of "all"
        stores each sample once, in the first epoch. A "random" memory is chosen when the session
        has ended, and takes "session" alone. Online each batch enters after its last step.
    replay_weight : str
        Weights of the losses of n new samples and m from memory: "sum", 1 and 1; "samples",
        n / (n + m) and m / (n + m), one mean over all; "sessions", 1/k and 1 - 1/k in session k,
        for whole sessions (van de Ven et al. 2022). While the memory is empty the first is 1.

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
    memory_batch: Annotated[int, at_least(0)] = later(0, earlier=0)
    fill: Fill = later("session", earlier="session")
    replay_weight: ReplayWeight = later("sum", earlier="sum")

    selects: ClassVar[tuple[str, ...]] = ("random", *BY_SAMPLE)  # "random": for whole sessions
    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, images=True, heads=True)
    state: ClassVar[dict[str, str]] = {**ReplayLearner.state, "steps": "transient"}
    joins: ClassVar[bool] = False  # whether new samples and those from memory have the same loss

    def observe(self, x: Tensor, y: Tensor) -> None:
        if self.replay_weight == "sessions":
            raise UserError(
                f"{self.name}.replay_weight=sessions counts sessions, and batches say none",
                "give whole sessions with --set protocol.observe_batch=0, or take another weight",
            )
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
        seen = self.held().seen_with(y)
        self.step_loss(x, y, draw, view, seen).backward()  # type: ignore[no-untyped-call]  # torch's
        if self.replays_apart():
            self.replay(len(y), draw, view, seen)

    # --- a step: the loss of new samples, and the gradients of those from memory ---

    def held(self) -> Exemplars:
        """The memory that is drawn from."""
        return self.exemplars

    def replays_apart(self) -> bool:
        """Whether a step adds the gradients of `replay` to those of `step_loss`."""
        joined = self.joins and self.replay_weight == "samples"
        return len(self.held()) > 0 and not joined

    def as_learned(self, x: Tensor) -> Tensor:
        """New samples x (b, D) as the net sees them."""
        return x

    def step_loss(
        self,
        x: Tensor,
        y: Tensor,
        draw: np.random.Generator,
        view: Views,
        classes: Tensor | None,
    ) -> Tensor:
        """The loss of a step on x (b, D), y (b,), without what `replay` adds.

        If one mean is taken over new samples and those from memory, it is of both.
        """
        x = self.as_learned(x)
        if self.joins and self.replay_weight == "samples":
            old_x, old_y = self.retrieve(draw, classes)
            x = torch.cat([x, old_x])
            y = torch.cat([y, old_y])
        return self.loss(view(x), y, classes)

    def loss(self, x: Tensor, y: Tensor, classes: Tensor | None) -> Tensor:
        """The loss of new samples x (b, D), y (b,) over `classes`, as in `among`."""
        return batch_loss(self.net(x), y, classes)

    def replay(
        self, new: int, draw: np.random.Generator, view: Augment, classes: Tensor | None
    ) -> None:
        """Add the gradients of samples from memory to those of `new` samples."""
        x, y = self.retrieve(draw, classes)
        of_new, of_old = self.loss_weights(new, len(y))
        scale_gradients(self.net, of_new)
        loss = of_old * batch_loss(self.net(view(x)), y, classes)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def retrieve(self, draw: np.random.Generator, classes: Tensor | None) -> tuple[Tensor, Tensor]:
        """The samples to replay, x (m, D), y (m,): random ones."""
        x, y, _ = self.held().sample(self.drawn, draw)
        return x, y

    @property
    def drawn(self) -> int:
        """The number of samples that a step draws from memory, if it holds so many."""
        return self.memory_batch or self.batch_size

    def loss_weights(self, new: int, old: int) -> tuple[float, float]:
        """The weights of the losses of `new` samples and of `old` ones from memory."""
        if self.replay_weight == "sum":
            return 1.0, 1.0
        if self.replay_weight == "samples":
            both = new + old
            return new / both, old / both
        k = self.learned + 1
        return 1 / k, 1 - 1 / k

    # --- whole sessions ---

    def learn_and_store(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Train and replay; the samples enter the memory as `fill` says. Returns the log."""
        log = self.train_and_replay(session, ctx)
        if self.fill == "session":
            self.store_session(session)
        return log

    def store_session(self, session: Session) -> None:
        """Let a session that has ended enter the memory."""
        self.exemplars.update(session)

    def train_and_replay(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Train on a whole session, with samples from memory in every step; return the log.

        The memory is left as it is, unless batches enter it after their steps.
        """
        draw = np.random.default_rng([self.seeds.batches, self.learned])
        self.add_head(session)
        of_new, of_old = self.compared_classes(session)
        new = 0  # samples of the session in the step at work, of which the loss comes first

        def step_loss(x: Tensor, y: Tensor, view: Views) -> Tensor:
            nonlocal new
            new = len(y)
            return self.step_loss(x, y, draw, view, of_new)

        def replay() -> None:
            if self.replays_apart():
                self.replay(new, draw, self.view_of_old(draw), of_old)

        hooks = Hooks(
            objective=lambda x, y: self.loss(self.as_learned(x), y, of_new),
            step_loss=step_loss,
            regularise=replay,
            draws=draw,
        )
        hooks.update(self.storing())
        return self.train(session, ctx, **hooks)

    def compared_classes(self, session: Session) -> tuple[Tensor | None, Tensor | None]:
        """The classes that losses in a whole session use, as in `among`: of new samples, of old."""
        seen = self.held().seen_with(torch.from_numpy(session.y))
        return seen, seen

    def view_of_old(self, draw: np.random.Generator) -> Augment:
        """The augmentation of samples from memory in a step of a whole session."""
        return augmented_views(self, self.learned, draw)

    def session_batches(
        self, session: Session, order: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The samples of a session in batches x (b, D), y (b,); `order` (n,), or that of its rows.

        They are not augmented.
        """
        y = torch.from_numpy(session.y).to(self.device)
        order = torch.arange(len(y)) if order is None else order
        for rows in torch.split(order.to(self.device), self.batch_size):
            yield session.x.batch(rows, self.device), y[rows]

    def add_head(self, session: Session) -> None:
        """Note the head of a session that begins, if each session has one."""
        self.exemplars.heads.add(session)

    def storing(self) -> Hooks:
        """What `train` needs for batches to enter the memory after their steps; or nothing."""
        if self.fill == "session":
            return {}
        names = [name for name in self.state if name not in NetLearner.state]
        once = self.fill == "first-epoch" or self.memory.select == "all"
        return {"store": self.store, "store_once": once, "kept": _Part(self, names)}


class _Part(Stateful):
    """Some of a learner's state, which a checkpoint within a session holds."""

    def __init__(self, learner: Stateful, names: Sequence[str]) -> None:
        self.learner, self.names = learner, names

    def state_dict(self) -> dict[str, Any]:
        return {name: take_state(getattr(self.learner, name)) for name in self.names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in self.names:
            value = put_state(getattr(self.learner, name), state[name])
            setattr(self.learner, name, value)


def scale_gradients(net: nn.Module, factor: float) -> None:
    """Multiply the gradients that the parameters hold."""
    if math.isclose(factor, 1.0):
        return
    for p in net.parameters():
        if p.grad is not None:
            p.grad.mul_(factor)
