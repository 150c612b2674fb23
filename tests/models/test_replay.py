"""er, agem, derpp, gdumb: the online learners with a memory, against their algorithms written
plainly."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.checks.learner_check_tools import state_bytes
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import Learner
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.models import gdumb
from embedbench.models.agem import AGEM, project
from embedbench.models.derpp import DERpp
from embedbench.models.er import ER
from embedbench.models.er_ace import ERACE
from embedbench.models.gdumb import GDumb
from embedbench.models.gss import GSS
from embedbench.models.icarl import ICaRL
from embedbench.models.il2m import IL2M
from embedbench.models.mir import MIR
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of, table_of

SEEDS = Seeds.of(0)
SMALL: dict[str, Any] = {
    "units": 8, "lr": 0.05, "weight_decay": 0.01, "batch_size": 6, "updates": 1,
}  # fmt: skip
NEVER_FULL = Memory(total=1000, select="reservoir")
Batches = list[tuple[Tensor, Tensor]]


def stream_of(n_train: int = 12) -> Stream:
    return class_stream([[0, 1], [2], [3]], n_train=n_train, spread=1.0)


def batches_of(stream: Stream, size: int) -> Batches:
    out: Batches = []
    for s in stream.sessions:
        order = torch.randperm(len(s.y), generator=torch.Generator().manual_seed(1))
        x, y = s.x.tensor(), torch.from_numpy(s.y)
        out += [(x[i], y[i]) for i in torch.split(order, size)]
    return out


def taught(learner: Learner, stream: Stream, batches: Batches) -> Learner:
    learner.start(stream.spec, SEEDS, "cpu")
    for x, y in batches:
        learner.observe(x, y)
    return learner


def drawn(step: int, held: int, k: int, times: int = 1) -> list[np.ndarray[Any, Any]]:
    """What a learner draws from a memory of `held` samples at a step."""
    draw = np.random.default_rng([SEEDS.batches, step])
    size = min(k, held)
    return [draw.choice(held, size, replace=False, shuffle=False) for _ in range(times)]


def sgd(net: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)


def assert_same_net(a: Any, b: torch.nn.Module) -> None:
    for p, q in zip(a.net.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


def moved(a: Any, b: Any) -> float:
    return max(
        float((p - q).detach().abs().max())
        for p, q in zip(a.net.parameters(), b.net.parameters(), strict=True)
    )


# --- er ---


def test_er_trains_on_the_batch_and_a_draw_of_all_before_it() -> None:
    stream = stream_of()
    batches = batches_of(stream, 5)
    learner = taught(ER(memory=NEVER_FULL, **SMALL), stream, batches)
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    optimiser = sgd(net)
    past_x, past_y = torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)
    for step, (x, y) in enumerate(batches):
        (chosen,) = drawn(step, len(past_y), 6)
        n = len(x) + len(chosen)
        total = sum(
            cross_entropy(net(v[None]), label[None])
            for v, label in [
                *zip(x, y, strict=True),
                *((past_x[i], past_y[i]) for i in chosen),
            ]
        )
        optimiser.zero_grad()
        (total / n).backward()
        optimiser.step()
        past_x, past_y = torch.cat([past_x, x]), torch.cat([past_y, y])
    assert_same_net(learner, net)
    assert len(past_y) == 48
    assert (
        moved(
            learner,
            taught(ER(memory=Memory(total=0, select="reservoir"), **SMALL), stream, batches),
        )
        > 0.01
    )


@pytest.mark.parametrize("select", ["reservoir", "balanced", "all"])
def test_er_keeps_what_its_memory_says(select: str) -> None:
    stream = stream_of(n_train=30)
    learner = ER(memory=Memory(total=16, select=select), **SMALL)
    taught(learner, stream, batches_of(stream, 7))
    counts = Counter(learner.exemplars.y.tolist())
    assert len(learner.exemplars) == (120 if select == "all" else 16)
    if select == "balanced":
        assert set(counts.values()) == {4}


def test_ers_reservoir_is_uniform_over_the_whole_stream() -> None:
    """Through the runner: of 4 classes of 12 samples, each sample is kept 8 times in 48."""
    stream = replace(stream_of(), observe_batch=5)
    table = table_of(stream.sessions[0].x).values
    kept = np.zeros(len(table))
    runs = 120
    for seed in range(runs):
        memory = Memory(total=8, select="reservoir")
        learner = ER(memory=memory, units=2, layers=1, batch_size=1, updates=2)
        run_stream(stream, learner, Seeds.of(seed))
        rows = [np.flatnonzero((table == x).all(1)) for x in learner.exemplars.x.numpy()]
        assert len(rows) == 8
        kept[np.concatenate(rows)] += 1
    given = np.concatenate([rows_of(s.x) for s in stream.sessions])
    assert kept.sum() == kept[given].sum() == 8 * runs
    p = 8 / 48
    z = (kept[given] - runs * p) / math.sqrt(runs * p * (1 - p))
    assert abs(z).max() < 4
    by_session = [kept[rows_of(s.x)].sum() / (8 * runs) for s in stream.sessions]
    assert by_session == pytest.approx([0.5, 0.25, 0.25], abs=0.06)


def test_replay_keeps_what_the_present_alone_forgets() -> None:
    stream = replace(class_stream([[0, 1], [2, 3]], n_train=60, n_test=30), observe_batch=10)
    right = {}
    for total in (0, 40):
        learner = ER(memory=Memory(total=total, select="reservoir"), units=32, lr=0.05)
        p, _ = run_stream(stream, learner, SEEDS)
        old = p.y < 2
        right[total] = float((p.answer[-1] == p.y)[old].mean())
    assert right[40] > 0.9 > 0.5 > right[0]


# --- agem ---


@pytest.mark.parametrize("seed", range(20))
def test_a_projected_gradient_has_no_negative_dot_product(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    g, r = torch.randn(2, 50, generator=draw)
    out = project(g, r)
    scale = float(out.norm() * r.norm())
    assert float(out @ r) >= -1e-6 * scale
    if float(g @ r) >= 0:
        assert torch.equal(out, g)
        return
    assert abs(float(out @ r)) <= 1e-6 * scale  # on the border: the nearest vector that is allowed
    for _ in range(20):
        other = out + 0.1 * torch.randn(50, generator=draw)
        if float(other @ r) >= 0:
            assert float((other - g).norm()) >= float((out - g).norm())


def test_projection_by_hand() -> None:
    r = torch.tensor([0.0, 2.0])
    assert project(torch.tensor([3.0, -1.0]), r).tolist() == [3.0, 0.0]
    assert project(torch.tensor([3.0, 1.0]), r).tolist() == [3.0, 1.0]
    assert project(torch.tensor([3.0, -1.0]), torch.zeros(2)).tolist() == [3.0, -1.0]
    assert project(torch.tensor([3.0, -1.0]), 1e-25 * r).tolist() == [3.0, 0.0]


def test_agem_steps_along_the_projected_gradient() -> None:
    stream = stream_of()
    batches = batches_of(stream, 5)
    learner = taught(AGEM(memory=NEVER_FULL, **SMALL), stream, batches)
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    optimiser = sgd(net)
    past_x, past_y = torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)
    against = 0
    for step, (x, y) in enumerate(batches):
        optimiser.zero_grad()
        cross_entropy(net(x), y).backward()
        if step:
            (chosen,) = drawn(step, len(past_y), 6)
            now = [p.grad.clone() for p in net.parameters() if p.grad is not None]
            reference = torch.autograd.grad(
                cross_entropy(net(past_x[chosen]), past_y[chosen]), list(net.parameters())
            )
            dot = sum(float((a * b).sum()) for a, b in zip(now, reference, strict=True))
            size = sum(float(b.square().sum()) for b in reference)
            if dot < 0:
                against += 1
                for p, g, r in zip(net.parameters(), now, reference, strict=True):
                    p.grad = g - dot / size * r
        optimiser.step()
        past_x, past_y = torch.cat([past_x, x]), torch.cat([past_y, y])
    assert 0 < against < len(batches) - 1  # both cases came
    assert_same_net(learner, net)


# --- derpp ---


@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 0.0), (0.4, 0.7), (0.0, 0.7)])
def test_derpp_is_its_equation_and_der_at_beta_zero(alpha: float, beta: float) -> None:
    """At β = 0 the loop below is DER: one draw, no stored label."""
    stream = stream_of()
    batches = batches_of(stream, 5)
    learner = taught(DERpp(memory=NEVER_FULL, alpha=alpha, beta=beta, **SMALL), stream, batches)
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    optimiser = sgd(net)
    past: list[tuple[Tensor, Tensor, Tensor]] = []
    for step, (x, y) in enumerate(batches):
        z = net(x)
        loss = cross_entropy(z, y)
        if past and beta == 0:
            (first,) = drawn(step, len(past), 6)
            off = [(net(past[i][0]) - past[i][2]).square().mean() for i in first]
            loss = loss + alpha * torch.stack(off).mean()
        elif past:
            first, second = drawn(step, len(past), 6, times=2)
            off = [(net(past[i][0]) - past[i][2]).square().mean() for i in first]
            again = [-torch.log_softmax(net(past[i][0]), 0)[past[i][1]] for i in second]
            loss = loss + alpha * torch.stack(off).mean() + beta * torch.stack(again).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        past += [(x[i], y[i], z[i].detach()) for i in range(len(x))]
    assert_same_net(learner, net)
    held = learner.exemplars
    torch.testing.assert_close(held.logits, torch.stack([p[2] for p in past]), rtol=1e-4, atol=1e-5)


def test_der_does_not_look_at_stored_labels() -> None:
    stream = stream_of()
    nets = []
    for wrong in (False, True):
        learner = DERpp(beta=0.0, memory=NEVER_FULL, **SMALL)
        learner.start(stream.spec, SEEDS, "cpu")
        for x, y in batches_of(stream, 5):
            learner.observe(x, y)
            if wrong:
                learner.exemplars.y.zero_()
        nets.append(learner)
    assert moved(*nets) == 0.0


def test_stored_logits_are_counted() -> None:
    stream = stream_of()
    memory = Memory(total=10, select="reservoir")
    er, der = (
        taught(cls(memory=memory, **SMALL), stream, batches_of(stream, 5)) for cls in (ER, DERpp)
    )
    assert der.footprint().total - er.footprint().total == 10 * 4 * 4  # 4 classes, 4 bytes


# --- gdumb ---


@pytest.mark.parametrize("seed", range(3))
def test_gdumbs_memory_is_balanced(seed: int) -> None:
    stream = stream_of(n_train=25)
    learner = GDumb(units=4, memory=Memory(total=20, select="balanced"))
    learner.start(stream.spec, Seeds.of(seed), "cpu")
    for seen, s in enumerate(stream.sessions, start=2):
        for index in torch.split(torch.arange(len(s.y)), 6):
            learner.observe(s.x.batch(index), torch.from_numpy(s.y)[index])
        counts = Counter(learner.exemplars.y.tolist())
        assert sum(counts.values()) == 20
        assert len(counts) == seen
        assert max(counts.values()) - min(counts.values()) <= 1


def test_gdumb_learns_from_the_memory_alone_and_from_scratch() -> None:
    """The network depends on what is stored, not on when or how often it was asked."""
    stream = stream_of(n_train=25)
    settings: dict[str, Any] = {
        "units": 8,
        "batch_size": 6,
        "stop": Stop(rule="epochs", epochs=4),
        "memory": Memory(total=20, select="balanced"),
    }
    often, once = GDumb(**settings), GDumb(**settings)
    for learner, asked in ((often, True), (once, False)):
        learner.start(stream.spec, SEEDS, "cpu")
        for x, y in batches_of(stream, 6):
            learner.observe(x, y)
            if asked:
                learner.prepare()
        learner.prepare()
    assert moved(often, once) == 0.0
    x, y = once.exemplars.x, once.exemplars.y
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-6)
    draw = gdumb.generator(SEEDS.batches, 100)
    for rate in (0.005, 0.05, 0.05, 0.02525):
        for index in torch.split(torch.randperm(20, generator=draw), 6):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            cross_entropy(net(x[index]), y[index]).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            optimiser.step()
    assert_same_net(once, net)


def test_gdumbs_learning_rate_by_hand() -> None:
    learner = GDumb(lr=0.05, lr_min=0.01)
    low = 0.02 * math.cos(math.pi / 4)
    expected = [0.005, 0.05, 0.05, 0.03, 0.05, 0.03 + low, 0.03, 0.03 - low, 0.05]
    assert [learner.rate(k) for k in range(9)] == pytest.approx(expected)


def test_gdumb_clips_its_gradients() -> None:
    stream = stream_of()
    nets = []
    for clip in (1e-6, 10.0):
        learner = GDumb(units=8, clip=clip, weight_decay=0.0)
        taught(learner, stream, batches_of(stream, 6)).prepare()
        nets.append(learner)
    start = GDumb(units=8)
    start.start(stream.spec, SEEDS, "cpu")
    assert moved(nets[0], start) < 1e-3 < 0.1 < moved(nets[1], start)


# --- bytes ---


@pytest.mark.parametrize("cls", [ER, AGEM, DERpp, GDumb, ICaRL, IL2M, ERACE, MIR, GSS])
def test_the_footprint_is_the_bytes_of_the_state(cls: type[Any]) -> None:
    stream = replace(stream_of(), observe_batch=5)
    learner = cls(units=8)
    run_stream(stream, learner, SEEDS)
    state, footprint = learner.state_dict(), learner.footprint()
    moments = [
        v.nbytes
        for s in state.get("optimiser_", {"state": {}})["state"].values()
        for v in s.values()
        if isinstance(v, Tensor)
    ]
    kept = sum(moments) if cls.tags.online else 0  # the others take a fresh one each session
    assert footprint.total == state_bytes(state) + kept
    assert footprint["samples"] > 0


# --- settings ---


def test_one_setting_of_the_memory_leaves_the_others() -> None:
    made = make(GDumb, {"memory.total": "44", "stop.epochs": "7"}, name="gdumb")
    assert made.memory == Memory(total=44, select="balanced")
    assert made.stop == Stop(rule="epochs", epochs=7)
