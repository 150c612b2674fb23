"""Product quantisation: a vector as one byte for each of its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from embedbench.learning.learner import tensor_bytes
from embedbench.learning.views import Packing

CENTROIDS = 256  # of each part; a byte names one
ITERATIONS = 25  # of k-means
BLOCK = 512  # samples encoded at once


class ProductQuantiser(Packing):
    """Cuts a vector into parts and stores, for each part, the number of its nearest centroid.

    **Source**: Jégou et al. (2011), "Product quantization for nearest neighbor search", Section II;
    256 centroids a part and 25 iterations of k-means from randomly drawn samples, as in faiss.

    **Departs**: the last part may be shorter: it is filled up with zeros. If a part has at most 256
    different values, these are its centroids.

    Parameters
    ----------
    width : int
        D, the length of a vector.
    parts : int
        The largest number of parts; all but the last are equally long.
    device : str
        The device of the centroids.

    Attributes
    ----------
    books : Tensor
        (parts, 256, length) float32, the centroids.
    trained : bool
        Whether `fit` was called.
    """

    def __init__(self, width: int, parts: int, device: str) -> None:
        self.dtype = torch.uint8
        self.width, length = width, -(-width // min(parts, width))
        self.parts = -(-width // length)
        self.books = torch.zeros(self.parts, CENTROIDS, length, device=device)
        self.trained = False

    def fit(self, x: Tensor, seed: int) -> None:
        """Find the centroids of x (n, D) by k-means."""
        cut = self._cut(x).cpu().numpy()  # (parts, n, length)
        books = [_centroids(part, seed + j) for j, part in enumerate(cut)]
        self.books = torch.from_numpy(np.stack(books)).to(self.books)
        self.trained = True

    def _cut(self, x: Tensor) -> Tensor:
        """The parts of x (n, D), (parts, n, length)."""
        length = self.books.shape[2]
        x = torch.nn.functional.pad(x, (0, self.parts * length - self.width))
        return x.view(len(x), self.parts, length).transpose(0, 1)

    def pack(self, x: Tensor) -> Tensor:
        """The codes of x (n, D), (n, parts) uint8."""
        # float64: the nearest centroid must not depend on how many samples are encoded at once
        books = self.books.double()
        size = books.square().sum(2)[:, None]  # (parts, 1, 256)
        codes = [
            torch.baddbmm(size, self._cut(part).double(), books.transpose(1, 2), alpha=-2)
            .argmin(2)
            .T.to(torch.uint8)
            for part in torch.split(x, BLOCK)
        ]
        return torch.cat(codes)

    def unpack(self, held: Tensor) -> Tensor:
        """The vectors that the codes (n, parts) stand for, (n, D) float32."""
        each = torch.arange(self.parts, device=held.device)
        return self.books[each, held.long()].flatten(1)[:, : self.width]

    @property
    def nbytes(self) -> int:
        """Bytes of the centroids."""
        return tensor_bytes(self.books)

    def state_dict(self) -> dict[str, Any]:
        """The centroids."""
        return {"books": self.books, "trained": self.trained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.books, self.trained = state["books"].to(self.books.device), state["trained"]


def _centroids(x: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """256 centroids of x (n, length); the first is repeated where x has fewer different values."""
    found = np.unique(x, axis=0)
    if len(found) > CENTROIDS:
        from sklearn.cluster import KMeans

        means = KMeans(
            CENTROIDS, init="random", n_init=1, max_iter=ITERATIONS, random_state=seed % 2**32
        )
        found = means.fit(x).cluster_centers_
    filled: NDArray[np.float32] = np.resize(found[:1], (CENTROIDS, x.shape[1]))
    filled[: len(found)] = found
    return filled
