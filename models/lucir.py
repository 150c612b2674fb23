"""LUCIR: a cosine head, features that may not turn, and margins between old and new classes."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from embedbench.errors import UserError
from embedbench.learner import Context, Footprint, Learner, Seeds, Tags
from embedbench.stream import Session, StreamSpec

from ._distill import only
from ._exemplars import Exemplars
from ._memory import BY_SESSION, Memory, check_memory
from ._sgd import Objective, Stop, check_training, mlp_net, net_bytes, optimiser_of, predict, train


@dataclass
class LUCIR(Learner):
    """Learning a unified classifier incrementally via rebalancing; logits are η cos(φ(x), θ_c).

    L = cross-entropy + λ (1 - cos(φ, φ_old)) + 1/K Σ_k max(0, m - cos(φ, θ_y) + cos(φ, θ_k)), the
    last on exemplars of old classes, k the K new classes most like them.

    **Source**: Hou et al. (2019), Eqs. 4 to 9: K = 2, m = .5, λ = λ_base √(old/new classes), λ_base
    = 5 (CIFAR) or 10 (ImageNet). From their code: a new θ_c begins as the direction of the class's
    mean feature, as long as the old θ are on average (imprinting); those of old classes stand
    still; the margins are averaged over k, which the paper sums. φ is the last hidden activation
    without its ReLU.

    **Departs**: the optimiser and the stopping rule are `mlp`'s. η begins at 10, not at 1: an
    adaptive optimiser moves it by about the learning rate a step, and with η near 1 nothing is
    learned. No fine-tuning on a balanced set afterwards. The old network is a copy that lives while
    a session is learned. A class that comes again is learned as a new one, but not imprinted.

    Parameters
    ----------
    units, layers, batch_size, lr, weight_decay, optimiser, optimiser_state, stop : as in `mlp`
    lam : λ_base ≥ 0
    margin : m ≥ 0, in cosines
    negatives : K ≥ 1
    eta : where η begins, above 0
    memory : "herding", "random" or "all"
    """

    units: int = 400
    layers: int = 2
    batch_size: int = 256
    lr: float = 8e-4
    weight_decay: float = 0.0
    optimiser: str = "nadam"
    optimiser_state: str = "fresh"
    stop: Stop = field(default_factory=Stop)
    lam: float = 5.0
    margin: float = 0.5
    negatives: int = 2
    eta: float = 10.0
    memory: Memory = field(default_factory=Memory)

    tags: ClassVar[Tags] = Tags(stores_samples=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "learned", "exemplars")

    def __post_init__(self) -> None:
        check_training(self)
        check_memory(self, BY_SESSION)
        for setting, fits, expected in (
            ("lam", 0 <= self.lam < math.inf, "finite and at least 0"),
            ("margin", 0 <= self.margin < math.inf, "finite and at least 0"),
            ("negatives", self.negatives >= 1, "at least 1"),
            ("eta", 0 < self.eta < math.inf, "finite and above 0"),
        ):
            if not fits:
                raise UserError(f"lucir.{setting} must be {expected}, got {getattr(self, setting)}")

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.init)
            self.net = CosineNet(self, spec.input_shape[0], spec.n_classes, seeds.init).to(device)
        self.optimiser_ = optimiser_of(self, self.net)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        present, seen = set(session.y.tolist()), set(self.exemplars.classes)
        old = sorted(seen - present)
        if seen:
            self._imprint(session, sorted(present - seen), sorted(seen))
        theta, stands = self.net.theta, self.net.theta.detach()[old].clone()

        def stepped() -> None:
            theta.data[old] = stands

        lam = self.lam * math.sqrt(len(seen) / len(present))
        log = train(
            self,
            self.exemplars.join(session),
            objective=self._objective(old, sorted(present), lam),
            stepped=stepped,
        )
        self.exemplars.keep(session, self.net.features)
        self.learned += 1
        return log | {"lam": lam, "eta": self.net.eta.item()}

    @torch.no_grad()
    def _imprint(self, session: Session, new: list[int], seen: list[int]) -> None:
        """Let θ of the classes `new` point to their mean features, as long as those `seen` are."""
        theta = self.net.theta
        length = theta[seen].norm(dim=1).mean()
        y = torch.from_numpy(session.y).to(self.device)
        for c in new:
            x = session.x.batch((y == c).nonzero().flatten(), self.device)
            theta[c] = length * normalize(normalize(self.net.features(x)).mean(0), dim=0)

    def _objective(self, old: list[int], present: list[int], lam: float) -> Objective:
        mask = only({*old, *present}, len(self.net.theta), self.device)
        is_old = torch.zeros_like(mask, dtype=torch.bool)
        is_old[old] = True
        teacher = copy.deepcopy(self.net)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            phi = self.net.features(x)
            cosines = self.net.cosines(phi)  # (n, C)
            total = cross_entropy(self.net.eta * cosines + mask, y)
            if lam:
                with torch.no_grad():
                    before = teacher.features(x)
                total = total + lam * (1 - cosine_similarity(phi, before)).mean()
            hard = is_old[y]
            if not hard.any():
                return total
            return total + ranking(cosines[hard], y[hard], present, self.negatives, self.margin)

        return loss

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return Footprint(**net_bytes(self), **self.exemplars.footprint())


class CosineNet(nn.Module):
    """A trunk whose last layer is linear, and a cosine head; θ from the global random state."""

    def __init__(self, lucir: LUCIR, n_inputs: int, n_classes: int, seed: int) -> None:
        super().__init__()
        width = lucir.units if lucir.layers else n_inputs
        self.trunk: nn.Module = nn.Identity()
        if lucir.layers:
            self.trunk = mlp_net(n_inputs, lucir.units, lucir.layers - 1, width, seed)
        self.theta = nn.Parameter(torch.empty(n_classes, width).uniform_(-1, 1) / width**0.5)
        self.eta = nn.Parameter(torch.tensor(lucir.eta))

    def features(self, x: Tensor) -> Tensor:
        """φ(x), (n, d)."""
        phi: Tensor = self.trunk(x)
        return phi

    def cosines(self, phi: Tensor) -> Tensor:
        """cos(φ, θ_c), (n, C)."""
        return normalize(phi) @ normalize(self.theta).T  # (n, d) @ (d, C)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        return self.eta * self.cosines(self.features(x))


def ranking(cosines: Tensor, y: Tensor, new: list[int], k: int, margin: float) -> Tensor:
    """Mean of max(0, margin - cos_y + cos_c) over samples and the `k` classes c of `new` most like.

    Parameters
    ----------
    cosines : (n, C)
    y : (n,) labels, all of old classes
    """
    hardest = cosines[:, new].topk(min(k, len(new)), dim=1).values  # (n, k)
    return torch.relu(margin - cosines.gather(1, y[:, None]) + hardest).mean()
