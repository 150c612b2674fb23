"""ExStream: a few prototypes for each class, and a pass over all of them for every new sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.errors import UserError, unknown
from embedbench.fields import at_least, require
from embedbench.learning.learner import Footprint, Learner, Tags, tensor_bytes
from embedbench.learning.loss import batch_loss
from embedbench.learning.memory import Capacity
from embedbench.learning.net import check_training, mlp_net, net_bytes, predict
from embedbench.learning.optimisers import fresh_optimiser
from embedbench.seeds import Seeds
from embedbench.streams.stream import StreamSpec

from ._clusters import KINDS, Clusters


@dataclass
class ExStream(Learner):
    """Exemplar streaming: the two nearest prototypes of a class merge to make room for a sample.

    **Source**: Hayes, Cahill and Kanan (2019, "Memory efficient experience replay for streaming
    learning"), and the code of the authors (tyler-hayes/ExStream, `ExStream.py`). Each class has a
    buffer of its own. A sample is stored with the count 1. If the buffer of its class is full, the
    two stored prototypes nearest to each other (Euclidean distance) first become one, their mean
    weighted by counts. Then the network makes one pass over all prototypes, shuffled; counts do
    not weigh there. The last batch of a pass is filled up with samples of the one before. Learning
    rate, Adam, batch size, and 2, 4, 8 or 16 prototypes a class are theirs for CUB-200. The other
    buffers are those of their comparison: "reservoir" (Vitter 1985, algorithm R, for each class),
    "queue" (the oldest sample of the class leaves) and "kmeans" (MacQueen 1967: the nearest
    prototype becomes the mean of its samples and the new one).

    **Departs**: the authors' code has only their own buffer; the other three are as their sources
    have them, the first B samples of a class being the first prototypes. Not more than `replays`
    prototypes are replayed for a new sample: those that it changed and others drawn at random;
    `replays=none` is the published pass over all. There is one pass, or part of it, per batch that
    the stream is cut into. A batch of 1 (`instance` streams) is the published algorithm; with
    larger ones all their samples enter in order, and the network makes fewer passes. Two layers of
    350 ReLUs, PyTorch's initialisation; theirs has 350 and 300 ELUs, batch normalisation, dropout
    of .25, Glorot's initialisation and biases of 1. The input is as the protocol scales it, theirs
    has length 1 (`protocol.scale=l2`). A buffer of one prototype is the mean of the class; their
    code would keep its first sample. No buffer that all classes share (an option of their code), no
    CluStream or HPStream.

    Parameters
    ----------
    buffer : str
        "exstream", "kmeans", "reservoir" or "queue".
    memory : Capacity
        `per_class`: B, prototypes per class. `total`: B = total / C, rounded down, for all C
        classes of the stream. The room for all is taken at the start.
    replays : int or None
        Most prototypes that are replayed for each new sample. None: all, as published.
    units, layers, batch_size, lr, weight_decay, optimiser
        As in `NetLearner`; the optimiser is always kept.
    """

    buffer: str = "exstream"
    memory: Capacity = field(default_factory=lambda: Capacity(per_class=16))
    replays: int | None = 100
    units: int = 350
    layers: int = 2
    batch_size: int = 100
    lr: float = 2e-3
    weight_decay: float = 0.0
    optimiser: str = "adam"

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True)
    state: ClassVar[tuple[str, ...]] = ("net", "optimiser_", "clusters", "steps")

    def __post_init__(self) -> None:
        check_training(self)
        if self.buffer not in KINDS:
            raise unknown(f"{self.name}.buffer", self.buffer, KINDS)
        require(self, self.name, replays=at_least(1))

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        size = self.memory.share(spec.n_classes)
        if size < 1:
            raise UserError(
                f"{self.name}.memory must have room for a prototype of each of the stream's "
                f"{spec.n_classes} classes, got {self.memory.total or 0}; raise memory.total, or "
                "give memory.per_class"
            )
        self.seeds, self.device, self.steps = seeds, device, 0
        self.loss_over_seen = spec.loss_over_seen
        width = math.prod(spec.input_shape)
        self.clusters = Clusters(self.buffer, spec.n_classes, size, width, [seeds.memory])
        net = mlp_net(width, self.units, self.layers, spec.n_classes, seeds.init)
        self.net = net.to(device)
        self.optimiser_ = fresh_optimiser(self, self.net)

    def observe(self, x: Tensor, y: Tensor) -> None:
        places = self.clusters.add(x, y)
        draw = np.random.default_rng([self.seeds.batches, self.steps])
        seen = self.clusters.classes.to(self.device) if self.loss_over_seen else None
        self.net.train()
        for rows in pass_batches(self._replayed(places, draw), self.batch_size):
            labels = (rows // self.clusters.size).to(self.device)
            loss = batch_loss(self.net(self.clusters.rows[rows].to(self.device)), labels, seen)
            self.optimiser_.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            self.optimiser_.step()
        self.steps += 1

    def _replayed(self, places: Tensor, draw: np.random.Generator) -> Tensor:
        """The rows to replay after samples went to `places` (b,), shuffled, (n,)."""
        rows = self.clusters.full_rows()
        rows = rows[torch.from_numpy(draw.permutation(len(rows)))]
        most = len(rows) if self.replays is None else self.replays * len(places)
        if len(rows) <= most:
            return rows
        changed = torch.isin(rows, places)
        chosen = torch.cat([rows[changed], rows[~changed]])[:most]
        return chosen[torch.from_numpy(draw.permutation(most))]

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return predict(self.net, x)

    def footprint(self) -> Footprint:
        return Footprint(**net_bytes(self), samples=tensor_bytes(*self.clusters.tensors()))


def pass_batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """The batches of one pass over rows (n,); the last has `size` of them, too, if n has."""
    size = min(size, len(rows))
    for start in range(0, len(rows), size):
        start = min(start, len(rows) - size)
        yield rows[start : start + size]
