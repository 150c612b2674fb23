"""SI: the MLP and a quadratic penalty on weights that the loss fell along."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from embedbench.errors import UserError
from embedbench.learning.fit import train
from embedbench.learning.images import ImageTraining
from embedbench.learning.learner import Context, Footprint, Learner, Tags, tensor_bytes
from embedbench.learning.net import check_training, net_bytes, new_net, predict
from embedbench.learning.optimisers import trained
from embedbench.learning.penalty import pull
from embedbench.learning.stop import Stop
from embedbench.seeds import Seeds
from embedbench.streams.stream import Session, StreamSpec


@dataclass
class SI(Learner):
    """Synaptic intelligence: L = L_t + c Σ_i Ω_i (θ_i - θ*_i)².

    Along a session's path every weight earns ω_i = -Σ_steps g_i Δθ_i, its share of the fall of the
    loss; after it Ω_i grows by ω_i / (Δ_i² + ξ), Δ_i how far the weight has moved in all.

    **Source**: Zenke, Poole and Ganguli (2017), "Continual learning through synaptic intelligence",
    with ξ = .1; c from .5 to 1 is usual. g is the gradient of the mini-batch's loss without the
    penalty.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s. Where the rule goes
    back to the best epoch, the path ends there. A negative ω_i, which mini-batches can leave,
    counts as 0: a negative Ω_i would push the weight away without bound. Mammoth adds lr·g² in
    place of -g·Δθ.

    Parameters
    ----------
    trunk, units, layers, batch_size, lr, weight_decay, optimiser, optimiser_state, stop : as in
        `mlp`
    images : as in `mlp`
    c : strength of the penalty, at least 0
    xi : ξ > 0, squared units of the weights
    """

    trunk: str = "mlp"
    units: int = 400
    layers: int = 2
    batch_size: int = 256
    lr: float = 8e-4
    weight_decay: float = 0.0
    optimiser: str = "nadam"
    optimiser_state: str = "fresh"
    stop: Stop = field(default_factory=Stop)
    images: ImageTraining = field(default_factory=ImageTraining)
    c: float = 1.0
    xi: float = 0.1

    tags: ClassVar[Tags] = Tags(images=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "learned", "importance")

    def __post_init__(self) -> None:
        check_training(self)
        if not 0 <= self.c < math.inf:
            raise UserError(f"si.c must be finite and at least 0, got {self.c}")
        if not 0 < self.xi < math.inf:
            raise UserError(f"si.xi must be finite and above 0, got {self.xi}")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        self.net, self.optimiser_ = new_net(self, spec, seeds, device)
        self.importance = [torch.zeros_like(p) for p in trained(self.net)]  # Ω

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        parameters = trained(self.net)
        anchor, before, gradient = ([p.detach().clone() for p in parameters] for _ in range(3))
        # ω in buffers of the net: the training loop restores them with the best epoch's weights
        for i, p in enumerate(parameters):
            self.net.register_buffer(f"path_{i}", torch.zeros_like(p))
        path = [self.net.get_buffer(f"path_{i}") for i in range(len(parameters))]

        def regularise() -> None:
            for p, was, g in zip(parameters, before, gradient, strict=True):
                assert p.grad is not None
                was.copy_(p.data)
                g.copy_(p.grad)
            if self.learned and self.c:
                pull(self.net, self.importance, anchor, 2 * self.c)

        def stepped() -> None:
            for p, was, g, w in zip(parameters, before, gradient, path, strict=True):
                w.addcmul_(g, was.sub_(p.data))

        log = train(self, session, ctx, regularise=regularise, stepped=stepped)
        moved = zip(self.importance, path, parameters, anchor, strict=True)
        for total, w, p, was in moved:
            total += w.clamp(min=0) / ((p.data - was).square() + self.xi)
        for i in range(len(parameters)):
            delattr(self.net, f"path_{i}")
        self.learned += 1
        return log

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return Footprint(
            **net_bytes(self),
            importance=tensor_bytes(*self.importance),
        )
