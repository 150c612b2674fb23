"""Parts of streaming linear learners: discriminants, ridge regression, blocks of samples."""

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from embedbench.learning import UNSEEN, Learner, Seeds, Session, StreamSpec, Tags


class ClassSums(Learner):
    """Base of learners that add up the samples of each class, in float64, in one pass."""

    tags: ClassVar[Tags] = Tags(online=True)
    state: ClassVar[dict[str, str]] = {"sums": "means", "counts": "means"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        size = (spec.n_classes, spec.input_shape[0])
        self.sums = torch.zeros(size, device=device, dtype=torch.float64)
        self.counts = torch.zeros(spec.n_classes, device=device, dtype=torch.int64)

    def observe(self, x: Tensor, y: Tensor) -> None:
        self.sums.index_add_(0, y, x.double())
        self.counts += torch.bincount(y, minlength=len(self.counts))

    def class_means(self) -> Tensor:
        """(C, D) float64; zeros for a class without samples."""
        return self.sums / self.counts.clamp(min=1)[:, None]


def deviations(x: Tensor, y: Tensor, sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """x - μ_y, where μ_y is the mean of the class's earlier samples, those of the batch included.

    With n_c earlier samples, Σ n_c/(n_c + 1) (x - μ_y)(x - μ_y)ᵀ is the scatter within the classes,
    in whatever order the samples come. x (b, D) float64 and y (b,) are in order; `sums` (C, D) and
    `counts` (C,) are of the samples before the batch. Returns the deviations (b, D), where a
    class's first sample has x itself; and n_c (b,).
    """
    earlier = (y[:, None] == y).tril(-1).double()  # (b, b): earlier samples of the class
    before = counts[y] + earlier.sum(1)  # n_c
    so_far = torch.addmm(sums[y], earlier, x)  # (b, b) @ (b, D)
    return x - so_far / before.clamp(min=1)[:, None], before


def oas(sigma: Tensor, n: int) -> tuple[float, float]:
    """Oracle approximating shrinkage of a covariance (D, D) of n samples, Chen et al. (2010).

    Returns ρ and m, the mean variance: the shrunk covariance is (1 - ρ) Σ + ρ m I.
    """
    width = len(sigma)
    mean = float(sigma.trace()) / width
    alpha = float(sigma.square().mean())
    below = (n + 1) * (alpha - mean**2 / width)
    return (1.0 if below <= 0 else min(1.0, (alpha + mean**2) / below)), mean


def discriminants(sigma: Tensor, means: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Linear discriminants of equal priors: w_c = Σ⁻¹ μ_c (C, D), b_c = -½ μ_c·w_c (C,).

    A class without samples has the bias `UNSEEN`.
    """
    weights = torch.cholesky_solve(means.T, torch.linalg.cholesky(sigma)).T
    return weights, (means * weights).sum(1).mul(-0.5).masked_fill(counts == 0, UNSEEN)


# --- blocks of one size, however the stream is cut: large products, and the same bits ---


BLOCK = 256  # samples at once


class Blocks:
    """Collects batches x (b, D), y (b,) into blocks of `BLOCK` samples.

    A product with ten rows takes as long as one with fifty, because it reads the whole matrix that
    it adds to. What is left waits for the next batch, at most `BLOCK` - 1 samples. `prepare` adds
    it to copies of the sums (`waiting_block`), so that where blocks end does not depend on how
    often a learner is evaluated. `trim` adds the `rest` after a session: none waits from one
    session to the next.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __len__(self) -> int:
        """The number of samples that wait."""
        return sum(len(y) for _, y in self.waiting)

    def add(self, x: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Add a batch; the blocks that are now complete."""
        self.waiting.append((x, y))
        if len(self) < BLOCK:
            return
        ((x, y),) = self.rest()
        whole = len(y) - len(y) % BLOCK
        self.waiting = [(x[whole:].clone(), y[whole:].clone())] if whole < len(y) else []
        yield from zip(torch.split(x[:whole], BLOCK), torch.split(y[:whole], BLOCK), strict=True)

    def waiting_block(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The samples that wait, as one block; they go on waiting."""
        if self.waiting:
            x, y = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
            yield x, y

    def rest(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The samples that wait, as one block; then none waits."""
        block = [*self.waiting_block()]
        self.waiting = []
        yield from block

    def state_dict(self) -> dict[str, Any]:
        return {"waiting": [tuple(part.clone() for part in batch) for batch in self.waiting]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.waiting = [(x, y) for x, y in state["waiting"]]


# --- ridge regression from sums of second moments ---


def ridge(gram: Tensor, targets: Tensor, lam: float, least: float) -> tuple[Tensor, float]:
    """W = (G + λI)⁻¹ Q (M, C), for G = Σ hhᵀ (M, M) and Q = Σ hyᵀ (M, C), float64; and the λ used.

    While G + λI is not positive definite, λ becomes ten times as large, and at least `least`.
    """
    while True:
        whole = gram.clone()
        whole.diagonal().add_(lam)
        factor, failed = torch.linalg.cholesky_ex(whole)
        if not int(failed):
            return torch.cholesky_solve(targets, factor), lam
        lam = max(10 * lam, least)


def add_moments(gram: Tensor, targets: Tensor, h: Tensor, y: Tensor) -> None:
    """Add HᵀH to `gram` (M, M) and HᵀY to `targets` (M, C), for h (b, M) float64 and y (b,)."""
    gram.addmm_(h.T, h)  # (M, b) @ (b, M)
    targets.index_add_(1, y, h.T)


PROJECTED = 2048  # samples whose features are formed at once


class RidgeLearner(Learner):
    """Base of learners that answer by ridge regression on features of their own.

    W = (G + λI)⁻¹ Q, with the moments G = Σ HᵀH (M, M) and Q = Σ HᵀY (M, C), float64.
    """

    device: str
    weights: Tensor  # W (M, C)

    def features(self, x: Tensor) -> Tensor:
        """h of x (n, D), (n, M)."""
        raise NotImplementedError

    def no_moments(self, size: int, n_classes: int) -> tuple[Tensor, Tensor]:
        gram = torch.zeros(size, size, device=self.device, dtype=torch.float64)
        targets = torch.zeros(size, n_classes, device=self.device, dtype=torch.float64)
        return gram, targets

    def feature_blocks(self, session: Session, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """h (b, M) float64 and y (b,) of the samples `rows`."""
        y = torch.from_numpy(session.y).to(self.device)
        for part in torch.split(rows, PROJECTED):
            yield self.features(session.x.batch(part, self.device)).double(), y[part]

    def moments(self, session: Session, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The moments of the samples `rows`."""
        sums = self.no_moments(*self.weights.shape)
        for h, y in self.feature_blocks(session, rows):
            add_moments(*sums, h, y)
        return sums

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return self.features(x) @ self.weights  # (n, M) @ (M, C)
