from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch

from embedbench.config.setting_ranges import at_least, within
from embedbench.errors import UserError
from embedbench.learning import UNSEEN, Seeds, StreamSpec

from ._linear_models import ClassSums, deviations, discriminants, oas

EPSILON = 1e-4  # the authors'
BLOCK = 256  # samples at once; for more, comparing them costs more than it saves


@dataclass
class SLDA(ClassSums):
    """Deep SLDA: class means and one running covariance; linear discriminants in one pass.

    w_c = Λ μ_c, b_c = -½ μ_c·Λ μ_c with Λ = ((1 - ε) Σ + ε I)⁻¹.

    **Source**: Hayes and Kanan (2020), "Lifelong machine learning with deep streaming linear
    discriminant analysis", and their code; ε = 1e-4. Each sample adds to the scatter nΣ a weight
    times the outer product of x - μ_c, where μ_c is its class's mean so far. Their weight is n/(n +
    1), n all samples so far. A class begins with μ_c = 0, so its first sample adds x xᵀ.

    **Departs**: by default Σ is shrunk by oracle approximating shrinkage (OAS) at every evaluation,
    before ε = 1e-4: where samples are few for their width, ε alone is far too little; `shrinkage` =
    1e-4 is the authors'. By default the weight is n_c/(n_c + 1), n_c the samples of the class so
    far. Then Σ is exactly the within-class covariance of all samples, in whatever order they came,
    and a class's first sample adds nothing. The paper's base initialisation computes the base
    session's covariance by OAS; here it follows from the running Σ after `base_samples` samples.
    Samples are processed in batches: a batch's outer products are one matrix product, equal to the
    sample-by-sample updates.

    Parameters
    ----------
    shrinkage : float or None
        ε in (0, 1], in squared units of the features; None: OAS, and the authors' ε, 1e-4. With
        `base_samples`, OAS is theirs alone.
    weight : str
        "class", n_c/(n_c + 1); "published", n/(n + 1) and μ_c = 0 for a new class.
    base_samples : int
        Number of samples after which Σ is shrunk by OAS; 0: never.
    freeze : bool
        Do not change Σ after the base samples.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "slda"))["final_accuracy"] > 0.2  # chance has 1/40
    True
    """

    shrinkage: Annotated[float, within("(0, 1]")] | None = None
    weight: Literal["class", "published"] = "class"
    base_samples: Annotated[int, at_least(0)] = 0
    freeze: bool = False

    scores_are = "log-likelihoods"
    state: ClassVar[dict[str, str]] = {
        **ClassSums.state,
        "scatter": "covariance",
        "seen": "transient",
        "weights": "classifier",
        "bias": "classifier",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.freeze and not self.base_samples:
            raise UserError(
                "slda.freeze needs slda.base_samples, the number of samples that Σ is learned from"
            )

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        n_classes, width = self.sums.shape
        # float64: Σ is inverted, and ε is small beside its largest eigenvalues
        self.scatter = torch.zeros(width, width, device=device, dtype=torch.float64)  # nΣ
        self.seen = 0
        self.weights = torch.zeros(n_classes, width, device=device)
        self.bias = torch.full((n_classes,), UNSEEN, device=device)

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        sizes: list[int] = []
        while (left := len(y) - sum(sizes)) > 0:
            base = self.base_samples - self.seen - sum(sizes)  # samples until the base is complete
            sizes.append(min(left, BLOCK, base if base > 0 else left))
        for x_, y_ in zip(torch.split(x, sizes), torch.split(y, sizes), strict=True):
            self._update(x_.double(), y_)
            if self.seen == self.base_samples:
                rho, mean = oas(self.scatter / self.seen, self.seen)
                self.scatter.mul_(1 - rho).diagonal().add_(rho * mean * self.seen)

    def _update(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Add b samples in order, as if one by one: x (b, D), y (b,)."""
        if not (self.freeze and self.seen >= self.base_samples):
            away, before = deviations(x, y, self.sums, self.counts)
            n = torch.arange(self.seen, self.seen + len(y), device=x.device).double()
            n = before if self.weight == "class" else n
            self.scatter.addmm_((away * (n / (n + 1))[:, None]).T, away)  # (D, b) @ (b, D)
        super().observe(x, y)
        self.seen += len(y)

    def prepare(self) -> None:
        """Invert the covariance: (D³)/3 multiplications, once per evaluation."""
        n = max(min(self.seen, self.base_samples) if self.freeze else self.seen, 1)
        epsilon = self.shrinkage or EPSILON
        rho = 0.0
        mean = 0.0
        if self.shrinkage is None and not self.base_samples:
            rho, mean = oas(self.scatter / n, n)
        sigma = self.scatter * ((1 - epsilon) * (1 - rho) / n)
        sigma.diagonal().add_(epsilon + (1 - epsilon) * rho * mean)
        weights, bias = discriminants(sigma, self.class_means(), self.counts)
        self.weights = weights.float()
        self.bias = bias.float()

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weights.T)  # (n, D) @ (D, C)
