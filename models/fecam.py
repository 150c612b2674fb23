import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import above, at_least, require, within
from embedbench.learning import UNSEEN, Context, Learner, Seeds, Session, StreamSpec


@dataclass
class FeCAM(Learner):
    """Class means, and a covariance of each class; the smallest Mahalanobis distance answers.

    The covariances are shrunk and normalised.

    **Source**: Goswami et al. (2023), "FeCAM: exploiting the heterogeneity of class distributions
    in exemplar-free continual learning". Features are scaled to length 1 and raised to the power β
    (Tukey's ladder). Σ_c is shrunk to S = Σ_c + γ₁ V₁ I + γ₂ V₂ (1 - I), where V₁ and V₂ are its
    mean diagonal and off-diagonal element, and normalised to correlations R. The distance is (x̂ -
    μ̂_c)ᵀ R⁻¹ (x̂ - μ̂_c) with both scaled to length 1. Features with negative values, such as a
    ViT's, are not raised to a power; the paper sets γ₂ = 0 there.

    **Departs**: features are scaled to length 1 before Tukey's transform; their code transforms the
    training features as they are (92 % of the answers agree). The mean is that of the transformed
    features (their code transforms the mean), and Σ_c is shrunk once (their code: twice). The first
    session decides for all sessions whether there are negative values; if it has none, later ones
    keep their sign: sign(x) |x|^β. A class whose samples do not vary, such as a class of one
    sample, has R = γ₁/(1 + γ₁) I: this is the average of R in the directions in which other classes
    do not vary. With R = I the class would be nearer than the others. A class that comes again adds
    to its covariance. With few shots the mean covariance of the base classes is used; the paper
    does not say how it is averaged, here every class counts the same.

    No D × D matrix is formed: a class's scatter is FᵀF with r orthogonal rows, r at most D and less
    than the samples, and R⁻¹ follows exactly by the identities of Woodbury and of Sherman and
    Morrison.

    Parameters
    ----------
    beta : float
        β in (0, 1]; 1 leaves features as they are.
    gamma1 : float
        γ₁ > 0; 1 suits classes with hundreds of samples; with few samples try 10.
    gamma2 : float or None
        γ₂ in [0, γ₁]; None: the paper's value, γ₁ where features are raised to a power, else 0.
    covariance : str
        "class": one covariance per class; "base": classes of later sessions use the mean covariance
        of the first session's classes, for few shots.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "fecam"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    beta: Annotated[float, within("(0, 1]")] = 0.5
    gamma1: Annotated[float, above(0)] = 1.0
    gamma2: Annotated[float, at_least(0)] | None = None
    covariance: Literal["class", "base"] = "class"

    scores_are = "distances"
    state: ClassVar[dict[str, str]] = {
        "counts": "means",
        "means": "means",
        "factors": "covariances",
        "lent": "covariances",
        "power": "transient",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, self.name, gamma2=within(f"[0, {self.gamma1}]"))

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.device = device
        n_classes = spec.n_classes
        width = spec.input_shape[0]
        self.counts = torch.zeros(n_classes, dtype=torch.int64, device=device)
        self.means = torch.zeros(n_classes, width, device=device)
        self.factors = [torch.zeros(0, width, device=device) for _ in range(n_classes)]  # F
        self.power = 0.0  # β, or 1 where features have negative values; 0: not decided yet
        self.lent: Tensor | None = None  # (r, D) root of the covariance that later classes use

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        y = torch.from_numpy(session.y).to(self.device)
        views = {int(c): (y == c).nonzero().flatten() for c in np.unique(session.y)}
        if not self.power:
            lowest = [session.x.batch(rows, self.device).min() for rows in views.values()]
            self.power = self.beta if min(lowest) >= 0 else 1.0
        for c, rows in views.items():
            self._add(c, transform(session.x.batch(rows, self.device), self.power))
        if self.covariance == "base" and self.lent is None:
            roots = torch.cat([self._root(c) for c in views])
            self.lent = _orthogonal(roots / math.sqrt(len(views)))
        return {"power": self.power}

    def _add(self, c: int, x: Tensor) -> None:
        """Add samples x (n, D) to the mean and the scatter of class c."""
        old = int(self.counts[c])
        n = len(x)
        mean = x.mean(0)
        shift = mean - self.means[c]
        between = shift * (old * n / (old + n)) ** 0.5
        if self.lent is None or len(self.factors[c]):
            self.factors[c] = _orthogonal(torch.cat([self.factors[c], x - mean, between[None]]))
        self.means[c] += shift * (n / (old + n))
        self.counts[c] += n

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        x = nn.functional.normalize(transform(x, self.power))
        out = x.new_full((len(x), len(self.counts)), UNSEEN)
        seen = self.counts.nonzero().flatten().tolist()
        gamma2 = self.gamma2
        if gamma2 is None:
            gamma2 = self.gamma1 if self.power < 1 else 0.0
        shapes = [shrink(self._root(c), self.gamma1, gamma2) for c in seen]
        scales = [normalise(shape) for shape in shapes]
        # tᵀt of t = s (x̂ - μ̂), with no (n, D) matrix per class; continued in _distances
        squares = x.square() @ torch.stack([s.square() for s in scales]).T  # (n, seen)
        lent: Tensor | None = None  # x times the shared root, computed once
        for k, (c, shape, s) in enumerate(zip(seen, shapes, scales, strict=True)):
            root = self._root(c)
            along = lent if lent is not None and root is self.lent else x @ (root * s).T
            lent = along if root is self.lent else lent
            out[:, c] = -_distances(x, self.means[c], root, shape, s, squares[:, k], along)
        return out

    def _root(self, c: int) -> Tensor:
        """(r, D) with rootᵀ root = Σ_c."""
        if self.lent is not None and not len(self.factors[c]):
            return self.lent
        return self.factors[c] / math.sqrt(max(int(self.counts[c]) - 1, 1))


@dataclass(frozen=True)
class Shape:
    """A shrunk covariance S = Σ + level·I + every·11ᵀ, not written out."""

    level: float
    every: float
    diagonal: Tensor  # (D,) of S


# --- the paper's three steps ---


def transform(x: Tensor, power: float) -> Tensor:
    """Step 1, Tukey's ladder: sign(x) |x|^power of x (n, D) scaled to length 1."""
    x = nn.functional.normalize(x)
    return x.sign() * x.abs() ** power


def shrink(root: Tensor, gamma1: float, gamma2: float) -> Shape:
    """Step 2: S = Σ + γ₁ V₁ I + γ₂ V₂ (1 - I) of Σ = rootᵀ root, root (r, D)."""
    diagonal = root.square().sum(0)
    width = root.shape[1]
    v1 = float(diagonal.mean())
    if v1 == 0:  # the class does not vary: R itself
        return Shape(gamma1 / (1 + gamma1), 0.0, torch.ones_like(diagonal))
    v2 = (float(root.sum(1).square().sum()) / width - v1) / max(width - 1, 1)
    level = max(gamma1 * v1 - gamma2 * v2, 1e-6 * v1)
    every = gamma2 * v2
    return Shape(level, every, diagonal + level + every)


def normalise(shape: Shape) -> Tensor:
    """Step 3, correlations: s (D,) of R = S / s sᵀ, by which δᵀ R⁻¹ δ = tᵀ S⁻¹ t with t = s δ."""
    return shape.diagonal.sqrt()


# --- the distance by the identities of Woodbury (A⁻¹), and Sherman and Morrison (S⁻¹) ---


def _distances(
    x: Tensor, mean: Tensor, root: Tensor, shape: Shape, s: Tensor, squares: Tensor, along: Tensor
) -> Tensor:
    """tᵀ S⁻¹ t, t = s (x̂ - μ̂); x (n, D) is x̂, `squares` (n,) Σ (s x̂)², `along` (n, r) root s x̂."""
    level = shape.level
    every = shape.every
    centre = nn.functional.normalize(mean, dim=0)
    rows = torch.stack([s, s * s * centre])
    offset = rows @ centre
    total, last = (x @ rows.T - offset).T  # (n, D) @ (D, 2): 1ᵀ t, (s μ̂)ᵀ t
    along = along - root @ (s * centre)  # root t
    norm = squares - 2 * last - offset[-1]  # tᵀ t
    sizes, sums = root.square().sum(1), root.sum(1)  # sizes: the nonzero eigenvalues of Σ
    share = along / (sizes + level)
    # A = Σ + level·I, S = A + every·11ᵀ
    distance = (norm - (along * share).sum(1)) / level  # tᵀ A⁻¹ t
    across = (total - share @ sums) / level  # 1ᵀ A⁻¹ t
    whole = (len(s) - float((sums.square() / (sizes + level)).sum())) / level  # 1ᵀ A⁻¹ 1
    out: Tensor = distance - across.square() * (every / (1 + every * whole))
    return out


def _orthogonal(rows: Tensor) -> Tensor:
    """Orthogonal rows F, at most as many as `rows` (n, D) has dimensions, with FᵀF = rowsᵀ rows."""
    _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
    large = sizes > sizes[:1] * max(rows.shape) * torch.finfo(rows.dtype).eps
    out: Tensor = sizes[large, None] * directions[large]
    return out
