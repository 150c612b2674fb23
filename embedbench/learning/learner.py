"""The learner contract: the methods of every learner, and the information that it gets."""

from __future__ import annotations

import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from embedbench.array_types import Float32s
from embedbench.config.run_seeds import Seeds
from embedbench.config.setting_ranges import check_settings
from embedbench.errors import UserError

from .footprint import Footprint, Stateful

if TYPE_CHECKING:
    import torch

    from embedbench.streams.stream import Session, StreamSpec


@dataclass(frozen=True)
class Tags:
    """The needs, abilities and promises of a learner; the conformance suite checks them.

    Parameters
    ----------
    needs_session_id : bool
        Cannot answer without the session id of a test sample.
    multilabel : bool
        Can learn (n, C) bool labels.
    stores_samples : bool
        Stores training samples, which its footprint counts.
    needs_layers : bool
        Needs the intermediate embeddings beside the final one.
    online : bool
        Learns through `observe`, from batches that the runner cuts. If it also has a `learn`,
        streams that are not online give it whole sessions.
    deterministic : bool
        Same seed and threads, same predictions.
    images : bool
        Accepts images (n, C, H, W) in place of embeddings (n, D).
    offline : bool
        A reference that gets all sessions merged into one.
    learns : bool
        False for references that ignore the data.
    heads : bool
        Trains a head a session where `protocol.loss` is "session", also where sessions share
        classes: each of them then is a class for each session. A learner with a network that does
        not is refused there; one without a network has no loss that this concerns.
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
    heads: bool = False

    def words(self, *, sessions: bool) -> list[str]:
        """What a learner takes and needs, in words; `sessions`: whether it has a `learn`.

        "exemplars": it keeps training samples, or its settings let it. "heads": it can train one a
        session.

        >>> Tags(online=True, multilabel=True, stores_samples=True).words(sessions=False)
        ['batches', 'label sets', 'exemplars']
        """
        whole = sessions and not self.offline
        said = {
            "batches": self.online,
            "sessions": whole,
            "all sessions at once": self.offline,
            "label sets": self.multilabel,
            "images": self.images,
            "needs layers": self.needs_layers,
            "needs session ids": self.needs_session_id,
            "exemplars": self.stores_samples,
            "heads": self.heads,
            "learns nothing": not self.learns,
            "answers at random": not self.deterministic,
        }
        return [word for word, holds in said.items() if holds]


ScoreKind = typing.Literal[
    "logits", "log-likelihoods", "probabilities", "distances", "cosines", "votes", "other"
]
SCORE_KINDS: tuple[ScoreKind, ...] = typing.get_args(ScoreKind)
SOFTMAX = ("logits", "log-likelihoods")  # scores whose softmax gives probabilities


class Checkpoint:
    """Saves a run and its trainings, so that they can continue; this one saves nothing."""

    carried = 0.0  # seconds of the session at work that were spent before an interruption

    def restore(self, learner: Any, evaluator: Any) -> list[Any]:
        """Restore the run to its last save; return the logs of the sessions learned before."""
        return []

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """Restore the parts of a training, by name, to the state of the last save.

        Returns the epochs that are already done; and the log, if the training had ended.
        """
        return 0, None

    def save_training(
        self, epochs: int, parts: dict[str, Any], log: dict[str, Any] | None = None
    ) -> None:
        """Save a training after some epochs, or with its log when it has ended, if that is due."""

    def begin(self, number: int) -> None:
        """Begin a session."""

    def end(self, learner: Any, evaluator: Any, logs: list[Any]) -> None:
        """Save the run after a session, if a checkpoint is due."""


NO_CHECKPOINT = Checkpoint()


@dataclass(frozen=True)
class Context:
    """The tools that the runner offers a learner during `learn`.

    Parameters
    ----------
    validate : callable
        Takes a function from x (n, D) to scores (n, C). Returns accuracy on the session's
        validation data over the classes seen so far; NaN if the session has none. Where the
        protocol holds none out, a UserError.
    validation : str
        "train"; "none" if the stream has no validation data; or "test" if that is its test data, on
        which nothing may be tuned.
    progress : callable
        Takes one short line of text.
    checkpoint : Checkpoint
        Saves the trainings in this session; it is passed to `fit`.
    head : array or None
        The weights that `classifier.base` of the learner names, (k, d): a row for each class of the
        base session, in the order of their numbers. None for every other learner.
    samples : int
        The session's training samples, without any from memory.
    """

    validate: Callable[[Callable[[torch.Tensor], torch.Tensor]], float]
    validation: str = "train"
    progress: Callable[[str], None] = lambda _: None
    checkpoint: Checkpoint = NO_CHECKPOINT
    head: Float32s | None = None
    samples: int = 0


class Learner(Stateful, ABC):
    """One method. A subclass is a dataclass whose fields are its hyperparameters, nothing else.

    Fields declare their ranges and choices: `lam: Annotated[float, at_least(0)] = 1.0`. They are
    checked when a learner is made; a `__post_init__` with other rules calls `super()` first.

    State lives in attributes that `start` sets and `state` names, see `Stateful`. `learned` is the
    number of whole sessions before the one at work; the order of the samples depends on it. `start`
    sets it to 0, `learn_session` counts, every checkpoint holds it.

    `scores_are` says what `scores` returns, and so what stored answers know of a learner's
    confidence: the softmax of "logits" and of "log-likelihoods" gives probabilities, and so do
    "probabilities", which need not add up to 1. Of the others only the order counts. A learner
    whose scores depend on its settings sets it in `start`.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    name: ClassVar[str]  # the name on the command line: the stem of the class's file
    tags: ClassVar[Tags] = Tags()
    learned: int = 0
    scores_are: ScoreKind = "other"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    def __post_init__(self) -> None:
        check_settings(self, self.name)

    def validation_needs(self) -> dict[str, str]:
        """The settings by which validation data decides: `name=value` → what to set instead.

        They are those of a `Stop` whose rule looks at it. A learner that looks at validation data
        elsewhere adds its own; one that never does says so by an empty dict. Streams without
        validation data refuse a learner that has any.
        """
        return _watching_rules(self, "")

    def later_behaviour(self) -> tuple[str, ...]:
        """What a learner with these settings does otherwise than in earlier versions.

        It is part of the place of a run. Empty for nearly all, so that finished runs stay finished.
        """
        return ()

    @abstractmethod
    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        """Forget everything and prepare for a stream."""

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        """Learn one session; called once a session, in order. Returns a log that is recorded."""
        raise TypeError(f"{type(self).__name__} has no learn(): give it one, or tag it online")

    def observe(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Learn one batch, x (b, D) float32, y (b,) int64 or (b, C) bool, if tagged online.

        If the learner is tagged images and the stream has images, x is (b, C, H, W), here and in
        `scores`.
        """
        raise TypeError(f"{type(self).__name__} has no observe(): give it one, or untag online")

    def prepare(self) -> None:
        """Prepare to answer; called before each evaluation, timed as learning."""

    @abstractmethod
    def scores(
        self, x: torch.Tensor, *, session_id: torch.Tensor | None = None
    ) -> torch.Tensor | Float32s:
        """Score every class for x (n, D): (n, C), larger is likelier. Changes nothing."""

    def footprint(self) -> Footprint:
        """Bytes held between sessions, by kind: those of the attributes in `state`.

        An optimiser counts where it is kept: online from the first of `steps` on, and unless
        `optimiser_state` is "fresh".
        """
        held = super().footprint()
        if not getattr(self, "steps", 0) and getattr(self, "optimiser_state", "kept") == "fresh":
            held.pop("optimiser", None)
        return held

    def trim(self) -> None:
        """Give back what a learner holds between batches only; the runner calls it after a session.

        That is the room which its parts keep for growth, so that what is held is what the footprint
        counts; `state` names the parts. It changes no score beyond rounding.
        """
        for name in self.state:
            part = getattr(self, name)
            if hasattr(part, "trim"):
                part.trim()

    def state_dict(self) -> dict[str, Any]:
        return {"learned": self.learned, **super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learned = state["learned"]
        super().load_state_dict(state)


def _watching_rules(settings: Any, prefix: str) -> dict[str, str]:
    """The stopping rules in settings, nested ones too, that look at validation data."""
    needs: dict[str, str] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        name = f"{prefix}{field.name}"
        if not dataclasses.is_dataclass(value):
            continue
        if getattr(value, "watches", False):
            rule = getattr(value, "rule", "")
            needs[f"{name}.rule={rule}"] = f"{name}.rule=epochs, {name}.epochs=20"
        needs |= _watching_rules(value, f"{name}.")
    return needs


def refuse_without_validation(learner: Learner, name: str, *, online: bool) -> None:
    """Refuse a learner that looks at validation data, for a stream that has none.

    A reference, as `offline`, is taken: its training then looks at the training loss.

    Parameters
    ----------
    learner, name : Learner, str
        The learner, and the name that `--set` has for it.
    online : bool
        Whether learners of batches get batches, and so no validation data on any stream.

    Raises
    ------
    UserError
        It names what to set.
    """
    if learner.tags.offline or (online and learner.tags.online):
        return
    needs = learner.validation_needs()
    if not needs:
        return
    looked = ", ".join(f"{name}.{setting}" for setting in needs)
    by_setting = ""
    if all(needs.values()):
        instead = ", ".join(needs.values()).split(", ")
        by_setting = f"fix it by {' '.join(f'--set {name}.{one}' for one in instead)}, or "
    raise UserError(
        f"{name} looks at validation data ({looked}), and protocol.validation=none leaves none",
        f"{by_setting}take --set protocol.validation=train",
    )


def learn_session(learner: Learner, session: Session, ctx: Context) -> dict[str, Any]:
    """Let a learner learn its next session, and count it in `learned`; return the log.

    The runner calls it, and so does a learner that holds another one.
    """
    number = learner.learned
    log = learner.learn(session, ctx)
    learner.learned = number + 1
    return log


def learner_words(cls: type[Learner]) -> list[str]:
    """What a learner takes and needs, in words; see `Tags.words`."""
    return cls.tags.words(sessions=cls.learn is not Learner.learn)


def learns_sessions(learner: Learner) -> bool:
    """Whether a learner has a `learn`; online learners may have only `observe`."""
    return type(learner).learn is not Learner.learn
