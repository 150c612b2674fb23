import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from embedbench.array_types import Array
from embedbench.config.setting_ranges import above, at_least, check_size
from embedbench.errors import UserError
from embedbench.learning import Learner, Seeds, StreamSpec, Tags
from embedbench.learning.exemplars import Capacity
from embedbench.learning.footprint import Stateful
from embedbench.learning.loss import batch_loss
from embedbench.learning.network import mlp_net, predict
from embedbench.learning.optimisers import OptimiserName, fresh_optimiser
from embedbench.system.compiled_loops import compile_loops


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
    have them, the first B samples of a class being the first prototypes. At most `replays`
    prototypes are replayed for a new sample: those that it changed and others drawn at random;
    `replays=none` is the published pass over all. There is one pass, or part of it, per batch: a
    batch of 1 (`instance` streams) is the published algorithm; with larger ones the network makes
    fewer passes. Two layers of 350 ReLUs, PyTorch's initialisation; theirs has 350 and 300 ELUs,
    batch normalisation, dropout of .25, Glorot's initialisation and biases of 1. The input is as
    the protocol scales it, theirs has length 1 (`protocol.scale=l2`). A buffer of one prototype is
    the mean of the class; their code would keep its first sample. No buffer that all classes share
    (an option of their code), no CluStream or HPStream.

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

    Examples
    --------
    >>> from embedbench import make_learner
    >>> make_learner("exstream", buffer="kmeans").memory.per_class  # prototypes
    16
    """

    buffer: Literal["exstream", "kmeans", "reservoir", "queue"] = "exstream"
    memory: Capacity = field(default_factory=lambda: Capacity(per_class=16))
    replays: Annotated[int, at_least(1)] | None = 100
    units: Annotated[int, at_least(1, 100_000)] = 350
    layers: Annotated[int, at_least(0, 100)] = 2
    batch_size: Annotated[int, at_least(1)] = 100
    lr: Annotated[float, above(0)] = 2e-3
    weight_decay: Annotated[float, at_least(0)] = 0.0
    optimiser: OptimiserName = "adam"

    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True)
    scores_are = "logits"
    state: ClassVar[dict[str, str]] = {
        "net": "parameters",
        "optimiser_": "optimiser",
        "clusters": "samples",
        "steps": "transient",
        "batches": "transient",
    }

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        size = self.memory.share(spec.n_classes)
        if size < 1:
            raise UserError(
                f"{self.name}.memory must have room for a prototype of each of the stream's "
                f"{spec.n_classes} classes, got {self.memory.total or 0}",
                "raise memory.total, or give memory.per_class",
            )
        self.seeds, self.device, self.batches, self.steps = seeds, device, 0, 0
        self.loss_over_seen = spec.loss_over_seen
        width = math.prod(spec.input_shape)
        self.clusters = Clusters(self.buffer, spec.n_classes, size, width, [seeds.memory])
        net = mlp_net(width, self.units, self.layers, spec.n_classes, seeds.init)
        self.net = net.to(device)
        self.optimiser_ = fresh_optimiser(self, self.net)

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        places = self.clusters.add(x, y)
        draw = np.random.default_rng([self.seeds.batches, self.batches])
        seen = self.clusters.classes.to(self.device) if self.loss_over_seen else None
        self.net.train()
        for rows in pass_batches(self._replayed(places, draw), self.batch_size):
            labels = (rows // self.clusters.size).to(self.device)
            loss = batch_loss(self.net(self.clusters.rows[rows].to(self.device)), labels, seen)
            self.optimiser_.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            self.optimiser_.step()
            self.steps += 1
        self.batches += 1

    def effort(self) -> dict[str, int]:
        """The steps of the optimiser so far."""
        return {"steps": self.steps}

    def _replayed(self, places: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
        """The rows to replay after samples went to `places` (b,), shuffled, (n,)."""
        rows = self.clusters.full_rows()
        rows = rows[torch.from_numpy(draw.permutation(len(rows)))]
        most = len(rows) if self.replays is None else self.replays * len(places)
        if len(rows) <= most:
            return rows
        changed = torch.isin(rows, places)
        chosen = torch.cat([rows[changed], rows[~changed]])[:most]
        return chosen[torch.from_numpy(draw.permutation(most))]

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        return predict(self.net, x)


def pass_batches(rows: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """The batches of one pass over rows (n,); the last has `size` of them, too, if n has."""
    size = min(size, len(rows))
    for start in range(0, len(rows), size):
        start = min(start, len(rows) - size)
        yield rows[start : start + size]


# --- buffers of classes, compiled ---

EXSTREAM, KMEANS, RESERVOIR, QUEUE = range(4)
KINDS = ("exstream", "kmeans", "reservoir", "queue")
TABLES = ("x", "counts", "held", "seen", "nearest", "apart")

_fast = compile_loops("nsz")


class Clusters(Stateful):
    """At most B prototypes for each class: means of samples with their counts, or single samples.

    `kind` is one of `KINDS`; `size` is B, `width` D; `seed` decides what a reservoir keeps.
    Everything is in main memory and is allocated at the start. Batches are cut from the stream
    without effect: samples enter in their order, one by one.
    """

    state: ClassVar[dict[str, str]] = {**dict.fromkeys(TABLES, "samples"), "draw": "transient"}

    def __init__(self, kind: str, n_classes: int, size: int, width: int, seed: list[int]) -> None:
        check_size("the buffers", n_classes * size * width)
        self.kind = KINDS.index(kind)
        self.size = size
        self.x = torch.zeros(n_classes, size, width)
        self.counts = torch.zeros(n_classes, size, dtype=torch.int32)  # samples in a prototype
        self.held = torch.zeros(n_classes, dtype=torch.int64)  # prototypes, the first of a class
        self.seen = torch.zeros(n_classes, dtype=torch.int64)  # samples
        pairs = size if kind == "exstream" else 0
        self.nearest = torch.zeros(n_classes, pairs, dtype=torch.int32)  # of the same class
        self.apart = torch.zeros(n_classes, pairs)  # squared distance to it
        self.draw = np.random.default_rng(seed)

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Add samples x (b, D) of the classes y (b,), in order.

        Returns the row of `rows` that each sample went to, (b,) int64; -1 if it was not kept.
        """
        drawn = self.draw.random(len(y)) if self.kind == RESERVOIR else np.zeros(len(y))
        samples = np.ascontiguousarray(x.detach().cpu().numpy())
        tables = tuple(getattr(self, name).numpy() for name in TABLES)
        places = np.empty(len(y), np.int64)
        _add(self.kind, samples, y.cpu().numpy(), drawn, tables, places)
        return torch.from_numpy(places)

    def full_rows(self) -> torch.Tensor:
        """(n,) the rows of `rows` that hold a prototype; row // B is its class."""
        return (torch.arange(self.size) < self.held[:, None]).flatten().nonzero().flatten()

    @property
    def rows(self) -> torch.Tensor:
        """The prototypes, (C·B, D)."""
        return self.x.flatten(0, 1)

    @property
    def classes(self) -> torch.Tensor:
        """(k,) the classes that have come."""
        return self.held.nonzero().flatten()


@_fast
def _add(
    kind: int, x: Array, y: Array, drawn: Array, tables: tuple[Array, ...], places: Array
) -> None:
    """Add samples x (b, D) of classes y (b,); `places` (b,) gets where each one went.

    `drawn` (b,) is uniform in [0, 1), for a reservoir. The `tables` change: P (C, B, D), counts (C,
    B), held (C,) and seen (C,), as in `Clusters`, and nearest and apart (C, B), the nearest other
    prototype of the class and its squared distance.
    """
    P, counts, held, seen, nearest, apart = tables
    size = P.shape[1]
    for i in range(len(y)):
        c = y[i]
        slot = held[y[i]]
        if slot < size:
            held[c] += 1
            _put(x[i], slot, P[c], counts[c])
            if kind == EXSTREAM:
                _renew(slot, held[c], P[c], nearest[c], apart[c])
        elif kind == EXSTREAM and size > 1:
            slot = _merge(P[c], counts[c], nearest[c], apart[c])
            _put(x[i], slot, P[c], counts[c])
            _renew(slot, size, P[c], nearest[c], apart[c])
        elif kind in (EXSTREAM, KMEANS):
            slot = _closest(x[i], P[c])
            _include(x[i], slot, P[c], counts[c])
        else:
            slot = seen[c] % size if kind == QUEUE else int(drawn[i] * (seen[c] + 1))
            if slot < size:
                _put(x[i], slot, P[c], counts[c])
        seen[c] += 1
        places[i] = c * size + slot if slot < size else -1


@_fast
def _put(x: Array, slot: int, P: Array, counts: Array) -> None:
    """Make a sample a prototype of its own."""
    P[slot] = x
    counts[slot] = 1


@_fast
def _include(x: Array, slot: int, P: Array, counts: Array) -> None:
    """Make a sample part of a prototype, the mean of its samples."""
    counts[slot] += 1
    p = P[slot]
    share = np.float32(1 / counts[slot])
    for d in range(len(p)):
        p[d] += share * (x[d] - p[d])


@_fast
def _merge(P: Array, counts: Array, nearest: Array, apart: Array) -> int:
    """Merge the two nearest prototypes into the later one; return the place of the other."""
    a = 0
    for k in range(len(apart)):
        if apart[k] < apart[a]:
            a = k
    first = min(a, nearest[a])
    second = max(a, nearest[a])
    n = counts[first] + counts[second]
    share = np.float32(counts[first] / n)
    p = P[first]
    q = P[second]
    for d in range(len(q)):
        q[d] += share * (p[d] - q[d])
    counts[second] = n
    _renew(second, len(P), P, nearest, apart)
    return int(first)


@_fast
def _renew(slot: int, n: int, P: Array, nearest: Array, apart: Array) -> None:
    """Renew the nearest of n prototypes after the one at `slot` has changed."""
    nearest[slot], apart[slot] = slot, np.float32(np.inf)
    for k in range(n):
        if k == slot:
            continue
        d2 = _squared(P[slot], P[k])
        if d2 < apart[slot]:
            nearest[slot], apart[slot] = k, d2
        if d2 < apart[k] or (d2 == apart[k] and slot < nearest[k]):
            nearest[k], apart[k] = slot, d2
        elif nearest[k] == slot:  # it was the nearest, and has moved away
            _search(k, n, P, nearest, apart)


@_fast
def _search(k: int, n: int, P: Array, nearest: Array, apart: Array) -> None:
    """Compare prototype k with all n."""
    apart[k] = np.float32(np.inf)
    for other in range(n):
        if other != k:
            d2 = _squared(P[k], P[other])
            if d2 < apart[k]:
                nearest[k], apart[k] = other, d2


@_fast
def _closest(x: Array, P: Array) -> int:
    best = 0
    least = np.float32(np.inf)
    for k in range(len(P)):
        d2 = _squared(x, P[k])
        if d2 < least:
            best, least = k, d2
    return best


@_fast
def _squared(a: Array, b: Array) -> np.float32:
    """‖a - b‖²."""
    total = np.float32(0)
    for d in range(len(a)):
        away = a[d] - b[d]
        total += away * away
    return total
