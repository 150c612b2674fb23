"""Prototypes: one row of length 1 per class; few-shot learners answer by cosines to them."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from embedbench.config.run_seeds import generator
from embedbench.errors import UserError
from embedbench.streams.stream import Session

from .base_session_prototypes import Classifier
from .learner import NO_CHECKPOINT, Checkpoint, Context
from .loss import only
from .network import CosineNet
from .optimisers import make_optimiser
from .stopping import Stop
from .training_loop import Training

UNSEEN = -1e30  # score of a class not seen yet: finite, below all others
BLOCK = 4096  # samples summed at once


class Prototypes(nn.Module):
    """P (C, d), rows of length 1, and the running means (C, D) from which they are computed.

    `width` is D, the columns of a sample; P is made from the columns [0, d), d = `head`, and the
    others have only means.
    """

    sums: Tensor  # (C, D) float64
    counts: Tensor  # (C,)
    rows: Tensor  # (C, d) P; zeros for a class not seen
    trained: Tensor  # (C,) bool: the row is a trained weight, and does not change

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
        """(C,) bool, the classes that have a prototype."""
        return self.counts > 0

    def means(self) -> Tensor:
        """Means of all samples so far, (C, D) float32; zeros for a class not seen."""
        return (self.sums / self.counts.clamp(min=1)[:, None]).float()

    def add(
        self,
        session: Session,
        settings: Classifier | None = None,
        seed: int = 0,
        ctx: Context | None = None,
    ) -> None:
        """Add a session: prototypes for its classes; `settings` says how for the first session.

        `seed` is that of the batches, if there is a training; `ctx` saves this training, and has
        the weights of a pretrained classifier.
        """
        first = not self.seen.any()
        device = self.device
        y = torch.from_numpy(session.y).to(device)
        for index in torch.split(torch.arange(len(y), device=device), BLOCK):
            self.include(session.x.batch(index, device), y[index])
        if not first or settings is None or settings.base == "means":
            return
        if settings.base == "trained":
            self._train(session, settings, seed, NO_CHECKPOINT if ctx is None else ctx.checkpoint)
        elif ctx is None or ctx.head is None:
            raise UserError("classifier.base names a file, and the runner alone can match it")
        else:
            self._fix(torch.from_numpy(ctx.head).to(device))

    def _fix(self, weights: Tensor) -> None:
        """Make weights (k, d) the rows of the classes seen, which do not change any more."""
        self.trained[:] = self.seen
        self.rows[self.seen] = normalize(weights)

    def include(self, x: Tensor, y: Tensor) -> None:
        """Add samples x (n, D) of classes y (n,), and update the prototypes of these classes."""
        self.sums.index_add_(0, y, x.double())
        self.counts += torch.bincount(y, minlength=len(self.counts))
        means = normalize(self.means()[:, : self.rows.shape[1]])
        self.rows[:] = torch.where(self.trained[:, None], self.rows, means)

    def _train(
        self, session: Session, settings: Classifier, seed: int, checkpoint: Checkpoint
    ) -> None:
        device, (n_classes, head) = self.device, self.rows.shape
        net = CosineNet(nn.Flatten(), head, n_classes, eta=settings.scale, seed=0).to(device)
        net.theta.data.copy_(self.rows)
        net.eta.requires_grad_(False)
        mask = only(self.seen.nonzero().flatten().tolist(), n_classes, device)

        def objective(x: Tensor, y: Tensor) -> Tensor:
            return cross_entropy(net(x[:, :head]) + mask, y)

        stop = Stop(rule="epochs", epochs=settings.epochs)
        optimiser = make_optimiser("adam", net, lr=settings.lr)
        draws = generator(seed, 0)
        Training(
            net, optimiser, session, settings.batch_size, stop, draws, device, objective=objective
        ).run(checkpoint)
        self._fix(net.theta.detach()[self.seen])


def cosines(x: Tensor, rows: Tensor) -> Tensor:
    """cos(x, P_c) of x (…, n, d) and rows P (C, d) of length 1, (…, n, C)."""
    return normalize(x, dim=-1) @ rows.T
