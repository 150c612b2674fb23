"""REMIND: every batch is learned together with samples rebuilt from codes of a few bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.fields import at_least, require
from embedbench.learning.exemplars import Exemplars
from embedbench.learning.learner import Footprint, Tags
from embedbench.learning.loss import batch_loss
from embedbench.learning.memory import BY_SAMPLE, Memory, check_memory
from embedbench.learning.net import predict
from embedbench.learning.network import NetLearner
from embedbench.learning.online import OnlineLearner
from embedbench.seeds import Seeds
from embedbench.streams.stream import StreamSpec

from ._quantise import ProductQuantiser


@dataclass
class REMIND(OnlineLearner, NetLearner):
    """Replay using memory indexing: steps on each stream batch and on rebuilt samples.

    A product quantiser is trained on the first samples of the stream. From then on the memory holds
    one byte for each part of a sample, and the network sees rebuilt samples only: new ones,
    replayed ones, and in evaluation.

    **Source**: Hayes et al. (2020), "REMIND your neural network to prevent catastrophic
    forgetting", and their code (`REMINDModel.py`, `run_imagenet_experiment.sh`): 32 codebooks of
    256, 50 replayed samples with each new one, drawn uniformly; a full memory loses a sample of the
    largest class; SGD, weight decay 1e-5.

    **Departs**: the embeddings are what the paper calls mid-level features, one vector a sample in
    place of 7 × 7 of them, so neither mixup nor random crops of feature maps apply. The paper
    learns a sample at a time: `--set protocol.observe_batch=1`. Its network is pretrained on the
    base classes, which the quantiser is trained on; an online learner does not see where a session
    ends, so here it is the first `base_samples` samples: until then they are kept as they are, and
    replayed. The footprint counts them, and may exceed a byte budget for that time. The
    learning rate is constant and that of `er`; theirs falls with the samples of each class. In a
    full memory the new sample is not kept if its class is the largest. 20,000 samples are our
    choice; the paper stores 959,665.

    Parameters
    ----------
    codes : int
        Bytes of a sample: the largest number of parts of a vector.
    base_samples : int
        Number of samples to train the quantiser on; the batch that completes them is included.
    batch_size : int
        Samples replayed at each step.
    memory : Memory
        "reservoir", "balanced" or "all".
    optimiser_state, stop, images : str, Stop, ImageTraining
        Not used.
    """

    codes: int = 32
    base_samples: int = 1000
    batch_size: int = 50
    lr: float = 0.05
    weight_decay: float = 1e-5
    optimiser: str = "sgd"
    memory: Memory = field(default_factory=lambda: Memory(total=20_000, select="balanced"))

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True)
    state: ClassVar[tuple[str, ...]] = (
        *NetLearner.state, "steps", "quantiser", "base", "exemplars",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self, BY_SAMPLE)
        require(self, self.name, codes=at_least(1), base_samples=at_least(1))

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.steps = 0
        self.quantiser = ProductQuantiser(spec.input_shape[0], self.codes, device)
        self.base = Exemplars(Memory(select="all"), spec, seeds.memory, device)
        coded = replace(spec, input_shape=(self.quantiser.parts,))
        self.exemplars = Exemplars(self.memory, coded, seeds.memory, device, packing=self.quantiser)
        self._empty = self.base.state_dict()

    def step(self, x: Tensor, y: Tensor) -> None:
        held = self._held()
        draw = np.random.default_rng([self.seeds.batches, self.steps])
        old_x, old_y, _ = held.sample(self.batch_size, draw)
        self.net.train()
        logits = self.net(torch.cat([self.rebuilt(x), old_x]))
        loss = batch_loss(logits, torch.cat([y, old_y]), held.seen_with(y))
        self.optimiser_.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.optimiser_.step()
        self.steps += 1

    def store(self, x: Tensor, y: Tensor) -> None:
        self._held().add(x, y)
        if not self.quantiser.trained and len(self.base) >= self.base_samples:
            self._quantise()

    def _held(self) -> Exemplars:
        return self.exemplars if self.quantiser.trained else self.base

    def _quantise(self) -> None:
        """Train the quantiser on the base samples, and move them to the memory."""
        self.quantiser.fit(self.base.x, self.seeds.memory)
        self.exemplars.add(self.base.x, self.base.y)
        self.base.load_state_dict(self._empty)

    def rebuilt(self, x: Tensor) -> Tensor:
        """x (n, D) as its codes stand for it; as it is while the quantiser is not trained."""
        return self.quantiser.unpack(self.quantiser.pack(x)) if self.quantiser.trained else x

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, self.rebuilt(x))

    def footprint(self) -> Footprint:
        return Footprint(
            **super().footprint(),
            codebooks=self.quantiser.nbytes,
            samples=self.base.footprint().total + self.exemplars.footprint().total,
        )
