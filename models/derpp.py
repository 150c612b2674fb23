from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least
from embedbench.learning import OnlineLearner, Seeds, Session, Stop, StreamSpec, Views, predict
from embedbench.learning.exemplars import BY_SAMPLE, Exemplars
from embedbench.learning.loss import batch_loss
from embedbench.learning.online_learner import Fill

EPOCHS = Stop(rule="epochs", epochs=20)


@dataclass
class DERpp(OnlineLearner):
    """Dark experience replay: the network is also held to its stored logits.

    L = CE(x, y) + α MSE(f(x'), z') + β CE(x″, y″). If a stream gives whole sessions, every step
    takes a batch of the session.

    **Source**: Buzzega et al. (2020), DER and DER++. (x', z') and (x″, y″) are two draws from a
    reservoir of samples, labels and logits; z' are the logits for x' just before the last
    step in which x' came. β = 0 is DER. α and β are from the code of Michel et al. (2023); the
    authors' values lie between .1 and 1 and differ by data set.

    **Departs**: the memory is as in `er`. `lr` is lower, since three losses add up: at .02 training
    does not settle where batches are of one sample. All three losses include
    all classes of the stream, also those not seen yet, as the head has a unit for each; where
    `protocol.loss` is "seen", only the classes seen, so that the mean squared error is a mean over
    fewer logits, and z' has logits of classes that were not seen when it was stored. Where it is
    "session", the error is over the logits of the sample's own head, and the authors' is over all.
    With `fill` "session", z' are the logits at the end of the session; where `passes` gives a batch
    no step, they are the logits at its time.

    Parameters
    ----------
    batch_size : int
        Number of samples in each of the two draws.
    alpha, beta : float
        α ≥ 0, weight of the stored logits; β ≥ 0, weight of the stored labels.
    optimiser_state, stop : str, Stop
        For whole sessions, 20 epochs as in `icarl`; online the optimiser is always kept.
    fill : str
        "step", as in the authors' code, where samples are stored in every epoch.

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

    optimiser_state: Literal["fresh", "kept"] = later("kept", earlier="kept")
    stop: Stop = later(EPOCHS, earlier=EPOCHS)
    fill: Fill = later("step", earlier="step")

    selects: ClassVar[tuple[str, ...]] = BY_SAMPLE

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device, logits=True)
        self.logits: Tensor | None = None  # of the batch at work, before its last step

    learn = OnlineLearner.learn_and_store

    def replays_apart(self) -> bool:
        return False  # `step_loss` has all three losses

    def step_loss(
        self,
        x: Tensor,
        y: Tensor,
        draw: np.random.Generator,
        view: Views,
        classes: Tensor | None,
    ) -> Tensor:
        z = self.net(view(x))
        self.logits = z.detach()
        loss = batch_loss(z, y, classes)
        if not len(self.exemplars):
            return loss
        old_x, old_y, old_z = self.exemplars.sample(self.drawn, draw)
        new, old = self.loss_weights(len(y), len(old_y))
        distance = logit_distance(self.net(view(old_x)), old_z, old_y, classes)
        loss = new * loss + old * self.alpha * distance
        if self.beta:
            old_x, old_y, _ = self.exemplars.sample(self.drawn, draw)
            loss = loss + old * self.beta * batch_loss(self.net(view(old_x)), old_y, classes)
        return loss

    def observe(self, x: Tensor, y: Tensor) -> None:
        self.logits = None
        super().observe(x, y)

    def store(self, x: Tensor, y: Tensor) -> None:
        logits = predict(self.net, x) if self.logits is None else self.logits
        self.exemplars.add(x, y, logits)

    def store_session(self, session: Session) -> None:
        for x, y in self.session_batches(session):
            self.exemplars.add(x, y, predict(self.net, x))


def logit_distance(mine: Tensor, stored: Tensor, y: Tensor, classes: Tensor | None) -> Tensor:
    """Mean squared error of the logits (n, C) of `classes`, as in `among`, for labels y (n,)."""
    if classes is None:
        return nn.functional.mse_loss(mine, stored)
    if classes.dtype == torch.bool:
        beside = classes[y]
        return nn.functional.mse_loss(mine[beside], stored[beside])
    return nn.functional.mse_loss(mine[:, classes], stored[:, classes])
