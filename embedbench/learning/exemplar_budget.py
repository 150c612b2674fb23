"""The budget of exemplars of a learner, and how they are chosen."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from embedbench.config.declared_settings import at_least, check_settings
from embedbench.errors import UserError, unknown
from embedbench.streams.stream import Session

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
            what = "a reservoir" if self.select == "reservoir" else f'memory.select "{self.select}"'
            raise UserError(f"{what} has a fixed size: give it one with memory.total")

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


def exemplar_bytes(width: int, n_logits: int = 0, n_labels: int = 0, *, each: int = 4) -> int:
    """Bytes of one exemplar: `width` values, an int64 label, and logits where they are stored.

    A value has `each` bytes: 4, or 1 for images stored as bytes. In a multi-label stream the label
    is the class that the sample is an exemplar of; all its `n_labels` labels are stored beside it.
    """
    return each * width + 8 + 4 * n_logits + n_labels


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
