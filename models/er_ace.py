"""ER-ACE: replay, and new samples that compete only with the classes of their batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from embedbench.config.seeds import Seeds
from embedbench.learning.exemplar_budget import BY_SAMPLE, Memory, check_memory
from embedbench.learning.exemplars import Exemplars
from embedbench.learning.learner import Context, Tags
from embedbench.learning.loss import batch_loss
from embedbench.learning.net_learner import NetLearner
from embedbench.learning.online import OnlineLearner
from embedbench.learning.optimisers import OptimiserName
from embedbench.streams.stream import Session, StreamSpec

from ._replay import random_replay, replay_session, replay_step


@dataclass
class ERACE(OnlineLearner, NetLearner):
    """Experience replay with asymmetric losses, CE(X_in, C_curr) + CE(X_bf, C_old ∪ C_curr).

    C_curr are the classes of the batch X_in, C_old the other classes seen so far, X_bf is a draw
    from memory. So a new sample does not push down the older classes; only replay compares old and
    new. If a stream gives whole sessions, every step takes a batch of the session and a draw.

    **Source**: Caccia et al. (2022), "New insights on reducing abrupt representation change in
    online continual learning", the equation of L_ace; memory as in their code
    (github.com/pclucas14/AML, `methods/er_ace.py`).

    **Departs**: the authors' code leaves more classes in both softmaxes: in that of the batch all
    from the largest seen number on, in that of the draw all of the stream. Ours are those of the
    equation, so `protocol.loss` changes nothing. Their draw has 10 samples, ours 64, as in `er`.
    `lr` and `optimiser` are for frozen embeddings and a small network. Two losses add up, so `lr`
    is lower than in `er`. Whole sessions are our addition; there X_bf is of earlier sessions.

    Parameters
    ----------
    batch_size : int
        Samples drawn from memory at each step; with whole sessions also samples per step.
    memory : Memory
        The memory, as in `er`.
    """

    batch_size: int = 64
    lr: float = 0.02
    weight_decay: float = 1e-4
    optimiser: OptimiserName = "sgd"
    memory: Memory = field(default_factory=lambda: Memory(total=2000, select="reservoir"))

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, images=True)
    state: ClassVar[dict[str, str]] = {
        **NetLearner.state,
        "exemplars": "samples",
        "steps": "transient",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self, ("random", *BY_SAMPLE))

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.steps = 0  # online steps; `learned` counts whole sessions
        spec = replace(spec, loss_over_seen=True)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)

    def step(self, x: Tensor, y: Tensor) -> None:
        replay = random_replay(self, self.exemplars.seen_with(y))
        replay_step(self, x, y, self.incoming, replay)

    def store(self, x: Tensor, y: Tensor) -> None:
        self.exemplars.add(x, y)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        seen = self.exemplars.seen_with(torch.from_numpy(session.y))
        log = replay_session(self, session, ctx, self.incoming, random_replay(self, seen))
        self.exemplars.update(session)
        return log

    def incoming(self, x: Tensor, y: Tensor) -> Tensor:
        """CE(X_in, C_curr): the loss of new samples x (b, D), y (b,) over the classes in y."""
        return batch_loss(self.net(x), y, torch.unique(y))
