"""A-GEM: steps that do not raise the loss on a batch from memory, to first order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from embedbench.learner import Footprint, Learner, Seeds, Tags
from embedbench.stream import StreamSpec

from ._exemplars import Exemplars
from ._memory import BY_SAMPLE, Memory, check_memory
from ._sgd import check_training, net_bytes, new_net, predict


@dataclass
class AGEM(Learner):
    """Averaged gradient episodic memory: one constraint, the mean gradient of a memory batch.

    **Source**: Chaudhry et al. (2019, "Efficient lifelong learning with A-GEM"), Eq. 11.
    With g the stream batch's gradient and r the memory batch's, g becomes
    g - (g·r / r·r) r where g·r < 0. The memory batch of 128 is that of IIRC.

    **Departs**: the paper keeps samples of earlier sessions only, and a head a session. A stream
    tells no sessions, so the memory is a reservoir of all samples so far, and both losses see all
    classes. The optimiser's momentum and weight decay act on the projected gradient, unprojected.
    `lr` as in `er`.

    Parameters
    ----------
    units, layers, lr, weight_decay, optimiser, memory : as in `er`
    batch_size : samples drawn from memory for the reference gradient
    """

    units: int = 400
    layers: int = 2
    batch_size: int = 128
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

    def observe(self, x: Tensor, y: Tensor) -> None:
        draw = np.random.default_rng([self.seeds.batches, self.steps])
        self.net.train()
        gradient = self._gradient(x, y)
        if len(self.exemplars):
            old_x, old_y, _ = self.exemplars.sample(self.batch_size, draw)
            gradient = project(gradient, self._gradient(old_x, old_y))
        parameters = list(self.net.parameters())
        parts = torch.split(gradient, [p.numel() for p in parameters])
        for p, part in zip(parameters, parts, strict=True):
            p.grad = part.view_as(p)
        self.optimiser_.step()
        self.optimiser_.zero_grad(set_to_none=True)
        self.exemplars.add(x, y)
        self.steps += 1

    def _gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradient of the mean cross-entropy by all parameters, as one vector."""
        loss = cross_entropy(self.net(x), y)
        parts = torch.autograd.grad(loss, list(self.net.parameters()))
        return torch.cat([g.flatten() for g in parts])

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return Footprint(**net_bytes(self), **self.exemplars.footprint())


def project(gradient: Tensor, reference: Tensor) -> Tensor:
    """The vector nearest to `gradient` whose dot product with `reference` is not negative."""
    dot = torch.dot(gradient, reference)
    if dot >= 0:
        return gradient
    r = reference / reference.abs().max()  # or r·r may be 0 where a memory is learned by heart
    return gradient - torch.dot(gradient, r) / torch.dot(r, r) * r
