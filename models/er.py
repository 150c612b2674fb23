"""ER: every batch is learned together with samples from a memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from embedbench.config.seeds import Seeds
from embedbench.learning.exemplar_budget import BY_SAMPLE, Memory, check_memory
from embedbench.learning.exemplars import Exemplars
from embedbench.learning.learner import Context, Tags
from embedbench.learning.loss import batch_loss
from embedbench.learning.net_learner import NetLearner
from embedbench.learning.net_settings import augmented_views
from embedbench.learning.online import OnlineLearner
from embedbench.learning.optimisers import OptimiserName
from embedbench.streams.stream import Session, StreamSpec


@dataclass
class ER(OnlineLearner, NetLearner):
    """Experience replay: steps on each stream batch, and on samples from memory.

    If a stream gives whole sessions, each is learned together with the whole memory.

    **Source**: Chaudhry et al. (2019, "On tiny episodic memories"), Algorithm 1, with reservoir
    sampling; memory batch, memory size and optimiser are from the code of Michel et al. (2023). The
    stream batch enters the memory after the step. Whole sessions, and label sets: Abdelsalam et al.
    (2021, IIRC), with a "random" memory of 20 samples per class; with all samples it is their
    "ER-infinite".

    **Departs**: the softmax includes all classes of the stream, also those not seen yet, unless
    `protocol.loss` is "seen" (for label sets the loss includes only the classes seen). `lr` is
    tuned for frozen embeddings and a small network. If the memory holds fewer samples than should
    be drawn, all of them are used. "reservoir" of 2,000 is our choice between the paper's 1,000 and
    5,000.

    Parameters
    ----------
    batch_size : int
        Samples drawn from memory at each step; with whole sessions, samples per step.
    memory : Memory
        "reservoir", "balanced" (as in `gdumb`) or "all"; with whole sessions also "random".
    optimiser_state, stop : str, Stop
        For whole sessions; online the optimiser is always kept.
    """

    batch_size: int = 64
    lr: float = 0.05
    weight_decay: float = 1e-4
    optimiser: OptimiserName = "sgd"
    memory: Memory = field(default_factory=lambda: Memory(total=2000, select="reservoir"))

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, multilabel=True, images=True)
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
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        draw = np.random.default_rng([self.seeds.batches, self.steps])
        old_x, old_y, _ = self.exemplars.sample(self.batch_size, draw)
        self.net.train()
        seen = self.exemplars.seen_with(y)
        batch = augmented_views(self, self.steps)(torch.cat([x, old_x]))
        loss = batch_loss(self.net(batch), torch.cat([y, old_y]), seen)
        self.optimiser_.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.optimiser_.step()
        self.steps += 1

    def store(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.exemplars.add(x, y)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = self.train(self.exemplars.join(session), ctx)
        self.exemplars.update(session)
        return log
