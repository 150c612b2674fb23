from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from embedbench.array_types import Ints
from embedbench.config.setting_ranges import at_least
from embedbench.learning import Context, Seeds, Session, StreamSpec

from ._som import MapLearner


@dataclass
class GeppNetSTM(MapLearner):
    """GeppNet that only remembers novel samples when awake, and learns from its memory in sleep.

    **Source**: Gepperth & Karaoguz (2016) as in Kemker et al. (2018), "GeppNet+STM". The memory is
    a queue of 300 samples (from the sizes in Table 2), emptied at the end of each session.

    **Departs**: as `geppnet`. The paper does not give the sleep schedule: `period` and `sleep` were
    fitted to Table S6. They reproduce the means over its ten rows, not the rows, which depend on
    the contents of the memory in the last sleep. The paper does not say when the
    memory answers, either: here it does if a test sample is nearer to a stored sample than that
    sample is to its nearest unit.

    **Measured**: its single classes vary with the seed by as much as they differ from the paper, up
    to 28 points of new-class accuracy: which class fills the queue before the last sleep wins it.

    Parameters
    ----------
    memory : int
        Samples in the short-term memory; the oldest are replaced first.
    period, sleep : int
        Iterations awake between two sleep phases; draws from the memory in a sleep phase, of which
        only those still novel are learned.
    answer_from_memory : bool
        Keep the memory until the next session begins, and answer from it first.

    Examples
    --------
    >>> from embedbench import make_learner
    >>> make_learner("geppnet-stm").memory  # samples
    300
    """

    memory: Annotated[int, at_least(1, 10_000_000)] = 300
    period: Annotated[int, at_least(1)] = 5_000
    sleep: Annotated[int, at_least(1, 10_000_000)] = 500
    answer_from_memory: bool = False

    state: ClassVar[dict[str, str]] = {
        **MapLearner.state,
        "stm_x": "samples",
        "stm_y": "samples",
        "held": "transient",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.stm_x = torch.zeros(self.memory, spec.input_shape[0])
        self.stm_y = torch.zeros(self.memory, dtype=torch.int32)
        self.held = 0  # number of samples in memory, the oldest first

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self._forget()  # the memory that was kept to answer from
        log = super().learn(session, ctx)
        if not self.answer_from_memory:
            self._forget()
        return log

    def learn_draws(self, drawn: Ints, rng: np.random.Generator) -> dict[str, Any]:
        """Learn in phases: awake, novel samples are only remembered; asleep, they are learned."""
        novel = 0
        sleeps = []
        for start in range(0, len(drawn), self.period):
            awake = drawn[start : start + self.period]
            chosen = awake[self.net.is_novel(self.samples.take, self.samples.y, awake)]
            novel += len(chosen)
            self._remember(chosen[-self.memory :])
            if len(awake) == self.period and self.held:
                again = rng.integers(self.held, size=self.sleep)
                log = self.net.learn(self._recollect, self.stm_y.numpy(), again)
                sleeps.append(log["novelty"])
        return {"iterations": len(drawn), "novelty": novel / len(drawn), "sleep_novelty": sleeps}

    def _recollect(self, index: Ints) -> torch.Tensor:
        return self.stm_x[torch.from_numpy(index)]

    def _remember(self, new: Ints) -> None:
        """Append the stored samples `new`, (m,), to the queue; they replace the oldest ones."""
        y = torch.from_numpy(self.samples.y[new])
        for queue, values in ((self.stm_y, y), (self.stm_x, self.samples.take(new))):
            now = torch.cat([queue[: self.held], values])[-self.memory :]
            queue[: len(now)] = now
        self.held = len(now)

    def _forget(self) -> None:
        self.stm_x.zero_()
        self.stm_y.zero_()
        self.held = 0

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        out = self.net.outputs(x)
        if self.answer_from_memory and self.held:
            self._recall(x, out)
        return out

    def _recall(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Put the label of the nearest sample in memory first, if that sample is near enough."""
        known = self.stm_x[: self.held].to(x)
        reach = self.net.distances(known).min(1).values.sqrt()  # (m,)
        near = torch.cdist(x.double(), known.double()).min(1)
        sure = near.values < reach[near.indices]
        label = self.stm_y.to(x.device)[near.indices].long()
        out[sure, label[sure]] = out[sure].amax(1) + 1
