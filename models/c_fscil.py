from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, cosine_similarity, normalize, one_hot

from embedbench.config.setting_ranges import above, at_least
from embedbench.learning import UNSEEN, Context, Learner, Seeds, Session, Stop, StreamSpec, train
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import OptimiserName
from embedbench.learning.prototypes import Prototypes, cosines

DECAY = 5e-4  # weight decay while the projection is retrained


@dataclass
class CFSCIL(Learner):
    """Class means pushed apart until almost orthogonal, and a projection trained to follow.

    cos(tanh f(x), tanh f(μ_c)) answers, f one linear layer. The memory holds one mean μ_c per
    class. The base session trains f. Then, and after every later session, the prototypes k_c =
    f(μ_c) are pushed apart, and f is retrained on the memory alone to maximise the mean of cos(tanh
    f(μ_c), tanh k_c). `mode` says how they are pushed apart. 1: not
    at all, and f does not change. 2: k_c becomes sign(k_c). 3: tanh k follows the gradient
    downwards of two terms: the mean over pairs of exp(4 cos) + exp(-4 cos) - 2, and the mean of 1 -
    cos to its first position.

    **Source**: Hersche et al. (2022), "Constrained few-shot class-incremental learning", and their
    code: d = 512; gradient steps with Nesterov's momentum .9, 100 of .1 for k, and for f 50 of .01
    (10 in mode 2) with a weight decay of 5e-4. f learns the base session by episodes: a sample is
    compared with the prototypes of all classes; σ(10 (cos - .5)) + σ(10 (-cos - .5)), scaled to sum
    1, is the probability of a class; the loss is binary cross-entropy; the prototypes get no
    gradient.

    **Departs**: the paper trains the backbone with f, by cross-entropy and then by episodes of five
    shots per class. Here the backbone is frozen, and an episode is a batch together with the means
    of all samples. Its optimiser and stopping rule are `mlp`'s, the initial weights PyTorch's. The
    answer is the cosine; theirs is its absolute value. Momentum is not kept between sessions. A
    class that comes again moves its mean.

    Parameters
    ----------
    units : int
        d, the outputs of f.
    batch_size, lr, weight_decay, optimiser, stop : int, float, float, str, Stop
        As in `NetLearner`, for the base session.
    mode : int
        1, 2 or 3.
    nudge_steps, nudge_lr : int, float
        Gradient steps of k, in mode 3, and their learning rate.
    retrain_steps, retrain_lr : int, float
        Gradient steps of f, in modes 2 and 3, and their learning rate, for features with a root
        mean square of about 1; smaller features need a larger one.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "c-fscil"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    units: Annotated[int, at_least(1, 100_000)] = 512
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 8e-4
    weight_decay: Annotated[float, at_least(0)] = 0.0
    optimiser: OptimiserName = "nadam"
    stop: Stop = field(default_factory=Stop)
    mode: Literal[1, 2, 3] = 3
    nudge_steps: Annotated[int, at_least(1, 100_000)] = 100
    nudge_lr: Annotated[float, above(0)] = 0.1
    retrain_steps: Annotated[int, at_least(1, 100_000)] = 50
    retrain_lr: Annotated[float, above(0)] = 0.01

    optimiser_state: ClassVar[Literal["fresh"]] = "fresh"  # no setting here
    scores_are = "cosines"
    state: ClassVar[dict[str, str]] = {"net": "parameters", "prototypes": "means"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.seeds, self.device, self.learned = seeds, device, 0
        self.optimiser_: torch.optim.Optimizer  # `train` makes it
        width = spec.input_shape[0]
        self.net = mlp_net(width, 0, 0, self.units, seeds.init).to(device)
        self.prototypes = Prototypes(spec.n_classes, width, 0, device)  # the means

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        first = not self.prototypes.seen.any()
        self.prototypes.add(session)
        log = train(self, session, ctx, objective=self._episode) if first else {}
        if self.mode > 1:
            self._align()
        return log

    def _episode(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of samples x (n, D) against the prototypes of all classes seen."""
        seen = self.prototypes.seen
        with torch.no_grad():
            keys = normalize(self.net(self.prototypes.means()[seen]).tanh())
        near = cosines(self.net(x).tanh(), keys)  # (n, classes seen)
        sharp = torch.sigmoid(10 * (near - 0.5)) + torch.sigmoid(10 * (-near - 0.5))
        place = (seen.cumsum(0) - 1)[y]
        wanted = one_hot(place, len(keys)).to(near.dtype)
        return binary_cross_entropy(sharp / sharp.sum(1, keepdim=True), wanted)

    def _align(self) -> None:
        """Push the prototypes of the classes seen apart, and retrain the projection to match."""
        memory = self.prototypes.means()[self.prototypes.seen]
        with torch.no_grad():
            keys: Tensor = self.net(memory)
        nudged = self.mode == 3
        pushed = nudge_apart(keys, self.nudge_steps, self.nudge_lr) if nudged else keys.sign()
        aims = pushed.tanh()

        def away() -> Tensor:
            return -cosine_similarity(self.net(memory).tanh(), aims).mean()

        _descend(self.net.parameters(), away, self.retrain_steps, self.retrain_lr, DECAY)

    @torch.inference_mode()
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        keys = normalize(self.net(self.prototypes.means()).tanh())  # (C, d)
        near = cosines(self.net(x).tanh(), keys)
        return near.masked_fill(~self.prototypes.seen, UNSEEN)


def nudge_apart(keys: Tensor, steps: int, lr: float) -> Tensor:
    """The prototypes keys (k, d) after `steps` gradient steps that reduce `crowding`."""
    moved = nn.Parameter(keys.clone())
    before = keys.tanh()
    _descend([moved], lambda: crowding(moved.tanh(), before), steps, lr)
    return moved.detach()


def crowding(keys: Tensor, before: Tensor) -> Tensor:
    """Mean over pairs of exp(4 cos) + exp(-4 cos) - 2, and mean of 1 - cos to `before`; (k, d)."""
    unit = normalize(keys)
    first, second = torch.triu_indices(len(keys), len(keys), 1, device=keys.device)
    pairs = (unit @ unit.T)[first, second]
    apart = (2 * torch.cosh(4 * pairs) - 2).sum() / max(len(pairs), 1)
    return apart + (1 - cosine_similarity(keys, before)).mean()


def _descend(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[], Tensor],
    steps: int,
    lr: float,
    weight_decay: float = 0.0,
) -> None:
    """Take `steps` gradient steps on a loss of all prototypes at once."""
    optimiser = torch.optim.SGD(
        parameters, lr=lr, momentum=0.9, nesterov=True, weight_decay=weight_decay
    )
    for _ in range(steps):
        optimiser.zero_grad(set_to_none=True)
        loss().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
