"""The learner contract: what every method of the testbed is, and what it is told."""

from __future__ import annotations

import copy
import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from embedbench.seeds import Seeds

if TYPE_CHECKING:
    import torch

    from embedbench.streams.stream import Session, StreamSpec


@dataclass(frozen=True)
class Tags:
    """What a learner needs, does and promises; the conformance suite holds it to them.

    Parameters
    ----------
    needs_session_id : bool
        Cannot answer without the session id at test.
    multilabel : bool
        Can learn (n, C) bool labels.
    stores_samples : bool
        Keeps training samples, counted in its footprint.
    needs_layers : bool
        Wants the intermediate embeddings beside the final one.
    online : bool
        Learns through `observe`, from batches that the runner cuts; where it has a `learn` too,
        streams that are not online give it whole sessions.
    deterministic : bool
        Same seed and threads, same predictions.
    images : bool
        Can be given images (n, C, H, W) in place of embeddings (n, D).
    offline : bool
        A reference that is given the merged stream at once.
    learns : bool
        False for references that ignore the data.
    """

    needs_session_id: bool = False
    multilabel: bool = False
    stores_samples: bool = False
    needs_layers: bool = False
    online: bool = False
    deterministic: bool = True
    images: bool = False
    offline: bool = False
    learns: bool = True


class Checkpoint(typing.Protocol):
    """What a training saves, so that it can go on where it was cut off."""

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """Bring the parts of a training that begins to where it was cut off.

        Parameters
        ----------
        parts : dict
            Modules, optimisers, random generators and the like, by name.

        Returns
        -------
        int
            Epochs that are already done.
        dict or None
            The log, if the training had ended.
        """

    def save_epoch(self, epochs: int, parts: dict[str, Any]) -> None:
        """Save a training after some epochs, if a checkpoint is due."""

    def save_end(self, log: dict[str, Any], parts: dict[str, Any]) -> None:
        """Save a training that has ended, now or with the next checkpoint of its session."""


class NoCheckpoint:
    """Saves nothing, so that every run and every training begins at its beginning."""

    carried = 0.0

    def restore(self, learner: Learner, evaluator: Any) -> list[Any]:
        """No session lies behind the run."""
        return []

    def begin(self, number: int) -> None:
        """Note nothing."""

    def end(self, learner: Learner, evaluator: Any, logs: list[Any]) -> None:
        """Save nothing."""

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """No epochs are done."""
        return 0, None

    def save_epoch(self, epochs: int, parts: dict[str, Any]) -> None:
        """Save nothing."""

    def save_end(self, log: dict[str, Any], parts: dict[str, Any]) -> None:
        """Save nothing."""


NO_CHECKPOINT = NoCheckpoint()


class Footprint(dict[str, int]):
    """Bytes a learner holds between sessions, by kind ("parameters", "fisher", "samples", …)."""

    @property
    def total(self) -> int:
        """All kinds together, bytes."""
        return sum(self.values())


@dataclass(frozen=True)
class Context:
    """What the runner offers a learner during `learn`.

    Parameters
    ----------
    validate : callable
        Takes a function from x (n, D) to scores (n, C). Returns accuracy on the session's
        validation data over the classes seen so far, NaN where there is none.
    validation : str
        "train", or "test" where the stream's validation data is its test data; nothing may be tuned
        on the latter.
    progress : callable
        Takes one short line.
    checkpoint : Checkpoint
        Of the trainings in this session; given to `fit`.
    """

    validate: Callable[[Callable[[torch.Tensor], torch.Tensor]], float]
    validation: str = "train"
    progress: Callable[[str], None] = lambda _: None
    checkpoint: Checkpoint = NO_CHECKPOINT


class Learner(ABC):
    """One method. A subclass is a dataclass whose fields are its hyperparameters, nothing else.

    State lives in attributes set by `start`; `state` names those that a checkpoint must hold.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    name: ClassVar[str]  # on the command line: the stem of the class's file
    tags: ClassVar[Tags] = Tags()
    state: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    @abstractmethod
    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        """Forget everything and get ready for a stream."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Learn one session; called once a session, in order. Returns a log that is recorded."""
        raise TypeError(f"{type(self).__name__} has no learn(): give it one, or tag it online")

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Learn one batch, x (b, D) float32, y (b,) int64 or (b, C) bool, if tagged online.

        On a stream of images x is (b, C, H, W), here and in `scores`, if tagged images.
        """
        raise TypeError(f"{type(self).__name__} has no observe(): give it one, or untag online")

    def prepare(self) -> None:  # noqa: B027  (most learners have nothing to prepare)
        """Get ready to answer; called before each evaluation, timed as learning."""

    @abstractmethod
    def scores(
        self, x: torch.Tensor, *, session_id: torch.Tensor | None = None
    ) -> torch.Tensor | NDArray[np.float32]:
        """Score every class for x (n, D): (n, C), larger is likelier. Changes nothing."""

    @abstractmethod
    def footprint(self) -> Footprint:
        """Bytes held between sessions, by kind."""

    def state_dict(self) -> dict[str, Any]:
        """A copy of all learnt state; modules and optimisers as their own state dicts."""
        return {n: copy.deepcopy(_state_of(getattr(self, n))) for n in self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`; call `start` with the same spec before."""
        for name in self.state:
            now = getattr(self, name)
            if hasattr(now, "load_state_dict"):
                now.load_state_dict(copy.deepcopy(state[name]))
            else:
                setattr(self, name, copy.deepcopy(state[name]))


def _state_of(value: Any) -> Any:
    return value.state_dict() if hasattr(value, "state_dict") else value


def learns_sessions(learner: Learner) -> bool:
    """Whether a learner has a `learn`; online ones may have `observe` alone."""
    return type(learner).learn is not Learner.learn


def tensor_bytes(*tensors: torch.Tensor) -> int:
    """Bytes of tensors, each counted once."""
    return sum(t.numel() * t.element_size() for t in tensors)
