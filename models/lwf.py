"""LwF: the old network's answers on new samples are learned beside the new labels."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from embedbench.errors import UserError
from embedbench.learning.distill import distillation, only
from embedbench.learning.exemplars import Exemplars
from embedbench.learning.fit import train
from embedbench.learning.images import ImageTraining
from embedbench.learning.learner import Context, Footprint, Learner, Tags
from embedbench.learning.loss import Objective
from embedbench.learning.memory import BY_SESSION, Memory, check_memory
from embedbench.learning.net import check_training, features_of, net_bytes, new_net, predict
from embedbench.learning.stop import Stop
from embedbench.seeds import Seeds
from embedbench.streams.stream import Session, StreamSpec


@dataclass
class LwF(Learner):
    """Learning without forgetting: cross-entropy on new classes + λ distillation on old ones.

    Without exemplars (the default, as in the paper) the cross-entropy is among the session's own
    classes; with exemplars it is over all classes seen, and both terms are on both kinds of sample.

    **Source**: Li and Hoiem (2016), T = 2, λ = 1; with one head for all classes as in Rebuffi et
    al. (2017), whose "LwF.MC" has sigmoids in both terms.

    **Departs**: the trunk, the optimiser and the stopping rule are `mlp`'s. λ = 3, as in PyCIL;
    FACIL searches it downwards from 10. The old network is a copy that lives while a session is
    learned. A session of one class, among which there is nothing to tell apart, has its
    cross-entropy over all classes seen. Exemplars are no part of the paper; libraries add them
    (`--set lwf.memory.per_class=20`).

    Parameters
    ----------
    trunk, units, layers, batch_size, lr, weight_decay, optimiser, optimiser_state, stop : as in
        `mlp`
    images : as in `mlp`
    lam : λ ≥ 0
    temperature : T > 0
    memory : "herding", "random" or "all"; none by default
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
    lam: float = 3.0
    temperature: float = 2.0
    memory: Memory = field(default_factory=lambda: Memory(per_class=0))

    tags: ClassVar[Tags] = Tags(stores_samples=True, images=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "learned", "exemplars")

    def __post_init__(self) -> None:
        check_training(self)
        check_memory(self, BY_SESSION)
        if not 0 <= self.lam < math.inf:
            raise UserError(f"lwf.lam must be finite and at least 0, got {self.lam}")
        if not 0 < self.temperature < math.inf:
            raise UserError(f"lwf.temperature must be finite and above 0, got {self.temperature}")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        self.net, self.optimiser_ = new_net(self, spec, seeds, device)
        self.n_classes = spec.n_classes
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        objective = self._objective(set(session.y.tolist()))
        log = train(self, self.exemplars.join(session), ctx, objective=objective)
        self.exemplars.keep(session, partial(features_of, self.net))
        self.learned += 1
        return log

    def _objective(self, present: set[int]) -> Objective:
        """The loss of a session whose own classes are `present`."""
        old = sorted(self.exemplars.classes)
        own = len(present) > 1 and not len(self.exemplars)
        among = present if own else present | self.exemplars.classes
        mask = only(among, self.n_classes, self.device)
        teacher = copy.deepcopy(self.net)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = self.net(x)
            total = cross_entropy(logits + mask, y)
            if not old:
                return total
            targets = predict(teacher, x)[:, old]
            return total + self.lam * distillation(logits[:, old], targets, self.temperature)

        return loss

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return Footprint(**net_bytes(self), **self.exemplars.footprint())
