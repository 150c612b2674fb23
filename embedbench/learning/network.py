"""What gradient learners share: a trunk and a head, an optimiser, and the one training loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from embedbench.seeds import Seeds
from embedbench.streams.stream import Session, StreamSpec

from .fit import train
from .images import ImageTraining
from .learner import Context, Footprint, Learner, Tags
from .net import check_training, net_bytes, predict, trunk_and_head
from .optimisers import optimiser_of
from .stop import Stop


@dataclass
class NetLearner(Learner):
    """A learner with a network. A method adds its fields, and a `learn` that calls `train`.

    It is no learner itself: it has no `learn`.

    Parameters
    ----------
    trunk : str
        The network below the head. "mlp"; "linear", none at all; for images also "resnet8",
        "resnet20", "resnet32" (He et al. 2016) or a model of timm. The first two take the values
        of an image in a row.
    units : int
        Of the trunk "mlp": hidden units per layer.
    layers : int
        Of the trunk "mlp": hidden layers.
    batch_size : int
        Samples per step.
    lr : float
        Learning rate.
    weight_decay : float
        Of the optimiser.
    optimiser : str
        "nadam", "adam" or "sgd".
    optimiser_state : str
        "fresh" in every session, or "kept" over all.
    stop : Stop
        When training a session ends.
    images : ImageTraining
        How a trunk for images is trained: from which weights, with how many frozen stages, on
        which augmentation, in which arithmetic.
    """

    trunk: str = "mlp"
    units: int = 400
    layers: int = 2
    batch_size: int = 256
    lr: float = 8e-4
    weight_decay: float = 0.0
    optimiser: str = "nadam"
    optimiser_state: str = "fresh"
    stop: Stop = field(default_factory=Stop)
    images: ImageTraining = field(default_factory=ImageTraining)

    tags: ClassVar[Tags] = Tags(images=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "learned")

    def __post_init__(self) -> None:
        check_training(self)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.begin(trunk_and_head(self, spec, seeds.init), seeds, device)

    def begin(self, net: nn.Module, seeds: Seeds, device: str) -> None:
        """Start with a network and a fresh optimiser; no session is learned yet."""
        self.seeds, self.device, self.learned = seeds, device, 0
        self.net = net.to(device)
        self.optimiser_ = optimiser_of(self, self.net)

    def train(self, session: Session, ctx: Context, **hooks: Any) -> dict[str, Any]:
        """Train the network on a session; return the log.

        Parameters
        ----------
        session : Session
            May hold more than the runner gave, such as exemplars.
        ctx : Context
            As given to `learn`.
        **hooks : object
            What the method adds to the loop: `objective`, `regularise`, `stepped`, `validate` and
            `draws`, as in `fit`.
        """
        return train(self, session, ctx, **hooks)

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return net_bytes(self)
