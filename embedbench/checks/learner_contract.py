"""The checks for learners: the contract. Each teaches small streams to a class through the runner.

Tags, footprint and resuming are checked here, unusual sessions in `learner_edge_cases`.
"""

import dataclasses
import functools
import json
import math
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from embedbench.config.make_from_settings import make
from embedbench.learning.exemplars import BY_LEARNER, Capacity, Memory
from embedbench.learning.learner import Learner, learns_sessions
from embedbench.runs.checkpoint import CheckpointDirectory
from embedbench.streams.stream import Stream

from . import learner_check_tools as tools
from .blob_streams import SESSIONS, as_images, blobs, each_kind
from .check_building_blocks import CheckFailed, applies_where, demand


@tools.learner_check
def hyperparameters_survive_json(cls: type[Learner]) -> None:
    """Fields are plain hyperparameters: they survive JSON, and learning does not change them."""
    learner = tools.small(cls)
    before = dataclasses.asdict(learner)
    text = json.dumps(before)
    again = dataclasses.asdict(make(cls, json.loads(text), name=cls.__name__))
    demand(again == before, f"expected {before} back from JSON, got {again}")
    tools.teach(learner, blobs(cls.tags))
    after = dataclasses.asdict(learner)
    demand(after == before, f"expected {before} still after learning, got {after}")


@tools.learner_check
def logs_survive_json(cls: type[Learner]) -> None:
    """`learn` returns a dict that JSON can hold; `footprint` returns whole bytes by kind."""
    _, logs = tools.run(blobs(cls.tags), tools.small(cls))
    for log in logs:
        demand(isinstance(log.log, dict), f"expected a dict from learn, got {log.log!r}")
        json.dumps(log.log)
        for kind, size in log.footprint.items():
            whole = isinstance(size, int) and size >= 0
            demand(whole, f"expected whole bytes in the footprint, got {kind}: {size!r}")


@tools.learner_check
def inputs_stay_untouched(cls: type[Learner]) -> None:
    """Arrays and tensors that a learner is given are never written to."""
    learner = tools.small(cls)
    stream = blobs(cls.tags)
    before = [(a, a.copy()) for a in tools.reachable(stream) if isinstance(a, np.ndarray)]
    with (
        mock.patch.object(learner, "scores", _guarded(learner.scores)),
        mock.patch.object(learner, "observe", _guarded(learner.observe)),
    ):
        tools.teach(learner, stream)
    changed = sum(not tools.same(a, copy) for a, copy in before)
    demand(not changed, f"expected the stream as it was, got {changed} arrays changed by learning")


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with a check that it does not change the tensors it is given."""

    def call(*given: torch.Tensor, session_id: torch.Tensor | None = None) -> Any:
        copies = [t.clone() for t in given]
        kwargs = {} if method.__name__ == "observe" else {"session_id": session_id}
        out = method(*given, **kwargs)
        kept = all(torch.equal(a, b) for a, b in zip(given, copies, strict=True))
        demand(kept, f"expected {method.__name__} to leave its arguments alone, it wrote to one")
        return out

    return call


@tools.learner_check
def scores_are_finite(cls: type[Learner]) -> None:
    """Scores are (n, C) and finite after every session, for n = 0 and for unseen classes too."""
    stream = blobs(cls.tags)
    for sessions in range(1, len(stream.sessions) + 1):
        learner = tools.small(cls)
        tools.teach(learner, tools.cut(stream, sessions)[0])
        bad = int((~np.isfinite(tools.ask(learner, stream))).sum())
        demand(not bad, f"expected finite scores after session {sessions}, {bad} are not")
        tools.ask(learner, stream, tools.probe(stream)[:0])


@tools.learner_check
def scores_are_pure(cls: type[Learner]) -> None:
    """`scores` changes neither the state, nor later answers, nor later learning."""
    learner = tools.small(cls)
    stream = blobs(cls.tags)
    tools.teach(learner, stream)
    state = learner.state_dict()
    first = tools.ask(learner, stream)
    tools.ask(learner, stream, tools.probe(stream) + 1)
    tools.demand_same("state_dict() after scores", state, learner.state_dict())
    tools.demand_same("scores when asked again", first, tools.ask(learner, stream))
    if not cls.tags.deterministic:
        return
    one = stream.eval_sets[0]
    one = replace(one, x=one.x.select(np.arange(1)), y=one.y[:1], ids=one.ids[:1])
    little = tools.small(cls)
    tools.teach(little, replace(stream, eval_sets=(one, *stream.eval_sets[1:])))
    what = "scores however many samples were asked between sessions"
    tools.demand_same(what, first, tools.ask(little, stream))


@tools.learner_check
def evaluating_changes_nothing(cls: type[Learner]) -> None:
    """Scores and state are the same to the last bit, however often the learner was evaluated.

    Once it is evaluated at the ends of sessions, once twice after every batch that it observed.
    """
    applies_where(cls.tags.deterministic)
    rarely = tools.small(cls)
    often = tools.small(cls)
    stream = blobs(cls.tags)
    tools.teach(rarely, stream)
    prepare = often.prepare

    def prepare_twice() -> None:
        prepare()
        prepare()

    with mock.patch.object(often, "prepare", prepare_twice):
        tools.teach(often, replace(stream, evaluate_every=1))
    what = "scores however often it was evaluated"
    tools.demand_same(what, tools.ask(rarely, stream), tools.ask(often, stream))
    what = "state_dict() however often it was evaluated"
    tools.demand_same(what, rarely.state_dict(), often.state_dict())


@tools.kinds_check
def scores_ignore_how_batches_are_cut(make: Callable[[], Learner], stream: Stream) -> None:
    """A sample gets the same scores (within 1e-5) in every batch, and the state stays the same."""
    learner = make()
    tools.run(stream, learner)
    state = learner.state_dict()
    seen = np.concatenate([s.classes for s in stream.sessions])
    whole = tools.ask(learner, stream)[:, seen]
    for cut in (1, 7):
        off = tools.measure_difference(whole, tools.ask(learner, stream, cut=cut)[:, seen])
        demand(off <= 1e-5, f"expected scores within 1e-5 in batches of {cut}, not {off:.1e} off")
    tools.demand_same("state_dict() after scores", state, learner.state_dict())


@tools.kinds_check
def same_seed_same_predictions(make: Callable[[], Learner], stream: Stream) -> None:
    """The four seeds decide everything: the global random state does not matter."""
    applies_where(make().tags.deterministic)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002  (theirs)
    answers = []
    try:
        for other in (1, 2):
            torch.manual_seed(other)
            random.seed(other)
            np.random.seed(other)  # noqa: NPY002  (a learner may use it, and must not)
            learner = make()
            answers.append([vars(tools.run(stream, learner)[0]), tools.ask(learner, stream)])
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002  (theirs)
    tools.demand_same("answers from the same seeds", *answers)


@tools.learner_check
def start_forgets_everything(cls: type[Learner]) -> None:
    """A learner that is started again behaves like a new one."""
    applies_where(cls.tags.deterministic)
    used = tools.small(cls)
    new = tools.small(cls)
    stream = blobs(cls.tags)
    tools.teach(used, blobs(cls.tags, seed=1))
    tools.teach(used, stream)
    tools.teach(new, stream)
    what = "scores after start() as of a new learner"
    tools.demand_same(what, tools.ask(new, stream), tools.ask(used, stream))


@tools.kinds_check
def state_round_trips(make: Callable[[], Learner], stream: Stream) -> None:
    """A new learner that loads a saved state answers and learns on exactly like the first.

    An offline learner learns nothing more.
    """
    old = make()
    new = make()
    first, rest = (stream, stream) if old.tags.offline else tools.cut(stream, 1)
    tools.run(first, old)
    state = old.state_dict()
    saved = tools.as_loaded(state)
    with tools.going_on(new, saved):
        new.start(stream.spec, tools.SEEDS, tools.device())
        new.prepare()
        answers = tools.ask(old, stream), tools.ask(new, stream)
        tools.demand_same("scores after loading the state", *answers)
        if old.tags.offline or not old.tags.deterministic:
            return
        tools.run(rest, new)
    with tools.going_on(old):
        tools.run(rest, old)
    tools.demand_same("state dict after more learning (make it a copy)", saved, state)
    answers = tools.ask(old, stream), tools.ask(new, stream)
    tools.demand_same("scores from the loaded state on", *answers)


# --- tags and footprint ---


@tools.learner_check
def memory_stays_within_its_limit(cls: type[Learner]) -> None:
    """A learner with a `memory` stores samples in it, and never more than it allows.

    Whole samples are counted, and the bytes of packed ones. It is looked at after every batch,
    before every evaluation and after every session.
    """
    memory = getattr(tools.small(cls), "memory", None)
    applies_where(isinstance(memory, Capacity))
    n_classes = blobs(cls.tags).spec.n_classes
    chosen = {"select": _limited(cls, memory)} if isinstance(memory, Memory) else {}
    _look_at_memory(tools.small(cls, total=n_classes + 2, **chosen), n_classes + 2)
    if chosen.get("select") not in ("reservoir", *BY_LEARNER):  # these have a fixed size
        _look_at_memory(tools.small(cls, total=None, per_class=2, **chosen), 2 * n_classes)


def _limited(cls: type[Learner], memory: Memory) -> str:
    """How samples are chosen: as the learner does by default, if it does not keep all."""
    others = [name for name in getattr(cls, "selects", ()) if name != "all"]
    applies_where(memory.select != "all" or bool(others))
    return memory.select if memory.select != "all" else others[-1]


def _look_at_memory(learner: Learner, limit: int) -> None:
    """Teach a learner, and raise `CheckFailed` at the first moment with more than `limit`."""
    stream = blobs(learner.tags)
    given = np.concatenate([s.x.numpy() for s in stream.sessions])
    # of each a whole sample, its label or labels, its logits, and two numbers
    most = limit * (given[0].nbytes + 5 * stream.spec.n_classes + 3 * 8)

    def look(moment: str) -> None:
        held = {name: v for name, v in vars(learner).items() if name not in ("observe", "prepare")}
        whole = tools.samples_held(held, given)
        if whole > limit:
            counts = {name: tools.samples_held(value, given) for name, value in held.items()}
            where = ", ".join(f"{count} in `{name}`" for name, count in counts.items() if count)
            raise CheckFailed(f"room for {limit} samples, and {whole} lie in it {moment}: {where}")
        size = learner.footprint().get("samples", 0)
        demand(size <= most, f"room for {limit} samples, and they have {size:,} bytes {moment}")

    with (
        mock.patch.object(learner, "observe", _followed(learner.observe, look, "after a batch")),
        mock.patch.object(learner, "prepare", _followed(learner.prepare, look, "at evaluation")),
    ):
        tools.teach(learner, stream)
    look("at the end")
    stored = learner.footprint().get("samples", 0)
    if learner.tags.stores_samples:
        demand(stored > 0, f"room for {limit} samples, and none was ever stored")


def _followed(
    method: Callable[..., Any], look: Callable[[str], None], moment: str
) -> Callable[..., Any]:
    """The method, with a look at the learner after each call."""

    def call(*given: Any) -> Any:
        out = method(*given)
        look(moment)
        return out

    return call


@tools.learner_check
def no_sample_is_kept_in_secret(cls: type[Learner]) -> None:
    """Samples are kept only if `tags.stores_samples` says so, and are counted as "samples"."""
    held = []
    counted = []
    for size in (24, 72):
        learner = tools.small(cls)
        stream = blobs(cls.tags, sizes=size)
        tools.teach(learner, stream)
        given = [session.x.numpy() for session in stream.sessions]
        given += [session.val_x.numpy() for session in stream.sessions]
        kept = tools.samples_held(learner, np.concatenate(given))
        footprint = learner.footprint()
        held.append(tools.held_bytes(learner))
        counted.append(footprint.total)
        if not cls.tags.stores_samples:
            demand(not kept, f"{kept} training samples lie in its memory; tag it stores_samples")
            none = "samples" not in footprint
            demand(none, "its footprint counts samples; tag it stores_samples")
            continue
        least = kept * given[0].shape[1]  # at least one byte per number
        declared = footprint.get("samples", 0)
        message = f"{least} bytes of samples lie in its memory, the footprint has {declared}"
        demand(declared >= least, message)
    grown = held[1] - held[0]
    declared = counted[1] - counted[0]
    message = f"for more samples memory grows by {grown} bytes, the footprint by {declared}"
    demand(grown <= declared + 64, message)


@tools.kinds_check
def footprint_counts_the_state(make: Callable[[], Learner], stream: Stream) -> None:
    """The footprint covers the state's bytes (optimisers aside) and no more than is in memory."""
    learner = make()
    tools.run(stream, learner)
    least = tools.state_bytes(learner.state_dict())
    most = tools.held_bytes(learner)
    footprint = learner.footprint()
    counted = footprint.total - footprint.get("optimiser", 0)
    demand(counted >= least, f"footprint of {counted} bytes, the state holds {least}")
    demand(footprint.total <= most, f"footprint of {footprint.total} bytes, memory holds {most}")


@tools.learner_check
def tags_are_true(cls: type[Learner]) -> None:
    """The tags are true; `deterministic` and `stores_samples` have their own checks."""
    observes = cls.observe is not Learner.observe
    learns = cls.learn is not Learner.learn
    online = cls.tags.online
    demand(observes == online, f"expected observe() just where tags.online, which is {online}")
    demand(learns or online, "expected learn() where not tags.online")
    learner = tools.small(cls)
    stream = blobs(cls.tags)
    tools.teach(learner, stream)
    scores = tools.ask(learner, stream)
    if not cls.tags.learns:
        tools.teach(learner, blobs(cls.tags, SESSIONS[::-1], seed=1))
        what = "scores whatever it is taught (tags.learns is False)"
        tools.demand_same(what, scores, tools.ask(learner, stream))
    if cls.tags.needs_session_id:
        turned = tools.ask(learner, stream, turn=1)
        demand(not tools.same(scores, turned), "needs_session_id, but the id does not matter")
    if cls.tags.needs_layers:
        blank = tools.probe(stream)
        blank[:, stream.spec.layers["middle"][0] :] = 0
        blind = tools.ask(learner, stream, blank)
        demand(not tools.same(scores, blind), "needs_layers, but they do not matter")


# --- interrupted runs ---


class CutOffError(Exception):
    """Raised in place of a power cut."""


class Saboteur(CheckpointDirectory):
    """Saves every checkpoint, and interrupts the run after `after` of them; 0: never."""

    def __init__(self, directory: Path, after: int = 0, **more: Any) -> None:
        super().__init__(
            directory, **{"decided": {}, "seconds": 0, "device": tools.device(), **more}
        )
        self.after, self.saves, self.inside = after, 0, False

    def _save(self, states: dict[str, dict[str, Any]]) -> None:
        super()._save(states)
        if states and self.seconds < math.inf:  # they could be written
            self.inside |= any(name.startswith("fit-") for name in states)
            self.saves += 1
            if self.saves == self.after:
                raise CutOffError


@tools.learner_check
def goes_on_inside_a_session(cls: type[Learner]) -> None:
    """A run that is interrupted at checkpoints, within sessions too, gives the same scores."""
    applies_where(cls.tags.deterministic)
    stream = each_kind(cls.tags)["vectors"]
    if learns_sessions(cls()):
        stream = replace(stream, observe_batch=0)
    make = functools.partial(tools.small, cls, min_steps=1)  # of a few epochs one is the best
    inside = _check(make, stream, 1)
    if cls.tags.images:
        inside |= _check(functools.partial(make, **tools.TINY), as_images(stream), 4)
    applies_where(inside)


def _check(make: Callable[[], Learner], stream: Stream, after: int) -> bool:
    """Compare a run, interrupted after every `after` checkpoints, with a whole one.

    Returns whether it has checkpoints within sessions.
    """
    with tempfile.TemporaryDirectory() as directory:
        whole = Saboteur(Path(directory) / "whole")
        one = make()
        other = make()
        saves = 0
        expected, _ = tools.run(stream, one, checkpoint=whole)
        if not whole.inside:
            return False  # "state round trips" checks the ends of sessions
        while saves <= whole.saves:
            checkpoint = Saboteur(Path(directory) / "cut", after)
            checkpoint.open()
            try:
                answers, _ = tools.run(stream, other, checkpoint=checkpoint)
                break
            except CutOffError:
                other = make()
                saves = saves + checkpoint.saves
    stuck = saves > whole.saves
    demand(not stuck, f"after one of {whole.saves} checkpoints it began the session again")
    tools.demand_same(
        "scores after being cut off (what a training remembers from step to step must lie in "
        "buffers of the network or in `draws`)",
        [vars(expected), tools.ask(one, stream)],
        [vars(answers), tools.ask(other, stream)],
    )
    return True
