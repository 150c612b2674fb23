"""`protocol.loss`: with "seen" no learner's loss touches a class that has not come."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from protocol_files import make_file
from teaching import learn, start
from torch import Tensor

from embedbench.config.make_from_settings import make
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.runs.learner_and_protocol_names import ALIASES, learner_class, learner_names
from embedbench.streams.stream import Stream, StreamSpec

ALL = StreamSpec((6,), 4)
PROTOCOLS: dict[str, tuple[Any, dict[str, int]]] = {
    "incremental-class": (IncrementalClass, {"base": 2, "step": 2}),
    "fscil": (FSCIL, {"base": 2, "way": 2, "shot": 4}),
}
# The learners with a head that has a row for every class: whether `protocol.loss` decides for them.
# The losses of the others never include a class that has not come.
DECIDED = {
    True: "agem derpp er ewc exstream fel gdumb gss il2m joint mas mir mlp remind si",
    False: "bic eeil er-ace icarl lucir lwf wa",
}
HEADS = {name: decides for decides, names in DECIDED.items() for name in names.split()}
ALONE = dict.fromkeys(("exstream", "gdumb"), (5,))  # learners of batches
BOTH = (
    "agem",
    "derpp",
    "er",
    "er-ace",
    "gss",
    "mir",
    "remind",
)  # learners of batches and of whole sessions
# Each with the samples of a batch that it is given, 0 for whole sessions.
WAYS = [
    (name, batch)
    for name in HEADS
    for batch in (ALONE | dict.fromkeys(BOTH, (5, 0))).get(name, (0,))
]


def stream_of(folder: Path, protocol: str, loss: str, batch: int = 5) -> Any:
    """Three sessions of two classes."""
    counts = [14] * 6, [0] * 6, [2] * 6
    file = make_file(folder, *counts, width=6, apart=2.0, name=f"{loss}.h5")
    cls, sizes = PROTOCOLS[protocol]
    return cls(**sizes, loss=loss, observe_batch=batch).build([file], seed=0)


def small(name: str) -> Any:
    """A small learner without weight decay, which would move the head without a loss."""
    cls: Any = learner_class(name)
    settings: dict[str, Any] = {"units": 8, "lr": 0.05, "batch_size": 8, "weight_decay": 0.0}
    if "stop" in {f.name for f in fields(cls)}:
        settings["stop"] = {"rule": "epochs", "epochs": 2}
    special = {
        "ewc": {"lam": 5.0},
        "fel": {"fel_units": 60},
        "remind": {"base_samples": 5},
        "wa": {"positive": False},  # else all rows are clipped
    }
    return make(cls, settings | special.get(name, {}), name=name)


def head(learner: Any) -> Tensor:
    """The head's rows, one per class: weights, and biases if there are any."""
    if hasattr(learner.net, "theta"):
        rows: Tensor = learner.net.theta.detach().clone()
        return rows
    linear = learner.net.head
    return torch.cat([linear.weight, linear.bias[:, None]], 1).detach()


def heads(name: str, stream: Stream, sessions: int) -> tuple[Any, list[Tensor]]:
    """The learner after the first sessions; its head before and after each of them."""
    learner = start(small(name), stream.spec)
    found = [head(learner)]
    for s in stream.sessions[:sessions]:
        if stream.observe_batch:
            for rows in torch.arange(len(s.y)).split(stream.observe_batch):
                learner.observe(s.x.batch(rows), torch.from_numpy(s.y)[rows])
            learner.prepare()
        else:
            learn(learner, s)
        found.append(head(learner))
    return learner, found


def test_the_list_of_heads_is_whole() -> None:
    found = []
    for name in learner_names():
        learner: Any = learner_class(name)()
        tags = learner.tags
        if tags.offline or tags.needs_session_id or not hasattr(learner, "units"):
            continue
        start(learner, ALL)
        if len(head(learner)) == ALL.n_classes:  # the last layer may be a projection
            found.append(name)
    assert [name for name in found if name not in ALIASES] == sorted(HEADS)


@pytest.mark.parametrize(
    ("name", "batch", "protocol"),
    [
        *((*way, "incremental-class") for way in WAYS),
        *((*way, "fscil") for way in (("mlp", 0), ("er", 5), ("ewc", 0))),
    ],
)
def test_rows_of_unseen_classes_stay(name: str, protocol: str, batch: int, tmp_path: Path) -> None:
    learner, found = heads(name, stream_of(tmp_path, protocol, "seen", batch), 2)
    for seen, after in zip((2, 4), found[1:], strict=True):
        assert torch.equal(after[seen:], found[0][seen:])  # gradients exactly 0
        assert (after[:seen] != found[0][:seen]).any(1).all()
    importance = getattr(learner, "importance", getattr(learner, "weight", None))
    if name in ("ewc", "mas", "si"):  # Fisher information and the like: of the same logits
        assert importance[-2][:4].any(1).all()
        assert not importance[-2][4:].any()
        assert not importance[-1][4:].any()
    _, (before, after) = heads(name, stream_of(tmp_path, protocol, "all", batch), 1)
    assert bool((after[2:] != before[2:]).any()) is HEADS[name]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_masks_of_a_stream_by_hand(protocol: str, tmp_path: Path) -> None:
    free, limited = (stream_of(tmp_path, protocol, loss) for loss in ("all", "seen"))
    masks = [s.loss_classes for s in limited.sessions]
    assert [np.flatnonzero(m).tolist() for m in masks if m is not None] == [
        [0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5],
    ]  # fmt: skip
    assert limited.spec == replace(free.spec, loss_over_seen=True)
    assert [s.loss_classes for s in free.sessions] == [None] * 3
    assert free.spec == StreamSpec((6,), 6)
    by_session = stream_of(tmp_path, protocol, "session")
    masks = [s.loss_classes for s in by_session.sessions]
    assert [np.flatnonzero(m).tolist() for m in masks if m is not None] == [[0, 1], [2, 3], [4, 5]]
    assert by_session.spec == replace(free.spec, loss_over_session=True)
    assert by_session.merged().digests == free.merged().digests
    assert by_session.merged().spec == free.spec
    for key, value in free.digests.items():
        assert (limited.digests[key] == value) is (key in ("eval", "features")), key
    assert '"loss"' not in free.recipe
    assert json.loads(limited.recipe) == {**json.loads(free.recipe), "loss": "seen"}
    assert limited.merged().digests == free.merged().digests  # both have the same reference
    assert limited.merged().spec == free.merged().spec == free.spec
    assert limited.merged().sessions[0].loss_classes is None
