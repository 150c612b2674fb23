from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from embedbench.config.setting_ranges import at_least
from embedbench.learning import OnlineLearner, Seeds, Stop, StreamSpec, Views
from embedbench.learning.exemplars import BY_SAMPLE, Exemplars
from embedbench.learning.loss import batch_loss


@dataclass
class DERpp(OnlineLearner):
    """Dark experience replay: the network is also held to its stored logits.

    L = CE(x, y) + α MSE(f(x'), z') + β CE(x″, y″).

    **Source**: Buzzega et al. (2020), DER and DER++. (x', z') and (x″, y″) are two draws from a
    reservoir of samples, labels and logits; z' are the logits for x' just before the last
    step in which x' came. β = 0 is DER. α and β are from the code of Michel et al. (2023); the
    authors' values lie between .1 and 1 and differ by data set.

    **Departs**: the memory is as in `er`. `lr` is lower, since three losses add up: at .02 training
    does not settle where batches are of one sample. All three losses include
    all classes of the stream, also those not seen yet, as the head has a unit for each; where
    `protocol.loss` is "seen", only the classes seen, so that the mean squared error is a mean over
    fewer logits, and z' has logits of classes that were not seen when it was stored.

    Parameters
    ----------
    batch_size : int
        Number of samples in each of the two draws.
    alpha, beta : float
        α ≥ 0, weight of the stored logits; β ≥ 0, weight of the stored labels.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "derpp"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    lr: float = 0.005
    alpha: Annotated[float, at_least(0)] = 0.2
    beta: Annotated[float, at_least(0)] = 1.0

    # no settings here, which learns no whole sessions
    optimiser_state: ClassVar[Literal["kept"]] = "kept"  # type: ignore[misc]  # an instance's above
    stop: ClassVar[Stop] = Stop()  # type: ignore[misc]
    selects: ClassVar[tuple[str, ...]] = BY_SAMPLE

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device, logits=True)

    def add_gradients(self, x: Tensor, y: Tensor, draw: np.random.Generator, view: Views) -> None:
        seen = self.exemplars.seen_with(y)
        z = self.net(view(x))
        loss = batch_loss(z, y, seen)
        if len(self.exemplars):
            old_x, _, old_z = self.exemplars.sample(self.batch_size, draw)
            mine, old_z = (_of(seen, logits) for logits in (self.net(view(old_x)), old_z))
            loss = loss + self.alpha * nn.functional.mse_loss(mine, old_z)
            if self.beta:
                old_x, old_y, _ = self.exemplars.sample(self.batch_size, draw)
                loss = loss + self.beta * batch_loss(self.net(view(old_x)), old_y, seen)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.logits = z.detach()

    def store(self, x: Tensor, y: Tensor) -> None:
        self.exemplars.add(x, y, self.logits)


def _of(classes: Tensor | None, logits: Tensor) -> Tensor:
    """The logits (n, C) of `classes` (k,); of all for None."""
    return logits if classes is None else logits[:, classes]
