import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from embedbench.config.setting_ranges import above, at_least, check_size
from embedbench.learning import Seeds, StreamSpec, Tags, generator

from ._linear_models import Blocks, RidgeLearner, add_moments, ridge


@dataclass
class ACIL(RidgeLearner):
    """Analytic class-incremental learning: ridge regression on random ReLU features, λ fixed.

    h = ReLU(Bx), B random; one pass.

    **Source**: Zhuang et al. (2022), "ACIL: analytic class-incremental learning with absolute
    memorization and privacy protection", and their code (`RandomBuffer`, `RecursiveLinear`): the
    weights B of the buffer layer are those with which PyTorch's `Linear` begins, U(-1/√D, 1/√D),
    without bias; 8,192 features; λ = .1 (γ in the paper). Training the backbone on the first
    classes is no part of learning on frozen embeddings.

    **Departs**: M = 2,000 by default, for processors without an accelerator. The paper updates (Σ
    hhᵀ + λI)⁻¹ and W for every batch (its Equations 9 and 10, by Woodbury's identity). Here the
    sums are updated, and the system is solved before an evaluation: the same W, with half as many
    operations for a sample and M³/3 for an evaluation, and without rounding errors that add up.

    Parameters
    ----------
    projections : int
        M, the number of random features.
    lam : float
        λ > 0.

    Examples
    --------
    >>> from embedbench import build_stream, make_learner, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, make_learner("acil", lam=100)))["final_accuracy"] > 0.15
    True
    """

    projections: Annotated[int, at_least(1)] = 2000
    lam: Annotated[float, above(0)] = 0.1

    tags: ClassVar[Tags] = Tags(online=True)
    scores_are = "other"
    state: ClassVar[dict[str, str]] = {
        "projection": "projection",
        "gram": "moments",
        "targets": "moments",
        "weights": "classifier",
        "blocks": "waiting",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        width = spec.input_shape[0]
        n_classes = spec.n_classes
        size = self.projections
        check_size(self.name, size * (size + width))
        drawn = torch.rand(width, size, generator=generator(seeds.init, 0))
        self.projection = ((2 * drawn - 1) / math.sqrt(width)).to(device)
        # float64: the Gram matrix is inverted
        self.gram = torch.zeros(size, size, device=device, dtype=torch.float64)
        self.targets = torch.zeros(n_classes, size, device=device, dtype=torch.float64)
        self.weights = torch.zeros(size, n_classes, device=device)
        self.blocks = Blocks()

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        for block in self.blocks.add(x, y):
            self._update(*block)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.projection).relu_()  # (n, D) @ (D, M)

    def _update(self, x: torch.Tensor, y: torch.Tensor) -> None:
        add_moments(self.gram, self.targets.T, self.features(x).double(), y)

    def trim(self) -> None:
        for block in self.blocks.rest():
            self._update(*block)
        super().trim()

    def prepare(self) -> None:
        """Solve the regression: M³/3 multiplications. Samples that wait go into copies."""
        gram = self.gram
        targets = self.targets
        for x, y in self.blocks.waiting_block():
            gram = gram.clone()
            targets = targets.clone()
            add_moments(gram, targets.T, self.features(x).double(), y)
        self.weights = ridge(gram, targets.T, self.lam, self.lam)[0].float()
