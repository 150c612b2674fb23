"""A row of length 1 for every class, compared by cosine: what few-shot learners answer with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from embedbench.errors import unknown
from embedbench.fields import above, require
from embedbench.streams.stream import Session

from .cosine import CosineNet
from .distill import only
from .fit import Hooks, Loop, fit
from .learner import NO_CHECKPOINT, Checkpoint, tensor_bytes
from .net import generator
from .optimisers import make_optimiser
from .stop import Stop

UNSEEN = -1e30  # score of a class that was not seen yet: finite, below every other
BLOCK = 4096  # samples summed at once


@dataclass(frozen=True)
class Classifier:
    """What the classes of the first session are given as prototypes.

    Parameters
    ----------
    base : str
        "means": their means, brought to length 1; "trained": the weights of a cosine classifier
        that is trained on the first session, from the means on, with Adam.
    epochs, batch_size : int
        Of the training.
    lr : float
        Learning rate.
    scale : float
        What cosines are multiplied by before the softmax of the training.
    """

    base: str = "means"
    epochs: int = 20
    batch_size: int = 256
    lr: float = 1e-3
    scale: float = 16.0

    def __post_init__(self) -> None:
        if self.base not in ("means", "trained"):
            raise unknown("classifier.base", self.base, ("means", "trained"))
        above_0 = ("epochs", "batch_size", "lr", "scale")
        require(self, "classifier", **dict.fromkeys(above_0, above(0)))


class Prototypes(nn.Module):
    """P (C, d), rows of length 1; and the running means (C, D) that they come from.

    Parameters
    ----------
    width : int
        D, columns of a sample.
    head : int
        d, the columns [0, d) that P is made from; the others have means only.
    """

    sums: Tensor  # (C, D) float64
    counts: Tensor  # (C,)
    rows: Tensor  # (C, d) P; zeros for a class not seen
    trained: Tensor  # (C,) bool: the row is a trained weight, and stays

    def __init__(self, n_classes: int, width: int, head: int, device: str) -> None:
        super().__init__()
        self.device = device
        self.register_buffer("sums", torch.zeros(n_classes, width, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(n_classes, dtype=torch.int64))
        self.register_buffer("rows", torch.zeros(n_classes, head))
        self.register_buffer("trained", torch.zeros(n_classes, dtype=torch.bool))
        self.to(device)

    @property
    def seen(self) -> Tensor:
        """(C,) bool, the classes that have a row."""
        return self.counts > 0

    def means(self) -> Tensor:
        """Means of all samples so far, (C, D) float32; zeros for a class not seen."""
        return (self.sums / self.counts.clamp(min=1)[:, None]).float()

    def add(
        self,
        session: Session,
        settings: Classifier | None = None,
        seed: int = 0,
        checkpoint: Checkpoint = NO_CHECKPOINT,
    ) -> None:
        """Take in a session: new rows for its classes; those of a first one as `settings` say.

        Parameters
        ----------
        seed : int
            Of the batches of the training, where there is one.
        checkpoint : Checkpoint
            Of that training.
        """
        first, device = not self.seen.any(), self.device
        y = torch.from_numpy(session.y).to(device)
        for index in torch.split(torch.arange(len(y), device=device), BLOCK):
            self.include(session.x.batch(index, device), y[index])
        if first and settings is not None and settings.base == "trained":
            self._train(session, settings, seed, checkpoint)

    def include(self, x: Tensor, y: Tensor) -> None:
        """Take in samples x (n, D) of classes y (n,), and move the rows of their classes."""
        self.sums.index_add_(0, y, x.double())
        self.counts += torch.bincount(y, minlength=len(self.counts))
        means = normalize(self.means()[:, : self.rows.shape[1]])
        self.rows[:] = torch.where(self.trained[:, None], self.rows, means)

    def _train(
        self, session: Session, settings: Classifier, seed: int, checkpoint: Checkpoint
    ) -> None:
        device, (n_classes, head) = self.device, self.rows.shape
        net = CosineNet(head, 0, 0, n_classes, eta=settings.scale, seed=0).to(device)
        net.theta.data.copy_(self.rows)
        net.eta.requires_grad_(False)
        mask = only(self.seen.nonzero().flatten().tolist(), n_classes, device)

        def objective(x: Tensor, y: Tensor) -> Tensor:
            return cross_entropy(net(x[:, :head]) + mask, y)

        stop = Stop(rule="epochs", epochs=settings.epochs)
        how = Loop(settings.batch_size, stop, generator(seed, 0), device)
        optimiser = make_optimiser("adam", net, lr=settings.lr, weight_decay=0.0)
        fit(net, optimiser, session, how, hooks=Hooks(objective), checkpoint=checkpoint)
        self.trained[:] = self.seen
        self.rows[:] = torch.where(self.trained[:, None], normalize(net.theta.detach()), 0)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return tensor_bytes(*self.buffers())


def cosines(x: Tensor, rows: Tensor) -> Tensor:
    """cos(x, P_c) of x (…, n, d) and rows P (C, d) of length 1, (…, n, C)."""
    return normalize(x, dim=-1) @ rows.T
