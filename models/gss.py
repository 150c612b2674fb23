"""GSS: a memory of samples whose gradients point in different directions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from embedbench.fields import at_least, require
from embedbench.learning.augment import Views
from embedbench.learning.exemplars import Exemplars
from embedbench.learning.learner import Context, Footprint, Tags
from embedbench.learning.memory import BY_LEARNER, Memory, check_memory
from embedbench.learning.net import generator
from embedbench.learning.network import NetLearner
from embedbench.learning.online import UPDATES, OnlineLearner
from embedbench.seeds import Seeds
from embedbench.streams.stream import Session, StreamSpec

from ._gradients import most_alike
from ._replay import Replay, plainly, random_replay, replay_session, replay_step

FIRST = 1.1  # score of the first samples, which have nothing to be compared with
CHOICE = 1  # number of the random stream for the choice of what is stored


@dataclass
class GSS(OnlineLearner, NetLearner):
    """Gradient-based sample selection, the greedy variant: GSS-Greedy.

    A new sample's score c is 1 plus the largest cosine of its gradient with `compared` mean
    gradients of `averaged` random samples in memory. While there is room, the sample is stored.
    Then, if c < 1, a stored sample i is drawn with probability C_i / Σ C_j, and replaced with
    probability C_i / (C_i + c). Training: a step on the batch, then one on a random draw from
    memory, `updates` times. If a stream gives whole sessions, the samples are offered at the end.

    **Source**: Aljundi et al. (2019, "Gradient based sample selection for online continual
    learning"), Algorithm 2, which is `averaged` = 1; mean gradients, the two steps and the score of
    the first samples are from their code (`model/GSS_Greedy.py`, `Disjoint_Mnist.sh` of
    github.com/rahafaljundi/Gradient-based-Sample-Selection).

    **Departs**: the samples of a batch share one draw of stored samples, as in the code, and are
    not compared with each other. The code also refuses a whole batch whose mean gradient has a
    positive cosine with a stored one, instead of single samples, and draws the stored samples with
    probabilities C_i less the smallest C. Its draws for training have no sample twice until the
    memory is through; ours are independent. `batch_size`, `optimiser` and the size of the memory
    are as in `er`; `lr` is lower, as a batch gets two steps.

    Parameters
    ----------
    batch_size : int
        Samples drawn from memory at each step; with whole sessions also samples per step.
    updates : int
        Training steps on each batch, 3 in the authors' code on MNIST; not for whole sessions.
    compared : int
        n, mean gradients that a new sample is compared with; fewer if the memory is small.
    averaged : int
        Stored samples of each mean gradient.
    memory : Memory
        Its size; `select` is "gradients".
    """

    batch_size: int = 64
    lr: float = 0.02
    weight_decay: float = 1e-4
    optimiser: str = "sgd"
    updates: int = UPDATES  # not later: it is older than the others'
    compared: int = 10
    averaged: int = 10
    memory: Memory = field(default_factory=lambda: Memory(total=2000, select="gradients"))

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, images=True)
    state: ClassVar[tuple[str, ...]] = (*NetLearner.state, "exemplars", "steps", "alike", "offered")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self, BY_LEARNER)
        require(self, self.name, compared=at_least(1), averaged=at_least(1))

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.steps = self.offered = 0  # online steps, and batches offered to the memory
        self.exemplars = Exemplars(self.memory, spec, seeds.memory, device)
        self.alike = np.zeros(0, np.float32)  # C (m,), the score of each stored sample

    def step(self, x: Tensor, y: Tensor) -> None:
        seen = self.exemplars.seen_with(y)
        replay_step(self, x, y, plainly(self, seen), self._replay(seen))

    def store(self, x: Tensor, y: Tensor) -> None:
        self._offer(x, y, self.exemplars.seen_with(y))

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        y = torch.from_numpy(session.y).to(self.device)
        seen = self.exemplars.seen_with(y)
        log = replay_session(self, session, ctx, plainly(self, seen), self._replay(seen))
        order = torch.randperm(len(y), generator=generator(self.seeds.memory, self.learned))
        for rows in torch.split(order.to(self.device), self.batch_size):
            self._offer(session.x.batch(rows, self.device), y[rows], seen)
        return log

    def footprint(self) -> Footprint:
        held = self.exemplars.footprint()
        return Footprint(**super().footprint(), samples=held["samples"] + self.alike.nbytes)

    def _replay(self, classes: Tensor | None) -> Replay:
        """The step on the batch, then the gradients of a random draw."""
        again = random_replay(self, classes)

        def replay(draw: np.random.Generator, view: Views) -> None:
            self.optimiser_.step()
            self.optimiser_.zero_grad(set_to_none=True)
            again(draw, view)

        return replay

    def _offer(self, x: Tensor, y: Tensor, classes: Tensor | None) -> None:
        """Offer samples x (b, D), y (b,) to the memory."""
        draw = np.random.default_rng([self.seeds.memory, CHOICE, self.offered])
        scores = np.full(len(y), FIRST, np.float32)
        if len(self.exemplars):
            old_x, old_y, _ = self.exemplars.sample(self.compared * self.averaged, draw)
            order = torch.from_numpy(draw.permutation(len(old_y))).to(self.device)
            old = old_x[order], old_y[order]
            cosines = most_alike(self.net.eval(), (x, y), old, self.averaged, classes)
            scores = 1 + cosines.cpu().numpy()
        places, self.alike = select(scores, self.alike, self.memory.total or 0, draw)
        self.exemplars.add(x, y, places=places)
        self.offered += 1


def select(
    scores: NDArray[np.float32],
    stored: NDArray[np.float32],
    total: int,
    draw: np.random.Generator,
) -> tuple[dict[int, int], NDArray[np.float32]]:
    """Where new samples are stored, by Algorithm 2.

    Parameters
    ----------
    scores : array
        c (b,) of the new samples, in the order in which they are offered.
    stored : array
        C (m,) of the stored samples, m ≤ `total`.
    total : int
        M, the size of the memory.
    draw : numpy.random.Generator
        Draws which stored sample may be replaced, and whether it is.

    Returns
    -------
    dict
        Place in the memory → new sample that is there in the end.
    array
        C after all new samples.
    """
    kept = list(stored)
    places: dict[int, int] = {}
    for i, c in enumerate(scores if total else []):
        if len(kept) < total:
            place = len(kept)
            kept.append(c)
        elif c < 1:
            sums = np.cumsum(kept, dtype=np.float64)
            place = min(int(np.searchsorted(sums, draw.random() * sums[-1], "right")), total - 1)
            if draw.random() * (kept[place] + c) >= kept[place]:
                continue
            kept[place] = c
        else:
            continue
        places[place] = i
    return places, np.array(kept, np.float32)
