"""The exemplar memory: copies of samples that a learner keeps to train on again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedbench.errors import UserError, unknown
from embedbench.learner import Footprint
from embedbench.stream import Session, StreamSpec, View

Features = Callable[[Tensor], Tensor]
BY_SESSION = ("herding", "random", "all")  # chosen class by class when a session has ended
BY_SAMPLE = ("reservoir", "balanced", "all")  # decided for each sample as it comes


@dataclass(frozen=True)
class Memory:
    """How many exemplars are kept, and which.

    **Source**: herding and the shrinking of fixed memories, Rebuffi et al. (2017, iCaRL),
    Algorithms 4 and 5; reservoir sampling, Vitter (1985, algorithm R); "balanced", Prabhu et al.
    (2020, GDumb), Algorithm 1.

    **Departs**: a class that comes again is chosen anew from its exemplars and its new samples. In
    a "balanced" memory smaller than the number of classes a class without a place still gets one.

    Parameters
    ----------
    total : exemplars of all classes together, shared equally among the classes seen; it overrides
        `per_class`. None: `per_class` holds
    per_class : exemplars of each class, so that the memory grows
    select : after a session, "herding" (their mean features stay near the class mean's) or
        "random"; as samples come, "reservoir" (every sample is equally likely to be kept) or
        "balanced" (greedily, evicting from the largest class); "all": every sample, without bound
    """

    total: int | None = None
    per_class: int = 20
    select: str = "herding"

    def __post_init__(self) -> None:
        known = tuple(dict.fromkeys((*BY_SESSION, *BY_SAMPLE)))
        if self.select not in known:
            raise unknown("memory.select", self.select, known)
        for name, value in (("total", self.total), ("per_class", self.per_class)):
            if value is not None and value < 0:
                raise UserError(f"memory.{name} must be at least 0, got {value}")
        if self.select == "reservoir" and self.total is None:
            raise UserError("a reservoir has a fixed size: give it one with memory.total")

    def quota(self, n_classes: int) -> int | None:
        """Exemplars that each of `n_classes` classes may have; None without a bound."""
        if self.select == "all":
            return None
        return self.per_class if self.total is None else self.total // n_classes


def check_memory(learner: Any, known: tuple[str, ...]) -> None:
    """Refuse a `memory.select` that this kind of learner has no use for."""
    name = type(learner).__module__.rpartition(".")[2].replace("_", "-")
    if learner.memory.select not in known:
        raise unknown(f"{name}.memory.select", learner.memory.select, known)


def exemplar_bytes(width: int, n_logits: int = 0) -> int:
    """Bytes of one exemplar: `width` float32, an int64 label, and logits where they are stored."""
    return 4 * width + 8 + 4 * n_logits


class Exemplars:
    """The exemplars of a learner, in tensors on its device.

    `seed` decides what is kept; with `logits` the net's logits are stored beside each sample.
    """

    def __init__(
        self, memory: Memory, spec: StreamSpec, seed: int, device: str, *, logits: bool = False
    ) -> None:
        if memory.select in ("herding", "random") and 0 < (memory.total or 0) < spec.n_classes:
            raise UserError(
                f"memory.total must be at least {spec.n_classes}, an exemplar of each of the "
                f"stream's classes, or 0; got {memory.total}"
            )
        self.memory, self.seed, self.device = memory, seed, device
        self.n = self.seen = 0  # samples stored, and offered so far
        self.classes: set[int] = set()  # labels offered so far, where the choice depends on them
        n_logits = spec.n_classes if logits else 0
        self._x = torch.zeros(0, spec.input_shape[0], device=device)
        self._y = torch.zeros(0, dtype=torch.int64, device=device)
        self._logits = torch.zeros(0, n_logits, device=device)

    def __len__(self) -> int:
        return self.n

    @property
    def x(self) -> Tensor:
        """The exemplars, (m, D) float32; after `keep` class by class, each class best first."""
        return self._x[: self.n]

    @property
    def y(self) -> Tensor:
        """Their labels, (m,) int64."""
        return self._y[: self.n]

    @property
    def logits(self) -> Tensor:
        """Their stored logits, (m, C) float32; (m, 0) where none are stored."""
        return self._logits[: self.n]

    @torch.no_grad()
    def keep(self, session: Session, features: Features) -> None:
        """Choose exemplars of a session's classes; drop the tail of the others' lists.

        Parameters
        ----------
        session : as the runner gave it, without the exemplars joined to it
        features : takes x (n, D) to φ (n, d), for herding
        """
        draw = np.random.default_rng([self.seed, self.seen])
        labels = torch.from_numpy(session.y).to(self.device)
        self.classes |= (new := set(session.y.tolist()))
        self.seen += len(session.y)
        quota = self.memory.quota(len(self.classes))
        parts: list[Tensor] = []
        for c in sorted(self.classes):
            x = self.x[self.y == c]
            if c in new:
                x = torch.cat([x, session.x.batch((labels == c).nonzero().flatten(), self.device)])
                x = x[self._ranked(x, features, quota, draw)]
            parts.append(x[:quota])
        self._x = torch.cat(parts)
        counts = torch.tensor([len(p) for p in parts], device=self.device)
        self._y = torch.tensor(sorted(self.classes), device=self.device).repeat_interleave(counts)
        self._logits = self._logits.new_zeros(len(self._x), 0)
        self.n = len(self._x)

    def _ranked(
        self, x: Tensor, features: Features, quota: int | None, draw: np.random.Generator
    ) -> Tensor:
        """Rows of x, one class's samples (n, D), best first: `quota` of them at most."""
        if self.memory.select == "herding":
            return herding(features(x), min(len(x), len(x) if quota is None else quota))
        order = draw.permutation(len(x)) if self.memory.select == "random" else np.arange(len(x))
        return torch.from_numpy(order[:quota]).to(self.device)

    def join(self, session: Session) -> Session:
        """The session with the exemplars joined to its training data; their ids are -1."""
        if not self.n:
            return session
        y = self.y.cpu().numpy()
        mask = session.loss_classes
        if mask is not None:
            mask = mask.copy()
            mask[y] = True
        view = session.x
        return replace(
            session,
            x=Joined(view.table, view.rows, view.width, view.columns, extra=self.x),
            y=np.concatenate([session.y, y]),
            ids=np.concatenate([session.ids, np.full(self.n, -1)]),
            loss_classes=mask,
        )

    def add(self, x: Tensor, y: Tensor, logits: Tensor | None = None) -> None:
        """Offer a batch, sample after sample: x (b, D), y (b,), logits (b, C)."""
        places = self._places(y.tolist())
        if not places:
            return
        self._reserve(max(self.n, max(places) + 1))
        to = torch.tensor(list(places), device=self.device)
        taken = torch.tensor(list(places.values()), device=self.device)
        self._x[to], self._y[to] = x[taken], y[taken]
        if logits is not None:
            self._logits[to] = logits[taken].detach()

    def _places(self, labels: list[int]) -> dict[int, int]:
        """Place in the memory → the sample of the batch that lies there once all were offered."""
        draw = np.random.default_rng([self.seed, self.seen])
        first, self.seen = self.seen, self.seen + len(labels)
        if self.memory.select == "balanced":
            return self._balanced(labels, draw)
        numbers = np.arange(first, self.seen)
        if self.memory.select == "all":
            return {int(p): i for i, p in enumerate(numbers)}
        total = self.memory.total or 0
        drawn = draw.integers(0, numbers + 1)  # uniform in 0 … the sample's own number
        found = np.where(numbers < total, numbers, drawn)
        return {int(p): i for i, p in enumerate(found) if p < total}  # a later sample overwrites

    def _balanced(self, labels: list[int], draw: np.random.Generator) -> dict[int, int]:
        total, n = self.memory.total, self.n
        if total == 0:
            return {}
        held: dict[int, list[int]] = {}
        for place, c in enumerate(self.y.tolist()):
            held.setdefault(c, []).append(place)
        places: dict[int, int] = {}
        for i, c in enumerate(labels):
            self.classes.add(c)
            own = held.setdefault(c, [])
            quota = self.memory.quota(len(self.classes))
            assert quota is not None
            if len(own) >= max(1, quota):
                continue
            if total is None or n < total:
                place, n = n, n + 1
            else:
                largest = max(held.values(), key=len)
                place = largest.pop(int(draw.integers(len(largest))))
            own.append(place)
            places[place] = i
        return places

    def _reserve(self, n: int) -> None:
        """Make room for `n` exemplars, at least doubling it, so that adding costs little."""
        room = len(self._x)
        if n > room:
            total = self.memory.total if self.memory.select != "all" else None
            more = max(n, 2 * room if total is None else min(2 * room, total)) - room
            for name in ("_x", "_y", "_logits"):
                old = getattr(self, name)
                setattr(self, name, torch.cat([old, old.new_zeros(more, *old.shape[1:])]))
        self.n = n

    def sample(self, k: int, draw: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Up to `k` different exemplars at random: x (k, D), y (k,), logits (k, C)."""
        chosen = draw.choice(self.n, min(k, self.n), replace=False, shuffle=False)
        index = torch.from_numpy(chosen).to(self.device)
        return self._x[index], self._y[index], self._logits[index]

    def footprint(self) -> Footprint:
        """Bytes of samples and labels, and of the logits beside them."""
        width, n_logits = self._x.shape[1], self._logits.shape[1]
        return Footprint(samples=self.n * exemplar_bytes(width, n_logits))

    def state_dict(self) -> dict[str, Any]:
        """The exemplars, and what the choice of later ones depends on."""
        state = {name: getattr(self, name).clone() for name in ("x", "y", "logits")}
        return {**state, "seen": self.seen, "classes": sorted(self.classes)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        for name in ("x", "y", "logits"):
            setattr(self, f"_{name}", state[name].to(self.device))
        self.n, self.seen, self.classes = len(self._x), state["seen"], set(state["classes"])


@dataclass(frozen=True)
class Joined(View):
    """A view followed by rows of its own, `extra` (m, width) float32; the view is not copied."""

    extra: Tensor = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.rows) + len(self.extra)

    def numpy(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Copy the view and the rows out, (n + m, width) float32."""
        return self.batch(None).numpy()

    def batch(self, index: Tensor | None, device: str = "cpu") -> Tensor:
        """The samples `index` (int64, on `device`; None: all), (b, width) float32."""
        extra, n = self.extra.to(device), len(self.rows)
        if index is None:
            return torch.cat([super().batch(None, device), extra])
        own = index < n
        x = torch.empty(len(index), self.width, device=device)
        x[own] = super().batch(index[own], device)
        x[~own] = extra[index[~own] - n]
        return x


def herding(features: Tensor, k: int) -> Tensor:
    """Numbers of `k` of n samples, (k,), best first, from features (n, d).

    With φ of length 1 and μ their mean, each choice brings the mean of those chosen nearest to μ.
    """
    phi = normalize(features)
    mean = phi.mean(0)
    size = phi.square().sum(1)
    total = torch.zeros_like(mean)
    taken = torch.zeros(len(phi), dtype=torch.bool, device=phi.device)
    chosen = torch.zeros(k, dtype=torch.int64, device=phi.device)
    for j in range(k):
        # ‖μ - (φ + Σ)/(j+1)‖² up to a factor and a constant: ‖φ‖² - 2 φ·((j+1) μ - Σ)
        distance = size - 2 * phi @ ((j + 1) * mean - total)
        best = distance.masked_fill(taken, torch.inf).argmin()
        chosen[j] = best
        taken[best] = True
        total += phi[best]
    return chosen
