"""The shared part of gradient learners: a network and its training; with a memory of samples."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Unpack

from torch import Tensor, nn

from embedbench.config.fields_added_later import later
from embedbench.config.run_seeds import Seeds
from embedbench.config.setting_ranges import above, at_least
from embedbench.errors import UserError
from embedbench.networks.weights import file_sha256
from embedbench.streams.stream import Session, StreamSpec

from . import training_loop
from .exemplars import BY_SESSION, Exemplars, Memory, check_memory
from .image_training import PLAINLY, ImageTraining
from .learner import Context, Learner, Tags
from .network import eval_features, predict, trunk_and_head
from .optimisers import OptimiserName, fresh_optimiser
from .stopping import Stop
from .trunk import FLAT, check_trunk, weights_file


@dataclass
class NetLearner(Learner):
    """Base of learners with a network. A method adds fields, and a `learn` that calls `train`.

    It has no `learn`, so it is not a learner itself. Unless a learner says otherwise, its loss
    includes all classes of the stream, also those not seen yet, or those seen where `protocol.loss`
    is "seen".

    Parameters
    ----------
    trunk : str
        The network below the head: "mlp"; "linear" for none at all; for images also "resnet8",
        "resnet20", "resnet32" (He et al. 2016), "resnet18_slim" (20 filters, Lopez-Paz and Ranzato
        2017) or a model of timm. "mlp" and "linear" flatten images.
    units : int
        Hidden units per layer, of the trunk "mlp".
    layers : int
        Number of hidden layers, of the trunk "mlp".
    batch_size : int
        Samples per step.
    lr : float
        Learning rate.
    weight_decay : float
        Weight decay of the optimiser.
    optimiser : str
        "nadam", "adam", "sgd" (momentum 0.9) or "plain-sgd" (none).
    optimiser_state : str
        "fresh": a new optimiser in every session; "kept": one for all sessions.
    stop : Stop
        When training a session ends.
    images : ImageTraining
        How a trunk for images is trained: initial weights, frozen stages, augmentation, arithmetic.
    passes : float
        Samples presented for each new one, those from memory included: training ends in the step
        that reaches this, and `stop` decides nothing; 0: `stop` decides.
    """

    trunk: str = "mlp"
    units: Annotated[int, at_least(1, 100_000)] = 400
    layers: Annotated[int, at_least(0, 100)] = 2
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 8e-4
    weight_decay: Annotated[float, at_least(0)] = 0.0
    optimiser: OptimiserName = "nadam"
    optimiser_state: Literal["fresh", "kept"] = "fresh"
    stop: Stop = field(default_factory=Stop)
    images: ImageTraining = field(default_factory=ImageTraining)
    passes: Annotated[float, at_least(0, 100_000)] = later(0.0, earlier=0.0)

    tags: ClassVar[Tags] = Tags(images=True)
    state: ClassVar[dict[str, str]] = {"net": "parameters", "optimiser_": "optimiser"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_trunk(f"{self.name}.trunk", self.trunk)
        if self.images != PLAINLY and self.trunk in FLAT:
            raise UserError(
                f"{self.name}.images is for trunks of images, and {self.name}.trunk is "
                f"{self.trunk!r}",
                "leave it out, or choose one with --trunk resnet32",
            )
        if self.images.weights:
            digest = file_sha256(weights_file(self.trunk, self.images.weights))
            if self.images.sha256 not in ("", digest):
                raise UserError(
                    f"{self.images.weights} has the SHA-256 {digest[:12]}…, and "
                    f"{self.name}.images.sha256 says {self.images.sha256[:12]}…",
                    "give the original file, or leave sha256 out",
                )
            self.images = replace(self.images, sha256=digest)

    def validation_needs(self) -> dict[str, str]:
        return {} if self.passes else super().validation_needs()

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.spec, self.seeds, self.device, self.learned = spec, seeds, device, 0
        self.scores_are = "logits"
        self.net = self.make_net(spec, seeds.init).to(device)
        self.optimiser_ = fresh_optimiser(self, self.net)

    def make_net(self, spec: StreamSpec, seed: int) -> nn.Module:
        """The network before the first session."""
        return trunk_and_head(self, spec, seed)

    train = training_loop.train

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)


class ReplayLearner(NetLearner):
    """Base of learners with a network and exemplars. A method adds a field `memory`.

    Parameters
    ----------
    memory : Memory
        "herding", "random" or "all".

    Attributes
    ----------
    selects : tuple of str
        The kinds of memory that the method can use, as in `Memory.select`.
    exemplars : Exemplars
        The stored samples.
    """

    memory: Memory  # no field here: each method says where in its list of settings it comes
    selects: ClassVar[tuple[str, ...]] = BY_SESSION

    tags: ClassVar[Tags] = Tags(stores_samples=True, images=True)
    state: ClassVar[dict[str, str]] = {**NetLearner.state, "exemplars": "samples"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)
        self.steps = 0  # online steps; `learned` counts whole sessions

    def train_with_exemplars(
        self, session: Session, ctx: Context, **hooks: Unpack[training_loop.Hooks]
    ) -> dict[str, Any]:
        """`train` on the session and the exemplars, then choose those of its classes."""
        log = self.train(self.exemplars.join(session), ctx, **hooks)
        self.exemplars.choose(session, self.features)
        return log

    def features(self, x: Tensor) -> Tensor:
        """φ(x), the input of the head, which herding compares, (n, d)."""
        return eval_features(self.net, x)
