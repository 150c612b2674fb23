"""`protocol.loss`: with "seen" no learner's loss touches a class that has not come."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plan_runs import plan
from protocol_files import make_file
from torch import Tensor

from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import Learner
from embedbench.learning.loss import batch_loss
from embedbench.learning.network import mlp_net
from embedbench.models.derpp import DERpp
from embedbench.models.er import ER
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.learner_and_protocol_names import ALIASES, learner_class, learner_names
from embedbench.runs.stream_runner import run_stream
from embedbench.scores import record_files
from embedbench.streams.stream import Stream, StreamSpec
from embedbench.studies.presets import preset
from embedbench.studies.study import Key

SEEDS = Seeds.of(0)
ALL = StreamSpec((6,), 4)
SEEN = replace(ALL, loss_over_seen=True)
PROTOCOLS: dict[str, type[IncrementalClass | FSCIL]] = {
    "incremental-class": IncrementalClass,
    "fscil": FSCIL,
}
SIZES: dict[str, dict[str, Any]] = {
    "incremental-class": {"base": 2, "step": 2},
    "fscil": {"base": 2, "way": 2, "shot": 4},
}
# The learners with a head that has a row for every class: whether `protocol.loss` decides for them.
# The losses of the others never include a class that has not come.
HEADS = {
    "agem": True,
    "bic": False,
    "derpp": True,
    "eeil": False,
    "er": True,
    "er-ace": False,
    "ewc": True,
    "exstream": True,
    "fel": True,
    "gdumb": True,
    "gss": True,
    "icarl": False,
    "il2m": True,
    "joint": True,
    "lucir": False,
    "lwf": False,
    "mas": True,
    "mir": True,
    "mlp": True,
    "remind": True,
    "si": True,
    "wa": False,
}
ALONE = dict.fromkeys(("derpp", "exstream", "gdumb", "remind"), (5,))  # learners of batches
BOTH = ("agem", "er", "er-ace", "gss", "mir")  # learners of batches and of whole sessions
# Each with the samples of a batch that it is given, 0 for whole sessions.
WAYS = [
    (name, batch)
    for name in HEADS
    for batch in (ALONE | dict.fromkeys(BOTH, (5, 0))).get(name, (0,))
]


def stream_of(folder: Path, protocol: str, loss: str, batch: int = 5) -> Stream:
    """Three sessions of two classes."""
    counts = [14] * 6, [0] * 6, [2] * 6
    file = make_file(folder, *counts, width=6, apart=2.0, name=f"{loss}.h5")
    settings = {**SIZES[protocol], "loss": loss, "observe_batch": batch}
    return PROTOCOLS[protocol](**settings).build([file], seed=0)


def small(name: str) -> Learner:
    """A small learner without weight decay, which would move the head without a loss."""
    cls: Any = learner_class(name)
    settings: dict[str, Any] = {"units": 8, "lr": 0.05, "batch_size": 8, "weight_decay": 0.0}
    known = {f.name for f in fields(cls)}
    if "stop" in known:
        settings["stop"] = {"rule": "epochs", "epochs": 2}
    special = {
        "ewc": {"lam": 5.0},
        "fel": {"fel_units": 60},
        "remind": {"base_samples": 5},
        "wa": {"positive": False},  # else all rows are clipped
    }
    settings |= special.get(name, {})
    made: Learner = make(cls, settings, name=name)
    return made


def head(learner: Any) -> Tensor:
    """The head's rows, one per class: weights, and biases if there are any."""
    if hasattr(learner.net, "theta"):
        rows: Tensor = learner.net.theta.detach()
        return rows
    linear = learner.net.head
    return torch.cat([linear.weight, linear.bias[:, None]], 1).detach()


def head_after(name: str, stream: Stream, sessions: int) -> tuple[Any, Tensor, Tensor]:
    """The learner after the first sessions, its head, and the head before any session."""
    fresh: Any = small(name)
    fresh.start(stream.spec, SEEDS, "cpu")
    learner: Any = small(name)
    run_stream(
        replace(
            stream,
            sessions=tuple(stream.sessions)[:sessions],
            eval_sets=stream.eval_sets[:sessions],
        ),
        learner,
        SEEDS,
    )
    return learner, head(learner), head(fresh)


def test_the_list_of_heads_is_whole() -> None:
    found = []
    for name in learner_names():
        learner: Any = learner_class(name)()
        tags = learner.tags
        if tags.offline or tags.needs_session_id or not hasattr(learner, "units"):
            continue
        learner.start(ALL, SEEDS, "cpu")
        if len(head(learner)) == ALL.n_classes:  # the last layer may be a projection
            found.append(name)
    assert [name for name in found if name not in ALIASES] == list(HEADS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("name", "batch"), WAYS)
def test_rows_of_classes_that_have_not_come_stay_as_they_began(
    name: str, protocol: str, batch: int, tmp_path: Path
) -> None:
    limited = stream_of(tmp_path, protocol, "seen", batch)
    for sessions in (1, 2):
        taught, after, before = head_after(name, limited, sessions)
        assert torch.equal(after[2 * sessions :], before[2 * sessions :])  # gradients exactly 0
        assert (after[: 2 * sessions] != before[: 2 * sessions]).any(1).all()
        importance = getattr(taught, "importance", getattr(taught, "weight", None))
        if name in ("ewc", "mas", "si"):  # Fisher information and the like: of the same logits
            assert importance[-2][: 2 * sessions].any(1).all()
            assert not importance[-2][2 * sessions :].any()
            assert not importance[-1][2 * sessions :].any()
    free = stream_of(tmp_path, protocol, "all", batch)
    _, after, before = head_after(name, free, 1)
    assert bool((after[2:] != before[2:]).any()) is HEADS[name]


# --- the loss by hand ---


def test_the_loss_of_a_batch_over_some_classes_by_hand() -> None:
    logits = torch.tensor([[0.0, 5.0, math.log(3)], [0.0, -2.0, 0.0]], requires_grad=True)
    y = torch.tensor([2, 0])
    loss = batch_loss(logits, y, torch.tensor([0, 2]))
    loss.backward()  # probabilities of classes 0 and 2: 1/4, 3/4 and 1/2, 1/2
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    assert logits.grad is not None
    expected = [[0.125, 0.0, -0.125], [-0.25, 0.0, 0.25]]
    torch.testing.assert_close(logits.grad, torch.tensor(expected))
    assert (logits.grad[:, 1] == 0).all()
    whole = torch.nn.functional.cross_entropy(logits, y)
    assert torch.equal(batch_loss(logits, y, None), whole)


def test_derpp_over_the_classes_seen_is_its_equation() -> None:
    """Classes 0 and 1, then 2, of four; the stored logits of class 2 count once it has come."""
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 0, 1, 1, 0, 2, 2, 0])
    how: dict[str, Any] = {"units": 8, "lr": 0.05, "weight_decay": 0.01, "batch_size": 4}
    how["updates"] = 1
    learner = DERpp(memory=Memory(total=100, select="reservoir"), alpha=0.4, beta=0.7, **how)
    learner.start(SEEN, SEEDS, "cpu")
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    stored = torch.zeros(0, 4)
    for step, (part, n) in enumerate(zip(torch.split(torch.arange(9), 3), (2, 2, 3), strict=True)):
        learner.observe(x[part], y[part])
        z = net(x[part])
        loss = torch.nn.functional.cross_entropy(z[:, :n], y[part])
        if step:
            draw = np.random.default_rng([SEEDS.batches, step])
            size = min(4, len(stored))
            first, second = (
                draw.choice(len(stored), size, replace=False, shuffle=False) for _ in range(2)
            )
            off = (net(x[first])[:, :n] - stored[first][:, :n]).square()
            again = torch.nn.functional.cross_entropy(net(x[second])[:, :n], y[second])
            loss = loss + 0.4 * off.sum() / (size * n) + 0.7 * again
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        stored = torch.cat([stored, z.detach()])
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("select", ["reservoir", "balanced", "all"])
def test_what_a_memory_keeps_does_not_depend_on_the_loss(select: str) -> None:
    x = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1] * 10 + [2, 3] * 5)
    kept = []
    for spec in (ALL, SEEN):
        learner = ER(units=4, memory=Memory(total=7, select=select))
        learner.start(spec, SEEDS, "cpu")
        for part in torch.split(torch.arange(30), 4):
            learner.observe(x[part], y[part])
        kept.append((learner.exemplars.x, learner.exemplars.y))
    assert torch.equal(kept[0][0], kept[1][0])
    assert torch.equal(kept[0][1], kept[1][1])


# --- the setting of the protocols ---


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
    for key, value in free.digests.items():
        assert (limited.digests[key] == value) is (key in ("eval", "features")), key


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_is_what_there_was_and_both_have_the_same_reference(
    protocol: str, tmp_path: Path
) -> None:
    free, limited = (stream_of(tmp_path, protocol, loss) for loss in ("all", "seen"))
    assert '"loss"' not in free.recipe
    assert json.loads(limited.recipe) == {**json.loads(free.recipe), "loss": "seen"}
    assert limited.merged().digests == free.merged().digests
    assert limited.merged().spec == free.merged().spec == free.spec
    (whole,) = limited.merged().sessions
    assert whole.loss_classes is None


def test_another_word_is_refused() -> None:
    for cls in PROTOCOLS.values():
        with pytest.raises(UserError, match=r"unknown loss 'sen'. Did you mean 'seen'\?"):
            cls(loss="sen")


def test_records_hold_the_setting(tmp_path: Path) -> None:
    make_file(tmp_path, [6] * 4, [0] * 4, [2] * 4)
    for items, expected in (([], "all"), (["protocol.loss=seen"], "seen")):
        parsed = ["references=0", *items]
        file = str(tmp_path / "file.h5")
        cells = plan([file], "incremental-class", ["ncm"], [0], parsed)
        outcome = run_grid(cells, tmp_path / "runs")
        assert not outcome.failed
        assert record_files.load(outcome.run_dirs[0]).protocol_params["loss"] == expected
    assert len({p.parent.parent for p in (tmp_path / "runs").glob("*/ncm-*/seed-0")}) == 2


def test_what_imitates_facil_has_its_loss() -> None:
    assert preset("class-orderings-images")[Key("protocol", "loss")] == "seen"
