import copy
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from embedbench.config.setting_ranges import above, at_least
from embedbench.learning import Context, ReplayLearner, Session, StreamSpec, Tags, predict
from embedbench.learning.exemplars import Memory, session_classes
from embedbench.learning.loss import Objective, only, set_loss
from embedbench.learning.network import CosineNet, cosine_net, predict_cosines


@dataclass
class LUCIR(ReplayLearner):
    """A cosine head, a loss that keeps the direction of features, margins between classes.

    Logits are η cos(φ(x), θ_c); L = cross-entropy + λ (1 - cos(φ, φ_old)) + 1/K Σ_k max(0, m -
    cos(φ, θ_y) + cos(φ, θ_k)). The last term is for exemplars of old classes; k are the K new
    classes most like them. Label sets are learned by `set_loss` over the classes seen instead of
    cross-entropy; the answers are the cosines.

    **Source**: Hou et al. (2019), "Learning a unified classifier incrementally via rebalancing",
    Eqs. 4 to 9: K = 2, m = .5, λ_base = 5 (CIFAR) or 10 (ImageNet). From their code: λ = λ_base
    √(old/new classes), which was not compared with the printed equation; a new θ_c begins in the
    direction of the class's mean feature, with the mean length of the old θ (imprinting); those of
    old classes are frozen; the margins are averaged over k, while the paper sums them. φ is the
    last hidden activation without its ReLU. Label sets: Abdelsalam et al. (2021, IIRC), with η
    beginning at 1.

    **Departs**: the optimiser and the stopping rule are `mlp`'s. η begins at 10, not at 1: an
    adaptive optimiser moves it by about the learning rate per step, and with η near 1 nothing is
    learned. There is no fine-tuning on a balanced set afterwards. A class that comes again is
    learned as a new one, but not imprinted. With label sets, new classes are those that a session
    introduces; a sample without any of them counts as an exemplar, and each of its labels has its
    margins.

    Parameters
    ----------
    lam, margin : float
        λ_base ≥ 0, and m ≥ 0 in cosines.
    negatives : int
        K ≥ 1.
    eta : float
        Initial η, above 0.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "lucir"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    lam: Annotated[float, at_least(0)] = 5.0
    margin: Annotated[float, at_least(0)] = 0.5
    negatives: Annotated[int, at_least(1)] = 2
    eta: Annotated[float, above(0)] = 10.0
    memory: Memory = field(default_factory=Memory)

    tags: ClassVar[Tags] = Tags(stores_samples=True, multilabel=True, images=True)

    def make_net(self, spec: StreamSpec, seed: int) -> CosineNet:
        self.net: CosineNet
        return cosine_net(self, spec, seed, eta=self.eta)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        present = session_classes(session)
        seen = set(self.exemplars.classes)
        old = sorted(seen - present)
        if seen:
            self._imprint(session, sorted(present - seen), sorted(seen))
        theta = self.net.theta
        fixed = self.net.theta.detach()[old].clone()

        def stepped() -> None:
            theta.data[old] = fixed

        lam = self.lam * math.sqrt(len(seen) / max(1, len(present)))
        objective = self._objective(old, sorted(present), lam)
        log = self.train_with_exemplars(session, ctx, objective=objective, stepped=stepped)
        return log | {"lam": lam, "eta": self.net.eta.item()}

    @torch.no_grad()
    def _imprint(self, session: Session, new: list[int], seen: list[int]) -> None:
        """Point θ of the classes `new` to their mean features, with the mean length of `seen`."""
        theta = self.net.theta
        length = theta[seen].norm(dim=1).mean()
        y = torch.from_numpy(session.y).to(self.device)
        for c in new:
            rows = (y[:, c] if y.ndim == 2 else y == c).nonzero().flatten()
            if len(rows):
                phi = normalize(self.features(session.x.batch(rows, self.device)))
                theta[c] = length * normalize(phi.mean(0), dim=0)

    def _objective(self, old: list[int], present: list[int], lam: float) -> Objective:
        seen = torch.tensor([*old, *present], device=self.device)
        mask = only({*old, *present}, len(self.net.theta), self.device)
        teacher = copy.deepcopy(self.net).eval()

        def loss(x: Tensor, y: Tensor) -> Tensor:
            phi = self.net.features(x)
            cosines = self.net.cosines(phi)  # (n, C)
            logits = self.net.eta * cosines
            total = set_loss(logits, y, seen) if y.ndim == 2 else cross_entropy(logits + mask, y)
            if lam:
                with torch.no_grad():
                    before = teacher.features(x)
                total = total + lam * (1 - cosine_similarity(phi, before)).mean()
            row, label = _pairs(y, old, present)
            if not len(row) or not present:
                return total
            return total + ranking(cosines[row], label, present, self.negatives, self.margin)

        return loss

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict_cosines(self.net, x) if self.spec.multilabel else predict(self.net, x)


def _pairs(y: Tensor, old: list[int], new: list[int]) -> tuple[Tensor, Tensor]:
    """The exemplars of old classes in a batch: rows (m,) and labels (m,), one pair per label.

    For label sets (b, C), exemplars are the samples without a label in `new`.
    """
    if y.ndim == 1:
        row = torch.isin(y, y.new_tensor(old)).nonzero().flatten()
        return row, y[row]
    of_old = y.new_zeros(y.shape[1])
    of_old[old] = True
    row, label = (y & of_old & ~y[:, new].any(1, keepdim=True)).nonzero().T
    return row, label


def ranking(cosines: Tensor, y: Tensor, new: list[int], k: int, margin: float) -> Tensor:
    """Mean of max(0, margin - cos_y + cos_c) over samples and their `k` nearest classes c of `new`.

    Cosines are (n, C), labels y (n,), all of old classes.
    """
    hardest = cosines[:, new].topk(min(k, len(new)), dim=1).values  # (n, k)
    return torch.relu(margin - cosines.gather(1, y[:, None]) + hardest).mean()
