from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.learning import Context, OnlineLearner, Session, Tags, Views
from embedbench.learning.loss import batch_loss


@dataclass
class ER(OnlineLearner):
    """Experience replay: steps on each stream batch, and on samples from memory.

    If a stream gives whole sessions, each is learned together with the whole memory.

    **Source**: Chaudhry et al. (2019, "On tiny episodic memories"), Algorithm 1, with reservoir
    sampling; memory batch, memory size and optimiser are from the code of Michel et al. (2023). The
    stream batch enters the memory after the step. Whole sessions, and label sets: Abdelsalam et al.
    (2021, IIRC), with a "random" memory of 20 samples per class; with all samples it is their
    "ER-infinite".

    **Departs**: the softmax includes all classes of the stream, also those not seen yet, unless
    `protocol.loss` is "seen" (for label sets the loss includes only the classes seen). `lr` is
    tuned for frozen embeddings and a small network. If the memory holds fewer samples than should
    be drawn, all of them are used. "reservoir" of 2,000 is our choice between the paper's 1,000 and
    5,000.

    Parameters
    ----------
    optimiser_state, stop : str, Stop
        For whole sessions; online the optimiser is always kept.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "er"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    lr: float = 0.05

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, multilabel=True, images=True)

    def add_gradients(self, x: Tensor, y: Tensor, draw: np.random.Generator, view: Views) -> None:
        old_x, old_y, _ = self.exemplars.sample(self.batch_size, draw)
        logits = self.net(view(torch.cat([x, old_x])))
        loss = batch_loss(logits, torch.cat([y, old_y]), self.exemplars.seen_with(y))
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = self.train(self.exemplars.join(session), ctx)
        self.exemplars.update(session)
        return log
