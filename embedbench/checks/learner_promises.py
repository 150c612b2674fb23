"""The checks for learners: what a learner states in its tags and its footprint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from embedbench.learning.learner import Learner

from .demand import demand
from .small_streams import SESSIONS, blobs
from .tools import (
    SEEDS,
    ask,
    held_bytes,
    learner_check,
    probe,
    same,
    samples_held,
    small,
    state_bytes,
    teach,
)


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
