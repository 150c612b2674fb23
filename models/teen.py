from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import above, within
from embedbench.learning import UNSEEN, Context, Learner, Seeds, Session, StreamSpec
from embedbench.learning.prototypes import Prototypes, cosines


@dataclass
class TEEN(Learner):
    """Prototypes of novel classes, drawn towards the base classes most like them.

    p_n ← (1 - α) p_n + α Δ_n, where Δ_n is the direction of Σ_b softmax_b(τ p_b·p_n) p_b over the
    base classes b, and all p have length 1.

    **Source**: Wang et al. (2023), "Few-shot class-incremental learning via training-free prototype
    calibration", and their code: τ = 16; α = .5 on mini-ImageNet and CUB-200, .1 on CIFAR-100. Base
    classes are those of the first session; their prototypes are means too.

    **Departs**: a class that comes again moves its mean.

    Parameters
    ----------
    alpha, scale : float
        α in [0, 1], and τ > 0.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "teen"))["final_accuracy"] > 0.05  # chance has 1/40
    True
    """

    alpha: Annotated[float, within("[0, 1]")] = 0.5
    scale: Annotated[float, above(0)] = 16.0

    scores_are = "cosines"
    state: ClassVar[dict[str, str]] = {"prototypes": "prototypes", "base": "base"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        width = spec.input_shape[0]
        self.prototypes = Prototypes(spec.n_classes, width, width, device)
        self.base = torch.zeros(spec.n_classes, dtype=torch.bool, device=device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.prototypes.add(session)
        if not self.base.any():
            self.base = self.prototypes.seen
        return {}

    def _calibrated(self) -> Tensor:
        """(C, D) prototypes of length 1."""
        p = self.prototypes.rows
        base = self.prototypes.rows[self.base]
        likeness = torch.softmax(self.scale * p @ base.T, dim=1)  # (C, base classes)
        moved = (1 - self.alpha) * p + self.alpha * nn.functional.normalize(likeness @ base)
        return nn.functional.normalize(torch.where(self.base[:, None], p, moved))

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return cosines(x, self._calibrated()).masked_fill(~self.prototypes.seen, UNSEEN)
