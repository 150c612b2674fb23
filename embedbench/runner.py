"""The runner: one learner through one stream, answers written at every evaluation moment.

Masking, argmax, the cutting of online batches and timing are here, so that no learner scores
itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embedbench.errors import UserError
from embedbench.learner import Context, Learner, Seeds
from embedbench.predictions import Answers, Predictions
from embedbench.stream import Bools, Ints, Session, Stream, StreamSpec, View

EVAL_BATCH = 1024  # samples; larger ones fall out of a processor's caches


@dataclass
class SessionLog:
    """What one session cost: seconds, footprint (bytes by kind), and the learner's own log."""

    learn_seconds: float
    evaluate_seconds: float
    footprint: dict[str, int]
    log: dict[str, Any]


@dataclass(frozen=True)
class _Moment:
    """An evaluation: the session at work, samples so far, classes seen (C,), answers (n,)."""

    session: int
    samples: int
    seen: Bools
    answer: Answers
    within: Answers


def run_stream(
    stream: Stream,
    learner: Learner,
    seeds: Seeds,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Predictions, list[SessionLog]]:
    """Teach `learner` the sessions in order; evaluate on every test sample after each.

    A learner tagged `offline` is given `stream.merged()` and evaluated once. One tagged
    `needs_session_id` is told the session ids where the protocol allows it; no other learner is.
    """
    if learner.tags.offline:
        stream = stream.merged()
    if learner.tags.needs_session_id and stream.can_reveal:
        stream = stream.revealed()
    _check(stream, learner)
    learner.start(stream.spec, seeds, device)
    evaluator = _Evaluator(stream, device)
    seen = np.zeros(stream.spec.n_classes, dtype=np.bool_)
    logs: list[SessionLog] = []
    moments: list[_Moment] = []
    before = 0  # samples of the sessions before
    for i, session in enumerate(stream.sessions):
        seen = seen.copy()
        seen[session.classes] = True
        learning = evaluating = 0.0
        log: dict[str, Any] = {}
        began = time.perf_counter()
        for n, told in _teach(learner, session, seen, stream, seeds, i, before, device, progress):
            learner.prepare()
            _synchronise(device)
            learned = time.perf_counter()
            moments.append(_Moment(i, before + n, seen, *evaluator.answers(learner, seen)))
            done = time.perf_counter()
            learning, evaluating = learning + learned - began, evaluating + done - learned
            log, began = told, done
        before += len(session.x)
        logs.append(SessionLog(learning, evaluating, dict(learner.footprint()), log))
        progress(f"session {i + 1}/{len(stream.sessions)}")
    return (
        Predictions(
            ids=np.concatenate([e.ids for e in stream.eval_sets]),
            y=np.concatenate([e.y for e in stream.eval_sets]),
            eval_set=np.repeat(
                np.arange(len(stream.eval_sets)), [len(e.y) for e in stream.eval_sets]
            ),
            set_classes=np.stack([e.classes for e in stream.eval_sets]),
            session=np.array([m.session for m in moments]),
            samples_seen=np.array([m.samples for m in moments]),
            seen=np.stack([m.seen for m in moments]),
            answer=np.stack([m.answer for m in moments]),
            within=np.stack([m.within for m in moments]),
        ),
        logs,
    )


def _check(stream: Stream, learner: Learner) -> None:
    name = type(learner).__name__
    if learner.tags.needs_session_id and not stream.spec.reveals_session_id:
        raise UserError(
            f"{name} has to be told at test which session a sample is from, and this stream hides "
            "that: where a session is a class or a few, it would be the answer. "
            "Run it where sessions share their classes, as in permutation"
        )
    if stream.spec.multilabel and not learner.tags.multilabel:
        raise UserError(f"{name} learns one label a sample, and this stream has several")
    for i, session in enumerate(stream.sessions):
        _check_samples(session.x, session.y, stream.spec, f"session {i}")
        _check_samples(session.val_x, session.val_y, stream.spec, f"session {i}'s validation data")
    for i, test in enumerate(stream.eval_sets):
        _check_samples(test.x, test.y, stream.spec, f"eval set {i}")
    views = [v for s in stream.sessions for v in (s.x, s.val_x)] + [e.x for e in stream.eval_sets]
    for values in {id(v.table): v.table.values for v in views}.values():
        if values.size and not np.isfinite([values.min(), values.max()]).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise UserError(f"features must be finite, row {row} holds NaN or an infinite value")


def _check_samples(x: View, y: Ints, spec: StreamSpec, where: str) -> None:
    """Refuse widths and labels that the spec does not announce, so that learners need not."""
    n, width, n_classes = len(x), spec.input_shape[0], spec.n_classes
    if x.width != width or x.table.values.shape[1] > width:
        raise UserError(f"{where} has samples of width {x.width}, the stream's spec says {width}")
    if y.shape != ((n, n_classes) if spec.multilabel else (n,)):
        raise UserError(f"{where} has {n} samples, but labels of shape {y.shape}")
    if n and not 0 <= int(y.min()) <= int(y.max()) < n_classes:
        raise UserError(
            f"{where} has labels {y.min()} to {y.max()}; they must lie in 0 to {n_classes - 1}"
        )


def _teach(
    learner: Learner,
    session: Session,
    seen: Bools,
    stream: Stream,
    seeds: Seeds,
    number: int,
    before: int,
    device: str,
    progress: Callable[[str], None],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Teach one session; at every evaluation moment the samples of it so far, and the log.

    The end of the session is the last moment. Online learners have one after every
    `stream.evaluate_every` samples of the stream too, counted from `before`.
    """
    if not learner.tags.online:
        ctx = Context(
            validate=lambda scores: _validation_accuracy(scores, session, seen, device),
            validation=stream.validation,
            progress=progress,
        )
        yield len(session.x), learner.learn(session, ctx)
        return
    order = np.random.default_rng([seeds.batches, number]).permutation(len(session.x))
    y = torch.from_numpy(session.y).to(device)
    every = stream.evaluate_every or math.inf
    n = 0
    batches = torch.split(torch.from_numpy(order).to(device), stream.observe_batch)
    for step, index in enumerate(batches, 1):
        learner.observe(session.x.batch(index, device), y[index])
        passed = (before + n) // every < (before + n + len(index)) // every
        n += len(index)
        if passed or n == len(order):
            yield n, {"steps": step, "epochs": 1}


def _validation_accuracy(
    scores: Callable[[Tensor], Tensor], session: Session, seen: Bools, device: str
) -> float:
    """Validation accuracy over the classes seen that the loss may see; NaN without such data."""
    if len(session.val_x) == 0:
        return float("nan")
    out = torch.as_tensor(scores(session.val_x.tensor(device)))
    allowed = seen if session.loss_classes is None else seen & session.loss_classes
    out = out.masked_fill(~torch.from_numpy(allowed).to(out.device), -torch.inf)
    return float((out.argmax(1).cpu() == torch.from_numpy(session.val_y)).double().mean())


class _Evaluator:
    """Answers for all eval sets, in large batches; sets that share a view are read together."""

    def __init__(self, stream: Stream, device: str) -> None:
        self.device = device
        self.reveals = stream.spec.reveals_session_id
        self.n_classes = stream.spec.n_classes
        self.sets = stream.eval_sets
        masks = np.stack([e.classes for e in self.sets])
        self.own = torch.from_numpy(masks).to(device)  # (E, C)
        self.restricted = [e.candidates for e in self.sets]
        self.groups: list[list[int]] = []
        for e, current in enumerate(self.sets):
            if self.groups and _same_view(current.x, self.sets[self.groups[-1][0]].x):
                self.groups[-1].append(e)
            else:
                self.groups.append([e])

    def answers(self, learner: Learner, seen: Bools) -> tuple[Answers, Answers]:
        """The answer over the classes seen so far and within the sample's session, (n,) each."""
        allowed = np.stack([seen if r is None else seen & r for r in self.restricted])
        allowed[~allowed.any(axis=1)] = seen  # nothing of the set's candidates was seen yet
        candidates = torch.from_numpy(allowed).to(self.device)
        answer, within = [], []
        for group in self.groups:
            first = self.sets[group[0]].x
            rows = np.concatenate([self.sets[e].x.rows for e in group])
            view = View(first.table, rows, first.width, first.columns)
            number = np.repeat(group, [len(self.sets[e].y) for e in group])
            which = torch.from_numpy(number).to(self.device)
            for index in torch.split(torch.arange(len(rows), device=self.device), EVAL_BATCH):
                scores = self._scores(learner, view.batch(index, self.device), which[index])
                answer.append(_argmax(scores, candidates[which[index]]))
                within.append(_argmax(scores, self.own[which[index]]))
        return _join(answer), _join(within)

    def _scores(self, learner: Learner, x: Tensor, session: Tensor) -> Tensor:
        with torch.inference_mode():
            scores = learner.scores(x, session_id=session if self.reveals else None)
            scores = torch.as_tensor(scores, device=self.device)
        if scores.shape != (len(x), self.n_classes):
            raise UserError(
                f"{type(learner).__name__}.scores must return ({len(x)}, {self.n_classes}), "
                f"it returned {tuple(scores.shape)}"
            )
        return scores


def _same_view(a: View, b: View) -> bool:
    return a.table is b.table and a.columns is b.columns and a.width == b.width


def _argmax(scores: Tensor, candidates: Tensor) -> Tensor:
    """(n,) best candidate class; -1 where a score is NaN."""
    lowest = torch.finfo(scores.dtype).min  # a candidate at -inf stays above what is masked
    best = scores.clamp(min=lowest).masked_fill(~candidates, -torch.inf).argmax(dim=1).int()
    return best.masked_fill_(scores.isnan().any(dim=1), -1)


def _join(parts: list[Tensor]) -> Answers:
    if not parts:
        return np.zeros(0, dtype=np.int32)
    joined: Answers = torch.cat(parts).cpu().numpy()
    return joined


def _synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
