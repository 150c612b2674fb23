import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from embedbench.config.setting_ranges import above, require, within
from embedbench.learning import OptimiserName, ReplayLearner, Session, Stop, Tags, generator
from embedbench.learning.exemplars import BY_SAMPLE, Memory
from embedbench.learning.image_training import augmented_views
from embedbench.learning.optimisers import fresh_optimiser
from embedbench.learning.training_loop import AS_LONG, Training


@dataclass
class GDumb(ReplayLearner):
    """Greedy sampler and dumb learner: a new network, trained on the memory at every evaluation.

    **Source**: Prabhu et al. (2020); Algorithm 1 is the sampler. The learning rate's schedule is
    from their code: a tenth of `lr` in the first epoch, then cosines from `lr` to `lr_min` over 1,
    2, 4, … epochs.

    **Departs**: 30 epochs, as in the code of Michel et al. (2023); theirs are 128 to 256. Batches
    of 64 instead of 16: with 16 their `lr` is too high for embeddings of norm 30 (a training loss
    of 2 nats after 16 epochs on the emoji embeddings; .01 with 64). No CutMix, which mixes images,
    not embeddings. Every network starts from the same weights. With `passes` an evaluation within a
    session takes its share of the steps, so that the next network gets fewer; without, an
    evaluation changes nothing.

    Parameters
    ----------
    lr, lr_min : float
        The highest and the lowest learning rate.
    clip : float
        Largest norm of the gradient in a step.
    memory : Memory
        "balanced", "reservoir" or "all".
    passes : float
        Samples presented at an evaluation for each that came since the last one; 0: `stop` decides.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "gdumb"))["final_accuracy"] > 0.15  # chance has 1/40
    True
    """

    batch_size: int = 64
    lr: float = 0.05
    lr_min: Annotated[float, above(0)] = 5e-4
    weight_decay: float = 1e-6
    optimiser: OptimiserName = "sgd"
    clip: Annotated[float, above(0)] = 10.0
    stop: Stop = field(default_factory=lambda: Stop(rule="epochs", epochs=30))
    memory: Memory = field(default_factory=lambda: Memory(total=2000, select="balanced"))

    optimiser_state: ClassVar[Literal["fresh"]] = "fresh"  # type: ignore[misc]  # no setting here

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, images=True)
    state: ClassVar[dict[str, str]] = {"net": "parameters", "exemplars": "samples"}
    selects: ClassVar[tuple[str, ...]] = BY_SAMPLE

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, self.name, lr_min=within(f"(0, {self.lr}]"))

    def validation_needs(self) -> dict[str, str]:
        return {}  # it trains on its memory, of which nothing is held out

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.exemplars.add(x, y)
        self.exemplars.given += len(y)

    def prepare(self) -> None:
        memory = self.exemplars
        presented = self.passes * memory.given if self.passes else math.inf
        if not len(memory) or not presented:
            return
        memory.given = 0
        self.net = self.make_net(self.spec, self.seeds.init).to(self.device)
        optimiser = fresh_optimiser(self, self.net)
        steps_an_epoch = math.ceil(len(self.exemplars) / self.batch_size)
        steps = 0

        def clip_and_set_rate() -> None:
            nonlocal steps
            clip_grad_norm_(self.net.parameters(), self.clip)
            rate = self.rate(steps // steps_an_epoch)
            for group in optimiser.param_groups:
                group["lr"] = rate
            steps += 1

        seen = self.exemplars.seen
        batches = generator(self.seeds.batches, seen)
        views = augmented_views(self, seen)
        stop = AS_LONG if self.passes else self.stop
        Training(
            self.net, optimiser, self._session(), self.batch_size, stop, batches, self.device,
            views=views, presented=presented, regularise=clip_and_set_rate,
        ).run()  # fmt: skip

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        if epoch == 0:
            return self.lr / 10
        cycle = 1 << (epoch.bit_length() - 1)  # length of this cosine, and its first epoch
        share = (epoch - cycle) / cycle
        return self.lr_min + (self.lr - self.lr_min) * (1 + math.cos(math.pi * share)) / 2

    def _session(self) -> Session:
        """The memory as a session without validation data."""
        rows = self.exemplars.rows
        y = self.exemplars.y.cpu().numpy()
        seen = self.exemplars.seen_with(self.exemplars.y)
        data: dict[str, Any] = {"x": rows, "val_x": replace(rows, x=rows.x[:0])}
        every = np.arange(self.spec.n_classes)
        return Session(
            y=y,
            val_y=y[:0],
            ids=np.arange(len(y)),
            classes=np.unique(y),
            loss_classes=None if seen is None else np.isin(every, seen.cpu().numpy()),
            **data,
        )
