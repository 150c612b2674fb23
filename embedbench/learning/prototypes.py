"""Prototypes: one row of length 1 per class; few-shot learners answer by cosines to them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from embedbench.config.setting_ranges import above, at_least, check_settings
from embedbench.errors import UserError, unknown
from embedbench.networks.weights import file_sha256
from embedbench.streams.stream import Session

from .learner import NO_CHECKPOINT, Checkpoint, Context
from .loss import only
from .net_and_optimiser import CosineNet, generator, make_optimiser
from .stopping import Stop
from .training_loop import Hooks, Loop, fit

SHA256 = "sha256:"  # how the text of a file's content begins
UNSEEN = -1e30  # score of a class not seen yet: finite, below all others
BLOCK = 4096  # samples summed at once


class KnownFile(str):
    """A file as a setting: the text "sha256:…", and the path where the file is here.

    Records, recipes and the places of runs keep the text, so that a path identifies nothing.
    """

    path: Path | None

    def __new__(cls, text: str, path: Path | None = None) -> Self:
        made = super().__new__(cls, text)
        made.path = path
        return made

    @classmethod
    def at(cls, path: Path) -> Self:
        """The file at a path."""
        return cls(f"{SHA256}{file_sha256(path)}", path)

    @property
    def sha256(self) -> str:
        """The digest alone."""
        return self.removeprefix(SHA256)

    def checked(self) -> Path:
        """The path, if the file is there and has not changed."""
        if self.path is None:
            raise UserError(f"classifier.base is {self[:19]}…; give the path of the file instead")
        if file_sha256(self.path) != self.sha256:
            raise UserError(f"{self.path} has changed since the command began; start it again")
        return self.path


@dataclass(frozen=True)
class Classifier:
    """The prototypes of the classes of the first session.

    Parameters
    ----------
    base : str
        "means": the class means, scaled to length 1. "trained": the weights of a cosine classifier,
        trained with Adam on the first session, starting from these means. Or the .safetensors file
        of a trunk that `pretrain --head cosine` made on this base session: the weights of its
        classifier, scaled to length 1. It is kept as "sha256:…", the digest of the file.
    epochs, batch_size : int
        Epochs and batch size of this training.
    lr : float
        Learning rate.
    scale : float
        Factor of the cosines before the softmax of the training.
    """

    base: str = "means"
    epochs: Annotated[int, at_least(1, 100_000)] = 20
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 1e-3
    scale: Annotated[float, above(0)] = 16.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", _base(self.base))
        check_settings(self, "classifier")


def _base(value: str) -> str:
    """A value of `classifier.base`; a file by its content."""
    if value in ("means", "trained") or isinstance(value, KnownFile):
        return value
    if value.startswith(SHA256):
        return KnownFile(value)
    if value.endswith(".safetensors"):
        return KnownFile.at(Path(value))
    raise unknown("classifier.base", value, ("means", "trained", "FILE.safetensors"))


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
        first, device = not self.seen.any(), self.device
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
        self._fix(net.theta.detach()[self.seen])


def cosines(x: Tensor, rows: Tensor) -> Tensor:
    """cos(x, P_c) of x (…, n, d) and rows P (C, d) of length 1, (…, n, C)."""
    return normalize(x, dim=-1) @ rows.T
