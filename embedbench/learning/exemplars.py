"""The exemplars of a learner: copies of samples that it keeps to train on again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import at_least, check_settings
from embedbench.errors import UserError, unknown
from embedbench.streams.stream import Session, StreamSpec
from embedbench.streams.view import View

from .footprint import Footprint, tensor_bytes
from .sample_containers import JoinedView, Packing, Rows, with_data
from .session_heads import SessionHeads

BY_SESSION = ("herding", "random", "all")  # chosen class by class when a session has ended
BY_SAMPLE = ("reservoir", "balanced", "all")  # decided for each sample as it comes
BY_LEARNER = ("gradients",)  # the learner decides for each sample, and says where it is stored


@dataclass(frozen=True)
class Capacity:
    """The number of exemplars that are kept.

    Parameters
    ----------
    total : int or None
        Number of exemplars of all classes together; it overrides `per_class`. None: `per_class` is
        used.
    per_class : int
        Number of exemplars of each class.
    """

    total: Annotated[int, at_least(0)] | None = None
    per_class: Annotated[int, at_least(0)] = 20

    def __post_init__(self) -> None:
        check_settings(self, "memory")

    def share(self, n_classes: int) -> int:
        """Number of exemplars that each of `n_classes` classes may have."""
        return self.per_class if self.total is None else self.total // n_classes


@dataclass(frozen=True)
class Memory(Capacity):
    """The number of exemplars that are kept, and the way they are chosen.

    **Source**: herding and the shrinking of fixed memories, Rebuffi et al. (2017, iCaRL),
    Algorithms 4 and 5; reservoir sampling, Vitter (1985, algorithm R); "balanced", Prabhu et al.
    (2020, GDumb), Algorithm 1.

    **Departs**: when a class comes again, its exemplars are chosen anew from the old ones and its
    new samples. In a "balanced" memory smaller than the number of classes, a class without a place
    still gets one.

    Parameters
    ----------
    total : int or None
        Number of exemplars of all classes together, shared equally among the classes seen; it
        overrides `per_class`. None: `per_class` is used.
    per_class : int
        Number of exemplars of each class, so that the memory grows with the classes.
    select : str
        Chosen after a session: "herding" (the mean of the chosen features stays near the class
        mean) or "random". Chosen as samples come: "reservoir" (every sample is kept with equal
        probability) or "balanced" (greedy; a sample of the largest class is dropped). "all": every
        sample, without limit. "gradients": see `gss`, the only learner with it.
    """

    select: Literal["herding", "random", "reservoir", "balanced", "all", "gradients"] = "herding"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.select in ("reservoir", *BY_LEARNER) and self.total is None:
            raise UserError(
                f'memory.select "{self.select}" has a fixed size: give it one with memory.total'
            )

    def quota(self, n_classes: int) -> int | None:
        """Number of exemplars that each of `n_classes` classes may have; None without a limit."""
        return None if self.select == "all" else self.share(n_classes)


def check_memory(learner: Any) -> None:
    """Refuse a `memory.select` that is not among the learner's `selects`."""
    if learner.memory.select not in learner.selects:
        raise unknown(f"{learner.name}.memory.select", learner.memory.select, learner.selects)


def require_exemplars(learner: Any, use: str) -> None:
    """Refuse a memory without room; `use` says what the learner does with exemplars."""
    if learner.memory.quota(1) == 0:
        memory = f"{learner.name}.memory"
        raise UserError(
            f"{learner.name} {use}: {memory}.total and {memory}.per_class must not be 0"
        )


def herding(features: Tensor, k: int) -> Tensor:
    """Indices of `k` of n samples, (k,), best first, from features (n, d).

    φ have length 1 and μ is their mean. Each choice brings the mean of the chosen φ nearest to μ.
    """
    phi = nn.functional.normalize(features)
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


def session_classes(session: Session) -> set[int]:
    """The classes that a session teaches.

    These are the classes of its labels. With label sets, which may hold older classes, they are the
    classes that the session introduces.
    """
    labels = session.y if session.y.ndim == 1 else session.classes
    return set(labels.tolist())


def label_classes(y: Tensor) -> set[int]:
    """The classes of labels (b,) or label sets (b, C)."""
    return set((y if y.ndim == 1 else y.any(0).nonzero().flatten()).tolist())


Features = Callable[[Tensor], Tensor]
COUNTS = ("seen", "given", "presented")
PARTS = ("x", "lists", "sets", "logits")  # stored for every exemplar


class Exemplars:
    """The exemplars of a learner, as tensors on its device; images are stored as bytes (`Packing`).

    `seed` decides which samples are kept. With `logits` the net's logits are stored beside each
    sample. In a multi-label stream a sample keeps the labels that its session gave it. It can be an
    exemplar of each of these labels, and of another label when it comes again. With a `packing` of
    its own, `spec` has the shape of what is stored.
    """

    def __init__(
        self,
        memory: Memory,
        spec: StreamSpec,
        seed: int,
        device: str,
        *,
        logits: bool = False,
        packing: Packing | None = None,
    ) -> None:
        if memory.select in ("herding", "random") and 0 < (memory.total or 0) < spec.n_classes:
            raise UserError(
                "memory.total",
                expected=f"at least {spec.n_classes}, one of each of the stream's classes, or 0",
                got=memory.total,
            )
        self.memory, self.seed, self.device = memory, seed, device
        self.n = self.seen = 0  # samples stored, and samples offered so far
        self.given = self.presented = 0  # new samples, and samples trained on: see `passes`
        # labels offered so far, if the choice or the loss depends on them
        self.classes: set[int] = set()
        self.multilabel = spec.multilabel
        n_classes = spec.n_classes
        self.loss_over_seen = spec.multilabel or spec.loss_over_seen
        self.heads = SessionHeads(spec)
        self.packing = packing or Packing(spec, device)
        self._x = torch.zeros(0, *spec.input_shape, dtype=self.packing.dtype, device=device)
        self._lists = torch.zeros(0, dtype=torch.int64, device=device)
        n_labels = n_classes if spec.multilabel else 0
        self._sets = torch.zeros(0, n_labels, dtype=torch.bool, device=device)
        self._logits = torch.zeros(0, n_classes if logits else 0, device=device)

    def __len__(self) -> int:
        return self.n

    @property
    def x(self) -> Tensor:
        """The exemplars, (m, D) or (m, C, H, W) float32.

        After `choose` they are sorted by class, with the best exemplar of each class first.
        """
        return self.packing.unpack(self._x[: self.n])

    @property
    def rows(self) -> Rows:
        """The exemplars as a view; images are decoded when they are read."""
        return Rows(self._x[: self.n], self.packing)

    @property
    def y(self) -> Tensor:
        """The labels, (m,) int64, or (m, C) bool in a multi-label stream."""
        return self.sets if self.multilabel else self.lists

    @property
    def lists(self) -> Tensor:
        """The class that each sample is an exemplar of, (m,) int64."""
        return self._lists[: self.n]

    @property
    def sets(self) -> Tensor:
        """The label sets, (m, C) bool; (m, 0) where each sample has one label."""
        return self._sets[: self.n]

    @torch.no_grad()
    def choose(self, session: Session, features: Features) -> None:
        """Choose exemplars of a session's classes; shorten the lists of the other classes.

        The session is the runner's, without exemplars; `features` maps x (n, D) to φ (n, d), for
        herding.
        """
        draw = np.random.default_rng([self.seed, self.seen])
        labels = torch.from_numpy(session.y).to(self.device)
        self.classes |= (new := session_classes(session))
        self.seen += len(session.y)
        quota = self.memory.quota(len(self.classes))
        parts: list[tuple[Tensor, Tensor]] = []
        for c in sorted(self.classes):
            x = self.rows.x[self.lists == c]
            sets = self.sets[self.lists == c]
            if c in new:
                rows = (labels[:, c] if self.multilabel else labels == c).nonzero().flatten()
                x = torch.cat([x, self.packing.pack(session.x.batch(rows, self.device))])
                order = self._ranked(x, features, quota, draw)
                x = x[order]
                sets = torch.cat([sets, self._sets_of(labels[rows])])[order]
            parts.append((x[:quota], sets[:quota]))
        self._x, self._sets = (torch.cat(part) for part in zip(*parts, strict=True))
        counts = torch.tensor([len(x) for x, _ in parts], device=self.device)
        classes = torch.tensor(sorted(self.classes), device=self.device)
        self._lists = classes.repeat_interleave(counts)
        self._logits = self._logits.new_zeros(len(self._x), 0)
        self.n = len(self._x)

    def _sets_of(self, y: Tensor) -> Tensor:
        """Labels in the form in which `sets` stores them."""
        return y if self.multilabel else self._sets.new_zeros(len(y), 0)

    def _ranked(
        self, x: Tensor, features: Features, quota: int | None, draw: np.random.Generator
    ) -> Tensor:
        """Up to `quota` rows of x, the stored samples of one class, best first."""
        if self.memory.select == "herding":
            x = self.packing.unpack(x)
            return herding(features(x), min(len(x), len(x) if quota is None else quota))
        order = draw.permutation(len(x)) if self.memory.select == "random" else np.arange(len(x))
        return torch.from_numpy(order[:quota]).to(self.device)

    def join(self, session: Session) -> Session:
        """The session with the exemplars joined to its training data; their ids are -1."""
        self.heads.add(session)
        if not self.n:
            return session
        y = self.y.cpu().numpy()
        mask = session.loss_classes
        if mask is not None:
            mask = mask.copy()
            mask[y.any(0) if self.multilabel else y] = True
        return with_data(
            session,
            JoinedView(session.x, self.rows),
            np.concatenate([session.y, y]),
            ids=np.concatenate([session.ids, np.full(self.n, -1)]),
            loss_classes=mask,
        )

    def update(self, session: Session) -> None:
        """Update the memory after a session: per class if it is "random", otherwise per sample."""
        if self.memory.select == "random":
            self.choose(session, lambda x: x)
        else:
            self.add(session.x, torch.from_numpy(session.y).to(self.device))

    def seen_with(self, y: Tensor) -> Tensor | None:
        """The classes that a loss with the labels y (b,) or (b, C) may use, as `among` has them.

        All classes seen so far, (k,), with those of y; or, where each session has a head, the
        classes beside each one in its head, (C, C) bool. None where the loss may use all classes of
        the stream.
        """
        if self.heads.exist:
            return self.heads.beside(self.device)
        if not self.loss_over_seen:
            return None
        return torch.tensor(sorted(self.classes | label_classes(y)), device=self.device)

    def add(
        self,
        x: Tensor | View,
        y: Tensor,
        logits: Tensor | None = None,
        places: dict[int, int] | None = None,
    ) -> None:
        """Offer samples one by one: x (b, D), y (b,) or (b, C), logits (b, C).

        A sample with several labels is an exemplar of the first one. A learner that chooses itself
        gives the `places`: place in the memory → sample of the batch. Of a view only the samples
        that are taken are read.
        """
        if places is None and self.memory.select not in BY_SAMPLE:
            raise UserError(
                f'memory.select "{self.memory.select}" chooses when a session has ended, and these '
                "samples come one by one; use reservoir, balanced or all"
            )
        if self.multilabel:
            self.classes |= label_classes(y)
        labels = y.int().argmax(1) if self.multilabel else y
        places = self._places(labels.tolist()) if places is None else places
        if self.loss_over_seen:  # after the choice, which does not depend on the loss
            self.classes |= label_classes(y)
        if not places:
            return
        self._reserve(max(self.n, max(places) + 1))
        to = torch.tensor(list(places), device=self.device)
        taken = torch.tensor(list(places.values()), device=self.device)
        samples = x[taken] if isinstance(x, Tensor) else x.batch(taken, self.device)
        self._x[to], self._lists[to] = self.packing.pack(samples), labels[taken]
        self._sets[to] = self._sets_of(y[taken])
        if logits is not None:
            self._logits[to] = logits[taken].detach()

    def _places(self, labels: list[int]) -> dict[int, int]:
        """Place in the memory → sample of the batch that is there in the end."""
        draw = np.random.default_rng([self.seed, self.seen])
        first = self.seen
        self.seen = self.seen + len(labels)
        if self.memory.select == "balanced":
            return self._balanced(labels, draw)
        numbers = np.arange(first, self.seen)
        if self.memory.select == "all":
            return {int(p): i for i, p in enumerate(numbers)}
        total = self.memory.total or 0
        drawn = draw.integers(0, numbers + 1)  # uniform in 0 … the sample's number
        places = np.where(numbers < total, numbers, drawn)
        return {int(p): i for i, p in enumerate(places) if p < total}  # a later sample overwrites

    def _balanced(self, labels: list[int], draw: np.random.Generator) -> dict[int, int]:
        total = self.memory.total
        n = self.n
        if total == 0:
            return {}
        held: dict[int, list[int]] = {}
        for place, c in enumerate(self.lists.tolist()):
            held.setdefault(c, []).append(place)
        places: dict[int, int] = {}
        for i, c in enumerate(labels):
            self.classes.add(c)
            members = held.setdefault(c, [])
            quota = self.memory.quota(len(self.classes))
            assert quota is not None
            if len(members) >= max(1, quota):
                continue
            if total is None or n < total:
                place = n
                n = n + 1
            else:
                largest = max(held.values(), key=len)
                place = largest.pop(int(draw.integers(len(largest))))
            members.append(place)
            places[place] = i
        return places

    def _reserve(self, n: int) -> None:
        """Make room for `n` exemplars; the capacity at least doubles, so that adding is cheap."""
        room = len(self._x)
        if n > room:
            total = self.memory.total if self.memory.select != "all" else None
            more = max(n, 2 * room if total is None else min(2 * room, total)) - room
            for name in ("_x", "_lists", "_sets", "_logits"):
                old = getattr(self, name)
                setattr(self, name, torch.cat([old, old.new_zeros(more, *old.shape[1:])]))
        self.n = n

    def sample(self, k: int, draw: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Up to `k` distinct random exemplars: x (k, D), y (k,), logits (k, C)."""
        chosen = draw.choice(self.n, min(k, self.n), replace=False, shuffle=False)
        self.presented += len(chosen)
        index = torch.from_numpy(chosen).to(self.device)
        return self.packing.unpack(self._x[index]), self.y[index], self._logits[index]

    def trim(self) -> None:
        """Give back the room made for more exemplars."""
        if len(self._x) > self.n:
            self.load_state_dict(self.state_dict())

    def footprint(self) -> Footprint:
        """Bytes of samples, labels (the class that each is an exemplar of, and its set), logits."""
        parts = (getattr(self, f"_{name}")[: self.n] for name in PARTS)
        return Footprint(samples=tensor_bytes(*parts))

    def state_dict(self) -> dict[str, Any]:
        """The exemplars, and everything that later choices depend on."""
        state = {name: getattr(self, f"_{name}")[: self.n].clone() for name in PARTS}
        counts = {name: getattr(self, name) for name in COUNTS}
        heads = {"heads": self.heads.state_dict()} if self.heads.exist else {}
        return {**state, **counts, **heads, "classes": sorted(self.classes)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in PARTS:
            setattr(self, f"_{name}", state[name].to(self.device))
        for name in COUNTS:
            setattr(self, name, state[name])
        self.n = len(self._x)
        self.classes = set(state["classes"])
        if self.heads.exist:
            self.heads.load_state_dict(state["heads"])
