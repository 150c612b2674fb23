"""Answers from scores by masks, argmax and thresholds, so that no learner scores itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.arrays import Bools
from embedbench.errors import UserError
from embedbench.learning.learner import Learner
from embedbench.scores.label_set_predictions import Bytes, LabelSets, pack
from embedbench.scores.predictions import Answers, Predictions
from embedbench.streams.stream import Stream

EVAL_BATCH = 1024  # samples per batch; larger batches do not fit a processor's caches


@dataclass(frozen=True)
class Moment:
    """A moment of evaluation: the current session, samples so far, and classes seen, (C,)."""

    session: int
    samples: int
    seen: Bools


def lesson_ends(stream: Stream, number: int, before: int, *, online: bool) -> list[int]:
    """The samples of a session at each evaluation moment in it; the last is its end.

    Parameters
    ----------
    stream : Stream
        The stream as the learner sees it.
    number, before : int
        The session, and the training samples of the earlier ones.
    online : bool
        Whether the learner learns batches as they come, where the stream has them.
    """
    n, size, every = len(stream.sessions[number].x), stream.observe_batch, stream.evaluate_every
    batches = range(size, n, size) if online and size and every else ()
    return [*(e for e in batches if (before + e - size) // every < (before + e) // every), n]


def moments(stream: Stream, *, online: bool) -> list[tuple[int, int]]:
    """Session and training samples so far at each evaluation moment of a run."""
    result, before = list[tuple[int, int]](), 0
    for number, session in enumerate(stream.sessions):
        ends = lesson_ends(stream, number, before, online=online)
        result += [(number, before + end) for end in ends]
        before += len(session.x)
    return result


def stream_truth(stream: Stream) -> dict[str, Any]:
    """The parts of predictions beside moments and answers: ids, true labels, classes."""
    sets = stream.eval_sets
    sizes, ids = [len(e.y) for e in sets], np.concatenate([e.ids for e in sets])
    if not stream.spec.multilabel:
        return {
            "ids": ids,
            "y": np.concatenate([e.y for e in sets]),
            "eval_set": np.repeat(np.arange(len(sets)), sizes),
            "set_classes": np.stack([e.classes for e in sets]),
        }
    introduces = np.zeros((len(stream.sessions), stream.spec.n_classes), dtype=np.bool_)
    for i, session in enumerate(stream.sessions):
        introduces[i, session.classes] = True
    none = np.full(stream.spec.n_classes, -1)
    return {
        "ids": ids,
        "split": np.repeat([int(e.split == "val") for e in sets], sizes),
        "y": np.concatenate([pack(e.y) for e in sets]),
        "introduces": introduces,
        "parents": none if stream.parents is None else stream.parents,
    }


def make_evaluator(stream: Stream, device: str) -> ClassEvaluator | LabelEvaluator:
    """The evaluator of a stream: `LabelEvaluator` for label sets, else `ClassEvaluator`."""
    if stream.spec.multilabel:
        return LabelEvaluator(stream, device)
    return ClassEvaluator(stream, device)


class _Evaluator:
    """Asks a learner at evaluation moments, and keeps the moments and the answers."""

    asked: ClassVar[tuple[str, ...]]  # names of the lists with the answers, one entry per moment

    def __init__(self, stream: Stream, device: str) -> None:
        self.stream, self.device = stream, device
        self.sets = stream.eval_sets
        self.moments: list[Moment] = []

    def state_dict(self) -> dict[str, Any]:
        """The moments and answers so far."""
        answers = {name: list(getattr(self, name)) for name in self.asked}
        return {"moments": [vars(m) for m in self.moments], **answers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.moments = [Moment(**moment) for moment in state["moments"]]
        for name in self.asked:
            setattr(self, name, list(state[name]))

    def _moment_columns(self) -> dict[str, Any]:
        """The columns of the moments, which both kinds of predictions have."""
        return {
            "session": np.array([m.session for m in self.moments]),
            "samples_seen": np.array([m.samples for m in self.moments]),
            "seen": np.stack([m.seen for m in self.moments]),
        }

    def _scores(self, learner: Learner, x: Tensor, session: Tensor | None) -> Tensor:
        with torch.inference_mode():
            scores = torch.as_tensor(learner.scores(x, session_id=session), device=self.device)
        n_classes = self.stream.spec.n_classes
        if scores.shape != (len(x), n_classes):
            raise UserError(
                f"{type(learner).__name__}.scores must return ({len(x)}, {n_classes}), "
                f"it returned {tuple(scores.shape)}"
            )
        return scores


class LabelEvaluator(_Evaluator):
    """Answers with the seen classes whose score is above 0; with none where a score is NaN."""

    asked = ("answer", "undecided")

    def __init__(self, stream: Stream, device: str) -> None:
        super().__init__(stream, device)
        self.answer: list[Bytes] = []
        self.undecided: list[int] = []

    def ask(self, learner: Learner, moment: Moment) -> None:
        """Store the answers to every sample of all sets."""
        seen = torch.from_numpy(moment.seen).to(self.device)
        packed, undecided = [], 0
        for part in self.sets:
            rows = torch.arange(len(part.y), device=self.device)
            for index in torch.split(rows, EVAL_BATCH):
                scores = self._scores(learner, part.x.batch(index, self.device), None)
                broken = scores[:, seen].isnan().any(dim=1)
                undecided += int(broken.sum())
                packed.append(pack(((scores > 0) & seen & ~broken[:, None]).cpu().numpy()))
        self.moments.append(moment)
        self.answer.append(np.concatenate(packed))
        self.undecided.append(undecided)

    def predictions(self) -> LabelSets:
        """All answers so far."""
        return LabelSets(
            **stream_truth(self.stream),
            answer=np.stack(self.answer),
            undecided=np.array(self.undecided),
            **self._moment_columns(),
        )


class ClassEvaluator(_Evaluator):
    """One class per sample: the best among the classes seen, and the best within its session.

    It is -1 where a score is NaN.

    Samples go in large batches; eval sets that share a view are evaluated together.
    """

    asked = ("answer", "within")

    def __init__(self, stream: Stream, device: str) -> None:
        super().__init__(stream, device)
        masks = np.stack([e.classes for e in self.sets])
        self.other_classes = torch.from_numpy(~masks).to(device)  # (E, C)
        self.answer: list[Answers] = []
        self.within: list[Answers] = []
        self.groups: list[list[int]] = []
        for e, current in enumerate(self.sets):
            if self.groups and current.x.joinable(self.sets[self.groups[-1][0]].x):
                self.groups[-1].append(e)
            else:
                self.groups.append([e])

    def ask(self, learner: Learner, moment: Moment) -> None:
        """Store the answers to every sample of all sets."""
        seen, reveals = moment.seen, self.stream.spec.reveals_session_id
        allowed = allowed_classes(seen, [e.candidates for e in self.sets])
        blocked = torch.from_numpy(~allowed).to(self.device)
        answer, within = list[Tensor](), list[Tensor]()
        for group in self.groups:
            first, *more = (self.sets[e].x for e in group)
            view = first.joined(*more)
            number = np.repeat(group, [len(self.sets[e].y) for e in group])
            which = torch.from_numpy(number).to(self.device)
            for index in torch.split(torch.arange(len(view), device=self.device), EVAL_BATCH):
                x, session = view.batch(index, self.device), which[index]
                scores = self._scores(learner, x, session if reveals else None)
                best = best_classes(scores, blocked[session], self.other_classes[session])
                for answers, values in zip((answer, within), best, strict=True):
                    answers.append(values)
        self.moments.append(moment)
        self.answer.append(_join(answer))
        self.within.append(_join(within))

    def predictions(self) -> Predictions:
        """All answers so far."""
        return Predictions(
            **stream_truth(self.stream),
            answer=np.stack(self.answer),
            within=np.stack(self.within),
            **self._moment_columns(),
        )


def allowed_classes(seen: Bools, limits: Sequence[Bools | None]) -> Bools:
    """(E, C) The classes that answers on each eval set are chosen among.

    Parameters
    ----------
    seen : array of bool
        (C,) classes seen so far.
    limits : sequence
        The candidates of each eval set, (C,) bool, or None where there is no limit. Where none of
        them was seen yet, all classes seen are candidates.
    """
    allowed = np.stack([seen if limit is None else seen & limit for limit in limits])
    allowed[~allowed.any(axis=1)] = seen
    return allowed


def best_classes(scores: Tensor, *blocked: Tensor) -> list[Tensor]:
    """(b,) For each mask the class of the highest score outside it; -1 where a score is NaN.

    Parameters
    ----------
    scores : Tensor
        (b, C) floating-point.
    *blocked : Tensor
        (b, C) bool. Among equal scores the class with the lowest number wins.
    """
    undecided = scores.amax(dim=1).isnan()
    # keeps a candidate with score -inf above masked classes
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    best = [scores.masked_fill(mask, -torch.inf).argmax(dim=1).int() for mask in blocked]
    return [values.masked_fill_(undecided, -1) for values in best]


def _join(parts: list[Tensor]) -> Answers:
    if not parts:
        return np.zeros(0, dtype=np.int32)
    joined: Answers = torch.cat(parts).cpu().numpy()
    return joined
