"""ER: every batch of the stream is learned together with a batch from a memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from embedbench.learner import Footprint, Learner, Seeds, Tags
from embedbench.stream import StreamSpec

from ._exemplars import Exemplars
from ._memory import BY_SAMPLE, Memory, check_memory
from ._sgd import check_training, net_bytes, new_net, predict


@dataclass
class ER(Learner):
    """Experience replay: one step a stream batch, on it and as many samples drawn from memory.

    **Source**: Chaudhry et al. (2019, "On tiny episodic memories"), Algorithm 1, with reservoir
    sampling; memory batch, memory size and optimiser as in the code of Michel et al. (2023). The
    stream batch enters the memory after the step.

    **Departs**: `lr` is fitted to frozen embeddings and a small network. Where the memory holds
    fewer samples than are to be drawn, all are. "reservoir" of 2,000 is our choice between the
    paper's 1,000 and 5,000.

    Parameters
    ----------
    units, layers, lr, weight_decay, optimiser : as in `mlp`
    batch_size : samples drawn from memory at each step
    memory : which samples are kept, "reservoir", "balanced" (as in `gdumb`) or "all"
    """

    units: int = 400
    layers: int = 2
    batch_size: int = 64
    lr: float = 0.05
    weight_decay: float = 1e-4
    optimiser: str = "sgd"
    memory: Memory = field(default_factory=lambda: Memory(total=2000, select="reservoir"))

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "exemplars", "steps")

    def __post_init__(self) -> None:
        check_training(self)
        check_memory(self, BY_SAMPLE)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.steps = seeds, device, 0
        self.net, self.optimiser_ = new_net(self, spec, seeds, device)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        draw = np.random.default_rng([self.seeds.batches, self.steps])
        old_x, old_y, _ = self.exemplars.sample(self.batch_size, draw)
        self.net.train()
        loss = cross_entropy(self.net(torch.cat([x, old_x])), torch.cat([y, old_y]))
        self.optimiser_.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.optimiser_.step()
        self.exemplars.add(x, y)
        self.steps += 1

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return Footprint(**net_bytes(self), **self.exemplars.footprint())
