"""`protocol.loss=session`: heads by hand, and learners against loops with a softmax a session."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from teaching import SGD, assert_same_weights, learn, minibatches, start, teach
from torch import Tensor
from toy import class_stream

from embedbench.learning import Memory, Seeds, StreamSpec, generator
from embedbench.learning.loss import batch_loss
from embedbench.learning.network import mlp_net
from embedbench.learning.session_heads import SessionHeads
from embedbench.models.agem import AGEM
from embedbench.models.derpp import DERpp, logit_distance
from embedbench.models.er import ER
from embedbench.models.er_ace import ERACE
from embedbench.models.ewc import EWC
from embedbench.models.gss import GSS
from embedbench.models.joint import Joint
from embedbench.models.lwf import LwF
from embedbench.models.mas import MAS
from embedbench.models.mir import MIR
from embedbench.models.mlp import MLP
from embedbench.models.remind import REMIND
from embedbench.models.si import SI
from embedbench.streams.make_sessions import limit_losses
from embedbench.streams.stream import Stream

SEEDS = Seeds.of(0)
PLAIN: dict[str, Any] = {**SGD, "weight_decay": 0.0}
ALL = Memory(select="all")
HEADS = [[0, 1], [2, 3], [4, 5]]
Samples = list[tuple[Tensor, int]]


def with_heads(groups: list[list[int]] = HEADS) -> Stream:
    free = class_stream(groups, n_train=6, spread=1.0)
    pairs = limit_losses(list(zip(free.sessions, free.eval_sets, strict=True)), "session")
    spec = replace(free.spec, loss_over_session=True)
    return replace(free, spec=spec, sessions=[session for session, _ in pairs])


def test_heads_by_hand() -> None:
    stream = with_heads([[0, 2], [1]])
    heads = SessionHeads(stream.spec)
    heads.add(stream.sessions[0])
    assert heads.classes() == [[0, 2]]
    heads.add(stream.sessions[1])
    assert heads.classes() == [[0, 2], [1]]
    beside = heads.beside("cpu")
    assert beside is not None
    assert beside.int().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_there_are_none_where_the_loss_is_over_all() -> None:
    heads = SessionHeads(StreamSpec((6,), 4))
    heads.add(class_stream([[0, 1], [2, 3]]).sessions[0])
    assert heads.classes() == []
    assert heads.beside("cpu") is None


def test_the_loss_of_samples_of_two_heads_by_hand() -> None:
    """Logits 0, 0, ln 3, 0, and heads {0, 1} and {2, 3}: probabilities 1/2 and 3/4."""
    beside = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2)).bool()
    logits = torch.tensor([[0.0, 0.0, math.log(3), 0.0]]).repeat(2, 1).requires_grad_()
    loss = batch_loss(logits, torch.tensor([1, 2]), beside)
    assert loss.item() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = torch.tensor([[0.25, -0.25, 0, 0], [0, 0, -0.125, 0.125]])
    torch.testing.assert_close(gradient, expected)


def test_the_distance_of_logits_is_that_of_the_samples_head() -> None:
    beside = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2)).bool()
    mine, stored = torch.tensor([[1.0, 2.0, 9.0, 9.0]]), torch.zeros(1, 4)
    assert float(logit_distance(mine, stored, torch.tensor([0]), beside)) == 2.5  # (1 + 4) / 2


# --- learners against loops ---


def head_loss(net: Any, samples: Samples) -> Tensor:
    """The mean loss, each sample by the softmax over the classes of its session."""
    losses = []
    for x, y in samples:
        z = net(x)
        head = next(head for head in HEADS if y in head)
        losses.append(torch.log(sum(z[c].exp() for c in head)) - z[y])
    return torch.stack(losses).mean()


def samples_of(session: Any) -> Samples:
    return list(zip(session.x.tensor(), session.y.tolist(), strict=True))


Step = Callable[[Any, Samples, Samples, Any, int], None]


def trained(step: Step, union: bool = False, fresh: bool = False) -> Any:
    """Three epochs of each session; `step` adds gradients from new, old samples and a draw."""
    net = mlp_net(6, 6, 2, 6, SEEDS.init)
    old: Samples = []
    for number, session in enumerate(with_heads().sessions):
        if fresh:
            net = mlp_net(6, 6, 2, 6, SEEDS.init)
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        draw = np.random.default_rng([SEEDS.batches, number])
        data = samples_of(session) + (old if union else [])
        if fresh:
            data = old + samples_of(session)
        for index in minibatches(len(data), generator(SEEDS.batches, number)):
            sgd.zero_grad()
            step(net, [data[i] for i in index], old, draw, number)
            sgd.step()
        old = old + samples_of(session)
    return net


def drawn(old: Samples, draw: Any, k: int = 8) -> Samples:
    return [old[i] for i in draw.choice(len(old), min(k, len(old)), replace=False, shuffle=False)]


def alone(net: Any, new: Samples, old: Samples, draw: Any, number: int) -> None:
    head_loss(net, new).backward()  # type: ignore[no-untyped-call]


def joined(net: Any, new: Samples, old: Samples, draw: Any, number: int) -> None:
    head_loss(net, new + (drawn(old, draw) if old else [])).backward()  # type: ignore[no-untyped-call]


def summed(net: Any, new: Samples, old: Samples, draw: Any, number: int) -> None:
    loss = head_loss(net, new)
    if old:
        loss = loss + head_loss(net, drawn(old, draw))
    loss.backward()  # type: ignore[no-untyped-call]


def projected(net: Any, new: Samples, old: Samples, draw: Any, number: int) -> None:
    head_loss(net, new).backward()  # type: ignore[no-untyped-call]
    if not old:
        return
    parameters = list(net.parameters())
    wanted = torch.autograd.grad(head_loss(net, drawn(old, draw)), parameters, allow_unused=True)
    pairs = [(p, r) for p, r in zip(parameters, wanted, strict=True) if r is not None]
    dot = sum(float((p.grad * r).sum()) for p, r in pairs)
    if dot < 0:
        size = sum(float(r.square().sum()) for _, r in pairs)
        for p, r in pairs:
            p.grad -= dot / size * r


CASES = {
    "mlp": (MLP, {}, alone, {}),
    "er union": (ER, {"memory": ALL}, alone, {"union": True}),
    "er step": (ER, {"memory": ALL, "replay_by": "step"}, joined, {}),
    "remind": (REMIND, {}, joined, {}),
    "mir": (MIR, {"memory": ALL, "candidates": 1}, summed, {}),
    "agem": (AGEM, {"memory": ALL}, projected, {}),
    "joint": (Joint, {}, alone, {"fresh": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_each_sample_is_compared_within_its_session(name: str) -> None:
    cls, settings, step, how = CASES[name]
    learner, _ = teach(cls(**PLAIN, **settings), with_heads())
    assert_same_weights(learner, trained(step, **how), rtol=1e-3, atol=1e-5)


def test_er_ace_compares_the_draw_within_its_session() -> None:
    """Of new samples it compares the classes of the batch."""

    def step(net: Any, new: Samples, old: Samples, draw: Any, number: int) -> None:
        x, y = torch.stack([x for x, _ in new]), torch.tensor([y for _, y in new])
        of = y.unique()
        loss = torch.nn.functional.cross_entropy(net(x)[:, of], torch.searchsorted(of, y))
        if old:
            loss = loss + head_loss(net, drawn(old, draw))
        loss.backward()  # type: ignore[no-untyped-call]

    learner, _ = teach(ERACE(**PLAIN, memory=ALL), with_heads())
    assert_same_weights(learner, trained(step), rtol=1e-3, atol=1e-5)


def test_lwf_distils_each_earlier_head_by_itself() -> None:
    teachers: dict[int, Any] = {}

    def step(net: Any, new: Samples, old: Samples, draw: Any, number: int) -> None:
        teacher = teachers.setdefault(number, copy.deepcopy(net))
        loss = head_loss(net, new)
        for head in HEADS[:number]:
            for x, _ in new:
                target = torch.softmax(teacher(x).detach()[head] / 2, 0)
                kept = -(target * torch.log_softmax(net(x)[head] / 2, 0)).sum()
                loss = loss + 1.5 * kept / len(new)
        loss.backward()

    learner, _ = teach(LwF(**PLAIN, lam=1.5), with_heads())
    assert_same_weights(learner, trained(step), rtol=1e-3, atol=1e-5)


FEW = {"memory": Memory(total=9, select="reservoir")}
OTHERS: dict[Any, dict[str, Any]] = {
    ER: FEW, MIR: FEW, DERpp: FEW, ERACE: FEW, AGEM: FEW, LwF: {}, Joint: {}, SI: {"c": 5},
    MAS: {}, EWC: {"lam": 5.0}, GSS: {"memory": Memory(total=9, select="gradients")},
    REMIND: {"base_samples": 10},
}  # fmt: skip


@pytest.mark.parametrize("cls", OTHERS)
def test_rows_of_heads_that_are_not_replayed_stay(cls: type[Any]) -> None:
    """No loss moves the row of a class that has not come."""
    stream = with_heads()
    learner = start(cls(**PLAIN, **OTHERS[cls]), stream.spec)
    before = learner.net.head.weight.detach().clone()
    if cls is Joint:  # each session begins with the initial weights
        before = mlp_net(6, 6, 2, 6, SEEDS.init).head.weight.detach()
    learn(learner, *stream.sessions[:2])
    after = learner.net.head.weight.detach()
    assert torch.equal(after[4:], before[4:])
    assert (after[2:4] != before[2:4]).any()


@pytest.mark.parametrize("cls", OTHERS)
def test_a_restored_learner_goes_on_with_its_heads(cls: type[Any]) -> None:
    stream = with_heads()
    one = start(cls(**PLAIN, **OTHERS[cls]), stream.spec)
    learn(one, *stream.sessions[:2])
    other = start(cls(**PLAIN, **OTHERS[cls]), stream.spec)
    other.load_state_dict(one.state_dict())
    learn(one, stream.sessions[2])
    learn(other, stream.sessions[2])
    assert_same_weights(one, other, rtol=0, atol=0)
