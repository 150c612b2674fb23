from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch

from embedbench.config.setting_ranges import above, at_least
from embedbench.learning import Context, NetLearner, Seeds, Session, StreamSpec, Tags, pull
from embedbench.learning.optimisers import trainable_parameters


@dataclass
class SI(NetLearner):
    """Synaptic intelligence: a penalty on weights along which the loss fell.

    L = L_t + c Σ_i Ω_i (θ_i - θ*_i)². Along a session's path every weight collects ω_i = -Σ_steps
    g_i Δθ_i, its share of the fall of the loss. After the session Ω_i grows by ω_i / (Δ_i² + ξ),
    where Δ_i is the weight's total change.

    **Source**: Zenke, Poole and Ganguli (2017), "Continual learning through synaptic intelligence",
    with ξ = .1; c from .5 to 1 is usual. g is the gradient of the mini-batch's loss without the
    penalty.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s. If the rule returns to
    the best epoch, the path ends there. A negative ω_i, which mini-batches can cause, counts as 0:
    a negative Ω_i would push the weight away without limit.

    Parameters
    ----------
    c, xi : float
        Strength c ≥ 0 of the penalty; ξ > 0, squared units of the weights.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "si"))["average_forgetting"] > 0.1  # nothing is replayed
    True
    """

    c: Annotated[float, at_least(0)] = 1.0
    xi: Annotated[float, above(0)] = 0.1

    tags: ClassVar[Tags] = Tags(images=True, heads=True)
    state: ClassVar[dict[str, str]] = {**NetLearner.state, "importance": "importance"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.importance = [torch.zeros_like(p) for p in trainable_parameters(self.net)]  # Ω

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        parameters = trainable_parameters(self.net)
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

        log = self.train(session, ctx, regularise=regularise, stepped=stepped)
        moved = zip(self.importance, path, parameters, anchor, strict=True)
        for total, w, p, was in moved:
            total += w.clamp(min=0) / ((p.data - was).square() + self.xi)
        for i in range(len(parameters)):
            delattr(self.net, f"path_{i}")
        return log
