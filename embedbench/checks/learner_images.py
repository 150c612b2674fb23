"""The checks for learners of images; learners with a trunk get a small residual network."""

from dataclasses import replace

import numpy as np
import torch

from embedbench.learning.learner import Learner

from .blob_streams import EVERY_CLASS, as_images, blobs
from .demand import applies_where, demand
from .learner_check_tools import (
    ask,
    goes_on_alike,
    learner_check,
    run,
    same,
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
