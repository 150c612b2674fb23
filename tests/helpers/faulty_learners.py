"""Learners with one fault each, and the checks that must catch it: those, and no others."""

from typing import Any, ClassVar

import torch
from faults import caught_by
from honest_learners import Good
from torch import Tensor

from embedbench.config.run_seeds import Seeds
from embedbench.learning.footprint import Footprint, tensor_bytes
from embedbench.learning.learner import Context, Learner, Tags
from embedbench.streams.stream import Session, StreamSpec


@caught_by("hyperparameters survive json")
class TupleField(Good):
    sizes: tuple[int, ...] = (1, 2)


@caught_by("hyperparameters survive json")
class ChangesItsField(Good):
    def note(self, session: Session) -> None:
        self.shrink += 1


@caught_by("logs survive json")
class TensorInLog(Good):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {"loss": torch.zeros(())} | super().learn(session, ctx)


@caught_by("logs survive json")
class ListForALog(Good):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return [super().learn(session, ctx)]  # type: ignore[return-value]


@caught_by("logs survive json")
class FractionalBytes(Good):
    def footprint(self) -> Footprint:
        return Footprint(means=tensor_bytes(self.sums, self.counts) + 0.5)  # type: ignore[arg-type]


@caught_by("inputs stay untouched")
class WritesToTheSession(Good):
    def note(self, session: Session) -> None:
        session.val_y[:] = 0


@caught_by("inputs stay untouched")
class WritesToItsQuestion(Good):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        out = super().scores(x)
        x.zero_()
        return out


@caught_by("inputs stay untouched")
class WritesToItsBatch(Good):
    tags: ClassVar[Tags] = Tags(online=True)
    learn = Learner.learn

    def observe(self, x: Tensor, y: Tensor) -> None:
        self.sums.index_add_(0, y, x)
        self.counts.index_add_(0, y, torch.ones(len(y)))
        x.zero_()


@caught_by("scores are finite")
class InfinitelyUnlikely(Good):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        unseen = self.counts == 0
        return super().scores(x).masked_fill(unseen & (unseen.sum() == 2), -torch.inf)


@caught_by("scores are finite")
class SureInTheEnd(Good):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        out = super().scores(x)
        return out.masked_fill((out == out.amax(1, True)) & (self.counts > 0).all(), torch.inf)


@caught_by("scores are finite")
class NeedsAQuestion(Good):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        x.max()  # an error where there is nothing to take it of
        return super().scores(x)


@caught_by("scores are pure", "scores ignore how batches are cut")
class CountsQuestions(Good):
    state: ClassVar[dict[str, str]] = {**Good.state, "asked": "transient"}
    begin: ClassVar = {"asked": 0}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        self.asked += 1
        return super().scores(x)


@caught_by("scores are pure", "scores ignore how batches are cut", "state round trips")
class LearnsFromQuestions(Good):  # its state holds nothing of what it takes from the questions
    begin: ClassVar = {"bias": 0.0}

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        self.bias += 0.01 * len(x)
        return super().scores(x) + self.bias


@caught_by("scores are pure", "state round trips")
class QuestionsSteerLearning(Good):
    """A question leaves the answers alone, and changes what the next session does."""

    begin: ClassVar = {"asked": 0}

    def note(self, session: Session) -> None:
        self.sums += 1e-3 * self.asked
        self.asked = 0

    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        self.asked = max(self.asked, len(x))
        return super().scores(x)


@caught_by("scores ignore how batches are cut")
class ComparesWithinTheBatch(Good):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        return super().scores(x) + (x.mean() if len(x) else 0)


@caught_by(
    "same seed same predictions",
    "start forgets everything",
    "scores are pure",
    "state round trips",
    "evaluating changes nothing",
)
class Noisy(Good):
    def note(self, session: Session) -> None:
        self.sums += 1e-3 * torch.randn_like(self.sums)


@caught_by("same seed same predictions")
class ReadsTheGlobalSeed(Good):
    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        draws = torch.Generator().manual_seed(torch.initial_seed())
        self.sums += torch.rand(self.sums.shape, generator=draws)


@caught_by("start forgets everything")
class NeverForgets(Good):
    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        if not hasattr(self, "sums"):
            super().start(spec, seeds, device)


@caught_by("state round trips")
class LeavesOutItsCounts(Good):
    state: ClassVar[dict[str, str]] = {"sums": "means"}


@caught_by("state round trips")
class LosesItsMomentum(Good):  # answers the same after loading, but goes on otherwise
    begin: ClassVar = {"sessions": 0}

    def note(self, session: Session) -> None:
        self.sums += 0.1 * self.sessions
        self.sessions += 1


@caught_by("state round trips")
class HandsOutItsState(Good):
    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums, "counts": self.counts}


@caught_by("state round trips")
class LivesInALoadedState(Good):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums, self.counts = state["sums"], state["counts"]


@caught_by("state round trips")
class StateIsNoData(Good):  # a set would come back only from a pickle, which can run code
    state: ClassVar[dict[str, str]] = {**Good.state, "classes": "transient"}
    begin: ClassVar = {"classes": set[int]()}

    def note(self, session: Session) -> None:
        self.classes |= set(session.y.tolist())


@caught_by("learns blobs")
class Deaf(Good):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return {}


@caught_by("unusual sessions are learned")
class TakesADeviation(Good):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = super().learn(session, ctx)
        x = session.x.tensor()
        variance = (x - x.mean(0)).square().sum(0) / torch.tensor(len(x) - 1)
        self.sums += 0 * variance  # NaN of a single sample
        return log


@caught_by("unusual sessions are learned")
class ComparesTwoClasses(Good):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = super().learn(session, ctx)
        if (self.counts > 0).sum() == 1 and len(session.y) > 1:
            raise ValueError("nothing to compare with")
        return log


@caught_by("unusual sessions are learned")
class NormalisesBatches(Good):
    batch_size: int = 64

    def note(self, session: Session) -> None:
        if len(session.y) > 1 and len(session.y) % self.batch_size == 1:
            raise ValueError("expected more than 1 value per channel when training")


@caught_by("unusual sessions are learned")
class EveryClassOnce(Good):
    def note(self, session: Session) -> None:
        if self.counts[torch.from_numpy(session.y)].any():
            raise ValueError("this class was learned before")


@caught_by("unusual sessions are learned")
class NoSessionIdPlease(Good):
    def scores(self, x: Tensor, *, session_id: Tensor | None = None) -> Tensor:
        if session_id is not None:
            raise ValueError("what is this?")
        return super().scores(x)


@caught_by("unusual sessions are learned")
class NeedsValidation(Good):
    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        log = super().learn(session, ctx)
        return log | {"validation": int(100 * ctx.validate(self.scores))}  # no int of NaN
