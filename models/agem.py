from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from embedbench.config.fields_added_later import later
from embedbench.learning import OnlineLearner, Session, Tags, augmented_views
from embedbench.learning.exemplars import session_classes
from embedbench.learning.loss import batch_loss, loss_classes
from embedbench.learning.online_learner import Augment
from embedbench.learning.optimisers import trainable_parameters


@dataclass
class AGEM(OnlineLearner):
    """Averaged gradient episodic memory: no step raises the loss on a batch from memory.

    **Source**: Chaudhry et al. (2019, "Efficient lifelong learning with A-GEM"), Eq. 11. With g the
    gradient of the stream batch and r that of the memory batch, g becomes g - (g·r / r·r) r where
    g·r < 0. The memory batch of 128 is that of IIRC (Abdelsalam et al. 2021), and so are the losses
    of label sets in whole sessions: g is from the loss over the session's classes, r from the loss
    over the older classes.

    **Departs**: the paper stores only samples of earlier sessions, and has one head per session. In
    an online stream sessions are unknown, so the memory is a reservoir of all samples so far; with
    whole sessions, samples enter it when the session has ended. Both losses use all classes, except
    for label sets as above; the classes seen where `protocol.loss` is "seen". Momentum and weight
    decay of the optimiser act on the projected gradient and are not projected. `lr` is lower than
    in `er`, and a batch gets one step: more, or larger ones, erase what came before, or end in NaN.

    Parameters
    ----------
    batch_size : int
        Samples drawn from memory for the reference gradient; with whole sessions also samples per
        step.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "agem"))["final_accuracy"] > 1 / 40
    True
    """

    batch_size: int = 128
    lr: float = 0.003
    updates: int = later(1, earlier=1)

    # no setting here: the gradient of the memory is a bound and no summand
    replay_weight: ClassVar[Literal["sum"]] = "sum"  # type: ignore[misc]  # an instance's above
    tags: ClassVar[Tags] = Tags(
        online=True, stores_samples=True, multilabel=True, images=True, heads=True
    )

    def replay(
        self, new: int, draw: np.random.Generator, view: Augment, classes: torch.Tensor | None
    ) -> None:
        """Project the gradient of the new samples by that of random ones from memory."""
        if classes is not None and not len(classes):
            return  # no older class bounds a step
        x, y, _ = self.exemplars.sample(self.drawn, draw)
        self._constrain(view(x), y, classes)

    learn = OnlineLearner.learn_and_store

    def compared_classes(self, session: Session) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        if session.y.ndim == 1:
            return super().compared_classes(session)
        new = session_classes(session)
        old = torch.tensor(sorted(self.exemplars.classes - new), device=self.device)
        if not new:
            return loss_classes(session, self.device), old
        return torch.tensor(sorted(new), device=self.device), old

    def view_of_old(self, draw: np.random.Generator) -> Augment:
        """As in the base, but drawn after the samples are, as in earlier versions."""
        return lambda x: augmented_views(self, self.learned, draw)(x)

    def _constrain(self, x: torch.Tensor, y: torch.Tensor, classes: torch.Tensor | None) -> None:
        """Project the gradient that the parameters hold by that of samples x (m, D), y (m,)."""
        parameters = trainable_parameters(self.net)
        gradient = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        reference = torch.autograd.grad(batch_loss(self.net(x), y, classes), parameters)
        gradient = project(gradient, torch.cat([g.flatten() for g in reference]))
        parts = torch.split(gradient, [p.numel() for p in parameters])
        for p, part in zip(parameters, parts, strict=True):
            p.grad = torch.empty_like(p).copy_(part.view_as(p))  # with the memory layout of p


def project(gradient: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """The vector nearest to `gradient` with a dot product with `reference` of at least 0."""
    dot = torch.dot(gradient, reference)
    if dot >= 0:
        return gradient
    r = reference / reference.abs().max()  # else r·r may be 0, once the memory is learned by heart
    return gradient - torch.dot(gradient, r) / torch.dot(r, r) * r
