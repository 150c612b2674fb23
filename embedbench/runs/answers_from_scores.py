"""Evaluation moments, and answers from scores by masks, argmax and thresholds.

No learner scores itself.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from embedbench.array_types import Array, Bools
from embedbench.errors import UserError, unknown
from embedbench.learning.learner import SCORE_KINDS, SOFTMAX, Learner
from embedbench.scores.label_set_predictions import LabelSets, pack
from embedbench.scores.predictions import LAST_RANK, UNRANKED, Predictions
from embedbench.scores.run_answers import RunAnswers
from embedbench.streams.own_heads import has_own_heads, pick_head
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

EVAL_BATCH = 1024  # samples per batch; larger batches do not fit a processor's caches
ANSWERS = ("answer", "within")


@dataclass(frozen=True)
class Moment:
    """A moment of evaluation: the current session, samples so far, and classes seen, (C,)."""

    session: int
    samples: int
    seen: Bools


def lesson_ends(stream: Stream, number: int, before: int, *, online: bool) -> list[int]:
    """The samples of a session at each evaluation moment in it; the last is its end.

    `before` are the training samples of the earlier sessions; `online` says whether the learner
    learns batches as they come, where the stream has them.
    """
    n = len(stream.sessions[number].x)
    size = stream.observe_batch
    every = stream.evaluate_every
    batches = range(size, n, size) if online and size and every else ()
    return [*(e for e in batches if (before + e - size) // every < (before + e) // every), n]


def moments(stream: Stream, *, online: bool) -> list[tuple[int, int]]:
    """Session and training samples so far at each evaluation moment of a run."""
    result = list[tuple[int, int]]()
    before = 0
    for number, session in enumerate(stream.sessions):
        ends = lesson_ends(stream, number, before, online=online)
        result += [(number, before + end) for end in ends]
        before += len(session.x)
    return result


def is_taught_heads(stream: Stream, learner: Learner) -> bool:
    """Whether a learner is taught the classes of heads, see `give_heads`, and scores these.

    One that needs the session id has its own way to tell sessions apart.
    """
    tags = learner.tags
    return has_own_heads(stream) and tags.learns and not tags.needs_session_id


def stream_truth(stream: Stream) -> dict[str, Any]:
    """The parts of predictions beside moments and answers: ids, true labels, classes."""
    ids = np.concatenate([e.ids for e in stream.eval_sets])
    return {"ids": ids, **_evaluator_of(stream).truth(stream)}


def make_evaluator(stream: Stream, device: str) -> "Evaluator":
    """The evaluator of a stream: `LabelEvaluator` for label sets, else `ClassEvaluator`."""
    return _evaluator_of(stream)(stream, device)


def _evaluator_of(stream: Stream) -> "type[Evaluator]":
    return LabelEvaluator if stream.spec.multilabel else ClassEvaluator


class Evaluator(ABC):
    """Asks a learner at evaluation moments, and keeps the moments and the answers.

    There is one for each kind of answers, which is `KIND`. `answers` has an entry per moment for
    each table of the predictions.
    """

    KIND: ClassVar[type[RunAnswers]]

    def __init__(self, stream: Stream, device: str) -> None:
        self.stream, self.device = stream, device
        self.sets = stream.eval_sets
        self.moments: list[Moment] = []
        self.answers: dict[str, list[Any]] = defaultdict(list)

    @staticmethod
    @abstractmethod
    def truth(stream: Stream) -> dict[str, Any]:
        """The tables of the stream: true labels, eval sets, classes."""

    @abstractmethod
    def ask(self, learner: Learner, moment: Moment) -> None:
        """Store the answers to every sample of all sets."""

    def predictions(self) -> RunAnswers:
        """All answers so far."""
        return self.KIND(**stream_truth(self.stream), **self._columns())

    def state_dict(self) -> dict[str, Any]:
        """The moments and answers so far."""
        answers = {name: list(values) for name, values in self.answers.items()}
        return {"moments": [vars(m) for m in self.moments], **answers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.moments = [Moment(**moment) for moment in state["moments"]]
        for name in state.keys() - {"moments"}:
            self.answers[name] = list(state[name])

    def _keep(self, moment: Moment, answers: Mapping[str, Any]) -> None:
        self.moments.append(moment)
        for name, values in answers.items():
            self.answers[name].append(values)

    def _columns(self) -> dict[str, Any]:
        """The columns of the moments and of the answers."""
        return {
            "session": np.array([m.session for m in self.moments]),
            "samples_seen": np.array([m.samples for m in self.moments]),
            "seen": np.stack([m.seen for m in self.moments]),
            **{name: np.stack(values) for name, values in self.answers.items()},
        }

    def _scores(self, learner: Learner, x: Tensor, session: Tensor | None) -> Tensor:
        with torch.inference_mode():
            scores = torch.as_tensor(learner.scores(x, session_id=session), device=self.device)
        n_classes = self.stream.spec.n_classes
        by_head = is_taught_heads(self.stream, learner)
        width = n_classes * len(self.stream.sessions) if by_head else n_classes
        if scores.shape != (len(x), width):
            raise UserError(
                f"{type(learner).__name__}.scores must return ({len(x)}, {width}), "
                f"it returned {tuple(scores.shape)}"
            )
        if by_head:
            assert session is not None  # the stream reveals it
            return pick_head(scores, session, n_classes)
        return scores


class LabelEvaluator(Evaluator):
    """Answers with the seen classes whose score is above 0; with none where a score is NaN."""

    KIND = LabelSets

    @staticmethod
    def truth(stream: Stream) -> dict[str, Any]:
        """The label sets, the classes of each session, and the hierarchy."""
        sets = stream.eval_sets
        n_classes = stream.spec.n_classes
        introduces = np.zeros((len(stream.sessions), n_classes), dtype=np.bool_)
        for i, session in enumerate(stream.sessions):
            introduces[i, session.classes] = True
        none = np.full(n_classes, -1)
        return {
            "split": np.repeat([int(e.split == "val") for e in sets], [len(e.y) for e in sets]),
            "y": np.concatenate([pack(e.y) for e in sets]),
            "introduces": introduces,
            "parents": none if stream.parents is None else stream.parents,
        }

    def ask(self, learner: Learner, moment: Moment) -> None:
        """Store the answers to every sample of all sets."""
        seen = torch.from_numpy(moment.seen).to(self.device)
        packed = []
        undecided = 0
        for part in self.sets:
            rows = torch.arange(len(part.y), device=self.device)
            for index in torch.split(rows, EVAL_BATCH):
                scores = self._scores(learner, part.x.batch(index, self.device), None)
                broken = scores[:, seen].isnan().any(dim=1)
                undecided += int(broken.sum())
                packed.append(pack(((scores > 0) & seen & ~broken[:, None]).cpu().numpy()))
        self._keep(moment, {"answer": np.concatenate(packed), "undecided": undecided})


class ClassEvaluator(Evaluator):
    """One class per sample: the best among the classes seen, and the best within its session.

    It is -1 where a score is NaN. How sure the learner was is kept, too.

    Samples go in large batches; eval sets that share a view are evaluated together.
    """

    KIND = Predictions

    @staticmethod
    def truth(stream: Stream) -> dict[str, Any]:
        """The classes of the samples and of each eval set, and the far samples."""
        sets = stream.eval_sets
        return {
            "y": np.concatenate([e.y for e in sets]),
            "eval_set": np.repeat(np.arange(len(sets)), [len(e.y) for e in sets]),
            "set_classes": np.stack([e.classes for e in sets]),
            "far_ids": None if stream.far is None else rows_of(stream.far),
        }

    def __init__(self, stream: Stream, device: str) -> None:
        super().__init__(stream, device)
        self.y = torch.from_numpy(np.concatenate([e.y for e in self.sets])).to(device)
        masks = np.stack([e.classes for e in self.sets])
        self.other_classes = torch.from_numpy(~masks).to(device)  # (E, C)
        self.groups: list[list[int]] = []
        for e, current in enumerate(self.sets):
            if self.groups and current.x.joinable(self.sets[self.groups[-1][0]].x):
                self.groups[-1].append(e)
            else:
                self.groups.append([e])

    def ask(self, learner: Learner, moment: Moment) -> None:
        """Store the answers to every sample of all sets."""
        seen = moment.seen
        reveals = self.stream.spec.reveals_session_id
        allowed = allowed_classes(seen, [e.candidates for e in self.sets])
        blocked = torch.from_numpy(~allowed).to(self.device)
        candidates = Candidates(allowed, self.device)
        parts: dict[str, list[Tensor]] = defaultdict(list)
        done = 0
        for group in self.groups:
            first, *more = (self.sets[e].x for e in group)
            view = first.joined(*more)
            number = np.repeat(group, [len(self.sets[e].y) for e in group])
            which = torch.from_numpy(number).to(self.device)
            for index in torch.split(torch.arange(len(view), device=self.device), EVAL_BATCH):
                x = view.batch(index, self.device)
                session = which[index]
                given = session if reveals else None
                scores = self._scores(learner, x, given)
                best = best_classes(scores, blocked[session], self.other_classes[session])
                values = dict(zip(ANSWERS, best, strict=True))
                logits = logits_of(scores, learner.scores_are)
                y = self.y[done : done + len(index)]
                values |= candidates.confidence(scores, logits, best[0], y, session)
                done += len(index)
                for name, tensor in values.items():
                    parts[name].append(tensor)
        for values in self._far_answers(learner, blocked[:1], candidates):
            for name, tensor in values.items():
                parts[f"far_{name}"].append(tensor)
        answers = {name: join(tensors, name) for name, tensors in parts.items()}
        self._keep(moment, answers)

    def _far_answers(
        self, learner: Learner, blocked: Tensor, candidates: "Candidates"
    ) -> Iterator[dict[str, Tensor]]:
        """Yield scores and log-probabilities of the answers to far samples, (b,) each."""
        far = self.stream.far
        if far is None:
            return
        for index in torch.split(torch.arange(len(far), device=self.device), EVAL_BATCH):
            x = far.batch(index, self.device)
            scores = self._scores(learner, x, None)
            (answer,) = best_classes(scores, blocked)
            logits = logits_of(scores, learner.scores_are)
            sets = torch.zeros_like(index)
            y = answer.clamp(min=0).long()
            values = candidates.confidence(scores, logits, answer, y, sets)
            yield {name: values[name] for name in ("score", "logp") if name in values}


def allowed_classes(seen: Bools, limits: Sequence[Bools | None]) -> Bools:
    """(E, C) The classes that answers on each eval set are chosen among.

    They are the classes seen so far, (C,), within the set's `limits`, (C,) bool or None. Where none
    of the limits was seen yet, all classes seen are candidates.
    """
    allowed = np.stack([seen if limit is None else seen & limit for limit in limits])
    allowed[~allowed.any(axis=1)] = seen
    return allowed


def best_classes(scores: Tensor, *blocked: Tensor) -> list[Tensor]:
    """For each mask (b, C) the class of the highest score (b, C) outside it, (b,).

    It is -1 where a score is NaN. Among equal scores the class with the lowest number wins.
    """
    undecided = scores.amax(dim=1).isnan()
    # keeps a candidate with score -inf above masked classes
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    best = [scores.masked_fill(mask, -torch.inf).argmax(dim=1).int() for mask in blocked]
    return [values.masked_fill_(undecided, -1) for values in best]


def logits_of(scores: Tensor, kind: str) -> Tensor | None:
    """Scores of a kind as logits, (b, C); None where they give no probabilities."""
    if kind not in SCORE_KINDS:
        raise unknown("scores_are", kind, SCORE_KINDS)
    if kind == "probabilities":
        return scores.clamp(min=0).log()  # a class not seen yet may have less than 0
    return scores if kind in SOFTMAX else None


class Candidates:
    """The classes that answers are chosen among, and how sure a learner is of its answers.

    Only the columns of classes that are a candidate of some eval set are looked at.

    Parameters
    ----------
    allowed : array of bool
        (E, C) the candidates of each eval set.
    device : str
        Where the scores lie.
    """

    def __init__(self, allowed: Bools, device: str) -> None:
        columns = np.flatnonzero(allowed.any(axis=0))
        place = np.full(allowed.shape[1], -1)
        place[columns] = np.arange(len(columns))
        self.columns = torch.from_numpy(columns).to(device)
        self.place = torch.from_numpy(place).to(device)
        others = ~allowed[:, columns]
        self.others = torch.from_numpy(others).to(device) if others.any() else None  # (E, k)

    def confidence(
        self, scores: Tensor, logits: Tensor | None, answer: Tensor, y: Tensor, sets: Tensor
    ) -> dict[str, Tensor]:
        """(b,) The tables of version 1.1 for a batch; each is defined in docs/specification.

        `logits` (b, C) are what the softmax of the scores (b, C) is taken of; None: there are no
        probabilities. `answer`, `y` and `sets`, (b,): the answer, -1 where a score is NaN; the true
        class; the number of the eval set.
        """
        undecided = answer < 0
        chosen = answer.clamp(min=0).long()[:, None]
        true = self.place[y][:, None]  # (b, 1)
        unranked = undecided | (true[:, 0] < 0)
        true = true.clamp(min=0)
        others = None if self.others is None else self.others[sets]
        if others is not None:
            unranked |= others.gather(1, true)[:, 0]
        values = self._among(scores, others)  # (b, k)
        mine = values.gather(1, true)
        before = torch.arange(len(self.columns), device=values.device) < true
        rank = ((values > mine) | ((values == mine) & before)).sum(1).clamp(max=LAST_RANK)
        result = {
            "rank": rank.masked_fill(unranked, UNRANKED),
            "score": scores.gather(1, chosen)[:, 0].float().masked_fill(undecided, torch.nan),
        }
        if logits is None:
            return result
        values = values if logits is scores else self._among(logits, others)
        z = values.double().clamp_(max=torch.finfo(values.dtype).max)
        top, first = z.max(1, keepdim=True)
        z -= top
        given = z.gather(1, self.place[chosen].clamp(min=0))
        mine = z.gather(1, true)
        # all but the highest: a sum with its 1 would round to 1
        shares = z.exp_().scatter_(1, first, 0)
        rest = shares.sum(1)
        total = rest.log1p()
        least = torch.finfo(torch.float32).min
        for name, value, undefined in (
            ("logp", given[:, 0] - total, undecided),
            ("true_logp", mine[:, 0] - total, unranked),
            ("squares", (1 + shares.square_().sum(1)) / (1 + rest).square(), undecided),
        ):
            result[name] = value.clamp(min=least).float().masked_fill(undefined, torch.nan)
        return result

    def _among(self, scores: Tensor, others: Tensor | None) -> Tensor:
        """(b, k) scores of the candidates, -inf at those of other eval sets alone."""
        columns = scores if len(self.columns) == len(self.place) else scores[:, self.columns]
        columns = columns.clamp(min=torch.finfo(scores.dtype).min)
        return columns if others is None else columns.masked_fill(others, -torch.inf)


def join(parts: list[Tensor], name: str) -> Array:
    """The values of a table for all samples, (n,)."""
    joined = torch.cat(parts).cpu().numpy()
    return joined.astype(np.uint16) if name == "rank" else joined
