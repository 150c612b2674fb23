"""The checks for learners: the contract. Each teaches small streams to a class through the runner.

Tags, footprint and resuming are checked here, unusual sessions in `learner_sessions`.
"""

import dataclasses
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from embedbench.config.declared_settings import make
from embedbench.learning.learner import Learner, learns_sessions
from embedbench.runs.checkpoint import CheckpointDirectory
from embedbench.streams.stream import Stream

from .blob_streams import EVERY_CLASS, SESSIONS, as_images, blobs
from .demand import applies_where, demand
from .learner_check_tools import (
    SEEDS,
    as_loaded,
    ask,
    device,
    goes_on_alike,
    going_on,
    held_bytes,
    learner_check,
    probe,
    reachable,
    run,
    same,
    samples_held,
    settings_of,
    small,
    state_bytes,
    teach,
)

TINY = {"trunk": "resnet8", "epochs": 2}
FULL = {**TINY, "augment": "crop-flip", "frozen": 1}  # settings that reveal faults
FEW = ((0, 1), (2,))  # classes of each session, for checks that do not measure accuracy


@learner_check
def images_are_learned(cls: type[Learner]) -> None:
    """Images of separate colours are learned (90 % right), by a residual trunk if it has trunks."""
    applies_where(cls.tags.images and cls.tags.learns)
    learner = small(cls, **{**TINY, "epochs": 4})
    p = teach(learner, as_images(blobs(cls.tags, EVERY_CLASS, 256, n_val=16)))
    right = float(np.mean(p.answer[-1] == p.y))
    demand(right >= 0.9, f"expected at least 90 % right on separate colours, got {right:.0%}")


@learner_check
def images_follow_the_seeds(cls: type[Learner]) -> None:
    """On images, too, only the four seeds matter, and scores ignore how batches are cut.

    If the learner has a trunk, images are augmented, and one stage of the trunk is frozen.
    """
    applies_where(cls.tags.images)
    stream = as_images(blobs(cls.tags, FEW, 17, n_val=4))
    answers = []
    for other in (1, 2) if cls.tags.deterministic else (1,):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(other)
            learner = small(cls, **FULL)
            teach(learner, stream)
        answers.append(ask(learner, stream))
    demand(
        same(answers[0], answers[-1]), "expected the same scores from the same seeds, got others"
    )
    state = learner.state_dict()
    seen = [c for classes in FEW for c in classes]
    whole, alone = answers[-1][:, seen], ask(learner, stream, cut=1)[:, seen]
    size = np.maximum(np.abs(whole).max(axis=1, keepdims=True), 1e-30)
    off = float((np.abs(alone - whole) / size).max())
    demand(off <= 1e-5, f"expected scores within 1e-5 one by one, they are {off:.1e} off")
    demand(
        same(state, learner.state_dict()), "expected state_dict() unchanged by scores, it changed"
    )


@learner_check
def images_go_on_from_a_state(cls: type[Learner]) -> None:
    """On images, too, a learner with a loaded state goes on like the one that saved it.

    The footprint covers the bytes of the state, with the statistics of BatchNorm.
    """
    applies_where(cls.tags.images and not cls.tags.offline)
    stream = as_images(blobs(cls.tags, FEW, 17, n_val=4))
    first, rest = (replace(stream, sessions=s) for s in (stream.sessions[:1], stream.sessions[1:]))
    old, new = small(cls, **FULL), small(cls, **FULL)
    run(first, old)
    state = old.state_dict()
    held, total = state_bytes(state), old.footprint().total
    kept = old.footprint().get("optimiser", 0)
    demand(total - kept >= held, f"footprint of {total - kept} bytes, the state holds {held}")
    goes_on_alike(old, new, state, stream, rest)


# --- the contract ---


@learner_check
def hyperparameters_survive_json(cls: type[Learner]) -> None:
    """Fields are plain hyperparameters: they survive JSON, and learning does not change them."""
    learner = small(cls)
    before = settings_of(learner)
    text = json.dumps(before)
    again = dataclasses.asdict(make(cls, json.loads(text), name=cls.__name__))
    demand(again == before, f"expected {before} back from JSON, got {again}")
    teach(learner, blobs(cls.tags))
    after = settings_of(learner)
    demand(after == before, f"expected {before} still after learning, got {after}")


@learner_check
def logs_survive_json(cls: type[Learner]) -> None:
    """`learn` returns a dict that JSON can hold; `footprint` returns whole bytes by kind."""
    _, logs = run(blobs(cls.tags), small(cls))
    for log in logs:
        demand(isinstance(log.log, dict), f"expected a dict from learn, got {log.log!r}")
        json.dumps(log.log)
        for kind, size in log.footprint.items():
            whole = isinstance(size, int) and size >= 0
            demand(whole, f"expected whole bytes in the footprint, got {kind}: {size!r}")


@learner_check
def inputs_stay_untouched(cls: type[Learner]) -> None:
    """Arrays and tensors that a learner is given are never written to."""
    learner, stream = small(cls), blobs(cls.tags)
    before = [(a, a.copy()) for a in reachable(stream) if isinstance(a, np.ndarray)]
    with (
        mock.patch.object(learner, "scores", _guarded(learner.scores)),
        mock.patch.object(learner, "observe", _guarded(learner.observe)),
    ):
        teach(learner, stream)
    changed = sum(not same(a, copy) for a, copy in before)
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


@learner_check
def scores_are_finite(cls: type[Learner]) -> None:
    """Scores are (n, C) and finite after every session, for n = 0 and for unseen classes too."""
    stream = blobs(cls.tags)
    for sessions in range(1, len(stream.sessions) + 1):
        learner = small(cls)
        teach(learner, replace(stream, sessions=stream.sessions[:sessions]))
        bad = int((~np.isfinite(ask(learner, stream))).sum())
        demand(
            not bad, f"expected finite scores after {sessions} session(s), got {bad} that are not"
        )
        ask(learner, stream, probe(stream)[:0])


@learner_check
def scores_are_pure(cls: type[Learner]) -> None:
    """`scores` changes neither the state, nor later answers, nor later learning."""
    learner, stream = small(cls), blobs(cls.tags)
    teach(learner, stream)
    state, first = learner.state_dict(), ask(learner, stream)
    ask(learner, stream, probe(stream) + 1)
    demand(
        same(state, learner.state_dict()), "expected state_dict() unchanged by scores, it changed"
    )
    demand(
        same(first, ask(learner, stream)), "expected the same scores when asked again, got others"
    )
    if not cls.tags.deterministic:
        return
    one = stream.eval_sets[0]
    one = replace(one, x=one.x.select(np.arange(1)), y=one.y[:1], ids=one.ids[:1])
    little = small(cls)
    teach(little, replace(stream, eval_sets=(one, *stream.eval_sets[1:])))
    demand(
        same(first, ask(little, stream)),
        "expected the same learner however many samples were asked between sessions, got another",
    )


@learner_check
def scores_ignore_how_batches_are_cut(cls: type[Learner]) -> None:
    """A sample gets the same scores (within 1e-5) in every batch."""
    learner, stream = small(cls), blobs(cls.tags)
    teach(learner, stream)
    whole = ask(learner, stream)
    size = np.abs(whole).max(axis=1, keepdims=True)
    for cut in (1, 7):
        off = float((np.abs(ask(learner, stream, cut=cut) - whole) / np.maximum(size, 1e-30)).max())
        demand(
            off <= 1e-5, f"expected scores within 1e-5 in batches of {cut}, they are {off:.1e} off"
        )


@learner_check
def same_seed_same_predictions(cls: type[Learner]) -> None:
    """The four seeds decide everything: the global random state does not matter."""
    applies_where(cls.tags.deterministic)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002  (theirs)
    runs = []
    try:
        for other in (1, 2):
            torch.manual_seed(other)
            random.seed(other)
            np.random.seed(other)  # noqa: NPY002  (a learner may use it, and must not)
            learner, stream = small(cls), blobs(cls.tags)
            runs.append((teach(learner, stream).answer, ask(learner, stream)))
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002  (theirs)
    demand(same(*runs), "expected the same answers from the same seeds, got others the second time")


@learner_check
def start_forgets_everything(cls: type[Learner]) -> None:
    """A learner that is started again behaves like a new one."""
    applies_where(cls.tags.deterministic)
    used, new, stream = small(cls), small(cls), blobs(cls.tags)
    teach(used, blobs(cls.tags, seed=1))
    teach(used, stream)
    teach(new, stream)
    demand(
        same(ask(used, stream), ask(new, stream)),
        "expected start() to forget an earlier stream, the answers still depend on it",
    )


@learner_check
def state_round_trips(cls: type[Learner]) -> None:
    """A new learner that loads a saved state answers and learns on exactly like the first."""
    stream = blobs(cls.tags)
    first, rest = stream, stream
    if not cls.tags.offline:
        first, rest = (
            replace(stream, sessions=s) for s in (stream.sessions[:1], stream.sessions[1:])
        )
    old, new = small(cls), small(cls)
    teach(old, first)
    state = old.state_dict()
    saved = as_loaded(state)
    with going_on(new, saved):
        new.start(stream.spec, SEEDS, device())
        new.prepare()
        demand(
            same(ask(old, stream), ask(new, stream)),
            "expected the same scores after loading the state",
        )
        if cls.tags.offline or not cls.tags.deterministic:
            return
        teach(new, rest)
    with going_on(old):
        teach(old, rest)
    message = "expected {} as it was after more learning, it changed: make it a copy"
    demand(same(state, saved), message.format("a state dict"))
    demand(
        same(ask(old, stream), ask(new, stream)),
        "expected the same learning to follow from the loaded state, it went another way",
    )


# --- tags and footprint ---


@learner_check
def no_sample_is_kept_in_secret(cls: type[Learner]) -> None:
    """Samples are kept only if `tags.stores_samples` says so, and are counted as "samples"."""
    held, counted = [], []
    for size in (24, 72):
        learner, stream = small(cls), blobs(cls.tags, sizes=size)
        teach(learner, stream)
        given = [v.numpy() for s in stream.sessions for v in (s.x, s.val_x)]
        kept = samples_held(learner, np.concatenate(given))
        footprint = learner.footprint()
        held.append(held_bytes(learner))
        counted.append(footprint.total)
        if not cls.tags.stores_samples:
            demand(
                not kept,
                f"expected no training sample in its memory, found {kept}; tag it stores_samples",
            )
            demand(
                "samples" not in footprint,
                "expected no samples in the footprint; tag it stores_samples",
            )
            continue
        least = kept * given[0].shape[1]  # at least one byte per number
        declared = footprint.get("samples", 0)
        demand(
            declared >= least,
            f"expected at least {least} bytes of samples in the footprint, got {declared}",
        )
    grown, declared = held[1] - held[0], counted[1] - counted[0]
    demand(
        grown <= declared + 64,
        f"expected memory to grow by the footprint's {declared} bytes for more samples, "
        f"not {grown}",
    )


@learner_check
def footprint_counts_the_state(cls: type[Learner]) -> None:
    """The footprint covers the state's bytes (optimisers aside) and no more than is in memory."""
    learner = small(cls)
    teach(learner, blobs(cls.tags))
    least, most = state_bytes(learner.state_dict()), held_bytes(learner)
    total = learner.footprint().total
    demand(
        total >= least, f"expected at least the state's {least} bytes in the footprint, got {total}"
    )
    demand(
        total <= most, f"expected at most the {most} bytes in memory in the footprint, got {total}"
    )


@learner_check
def tags_are_true(cls: type[Learner]) -> None:
    """The tags are true; `deterministic` and `stores_samples` have their own checks."""
    observes, learns = cls.observe is not Learner.observe, cls.learn is not Learner.learn
    online = cls.tags.online
    demand(observes == online, f"expected observe() just where tags.online, which is {online}")
    demand(learns or online, "expected learn() where not tags.online")
    learner, stream = small(cls), blobs(cls.tags)
    teach(learner, stream)
    scores = ask(learner, stream)
    if not cls.tags.learns:
        teach(learner, blobs(cls.tags, SESSIONS[::-1], seed=1))
        demand(
            same(scores, ask(learner, stream)),
            "tags.learns is False, but what it was taught matters",
        )
    if cls.tags.seedless:
        other = small(cls)
        teach(other, stream, replace(SEEDS, init=SEEDS.init + 1))
        demand(
            same(scores, ask(other, stream)),
            "tags.seedless is True, but another seed of initialisation gives other answers",
        )
    if cls.tags.needs_session_id:
        demand(
            not same(scores, ask(learner, stream, turn=1)),
            "needs_session_id, but the id does not matter",
        )
    if cls.tags.needs_layers:
        blank = probe(stream)
        blank[:, stream.spec.layers["middle"][0] :] = 0
        demand(
            not same(scores, ask(learner, stream, blank)), "needs_layers, but they do not matter"
        )


# --- interrupted runs ---


SHORT = {"epochs": 3, "min_steps": 1}  # few epochs, one of which is the best


class CutOffError(Exception):
    """Raised in place of a power cut."""


class Saboteur(CheckpointDirectory):
    """Saves every checkpoint, and interrupts the run after `after` of them; 0: never."""

    def __init__(self, directory: Path, after: int = 0, **more: Any) -> None:
        super().__init__(directory, **{"decided": {}, "seconds": 0, "device": device(), **more})
        self.after, self.saves, self.inside = after, 0, False

    def _save(self, files: dict[str, bytes]) -> None:
        super()._save(files)
        self.inside |= any(name.startswith("fit-") for name in files)
        self.saves += bool(files)
        if files and self.saves == self.after:
            raise CutOffError


@learner_check
def goes_on_inside_a_session(cls: type[Learner]) -> None:
    """A run that is interrupted at checkpoints, within sessions too, gives the same scores."""
    applies_where(cls.tags.deterministic)
    stream = blobs(cls.tags, FEW, 18, n_val=4)
    if learns_sessions(cls()):
        stream = replace(stream, observe_batch=0)
    inside = _check(lambda: small(cls, **SHORT), stream, 1)
    if cls.tags.images:
        inside |= _check(lambda: small(cls, **{**SHORT, **TINY}), as_images(stream), 4)
    applies_where(inside)


def _check(make: Callable[[], Learner], stream: Stream, after: int) -> bool:
    """Interrupt a run after every `after` checkpoints and compare it with a whole run.

    Returns
    -------
    bool
        Whether it has checkpoints within sessions.
    """
    with tempfile.TemporaryDirectory() as directory:
        whole = Saboteur(Path(directory) / "whole")
        one, other, saves = make(), make(), 0
        expected, _ = run(stream, one, checkpoint=whole)
        if not whole.inside:
            return False  # "state round trips" checks the ends of sessions
        while saves <= whole.saves:
            checkpoint = Saboteur(Path(directory) / "cut", after)
            checkpoint.open()
            try:
                answers, _ = run(stream, other, checkpoint=checkpoint)
                break
            except CutOffError:
                other, saves = make(), saves + checkpoint.saves
    demand(
        saves <= whole.saves,
        f"expected to go on after each of {whole.saves} checkpoints, it began the session again",
    )
    demand(
        same(vars(answers), vars(expected)) and same(ask(one, stream), ask(other, stream)),
        "expected the same scores after being cut off, got others: what a training remembers from "
        "step to step must lie in buffers of the network or in `draws`",
    )
    return True
