from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import above, at_least
from embedbench.errors import UserError
from embedbench.learning import Context, Learner, Seeds, Session, Stop, StreamSpec, generator, train
from embedbench.learning.network import mlp_net, predict
from embedbench.learning.optimisers import OptimiserName, fresh_optimiser
from embedbench.learning.prototypes import UNSEEN, Prototypes
from embedbench.learning.sample_containers import JoinedView, Rows, with_data


@dataclass
class NCFSCIL(Learner):
    """Neural collapse as the goal: a projection trained towards a fixed simplex.

    The simplex E (d, K) has a column of length 1 for each class, with cosines -1/(K - 1) between
    them. A projection f of the frozen features is trained with L = ½ (e_y·f/‖f‖ - 1)²; the largest
    e_c·f/‖f‖ answers. Later sessions train on their samples and on one mean for each earlier class.

    **Source**: Yang et al. (2023), "Neural collapse inspired feature-classifier alignment for
    few-shot class-incremental learning": E = √(K/(K - 1)) U (I - 11ᵀ/K), UᵀU = I, K all classes of
    the stream; the dot-regression loss; the mean features of old classes as the memory, every mean
    and every sample with the same weight.

    **Departs**: the optimiser and the stopping rule are `mlp`'s; the paper trains the backbone with
    the projection in the base session, here it is frozen. E is computed as U (d, K - 1) times an
    orthonormal basis of the space orthogonal to 1. This is the same for d ≥ K, and also defined for
    d = K - 1.

    Parameters
    ----------
    units, layers, batch_size, lr, weight_decay, optimiser, optimiser_state, stop
        As in `NetLearner`, for the projection.
    outputs : int or None
        d ≥ K - 1, width of the projection; None: the width of the features.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "nc-fscil"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    units: Annotated[int, at_least(1, 100_000)] = 1024
    layers: Annotated[int, at_least(0, 100)] = 1
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 8e-4
    weight_decay: Annotated[float, at_least(0)] = 0.0
    optimiser: OptimiserName = "nadam"
    optimiser_state: Literal["fresh", "kept"] = "fresh"
    stop: Stop = field(default_factory=Stop)
    outputs: Annotated[int, at_least(1, 100_000)] | None = None

    scores_are = "cosines"
    state: ClassVar[dict[str, str]] = {
        "net": "parameters",
        "optimiser_": "optimiser",
        "frame": "frame",
        "prototypes": "means",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        n_classes = spec.n_classes
        width = spec.input_shape[0]
        outputs = self.outputs or width
        if outputs < n_classes - 1:
            raise UserError(
                "nc-fscil.outputs",
                f"use --set nc-fscil.outputs={n_classes - 1}",
                expected=f"at least {n_classes - 1} for {n_classes} classes",
                got=outputs,
            )
        self.net = mlp_net(width, self.units, self.layers, outputs, seeds.init).to(device)
        self.optimiser_ = fresh_optimiser(self, self.net)
        self.frame = simplex(outputs, n_classes, generator(seeds.init, 0)).to(device)
        self.prototypes = Prototypes(n_classes, width, 0, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = train(self, self._joined(session), ctx, objective=self._loss)
        self.prototypes.add(session)
        return log

    def _joined(self, session: Session) -> Session:
        """The session, and the means of earlier classes that are not in it."""
        old = self.prototypes.seen.cpu()
        old[torch.from_numpy(np.unique(session.y))] = False
        classes = old.nonzero().flatten()
        if not len(classes):
            return session
        means = Rows(self.prototypes.means()[classes.to(self.device)])
        y = np.concatenate([session.y, classes.numpy()])
        return with_data(session, JoinedView(session.x, means), y)

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The dot-regression loss, mean over samples."""
        aligned = (nn.functional.normalize(self.net(x)) * self.frame.T[y]).sum(1)
        return (aligned - 1).square().mean() / 2

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        out = nn.functional.normalize(predict(self.net, x)) @ self.frame  # (n, d) @ (d, C)
        return out.masked_fill(~self.prototypes.seen, UNSEEN)


def simplex(width: int, n: int, draw: torch.Generator) -> Tensor:
    """A simplex equiangular tight frame in a random position, (width, n) float32; width ≥ n - 1."""
    centred = torch.eye(n, dtype=torch.float64) - 1 / n
    basis = torch.linalg.qr(centred[:, : n - 1])[0]  # (n, n - 1), orthogonal to 1
    drawn = torch.randn(width, n - 1, dtype=torch.float64, generator=draw)
    turned = torch.linalg.qr(drawn)[0]  # (width, n - 1), UᵀU = I
    frame: Tensor = (n / max(n - 1, 1)) ** 0.5 * turned @ basis.T
    return frame.float()
