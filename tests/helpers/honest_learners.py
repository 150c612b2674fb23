"""Honest learners for the tests of the conformance suite: they do what no shipped one does yet."""

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Context, Learner, Tags
from embedbench.streams.stream import Session, StreamSpec

UNSEEN = -1e9


@dataclass
class Good(Learner):
    """Nearest class mean, taught whole sessions."""

    shrink: float = 0.0

    state: ClassVar[dict[str, str]] = {"sums": "means", "counts": "means"}
    begin: ClassVar[dict[str, Any]] = {}  # further attributes of subclasses, at the start

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.sums = torch.zeros(spec.n_classes, spec.input_shape[0])
        self.counts = torch.zeros(spec.n_classes)
        vars(self).update(copy.deepcopy(self.begin))

    def note(self, session: Session) -> None:
        """Called before a session is learned."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.note(session)
        y = torch.from_numpy(session.y)
        self.sums.index_add_(0, y, session.x.tensor())
        self.counts.index_add_(0, y, torch.ones(len(y)))
        return {"steps": 1}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        means = self.sums / self.counts.clamp(min=1)[:, None]
        out = -(x[:, None] - means).square().sum(2)  # (n, 1, D) - (C, D) -> (n, C)
        return out.masked_fill(self.counts == 0, UNSEEN)


@dataclass
class Neighbours(Good):  # keeps every sample and says so; answers with the class of the nearest
    tags: ClassVar[Tags] = Tags(stores_samples=True)
    state: ClassVar[dict[str, str]] = {"x": "samples", "y": "samples"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        self.x = torch.zeros(0, spec.input_shape[0])
        self.y = torch.zeros(0, dtype=torch.int64)
        self.n_classes = spec.n_classes

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        self.x = torch.cat([self.x, session.x.tensor()])
        self.y = torch.cat([self.y, torch.from_numpy(session.y)])
        return {}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        near = -(x[:, None] - self.x).square().sum(2)  # (n, m)
        out = torch.full((len(x), self.n_classes), UNSEEN)
        return out.scatter_reduce(1, self.y.expand(len(x), -1), near, "amax")


@dataclass
class NeedsId(Good):  # prefers the classes of the session that it is told
    tags: ClassVar[Tags] = Tags(needs_session_id=True)
    state: ClassVar[dict[str, str]] = {"sums": "means", "counts": "means", "home": "home"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.home = torch.zeros(spec.n_classes, spec.n_classes)  # (sessions, C)

    def note(self, session: Session) -> None:
        assert session.session_id is not None
        self.home[session.session_id, session.y] = 100

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        assert session_id is not None
        return super().scores(x) + self.home[session_id]


@dataclass
class NeedsLayers(Good):  # reads all columns, intermediate ones too
    tags: ClassVar[Tags] = Tags(needs_layers=True)


@dataclass
class ManyLabels(Good):  # ridge regression on one or several labels, answered above a half
    tags: ClassVar[Tags] = Tags(multilabel=True)
    state: ClassVar[dict[str, str]] = {"xx": "products", "xy": "products"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        n, self.n_classes = spec.input_shape[0], spec.n_classes
        self.xx = torch.eye(n, dtype=torch.float64)
        self.xy = torch.zeros(n, self.n_classes, dtype=torch.float64)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        x, y = session.x.tensor().double(), torch.from_numpy(session.y)
        y = y if y.ndim == 2 else one_hot(y, self.n_classes)
        self.xx += x.T @ x
        self.xy += x.T @ y.double()
        return {}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return x.double() @ torch.linalg.solve(self.xx, self.xy) - 0.5


@dataclass
class SaysItIsNoisy(Good):  # draws from the global random state, and is tagged so
    tags: ClassVar[Tags] = Tags(deterministic=False)

    def note(self, session: Session) -> None:
        self.sums += 1e-3 * torch.randn_like(self.sums)


@dataclass
class Looks(Good):
    """Takes the values of an image in a row."""

    tags: ClassVar[Tags] = Tags(images=True)

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        flat = replace(spec, input_shape=(math.prod(spec.input_shape),))
        super().start(flat, seeds, device)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        y = torch.from_numpy(session.y)
        self.sums.index_add_(0, y, session.x.tensor().flatten(1))
        self.counts.index_add_(0, y, torch.ones(len(y)))
        return {}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(x.flatten(1))


HONEST = [Good, Neighbours, NeedsId, NeedsLayers, ManyLabels, SaysItIsNoisy, Looks]
