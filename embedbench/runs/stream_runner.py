"""The runner: one learner learns one stream and is evaluated at every evaluation moment.

It cuts online batches and measures time; `answers_from_scores` asks for the answers.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embedbench.array_types import Bools, Float32s, Ints, Labels
from embedbench.config.json_records import plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, keep_inside
from embedbench.files.embedding_file import FINAL
from embedbench.files.provenance import list_some
from embedbench.learning import learner as contract
from embedbench.learning.base_session_prototypes import Classifier, KnownFile
from embedbench.learning.online_learner import OnlineLearner
from embedbench.learning.pretraining import taught_digest
from embedbench.learning.sample_containers import blocks
from embedbench.networks.weights import HeadMetadata, load_head
from embedbench.scores.label_set_predictions import pw_js
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_flags import UNREAD
from embedbench.scores.run_record import SessionCosts
from embedbench.storage import user_cache
from embedbench.streams import view
from embedbench.streams.own_heads import give_heads
from embedbench.streams.stream import Session, Stream, StreamSpec
from embedbench.system.gpu_determinism import repeatable
from embedbench.text.undecoded_text import check_text

from .answers_from_scores import Moment, is_taught_heads, lesson_ends, make_evaluator
from .learner_tags import learners_with

GATHERED = 1024  # samples of an online stream that are read at once


def run_stream(
    stream: Stream,
    learner: contract.Learner,
    seeds: Seeds,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
    checkpoint: contract.Checkpoint = contract.NO_CHECKPOINT,
) -> tuple[RunAnswers, list[SessionCosts]]:
    """Let `learner` learn the sessions in order; evaluate on every test sample after each.

    A learner tagged `offline` gets `stream.merged()` and is evaluated once. One tagged
    `needs_session_id` gets the session ids where the protocol allows it; no other learner does,
    unless the stream reveals them to all. Where its sessions share classes and have a head each, a
    learner is taught `give_heads(stream)`, and answers by the head of the sample's session.
    Only one tagged `needs_layers` sees intermediate layers.

    `checkpoint` saves the run after sessions, and `fit` saves within them. An interrupted run
    continues from the last save. Within a session of online batches nothing is saved. On a GPU the
    arithmetic is `repeatable`.

    Raises
    ------
    CodeExitError
        The learner left with what is no Exception, such as SystemExit.
    """
    with keep_inside(f"the learner {type(learner).__name__}"):
        return _run_stream(stream, learner, seeds, device, progress, checkpoint)


def _run_stream(
    stream: Stream,
    learner: contract.Learner,
    seeds: Seeds,
    device: str,
    progress: Callable[[str], None],
    checkpoint: contract.Checkpoint,
) -> tuple[RunAnswers, list[SessionCosts]]:
    head = pretrained_head(learner, stream)
    stream = _as_seen(stream, learner)
    _check_taken(stream, learner)
    _check_samples(stream)
    taught = give_heads(stream) if is_taught_heads(stream, learner) else stream
    with repeatable(device), enough_memory(device):
        learner.start(taught.spec, seeds, device)
        evaluator = make_evaluator(stream, device)
        logs: list[SessionCosts] = checkpoint.restore(learner, evaluator)
        kept = len(logs)  # sessions learned before the run was interrupted
        seen = np.zeros(stream.spec.n_classes, dtype=np.bool_)
        seen_in_training = np.zeros(taught.spec.n_classes, dtype=np.bool_)
        before = 0  # training samples of the earlier sessions
        watch = _TestWatch()
        if stream.validation == "test":
            watched = tuple(map(watch.watched, taught.sessions))
            taught = dataclasses.replace(taught, sessions=watched)
        for i, session in enumerate(taught.sessions):
            seen = seen.copy()
            seen_in_training = seen_in_training.copy()
            seen[stream.sessions[i].classes] = True
            seen_in_training[session.classes] = True
            if i >= kept:
                checkpoint.begin(i)
                validate = partial(
                    _validation_score, session=session, seen=seen_in_training, device=device
                )
                context = contract.Context(
                    validate=_refuse_to_validate if stream.validation == "none" else validate,
                    validation=stream.validation,
                    progress=progress,
                    checkpoint=checkpoint,
                    head=head,
                    samples=len(session.x),
                )
                learning = evaluating = 0.0  # seconds
                log: dict[str, Any] = {}
                for n, lesson in _lessons(taught, i, before, learner, context, seeds, device):
                    began = time.perf_counter()
                    log = lesson()
                    learner.prepare()
                    if device.startswith("cuda"):  # it may be at work still
                        torch.cuda.synchronize(device)
                    learned = time.perf_counter()
                    evaluator.ask(learner, Moment(i, before + n, seen))
                    learning += learned - began
                    evaluating += time.perf_counter() - learned
                learner.trim()
                held: dict[str, float] = {**learner.footprint()}
                check_text(plain(log), f"the log of session {i}", "correct what `learn` returns")
                if stream.validation == "test":
                    log = {**log, UNREAD: not watch.was_read}
                logs.append(SessionCosts(learning + checkpoint.carried, evaluating, held, log))
                checkpoint.end(learner, evaluator, logs)
                progress(f"session {i + 1}/{len(taught.sessions)}")
            before += len(session.x)
        return evaluator.predictions(), logs


class _TestWatch:
    """Whether a learner has read the test data that a stream gives it as validation data."""

    was_read = False

    def watched(self, session: Session) -> Session:
        """The session, whose validation data says when it is read."""
        x = session.val_x
        rows = view.rows_of(x)
        table = view.table_of(x)
        return dataclasses.replace(
            session, val_x=view.WatchedView(table, rows, x.width, x.columns, read=self._read)
        )

    def _read(self) -> None:
        self.was_read = True


def _as_seen(stream: Stream, learner: contract.Learner) -> Stream:
    """The stream as the learner sees it, according to its tags."""
    if learner.tags.offline:
        stream = stream.merged()
    if not learner.tags.needs_layers:
        stream = stream.without_layers()
    if learner.tags.needs_session_id and stream.can_reveal:
        stream = stream.revealed()
    return stream


def _check_taken(stream: Stream, learner: contract.Learner) -> None:
    """Refuse a stream that the tags of a learner say it does not take."""
    name = type(learner).__name__
    if learner.tags.needs_session_id and not stream.spec.reveals_session_id:
        raise UserError(
            f"{name} must know at test which session a sample is from, and this stream hides it: "
            "where sessions have few classes, the session would give the answer away. "
            "Run it where sessions share their classes, as in permutation"
        )
    if stream.far is not None and stream.spec.reveals_session_id:
        raise UserError(
            f"{name} is told which session a sample is from, and those of --unknown are from none",
            "leave out the one or the other",
        )
    if learner.tags.needs_layers and not stream.spec.layers:
        raise UserError(
            f"{name} needs intermediate layers beside the final embedding, and this stream shows "
            "none",
            "make a file that has them (embedbench extract SOURCE --layers last4 --out FILE) and "
            "run it under --protocol fscil or incremental-class with --set protocol.layers=all"
            f"{_takes(learner)}",
        )
    if len(stream.spec.input_shape) > 1 and not learner.tags.images:
        raise UserError(
            f"{name} takes vectors, and this stream shows images of shape "
            f"{stream.spec.input_shape}",
            "run it on a file of their embeddings (embedbench extract SOURCE --backbone NAME --out "
            "FILE), or a learner of images with --trunk resnet32, such as "
            f"{_such_as('images')}{_takes(learner)}",
        )
    if stream.spec.multilabel and not learner.tags.multilabel:
        raise UserError(
            f"{name} learns one label a sample, and this stream has several",
            f"take a learner of label sets: {_such_as('label sets')}{_takes(learner)}",
        )
    if learner.tags.online and not stream.observe_batch and not contract.learns_sessions(learner):
        raise UserError(
            f"{name} learns from batches as they come, and this stream gives whole sessions",
            "use --set protocol.observe_batch=10, or a learner of sessions, such as "
            f"{_such_as('sessions')}{_takes(learner)}",
        )
    _check_heads(stream, learner)
    if stream.task_free and learner.tags.learns and not learner.tags.online:
        raise UserError(
            f"{name} learns whole sessions, and this stream does not say where a session ends",
            f"take a learner of batches, such as {_such_as('batches')}, or use --set "
            f"protocol.task_free=false{_takes(learner)}",
        )
    if stream.validation == "none":
        online = bool(stream.observe_batch)
        contract.refuse_without_validation(learner, learner.name, online=online)


def _check_samples(stream: Stream) -> None:
    """Refuse samples and labels that are not as the stream's spec says, and what is not finite."""
    for i, session in enumerate(stream.sessions):
        _check_shapes(session.x, session.y, stream.spec, f"session {i}")
        _check_shapes(session.val_x, session.val_y, stream.spec, f"session {i}'s validation data")
    for i, test in enumerate(stream.eval_sets):
        _check_shapes(test.x, test.y, stream.spec, f"eval set {i}")
    views: list[view.View] = []
    for session in stream.sessions:
        views += [session.x, session.val_x]
    views += [test.x for test in stream.eval_sets]
    if stream.far is not None:
        views.append(stream.far)
    tables = {id(table): table for table in map(view.table_of, views)}  # each once
    for table in tables.values():
        row = table.unfit_row()
        if row is not None:
            raise UserError(f"features must be finite, row {row} holds NaN or an infinite value")


def _such_as(word: str) -> str:
    """Learners that have a word, some of many."""
    return list_some(learners_with(word), 8)


def _takes(learner: contract.Learner) -> str:
    """What a learner takes, as the end of a remedy."""
    words = ", ".join(contract.learner_words(type(learner)))
    return f" ({type(learner).__name__}: {words}; embedbench list learners has those of all)"


def _check_heads(stream: Stream, learner: contract.Learner) -> None:
    """Refuse a learner that cannot train a head a session, for a stream whose loss wants it."""
    if not stream.spec.loss_over_session or not _has_rate(learner):
        return
    if learner.tags.needs_session_id:  # it has heads of its own
        return
    if not learner.tags.heads:
        raise UserError(
            f"{learner.name} compares the classes seen in its loss, and protocol.loss=session "
            "wants a head a session",
            "leave protocol.loss out, or take a learner that trains heads, such as "
            f"{_such_as('heads')}{_takes(learner)}",
        )
    if learner.tags.online and stream.observe_batch:
        raise UserError(
            f"{learner.name} learns from batches, which do not say their session, and "
            "protocol.loss=session wants a head a session",
            "give it whole sessions with --set protocol.observe_batch=0",
        )


def _has_rate(settings: Any) -> bool:
    """Whether settings, also nested ones, have a learning rate: what has one trains a loss."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return "lr" in values or any(map(_has_rate, filter(dataclasses.is_dataclass, values.values())))


def _check_shapes(x: view.View, y: Labels, spec: StreamSpec, where: str) -> None:
    """Refuse shapes and labels that differ from the spec, so that learners need not check them."""
    n = len(x)
    n_classes = spec.n_classes
    if x.shape != spec.input_shape:
        raise UserError(
            f"{where} has samples of shape {x.shape}, the stream's spec says {spec.input_shape}"
        )
    if spec.scaling not in (None, view.table_of(x).scaling):
        raise UserError(
            f"{where} shows images by another scaling than the stream's spec: expected "
            f"{spec.scaling}, got {view.table_of(x).scaling}"
        )
    expected = ((n, n_classes), "bool") if spec.multilabel else ((n,), "integer")
    if y.shape != expected[0] or spec.multilabel != (y.dtype == np.bool_):
        raise UserError(
            f"{where} has labels of shape {y.shape} and type {y.dtype}, expected {expected[0]} and "
            f"{expected[1]}"
        )
    if n and not spec.multilabel and not 0 <= int(y.min()) <= int(y.max()) < n_classes:
        raise UserError(
            f"{where} has labels {y.min()} to {y.max()}; they must lie in 0 to {n_classes - 1}"
        )


def _lessons(
    stream: Stream,
    number: int,
    before: int,
    learner: contract.Learner,
    context: contract.Context,
    seeds: Seeds,
    device: str,
) -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
    """The lessons of a session, as pairs (samples, lesson); the learner is evaluated after each.

    `samples` counts the session's samples up to the end of the lesson. `lesson()` trains the
    learner and returns its log. The last lesson ends with the session. Online learners also have a
    lesson after every `stream.evaluate_every` samples, counted over the whole stream from `before`.
    """
    session = stream.sessions[number]
    size = stream.observe_batch
    n = len(session.x)
    if not (learner.tags.online and size):
        yield n, partial(contract.learn_session, learner, session, context)
        return
    order = np.arange(n)
    if not stream.ordered:
        order = np.random.default_rng([seeds.batches, number]).permutation(n)
    batches = _batches(session, order, size, device)
    steps = 0
    effort = _effort(learner)
    for end in lesson_ends(stream, number, before, online=True):
        last = max(1, -(-end // size))
        yield end, partial(_observe, learner, islice(batches, last - steps), last, effort)
        steps = last


def _observe(
    learner: contract.Learner,
    batches: Iterable[tuple[Tensor, Tensor]],
    steps: int,
    before: dict[str, int],
) -> dict[str, Any]:
    for x, y in batches:
        learner.observe(x, y)
    counted = {name: n - before[name] for name, n in _effort(learner).items()}
    if not isinstance(learner, OnlineLearner):  # a closed form takes no step of an optimiser
        return {"batches": steps, "epochs": 1, **counted}
    return counted or {"steps": learner.updates * steps, "epochs": learner.updates}


def _effort(learner: contract.Learner) -> dict[str, int]:
    """What a learner counts of its online training; empty where its batches say it, or nothing."""
    if isinstance(learner, OnlineLearner):
        return learner.effort() if learner.passes else {}
    counts: Callable[[], dict[str, int]] | None = getattr(learner, "effort", None)
    return {} if counts is None else counts()


def _batches(
    session: Session, order: Ints, size: int, device: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of `size` samples in `order`, (n,); many are read at once, which is faster."""
    labels = torch.from_numpy(session.y).to(device)
    for block in torch.split(torch.from_numpy(order).to(device), size * max(1, GATHERED // size)):
        x = session.x.batch(block, device)
        y = labels[block]
        yield from zip(torch.split(x, size), torch.split(y, size), strict=True)


def _refuse_to_validate(_: Callable[[Tensor], Tensor]) -> float:
    """Stands in for `_validation_score` where a stream has no validation data by its protocol."""
    raise UserError(
        "the learner asks for its score on validation data, and protocol.validation=none leaves "
        "none",
        "take --set protocol.validation=train",
    )


def _validation_score(
    scores: Callable[[Tensor], Tensor], session: Session, seen: Bools, device: str
) -> float:
    """Validation accuracy, or pw-JS for label sets, over the seen classes that the loss uses.

    NaN without validation data.
    """
    if len(session.val_x) == 0:
        return float("nan")
    out = torch.cat([torch.as_tensor(scores(x)) for x in blocks(session.val_x, device)])
    allowed = seen if session.loss_classes is None else seen & session.loss_classes
    if session.val_y.ndim == 2:
        return float(pw_js(session.val_y, (out > 0).cpu().numpy() & allowed).mean())
    out = out.masked_fill(~torch.from_numpy(allowed).to(out.device), -torch.inf)
    return float((out.argmax(1).cpu() == torch.from_numpy(session.val_y)).double().mean())


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Within this context a card without enough memory is one sentence."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).partition(". GPU ")[0].removeprefix("CUDA out of memory. ")
        raise UserError(
            f"{device} has not enough memory ({reason})",
            "let fewer runs share a card (--resources gpus=1 or --jobs 1), make batch_size or "
            "the network smaller, or take --device cpu",
        ) from error


def pretrained_head(learner: contract.Learner, stream: Stream) -> Float32s | None:
    """The rows of a learner's `classifier.base`, in the order of the base session's classes.

    None if the learner has no such setting, or it names no file.
    """
    classifier = getattr(learner, "classifier", None)
    if not isinstance(classifier, Classifier) or not isinstance(classifier.base, KnownFile):
        return None
    path = classifier.base.checked()
    with user_cache.refuse_changes(path):
        weight, about = load_head(classifier.base.checked())
    if problem := _head_misfit(classifier.base, tuple(weight.shape), about, stream):
        raise UserError(f"{path.name} {problem}, or leave classifier.base out")
    row_of = {name: row for row, name in enumerate(about.classes)}
    rows: Float32s = weight.numpy()[[row_of[name] for name in _base_classes(stream)]]
    return rows


def _base_classes(stream: Stream) -> list[str]:
    """Names of the classes of the base session, in the order of their numbers."""
    assert stream.origin is not None
    return [stream.origin[0].classes[c] for c in np.unique(stream.sessions[0].y)]


def _head_misfit(
    base: KnownFile, shape: tuple[int, ...], about: HeadMetadata, stream: Stream
) -> str:
    """Why a head of `shape`, (k, d), is not one of the base session's, and what to do; or ""."""
    if stream.origin is None:
        return "needs a stream of one file that says which it is of: take --protocol fscil"
    (file, embedding), first = stream.origin, stream.sessions[0]
    if embedding != FINAL or stream.fitted:
        return (
            "classifies the final embedding as it is: drop protocol.embedding, add --set "
            "protocol.scale=none"
        )
    made = file.provenance.get("backbone", {}).get("weights_sha256", "")
    if made != base.sha256 or shape[1] != file.width():
        return f"did not make {file.path.name}: extract it with these weights (--weights)"
    alike = sorted(_base_classes(stream)) == sorted(about.classes)
    if not alike or taught_digest(file.samples, first) != about.samples:
        return (
            "was trained on other classes or samples than the base session has: give the protocol "
            "the settings of its pretraining"
        )
    return ""
