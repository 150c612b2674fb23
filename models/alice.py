from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import above, at_least
from embedbench.learning import UNSEEN, Context, Learner, Seeds, Session, Stop, StreamSpec, train
from embedbench.learning.loss import Objective, only
from embedbench.learning.network import CosineNet, cosine_mlp
from embedbench.learning.optimisers import OptimiserName
from embedbench.learning.prototypes import BLOCK, Prototypes, cosines


@dataclass
class ALICE(Learner):
    """A projection trained with an angular margin and mixtures of classes, then class means.

    The base session trains a projection φ with CosFace's loss, the cross-entropy of s (cos(φ, θ_c)
    - m [c = y]), on its classes and on mixtures. Each sample x of a batch is mixed with another,
    x'. If they are of two classes, λ x + (1 - λ) x' is a sample of an extra class for this pair.
    After the base session φ is fixed. A class then has the mean of the K samples whose φ is nearest
    to its mean φ, so that base classes have as many samples in their mean as classes of K shots.

    **Source**: Peng et al. (2022), "Few-shot class-incremental learning from an open-set
    perspective", and their code: s = 30, m = .4; every batch is mixed four times, with λ from
    Beta(20, 20), or ½ if the draw is further than .1 from ½ (on CUB-200 nothing is mixed); K = 5.

    **Departs**: in the paper φ is the backbone, trained through two layers that are then removed.
    Here the backbone is frozen, and φ is two layers on top of it, as wide as theirs (ResNet-18),
    without batch normalisation. Embeddings are mixed, not images, and there is no second view of an
    image. The optimiser and the stopping rule are `mlp`'s; validation data is not mixed. The K
    nearest samples are found exactly; their code searches in one pass and may miss some. Means are
    of K samples in every session; the paper also reports means of all samples of the base session.
    A class that comes again adds its K nearest samples to the mean.

    Parameters
    ----------
    units, layers, batch_size, lr, weight_decay, optimiser, stop
        As in `NetLearner`, for the projection.
    scale, margin : float
        s > 0, and m ≥ 0 in cosines.
    mixes : int
        How often a batch is mixed; 0: no mixtures.
    shots : int
        K, the number of samples in a class mean.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "alice"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    units: Annotated[int, at_least(1, 100_000)] = 512
    layers: Annotated[int, at_least(0, 100)] = 2
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 8e-4
    weight_decay: Annotated[float, at_least(0)] = 0.0
    optimiser: OptimiserName = "nadam"
    stop: Stop = field(default_factory=Stop)
    scale: Annotated[float, above(0)] = 30.0
    margin: Annotated[float, at_least(0)] = 0.4
    mixes: Annotated[int, at_least(0, 1000)] = 4
    shots: Annotated[int, at_least(1)] = 5

    optimiser_state: ClassVar[Literal["fresh"]] = "fresh"  # no setting here
    scores_are = "cosines"
    state: ClassVar[dict[str, str]] = {"net": "parameters", "prototypes": "prototypes"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.spec, self.learned = seeds, device, spec, 0
        self.optimiser_: torch.optim.Optimizer  # `train` makes it
        self.net: nn.Module = self._whole(0).trunk
        width = self.units if self.layers else spec.input_shape[0]
        self.prototypes = Prototypes(spec.n_classes, width, width, device)

    def _whole(self, mixtures: int) -> CosineNet:
        """φ with a cosine head for all classes, followed by the mixtures."""
        n_inputs = self.spec.input_shape[0]
        n_classes = self.spec.n_classes + mixtures
        net = cosine_mlp(
            n_inputs, self.units, self.layers, n_classes, eta=self.scale, seed=self.seeds.init
        )
        net.eta.requires_grad_(False)
        return net.to(self.device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = {} if self.prototypes.seen.any() else self._train(session, ctx)
        self._add_means(session)
        return log

    def _train(self, session: Session, ctx: Context) -> dict[str, Any]:
        base = torch.from_numpy(np.unique(session.y)).to(self.device)
        mixtures = len(base) * (len(base) - 1) // 2 if self.mixes else 0
        self.net = whole = self._whole(mixtures)
        draws = np.random.default_rng([self.seeds.batches, 1])
        objective = self._objective(whole, base, draws)
        log = train(self, session, ctx, objective=objective, draws=draws)
        self.net = whole.trunk
        return log

    def _objective(self, whole: CosineNet, base: Tensor, draws: np.random.Generator) -> Objective:
        n = self.spec.n_classes
        n_all = len(whole.theta)
        mask = only({*base.tolist(), *range(n, n_all)}, n_all, self.device)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            if whole.training:
                x, y = self._mixed(x, y, base, draws)
            near = whole.cosines(whole.features(x)) - self.margin * nn.functional.one_hot(y, n_all)
            return nn.functional.cross_entropy(self.scale * near + mask, y)

        return loss

    def _mixed(
        self, x: Tensor, y: Tensor, base: Tensor, draws: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """The batch and its mixtures; pairs of base classes have labels from n_classes on."""
        place = torch.searchsorted(base, y)
        n = len(base)
        xs = [x]
        ys = [y]
        for _ in range(self.mixes):
            other = torch.from_numpy(draws.permutation(len(x))).to(self.device)
            shares = draws.beta(20, 20, len(x))
            shares[abs(shares - 0.5) > 0.1] = 0.5
            share = torch.from_numpy(shares).to(x)[:, None]
            low = torch.minimum(place, place[other])
            high = torch.maximum(place, place[other])
            pair = low * (2 * n - low - 1) // 2 + high - low - 1  # (0, 1), (0, 2), …, (1, 2), …
            two = low < high
            xs.append((share * x + (1 - share) * x[other])[two])
            ys.append(self.spec.n_classes + pair[two])
        return torch.cat(xs), torch.cat(ys)

    @torch.no_grad()
    def _add_means(self, session: Session) -> None:
        y = torch.from_numpy(session.y).to(self.device)
        blocks = torch.split(torch.arange(len(y), device=self.device), BLOCK)
        phi = torch.cat([self.net(session.x.batch(index, self.device)) for index in blocks])
        nearest = []
        for c in torch.unique(y):
            rows = (y == c).nonzero().flatten()
            near = cosines(phi[rows], nn.functional.normalize(phi[rows].mean(0), dim=0)[None])[:, 0]
            nearest.append(rows[near.topk(min(self.shots, len(rows))).indices])
        chosen = torch.cat(nearest)
        self.prototypes.include(phi[chosen], y[chosen])

    @torch.inference_mode()
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        near = cosines(self.net(x), self.prototypes.rows)
        return near.masked_fill(~self.prototypes.seen, UNSEEN)
