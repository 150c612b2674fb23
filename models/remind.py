from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.array_types import Float32s
from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least
from embedbench.learning import (
    Exemplars,
    OnlineLearner,
    Seeds,
    Session,
    StreamSpec,
    Tags,
    predict,
)
from embedbench.learning.exemplars import BY_SAMPLE, Memory
from embedbench.learning.footprint import Stateful
from embedbench.learning.online_learner import ReplayWeight
from embedbench.learning.sample_containers import Packing


@dataclass
class REMIND(OnlineLearner):
    """Replay using memory indexing: steps on each stream batch and on rebuilt samples.

    A product quantiser is trained on the first samples of the stream. From then on the memory holds
    one byte for each part of a sample, and the network sees rebuilt samples only: new ones,
    replayed ones, and in evaluation. If a stream gives whole sessions, every step takes a batch of
    the session, and its samples enter the memory when it has ended.

    **Source**: Hayes et al. (2020), "REMIND your neural network to prevent catastrophic
    forgetting", and their code (`REMINDModel.py`, `run_imagenet_experiment.sh`): 32 codebooks of
    256, 50 replayed samples with each new one, drawn uniformly; a full memory loses a sample of the
    largest class; SGD, weight decay 1e-5.

    **Departs**: the embeddings are what the paper calls mid-level features, one vector a sample in
    place of 7 × 7 of them, so neither mixup nor random crops of feature maps apply. The paper
    learns a sample at a time: `--set protocol.observe_batch=1`. Its network is pretrained on the
    base classes, which the quantiser is trained on; an online learner does not see where a session
    ends, so here it is the first `base_samples` samples: until then they are kept as they are, and
    replayed. If `memory` has no room for so many, the quantiser is trained when that is full, on
    fewer samples; `--budget-mb` also sets `base_samples`, because a whole sample has more bytes
    than its codes. In a full memory the new sample is not kept if its class is the largest. 20,000
    samples are our choice; the paper stores 959,665. Of a whole session's validation data the loss
    is of rebuilt samples, the accuracy (`stop.monitor`) of samples as they are.

    **Measured**: the paper's claim holds on Spoken100 (ten sessions, three seeds): in 7.2 MB
    (`--budget-mb`) codes of all 3,800 samples have 38.6 ±2.8 %, `er` with 291 raw ones 24.6 ±.1; in
    15 MB raw ones are better, 45.1 ±.6.

    Parameters
    ----------
    codes : int
        Bytes of a sample: the largest number of parts of a vector.
    base_samples : int
        Number of samples to train the quantiser on; the batch that completes them is included. The
        most that `memory` allows, if that is less.

    Examples
    --------
    >>> from embedbench import build_stream, run, score
    >>> stream = build_stream("known:emoji-vit", "incremental-class", sessions=3)
    >>> score(run(stream, "remind"))["final_accuracy"] > 0.1  # chance has 1/40
    True
    """

    codes: Annotated[int, at_least(1)] = 32
    base_samples: Annotated[int, at_least(1)] = 1000
    batch_size: int = 50
    lr: float = 0.05
    weight_decay: float = 1e-5
    replay_weight: ReplayWeight = later("samples", earlier="samples")
    memory: Memory = field(default_factory=lambda: Memory(total=20_000, select="balanced"))

    selects: ClassVar[tuple[str, ...]] = BY_SAMPLE
    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True, heads=True)
    joins: ClassVar[bool] = True
    state: ClassVar[dict[str, str]] = {
        **OnlineLearner.state,
        "quantiser": "codebooks",
        "base": "samples",
    }

    def later_behaviour(self) -> tuple[str, ...]:
        room = self.memory.per_class if self.memory.total is None else self.memory.total
        is_limited = self.memory.select != "all" and room < self.base_samples
        return ("the base is within the memory",) if is_limited else ()

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.quantiser = ProductQuantiser(spec.input_shape[0], self.codes, device)
        self.base = Exemplars(Memory(select="all"), spec, seeds.memory, device)
        coded = replace(spec, input_shape=(self.quantiser.parts,))
        self.exemplars = Exemplars(self.memory, coded, seeds.memory, device, packing=self.quantiser)
        self._empty = self.base.state_dict()

    learn = OnlineLearner.learn_and_store

    def as_learned(self, x: Tensor) -> Tensor:
        return self.rebuilt(x)

    def add_head(self, session: Session) -> None:
        super().add_head(session)
        self.base.heads.add(session)

    def retrieve(self, draw: np.random.Generator, classes: Tensor | None) -> tuple[Tensor, Tensor]:
        held = self.held()
        x, y = super().retrieve(draw, classes)
        if held is self.base:
            self.exemplars.presented += len(y)
        return x, y

    def store_session(self, session: Session) -> None:
        for x, y in self.session_batches(session):
            self.store(x, y)

    def store(self, x: Tensor, y: Tensor) -> None:
        self.held().add(x, y)
        if not self.quantiser.trained and self._base_is_complete():
            self._quantise()

    def _base_is_complete(self) -> bool:
        """Whether the base has all its samples, or as many as the memory may hold."""
        if len(self.base) >= self.base_samples:
            return True
        if self.memory.select == "all":
            return False
        if self.memory.total is not None:
            return len(self.base) >= self.memory.total
        return int(torch.bincount(self.base.lists).max()) >= self.memory.per_class

    def held(self) -> Exemplars:
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


# --- product quantisation: a byte for each part of a vector ---


CENTROIDS = 256  # of each part; a byte names one
ITERATIONS = 25  # of k-means
BLOCK = 512  # samples encoded at once


class ProductQuantiser(Packing, Stateful):
    """Cuts a vector into parts and stores, for each part, the number of its nearest centroid.

    **Source**: Jégou et al. (2011), "Product quantization for nearest neighbor search", Section II;
    256 centroids a part and 25 iterations of k-means from randomly drawn samples, as in faiss.

    **Departs**: the last part may be shorter: it is filled up with zeros. If a part has at most 256
    different values, these are its centroids.

    A vector of length `width` has at most so many `parts`; all but the last are equally long.
    `books` are the centroids, (parts, 256, length) float32; `trained` says whether `fit` was
    called.
    """

    state: ClassVar[dict[str, str]] = {"books": "codebooks", "trained": "transient"}

    def __init__(self, width: int, parts: int, device: str) -> None:
        self.dtype = torch.uint8
        self.width = width
        length = -(-width // min(parts, width))
        self.parts = -(-width // length)
        self.books = torch.zeros(self.parts, CENTROIDS, length, device=device)
        self.trained = False

    def fit(self, x: Tensor, seed: int) -> None:
        """Find the centroids of x (n, D) by k-means."""
        cut = self._cut(x).cpu().numpy()  # (parts, n, length)
        books = [_centroids(part, seed + j) for j, part in enumerate(cut)]
        self.books = torch.from_numpy(np.stack(books)).to(self.books)
        self.trained = True

    def _cut(self, x: Tensor) -> Tensor:
        """The parts of x (n, D), (parts, n, length)."""
        length = self.books.shape[2]
        x = torch.nn.functional.pad(x, (0, self.parts * length - self.width))
        return x.view(len(x), self.parts, length).transpose(0, 1)

    def pack(self, x: Tensor) -> Tensor:
        """The codes of x (n, D), (n, parts) uint8."""
        # float64: the nearest centroid must not depend on how many samples are encoded at once
        books = self.books.double()
        size = books.square().sum(2)[:, None]  # (parts, 1, 256)
        codes = [
            torch.baddbmm(size, self._cut(part).double(), books.transpose(1, 2), alpha=-2)
            .argmin(2)
            .T.to(torch.uint8)
            for part in torch.split(x, BLOCK)
        ]
        return torch.cat(codes)

    def unpack(self, held: Tensor) -> Tensor:
        """The vectors that the codes (n, parts) stand for, (n, D) float32."""
        each = torch.arange(self.parts, device=held.device)
        return self.books[each, held.long()].flatten(1)[:, : self.width]


def _centroids(x: Float32s, seed: int) -> Float32s:
    """256 centroids of x (n, length); the first is repeated where x has fewer different values."""
    found = np.unique(x, axis=0)
    if len(found) > CENTROIDS:
        from sklearn.cluster import KMeans

        means = KMeans(
            CENTROIDS, init="random", n_init=1, max_iter=ITERATIONS, random_state=seed % 2**32
        )
        found = means.fit(x).cluster_centers_
    filled: Float32s = np.resize(found[:1], (CENTROIDS, x.shape[1]))
    filled[: len(found)] = found
    return filled
