"""FearNet's long-term network (mPFC), and the Gaussians from which it makes pseudo-samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu, mse_loss

from embedbench.errors import unknown
from embedbench.fields import check_size
from embedbench.learning.learner import tensor_bytes

COVARIANCES = ("full", "diagonal")
NUMBERS = 2**24  # the most distances at once


class MPFC(nn.Module):
    """A symmetric autoencoder with a linear classifier of its code.

    The hidden layers are ELUs; code, output and logits are linear.

    Parameters
    ----------
    widths : sequence of int
        Of the encoder's levels: input, hidden layers, code.
    n_classes : int
        C.
    seed : int
        Seed of the initial weights.
    """

    def __init__(self, widths: Sequence[int], n_classes: int, seed: int) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        check_size("fearnet", 2 * sum(a * b for a, b in pairs) + widths[-1] * n_classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
            self.decoder = nn.ModuleList(nn.Linear(b, a) for a, b in reversed(pairs))
            self.head = nn.Linear(widths[-1], n_classes)

    def levels(self, x: Tensor) -> list[Tensor]:
        """x (n, D), the hidden layers of the encoder, the code (n, k)."""
        return _through(self.encoder, x)

    def code(self, x: Tensor) -> Tensor:
        """The code of x (n, D), (n, k)."""
        return self.levels(x)[-1]

    def decoded(self, code: Tensor) -> list[Tensor]:
        """The decoder's levels of a code (n, k), in the order of `levels`: x̂ (n, D) first."""
        return _through(self.decoder, code)[::-1]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        logits: Tensor = self.head(self.code(x))
        return logits

    def loss(self, x: Tensor, y: Tensor, mask: Tensor, weights: Sequence[float]) -> Tensor:
        """Cross-entropy plus Σ_j λ_j times the mean squared error at level j, mean of a batch.

        Parameters
        ----------
        mask : Tensor
            (C,) 0 for the classes of the softmax, -inf for the others.
        weights : sequence of float
            λ_j of the levels below the code, the input first.
        """
        levels = self.levels(x)
        back = self.decoded(levels[-1])
        total = cross_entropy(self.head(levels[-1]) + mask, y)
        for weight, decoded, encoded in zip(weights, back, levels, strict=False):
            total = total + weight * mse_loss(decoded, encoded)
        return total


def _through(layers: nn.ModuleList, x: Tensor) -> list[Tensor]:
    """x and the output of every layer; the last one is linear."""
    out = [x]
    for layer in layers:
        out.append(layer(out[-1]))
        if layer is not layers[-1]:
            out[-1] = elu(out[-1])
    return out


class Codes:
    """A Gaussian for the codes of each class: its mean and a root of its covariance.

    Attributes
    ----------
    known : Tensor
        (C,) bool, the classes that have one.
    means : Tensor
        (K, k) float32, in the order of the classes.
    roots : Tensor
        (K, k, k) with RᵀR = Σ, upper triangular, or (K, k) deviations if `covariance` is
        "diagonal".
    """

    def __init__(self, n_classes: int, width: int, covariance: str, device: str) -> None:
        if covariance not in COVARIANCES:
            raise unknown("fearnet.covariance", covariance, COVARIANCES)
        self.full, self.device = covariance == "full", device
        self.known = torch.zeros(n_classes, dtype=torch.bool, device=device)
        self.means = torch.zeros(0, width, device=device)
        shape = (0, width, width) if self.full else (0, width)
        self.roots = torch.zeros(shape, device=device)

    @property
    def classes(self) -> Tensor:
        """(K,) the classes that have a Gaussian, ascending."""
        return self.known.nonzero().flatten()

    def renew(self, codes: Tensor, y: Tensor) -> None:
        """Take the Gaussians of codes (n, k) of classes y (n,); other classes keep theirs."""
        old = dict(
            zip(self.classes.tolist(), zip(self.means, self.roots, strict=True), strict=True)
        )
        for c in torch.unique(y).tolist():
            part = codes[y == c].double()
            mean = part.mean(0)
            root = self._root((part - mean) / math.sqrt(max(len(part) - 1, 1)))
            old[c] = mean.float(), root.float()
        self.known = self.known.index_fill(0, y, True)
        means, roots = zip(*(old[c] for c in self.classes.tolist()), strict=True)
        self.means, self.roots = torch.stack(means), torch.stack(roots)

    def _root(self, away: Tensor) -> Tensor:
        """A root of Σ = AᵀA, A (n, k) float64; no inverse is needed, so Σ may be singular."""
        if not self.full:
            return away.square().sum(0).sqrt()
        upper = torch.linalg.qr(away, mode="r")[1]  # (min(n, k), k)
        root = away.new_zeros(away.shape[1], away.shape[1])
        root[: len(upper)] = upper
        return root

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """`n` codes of every class, (K·n, k), and their classes (K·n,)."""
        k = len(self.means)
        noise = torch.randn((k, n, self.means.shape[1]), generator=generator).to(self.device)
        noise = noise @ self.roots if self.full else noise * self.roots[:, None]
        return (self.means[:, None] + noise).flatten(0, 1), self.classes.repeat_interleave(n)

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of the covariances' roots, and of the means with the list of classes."""
        return tensor_bytes(self.roots), tensor_bytes(self.means, self.known)

    def state_dict(self) -> dict[str, Any]:
        """The Gaussians as data."""
        return {"known": self.known, "means": self.means, "roots": self.roots}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.known, self.means, self.roots = state["known"], state["means"], state["roots"]


@torch.no_grad()
def recall(x: Tensor, held: Tensor, y: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The class probabilities of a short-term store: P(c | x) = β_c / Σ β.

    β_c = 1 / (ε + the distance of x to the nearest stored sample of class c).

    Parameters
    ----------
    x : Tensor
        (n, D) samples to answer.
    held : Tensor
        (m, D) stored samples.
    y : Tensor
        (m,) their classes.

    Returns
    -------
    Tensor
        (n, K) log probabilities, in the order of the classes.
    Tensor
        (K,) the classes in store, ascending.
    """
    classes, counts = torch.unique(y, return_counts=True)
    held = held[y.argsort(stable=True)].double()
    beta = [
        torch.stack([d.amin(1) for d in torch.split(_distances(part, held), counts.tolist(), 1)], 1)
        .add(epsilon)
        .reciprocal()
        for part in torch.split(x.double(), max(1, NUMBERS // len(held)))
    ]
    all_beta = torch.cat(beta) if beta else x.new_zeros(0, len(classes)).double()
    return (all_beta / all_beta.sum(1, keepdim=True)).log().to(x.dtype), classes


def _distances(x: Tensor, held: Tensor) -> Tensor:
    """Euclidean distances of x (n, D) and held (m, D), (n, m); float64, as the squares cancel."""
    squares = x.square().sum(1)[:, None] + held.square().sum(1) - 2 * (x @ held.T)
    return squares.clamp_(min=0).sqrt_()
