from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import at_least
from embedbench.learning import Context, NetLearner, Seeds, Session, StreamSpec, Tags
from embedbench.learning import per_sample_gradients as per_sample
from embedbench.learning.loss import loss_classes, pull
from embedbench.learning.optimisers import trainable_parameters

BLOCK = 1024  # samples; larger blocks do not fit a processor's caches


@dataclass
class MAS(NetLearner):
    """Memory-aware synapses: a penalty on weights that the outputs depend on.

    L = L_t + λ Σ_i Ω_i (θ_i - θ*_i)², Ω_i = mean_x |∂‖f(x)‖²/∂θ_i|.

    **Source**: Aljundi et al. (2018), "Memory aware synapses: learning what (not) to forget", Eqs.
    2 and 3; λ = 1 and Ω summed over the sessions as in their code. f are the logits, θ* the weights
    after the latest session.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s; the head is shared by
    all classes and penalised, too. f are the logits that the loss may use. The absolute value is
    taken of every sample's gradient, as the paper writes. FACIL takes it of a batch's mean gradient
    of ‖f‖, not ‖f‖², halves the penalty and averages Ω over the sessions (α = .5), so its λ has
    another scale.

    Parameters
    ----------
    lam : float
        λ ≥ 0.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "mas"))["final_accuracy"] > 1 / 40
    True
    """

    lam: Annotated[float, at_least(0)] = 1.0

    tags: ClassVar[Tags] = Tags(images=True, heads=True)
    state: ClassVar[dict[str, str]] = {**NetLearner.state, "importance": "importance"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.importance = [torch.zeros_like(p) for p in trainable_parameters(self.net)]  # Ω

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        anchor = [p.detach().clone() for p in trainable_parameters(self.net)]  # θ*

        def regularise() -> None:
            pull(self.net, self.importance, anchor, 2 * self.lam)

        log = self.train(session, ctx, regularise=regularise if self.learned and self.lam else None)
        classes = loss_classes(session, self.device)
        for first in range(0, len(session.x), BLOCK):
            rows = torch.arange(first, min(first + BLOCK, len(session.x)), device=self.device)
            sums = sensitivity(self.net, session.x.batch(rows, self.device), classes)
            for total, new in zip(self.importance, sums, strict=True):
                total.add_(new, alpha=1 / len(session.x))
        return log


@torch.no_grad()
def sensitivity(net: nn.Module, x: Tensor, classes: Tensor | None = None) -> list[Tensor]:
    """Σ_x |∂‖f(x)‖²/∂θ| at x (n, D) or (n, C, H, W): one tensor per trained parameter.

    f are the logits of `classes` (k,); None: of all classes. In a layer of a ReLU MLP |δ aᵀ| = |δ|
    |a|ᵀ, so the sum over samples is one matrix product.
    """

    def length(f: Tensor) -> Tensor:
        return (f if classes is None else f[classes]).square().sum()

    if not per_sample.is_mlp(net):
        total = [torch.zeros_like(p) for p in trainable_parameters(net)]
        for part in torch.split(x, per_sample.BLOCK):
            each = per_sample.gradients(net.eval(), length, part)
            for sum_, g in zip(total, each, strict=True):
                sum_.add_(g.abs().sum(0))
        return total
    linears, inputs, f = per_sample.forward_layers(net, x)
    by_f = 2 * f  # ∂‖f‖²/∂f, (n, C)
    if classes is not None:
        by_f *= torch.zeros_like(by_f).index_fill_(1, classes, 1.0)
    sums: list[Tensor] = []
    for k, delta in per_sample.backward_deltas(linears, inputs, by_f):
        sums = [delta.abs().T @ inputs[k].abs(), delta.abs().sum(0), *sums]
    return sums
