"""Replay at each step of whole sessions, against plain loops: draws, weights, what is stored."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import says
from teaching import SGD, assert_same_weights, learn, minibatches, samples, start, teach
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss
from toy import class_stream

from embedbench.checks import learner_contract as contract
from embedbench.errors import UserError
from embedbench.learning import Memory, Seeds, StreamSpec, generator, predict
from embedbench.learning.network import mlp_net
from embedbench.learning.online_learner import Fill, OnlineLearner, ReplayWeight
from embedbench.models.agem import AGEM
from embedbench.models.derpp import DERpp
from embedbench.models.er import ER
from embedbench.models.er_ace import ERACE
from embedbench.models.gss import GSS
from embedbench.models.mir import MIR
from embedbench.models.remind import REMIND
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream

SEEDS = Seeds.of(0)
STREAM = class_stream([[0, 1], [2], [3]], n_train=12, spread=1.0)
PLAIN: dict[str, Any] = {**SGD, "weight_decay": 0.0}  # three epochs, batches of 8
RESERVOIR = Memory(total=10, select="reservoir")
Draw = Callable[[], list[int]]


class Reservoir:
    """Vitter's algorithm R, sample by sample; it draws the places as the learner does."""

    def __init__(self, total: int) -> None:
        self.total, self.offered = total, 0
        self.kept: list[tuple[Any, ...]] = []

    def offer(self, samples: list[tuple[Any, ...]]) -> None:
        draw = np.random.default_rng([SEEDS.memory, self.offered])
        places = draw.integers(0, np.arange(self.offered, self.offered + len(samples)) + 1)
        for sample, drawn in zip(samples, places.tolist(), strict=True):
            if self.offered < self.total:
                self.kept.append(sample)
            elif drawn < self.total:
                self.kept[drawn] = sample
            self.offered += 1


def weights_by_hand(kind: str, new: int, old: int, session: int) -> tuple[float, float]:
    if not old:
        return 1.0, 1.0
    by_kind = {
        "sum": (1.0, 1.0),
        "samples": (new / (new + old), old / (new + old)),
        "sessions": (1 / session, 1 - 1 / session),
    }
    return by_kind[kind]


@dataclass
class Step:
    """What a step of the plain loop has: net, new samples, memory, draw, and the session from 1."""

    net: Any
    x: Tensor
    y: Tensor
    kept: list[tuple[Any, ...]]
    draw: Draw
    session: int


def plain(
    gradients: Callable[[Step], Any], fill: str, memory_batch: int = 8
) -> tuple[Any, Reservoir]:
    """Three epochs of each session, a draw from a reservoir of ten at each step.

    `gradients` adds those of a step; what it returns, (n, C), is stored beside the samples.
    """
    net = mlp_net(6, 6, 2, 4, SEEDS.init)
    memory = Reservoir(10)
    for number, session in enumerate(STREAM.sessions):
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        rng = np.random.default_rng([SEEDS.batches, number])
        x, y = session.x.tensor(), torch.from_numpy(session.y)

        def draw(rng: Any = rng) -> list[int]:
            n = len(memory.kept)
            chosen: list[int] = rng.choice(
                n, min(memory_batch, n), replace=False, shuffle=False
            ).tolist()
            return chosen

        for step, i in enumerate(minibatches(len(y), generator(SEEDS.batches, number))):
            sgd.zero_grad()
            extra = gradients(Step(net, x[i], y[i], memory.kept, draw, number + 1))
            sgd.step()
            first = step < -(-len(y) // 8)
            if fill == "step" or (fill == "first-epoch" and first):
                rest = [] if extra is None else [extra]
                memory.offer(list(zip(x[i], y[i].tolist(), *rest, strict=True)))
        if fill == "session":
            memory.offer(list(zip(x, y.tolist(), strict=True)))
    return net, memory


def loss_of(net: Any, samples: list[tuple[Any, ...]]) -> Tensor:
    """The mean cross-entropy, sample by sample."""
    losses = []
    for x, y, *_ in samples:
        z = net(x)
        losses.append(torch.logsumexp(z, 0) - z[y])
    return torch.stack(losses).mean()


def assert_same_memory(learner: Any, memory: Reservoir) -> None:
    assert learner.exemplars.y.tolist() == [y for _, y, *_ in memory.kept]
    assert torch.equal(learner.exemplars.x, torch.stack([x for x, *_ in memory.kept]))


@pytest.mark.parametrize("fill", ["session", "step", "first-epoch"])
@pytest.mark.parametrize("weight", ["samples", "sum", "sessions"])
def test_er_by_steps_is_the_plain_loop(fill: Fill, weight: ReplayWeight) -> None:
    def gradients(step: Step) -> None:
        loss = loss_of(step.net, list(zip(step.x, step.y.tolist(), strict=True)))
        if step.kept:
            old = [step.kept[i] for i in step.draw()]
            new_share, old_share = weights_by_hand(weight, len(step.y), len(old), step.session)
            loss = new_share * loss + old_share * loss_of(step.net, old)
        loss.backward()  # type: ignore[no-untyped-call]

    net, memory = plain(gradients, fill, memory_batch=5)
    settings: dict[str, Any] = {"replay_by": "step", "fill": fill, "replay_weight": weight}
    learner, _ = teach(ER(**PLAIN, **settings, memory=RESERVOIR, memory_batch=5), STREAM)
    assert_same_weights(learner, net)
    assert_same_memory(learner, memory)


@pytest.mark.parametrize("weight", ["sum", "sessions"])
def test_derpp_by_steps_is_the_plain_loop(weight: ReplayWeight) -> None:
    """The logits are stored as they were before the step, in every epoch, as in Mammoth."""

    def gradients(step: Step) -> Tensor:
        z = step.net(step.x)
        loss = cross_entropy(z, step.y)
        if step.kept:
            first = [step.kept[i] for i in step.draw()]
            second = [step.kept[i] for i in step.draw()]
            x, stored = (torch.stack([sample[k] for sample in first]) for k in (0, 2))
            new_share, old_share = weights_by_hand(weight, len(step.y), len(first), step.session)
            held = 0.3 * mse_loss(step.net(x), stored) + 0.6 * loss_of(step.net, second)
            loss = new_share * loss + old_share * held
        loss.backward()  # type: ignore[no-untyped-call]
        return z.detach()

    net, memory = plain(gradients, "step")
    learner = DERpp(
        **PLAIN,
        memory=RESERVOIR,
        alpha=0.3,
        beta=0.6,
        replay_weight=weight,
        optimiser_state="fresh",
    )
    teach(learner, STREAM)
    assert_same_weights(learner, net)
    assert_same_memory(learner, memory)
    stored = torch.stack([z for _, _, z in memory.kept])
    torch.testing.assert_close(learner.exemplars.state_dict()["logits"], stored)


def test_derpp_after_a_session_stores_the_logits_of_its_end() -> None:
    learner, _ = teach(DERpp(**PLAIN, memory=Memory(select="all"), fill="session"), STREAM, 1)
    exemplars = learner.exemplars
    assert torch.equal(exemplars.x, STREAM.sessions[0].x.tensor())
    logits = exemplars.state_dict()["logits"]
    torch.testing.assert_close(logits, learner.net(exemplars.x).detach())


@pytest.mark.parametrize("weight", ["samples", "sum", "sessions"])
@pytest.mark.parametrize("cls", [ERACE, MIR, GSS])
def test_others_by_steps_are_plain_loops(cls: type[Any], weight: ReplayWeight) -> None:
    """`mir` with one candidate for each replays the draw; `gss` takes two steps on each batch."""

    def gradients(step: Step) -> None:
        of = step.y.unique() if cls is ERACE else torch.arange(4)
        place = torch.searchsorted(of, step.y)
        loss = cross_entropy(step.net(step.x)[:, of], place)
        n = len(step.kept)
        new_share, old_share = weights_by_hand(weight, len(step.y), min(8, n), step.session)
        (new_share * loss).backward()
        if not step.kept:
            return
        seen = 1 + max(*step.y.tolist(), *(y for _, y, *_ in step.kept)) if cls is ERACE else 4
        old = [step.kept[i] for i in step.draw()]
        x, y = torch.stack([x for x, *_ in old]), torch.tensor([y for _, y, *_ in old])
        (old_share * cross_entropy(step.net(x)[:, :seen], y)).backward()

    if cls is GSS:
        learner = GSS(**PLAIN, memory=Memory(total=500, select="gradients"), replay_weight=weight)
        teach(learner, STREAM, 2)
        net = two_steps_on_each_batch(weight)
    else:
        more = {"candidates": 1} if cls is MIR else {}
        learner = cls(**PLAIN, **more, memory=RESERVOIR, fill="step", replay_weight=weight)
        teach(learner, STREAM)
        net, memory = plain(gradients, "step")
        assert_same_memory(learner, memory)
    assert_same_weights(learner, net)


def two_steps_on_each_batch(weight: str) -> Any:
    """The first two sessions of `gss`, which keeps all samples in the order of its offers."""
    net = mlp_net(6, 6, 2, 4, SEEDS.init)
    old_x, old_y = torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)
    for number, session in enumerate(STREAM.sessions[:2]):
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        rng = np.random.default_rng([SEEDS.batches, number])
        x, y = session.x.tensor(), torch.from_numpy(session.y)
        for i in minibatches(len(y), generator(SEEDS.batches, number)):
            shares = weights_by_hand(weight, len(i), min(8, len(old_y)), number + 1)
            sgd.zero_grad()
            (shares[0] * cross_entropy(net(x[i]), y[i])).backward()  # type: ignore[no-untyped-call]
            sgd.step()
            if len(old_y):
                chosen = rng.choice(len(old_y), 8, replace=False, shuffle=False)
                sgd.zero_grad()
                loss = shares[1] * cross_entropy(net(old_x[chosen]), old_y[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                sgd.step()
        order = torch.randperm(len(y), generator=generator(SEEDS.memory, number + 1))
        old_x, old_y = torch.cat([old_x, x[order]]), torch.cat([old_y, y[order]])
    return net


def test_derpp_stores_the_logits_of_a_batch_that_gets_no_step() -> None:
    """One sample presented for each new one: after 10, and 10 with two draws of 8, the third batch
    gets none; its logits are those of the net as it is.
    """
    x, y = samples(0, 30, [0, 1, 2])
    derpp = DERpp(**PLAIN, passes=1.0, memory=Memory(select="all"))
    learner = start(derpp, StreamSpec((6,), 3))
    for part in torch.split(torch.arange(30), 10):
        learner.observe(x[part], y[part])
    assert learner.steps == 2
    logits = learner.exemplars.state_dict()["logits"]
    torch.testing.assert_close(logits[20:], predict(learner.net, x[20:]))


def test_weights_of_the_losses_by_hand() -> None:
    learner = ER(replay_weight="samples")
    assert learner.loss_weights(8, 2) == (0.8, 0.2)
    learner = ER(replay_weight="sessions", replay_by="step")
    learner.learned = 3  # in the fourth session
    assert learner.loss_weights(8, 2) == (0.25, 0.75)


@pytest.mark.parametrize("weight", ["samples", "sum"])
def test_remind_by_steps_is_er_while_it_keeps_samples_whole(weight: ReplayWeight) -> None:
    remind, _ = teach(REMIND(**PLAIN, replay_weight=weight), STREAM)
    memory = Memory(select="all")
    er, _ = teach(ER(**PLAIN, replay_by="step", memory=memory, replay_weight=weight), STREAM)
    assert_same_weights(remind, er, rtol=0, atol=0)


def test_remind_sees_later_sessions_rebuilt() -> None:
    """Its quantiser is trained on session 0; session 1 and the memory come as codes stand for."""
    settings: dict[str, Any] = {**PLAIN, "base_samples": 24, "codes": 2}
    remind, _ = teach(REMIND(**settings), STREAM, 1)
    er = ER(**PLAIN, replay_by="step", memory=Memory(select="all"))
    learn(start(er, STREAM.spec), STREAM.sessions[0])
    assert_same_weights(remind, er, rtol=0, atol=0)
    er.exemplars._x = remind.rebuilt(er.exemplars.x)
    later = STREAM.sessions[1]
    x = remind.rebuilt(later.x.tensor()).numpy()
    from toy import session as made

    learn(er, replace(made(x, later.y), val_x=later.val_x, val_y=later.val_y))
    learn(remind, later)
    assert remind.quantiser.trained
    assert_same_weights(remind, er)


@pytest.mark.parametrize("memory_batch", [0, 3])
def test_the_draws_of_a_session_by_hand(memory_batch: int) -> None:
    """Session 1 has twelve samples: two batches, three epochs; the memory has ten."""
    settings: dict[str, Any] = {"replay_by": "step", "memory": RESERVOIR}
    learner, _ = teach(ER(**PLAIN, **settings, memory_batch=memory_batch), STREAM, 2)
    assert learner.exemplars.presented == 2 * 3 * (memory_batch or 8)


def test_a_memory_of_each_step_is_full_of_all_sessions() -> None:
    """72 samples were offered in session 0, 36 in each later one: a fair share of each is kept."""
    memory = Memory(total=60, select="reservoir")
    learner, _ = teach(ER(**PLAIN, replay_by="step", fill="step", memory=memory), STREAM)
    assert learner.exemplars.seen == 72 + 36 + 36
    counts = torch.bincount(learner.exemplars.y, minlength=4).tolist()
    assert counts == pytest.approx([15, 15, 15, 15], abs=7)


REFUSED = [
    (ER, {"fill": "step"}, "er.fill=step"),
    (ER, {"replay_weight": "sum"}, "er.replay_weight=sum"),
    (ER, {"memory_batch": 3}, "er.memory_batch=3"),
]


@pytest.mark.parametrize(("cls", "settings", "named"), REFUSED)
def test_settings_of_draws_are_refused_where_there_are_none(
    cls: type[Any], settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        teach(cls(**PLAIN, **settings), STREAM)


@pytest.mark.parametrize("cls", [ER, DERpp, MIR, AGEM])
def test_a_memory_of_all_stores_each_sample_once(cls: type[Any]) -> None:
    """In the first of three epochs."""
    learner, _ = teach(
        cls(
            **PLAIN,
            memory=Memory(select="all"),
            fill="step",
            **({"replay_by": "step"} if cls is ER else {}),
        ),
        STREAM,
        1,
    )
    assert len(learner.exemplars.x) == len(STREAM.sessions[0].y)


def test_sessions_are_not_counted_in_batches() -> None:
    online = replace(STREAM, observe_batch=8)
    with pytest.raises(UserError, match="observe_batch=0"):
        run_stream(online, ER(**PLAIN, replay_weight="sessions"), SEEDS)


def test_an_unknown_way_to_fill_is_refused() -> None:
    with pytest.raises(UserError, check=says(what="unknown er.fill", got="epoch")):
        ER(fill="epoch")  # type: ignore[arg-type]


def by_steps(cls: type[Any]) -> type[Any]:
    """The class with a memory that is filled at each step."""
    fields: dict[str, Any] = {"fill": "step", "__annotations__": {"fill": Fill}}
    if cls is ER:
        fields |= {"replay_by": "step"}
        fields["__annotations__"] |= {"replay_by": str}
    return dataclass(type(cls.__name__, (cls,), {"name": cls.name, **fields}))


CHECKS = (
    contract.goes_on_inside_a_session,
    contract.memory_stays_within_its_limit,
    contract.state_round_trips,
    contract.footprint_counts_the_state,
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("cls", [ER, MIR, GSS, AGEM, REMIND])
def test_learners_that_store_at_each_step_keep_their_contract(
    cls: type[Any], check: Callable[..., None]
) -> None:
    check(by_steps(cls))


def whole_sessions(stream: Stream) -> Iterator[Any]:
    """Every learner of this kind, on whole sessions."""
    for cls in (ER, DERpp, MIR, GSS, ERACE, AGEM, REMIND):
        assert issubclass(cls, OnlineLearner)
        yield cls(**PLAIN), replace(stream, observe_batch=0)


def test_all_learn_whole_sessions() -> None:
    for learner, stream in whole_sessions(STREAM):
        _, logs = run_stream(stream, learner, SEEDS)
        assert [log.log["epochs"] for log in logs] == [3, 3, 3]
