"""iCaRL: distillation, herded exemplars, and the nearest mean of exemplars as the answer."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot

from embedbench.errors import UserError
from embedbench.learner import Context, Footprint, Learner, Seeds, Tags, tensor_bytes
from embedbench.stream import Session, StreamSpec

from ._exemplars import Exemplars
from ._memory import BY_SESSION, Memory, check_memory
from ._sgd import Objective, Stop, check_training, net_bytes, new_net, train

UNSEEN = -2.0  # score of a class without exemplars: below every cosine


@dataclass
class ICaRL(Learner):
    """Incremental classifier and representation learning.

    A session and all exemplars are learned by binary cross-entropy, a sigmoid a class: new classes
    have their labels as targets, old ones the sigmoids of the network before the session. A sample
    is given to the class whose exemplars' mean feature is nearest.

    **Source**: Rebuffi et al. (2017), Algorithms 1 to 5. The feature φ is the last hidden
    activation, brought to length 1; so is the mean.

    **Departs**: the embeddings are frozen, and what is learned is the network behind them. The loss
    is summed over the classes seen and averaged over the samples, as the paper's; libraries also
    average over the classes (IIRC), or add a cross-entropy to a distillation of weight 4 (FACIL). A
    class that comes again is learned by its labels. 20 exemplars a class, growing, where the paper
    has 2,000 in all (`--set icarl.memory.total=2000`). The old network is a copy that lives while a
    session is learned.

    Parameters
    ----------
    units, layers, batch_size, lr, weight_decay, optimiser, optimiser_state, stop : as in `mlp`
    memory : at least one exemplar a class, "herding", "random" or "all"
    """

    units: int = 400
    layers: int = 2
    batch_size: int = 256
    lr: float = 8e-4
    weight_decay: float = 0.0
    optimiser: str = "nadam"
    optimiser_state: str = "fresh"
    stop: Stop = field(default_factory=Stop)
    memory: Memory = field(default_factory=Memory)

    tags: ClassVar[Tags] = Tags(stores_samples=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "learned", "exemplars", "means")

    def __post_init__(self) -> None:
        check_training(self)
        check_memory(self, BY_SESSION)
        if self.memory.quota(1) == 0:
            raise UserError(
                "icarl answers with the means of exemplars: icarl.memory.total and "
                "icarl.memory.per_class must not be 0"
            )

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        self.net, self.optimiser_ = new_net(self, spec, seeds, device)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)
        width = self.units if self.layers else spec.input_shape[0]
        self.means = torch.zeros(spec.n_classes, width, device=device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        new = set(session.y.tolist())
        old = sorted(self.exemplars.classes - new)
        log = train(self, self.exemplars.join(session), objective=self._objective(sorted(new), old))
        self.exemplars.keep(session, self.features)
        self._remember_means()
        self.learned += 1
        return log

    def _objective(self, new: list[int], old: list[int]) -> Objective:
        """Binary cross-entropy; the targets of old classes are the present network's sigmoids."""
        seen = torch.tensor([*new, *old], device=self.device)
        teacher = copy.deepcopy(self.net).eval()

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = self.net(x)
            targets = one_hot(y, logits.shape[1]).to(logits.dtype)
            if old:
                with torch.no_grad():
                    targets[:, old] = torch.sigmoid(teacher(x)[:, old])
            entropy = binary_cross_entropy_with_logits(
                logits[:, seen], targets[:, seen], reduction="sum"
            )
            return entropy / len(x)

        return loss

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """φ(x), the last hidden activation brought to length 1, (n, d)."""
        phi: Tensor = normalize(self.net[:-1](x))
        return phi

    def _remember_means(self) -> None:
        phi = self.features(self.exemplars.x)
        for c in sorted(self.exemplars.classes):
            self.means[c] = normalize(phi[self.exemplars.y == c].mean(0), dim=0)

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        # ‖φ - μ‖² = 2 - 2 φ·μ where both have length 1
        near = self.features(x) @ self.means.T  # (n, d) @ (d, C) -> (n, C)
        return near.masked_fill((self.means == 0).all(1), UNSEEN)

    def footprint(self) -> Footprint:
        return Footprint(
            **net_bytes(self),
            means=tensor_bytes(self.means),
            **self.exemplars.footprint(),
        )
