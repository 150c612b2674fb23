"""The training loop: stopping rules on scripted values, steps, optimisers, seeds."""

import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from toy import blobs, class_stream, context, session

from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning.checkpoint_state import put_state, take_state
from embedbench.learning.learner import Checkpoint, learn_session
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import NAdam, make_optimiser
from embedbench.learning.stopping import Stop
from embedbench.learning.training_loop import Training
from embedbench.models.mlp import MLP
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Session, StreamSpec

NAN = math.nan
Weights = dict[str, torch.Tensor]


def four_samples() -> Session:
    """Four samples of two classes, two more for validation."""
    labels = [0, 1, 0, 1, 0, 1]
    return session(blobs(labels, 3, seed=0), labels, n_val=2)


Log = dict[str, Any]


def training(
    net: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    data: Session,
    batch_size: int,
    stop: Stop,
    **more: Any,
) -> Training:
    """A training that draws the same batches at every call."""
    return Training(net, optimiser, data, batch_size, stop, generator(0, 0), "cpu", **more)


def train(data: Session, stop: Stop, *, batch_size: int = 4) -> tuple[Log, torch.nn.Module]:
    """Train a small net, the same at every call."""
    net = mlp_net(data.x.width, 8, 1, 3, seed=0)
    optimiser = make_optimiser("sgd", net, lr=0.05, weight_decay=0.0)
    return training(net, optimiser, data, batch_size, stop).run(), net


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], list[Weights]]:
    """Give the loop these validation values; the weights at each look are kept."""

    def script(values: list[float]) -> list[Weights]:
        looked: list[Weights] = []
        left: Iterator[float] = iter(values)

        def look(net: torch.nn.Module, *_: object) -> float:
            looked.append(copy.deepcopy(net.state_dict()))
            return next(left)

        monkeypatch.setattr("embedbench.learning.training_loop.validation_value", look)
        return looked

    return script


def equal(a: Weights, b: Weights) -> bool:
    return all(torch.equal(a[k], b[k]) for k in a)


# --- patience ---

EASY: dict[str, Any] = {"min_steps": 0, "min_delta": 0.0}


@pytest.mark.parametrize(
    ("values", "settings", "epochs", "kept", "reason"),
    [
        # patience p: p epochs without improvement are borne, the next one ends the session
        ([3, 2, 2.5], {"patience": 0}, 3, 2, "patience"),
        ([3, 2, 2.5, 2.4], {"patience": 1}, 4, 2, "patience"),
        ([3, 2, 2.5, 1, 1.5, 1.4], {"patience": 1}, 6, 4, "patience"),
        ([3, 2, 2.5, 2.4, 2.3], {"patience": 2}, 5, 2, "patience"),
        # in a row: every improvement starts the count anew
        ([5, 6, 4, 6, 3, 6, 7], {"patience": 1}, 7, 5, "patience"),
        # an equally good epoch is no improvement, whichever is kept
        ([2, 2, 2], {"patience": 1, "ties": "later"}, 3, 3, "patience"),
        ([2, 2, 2], {"patience": 1, "ties": "earlier"}, 3, 1, "patience"),
        ([3, 2, 2, 2.5], {"patience": 1, "ties": "later"}, 4, 3, "patience"),
        ([3, 2, 2, 2.5], {"patience": 1, "ties": "earlier"}, 4, 2, "patience"),
        # min_delta: slow progress does not count, but the best epoch is still the lowest
        ([1, 0.95, 0.92], {"patience": 1, "min_delta": 0.1}, 3, 3, "patience"),
        ([1, 0.95, 0.89, 0.9, 0.9], {"patience": 1, "min_delta": 0.1}, 5, 3, "patience"),
        # slow progress adds up against the last epoch that counted
        (
            [1, 0.95, 0.89, 0.85, 0.78, 0.9],
            {"epochs": 6, "patience": 1, "min_delta": 0.1},
            6,
            5,
            "",
        ),
        # the cap
        ([3, 2, 1], {"patience": 5, "epochs": 3}, 3, 3, "epochs"),
        ([1, 2, 3], {"patience": 5, "epochs": 3}, 3, 1, "epochs"),
        # a value that is not a number is no improvement
        ([2, NAN, 1, NAN, NAN], {"patience": 1}, 5, 3, "patience"),
        ([NAN, NAN], {"patience": 1}, 2, 2, "patience"),
    ],
)
def test_patience(
    scripted: Callable[[list[float]], list[Weights]],
    values: list[float],
    settings: dict[str, Any],
    epochs: int,
    kept: int,
    reason: str,
) -> None:
    looked = scripted(values)
    log, net = train(four_samples(), Stop(**{**EASY, **settings}))
    assert (log["epochs"], log["kept_epoch"]) == (epochs, kept)
    assert log["stopped"] == (reason or "epochs")
    assert equal(net.state_dict(), looked[kept - 1])
    assert not equal(looked[0], looked[1])  # the epochs are worth telling apart
    known = [v for v in values[:epochs] if not math.isnan(v)]
    assert log["best"] == pytest.approx(min(known) if known else NAN, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "settings", "epochs", "reason"),
    [
        ([-1, -0.5, -1, -1], {"perfect": 2}, 4, "perfect"),  # in a row
        ([-0.5, -1], {"perfect": 1}, 2, "perfect"),
        ([-1, -1, -1, -1], {"perfect": 0, "patience": 2}, 4, "patience"),
        ([-0.5, -0.5, -1, -0.5, -1, -0.5], {"perfect": 2, "patience": 2}, 6, "patience"),
        ([-1, -1], {"perfect": 1, "min_steps": 4}, 4, "perfect"),  # looked at from epoch 4 on
        # the loss is watched, so the accuracy is looked at as well: loss, accuracy, loss, …
        ([3, -1, 4, -1, 2, -0.9, 1, -1, 2, -1, 2, -1], {"monitor": "loss", "perfect": 3}, 6, ""),
    ],
)
def test_training_ends_when_every_validation_sample_is_right(
    scripted: Callable[[list[float]], list[Weights]],
    values: list[float],
    settings: dict[str, Any],
    epochs: int,
    reason: str,
) -> None:
    scripted(values)
    log, _ = train(four_samples(), Stop(**{**EASY, "monitor": "accuracy", "epochs": 9, **settings}))
    assert (log["epochs"], log["stopped"]) == (epochs, reason or "perfect")


def test_without_validation_data_nothing_is_perfect() -> None:
    data = session(blobs([0, 1, 0, 1], 3, seed=0), [0, 1, 0, 1])
    log, _ = train(data, Stop(perfect=1, min_steps=0, epochs=20))
    assert log["stopped"] != "perfect"


def test_another_rule_has_no_perfect() -> None:
    """A setting without an effect must not tell two runs apart."""
    assert Stop(rule="epochs", perfect=3) == Stop(rule="epochs")
    assert Stop(perfect=3) != Stop()


def test_without_restore_the_last_weights_stay(
    scripted: Callable[[list[float]], list[Weights]],
) -> None:
    looked = scripted([1, 2, 3])
    log, net = train(four_samples(), Stop(**EASY, patience=1, restore=False))
    assert (log["epochs"], log["kept_epoch"]) == (3, 3)
    assert equal(net.state_dict(), looked[2])


@pytest.mark.parametrize(
    ("min_steps", "batch_size", "first_seen"),
    [(0, 2, 1), (2, 2, 1), (3, 2, 2), (7, 2, 4), (7, 3, 4), (7, 4, 7), (5, 100, 5)],
)
def test_epochs_before_min_steps_are_neither_counted_nor_kept(
    scripted: Callable[[list[float]], list[Weights]],
    min_steps: int,
    batch_size: int,
    first_seen: int,
) -> None:
    looked = scripted([1, 2])  # the first epoch that is looked at is the best
    stop = Stop(min_steps=min_steps, min_delta=0.0, patience=0)
    log, net = train(four_samples(), stop, batch_size=batch_size)
    per_epoch = math.ceil(4 / batch_size)
    assert log["kept_epoch"] == first_seen == max(1, math.ceil(min_steps / per_epoch))
    assert log["epochs"] == first_seen + 1
    assert log["steps"] == (first_seen + 1) * per_epoch
    assert log["kept_steps"] == first_seen * per_epoch
    assert equal(net.state_dict(), looked[0])


def test_a_cap_below_min_steps_keeps_the_last_epoch(
    scripted: Callable[[list[float]], list[Weights]],
) -> None:
    looked = scripted([])
    log, _ = train(four_samples(), Stop(epochs=3, min_steps=30))
    assert (log["epochs"], log["kept_epoch"], log["stopped"]) == (3, 3, "epochs")
    assert math.isnan(log["best"])
    assert not looked


@pytest.mark.parametrize("monitor", ["loss", "accuracy"])
def test_what_is_monitored(monitor: str) -> None:
    data = four_samples()
    log, net = train(data, Stop(monitor=monitor, epochs=4, patience=9, min_steps=0))
    with torch.no_grad():
        p = torch.log_softmax(net(data.val_x.tensor()), 1).numpy()
    loss = -np.mean([p[i, c] for i, c in enumerate(data.val_y)])
    accuracy = np.mean(p.argmax(1) == data.val_y)
    assert log["best"] == pytest.approx(loss if monitor == "loss" else accuracy, rel=1e-5)
    assert log["monitor"] == monitor


def test_without_validation_data_the_training_loss_is_watched() -> None:
    data = session(blobs([0, 1, 0, 1], 3, seed=0), [0, 1, 0, 1])
    log, _ = train(data, Stop(monitor="accuracy"))
    assert log["monitor"] == "train_loss"
    assert 0 < log["best"] < 1
    assert log["steps"] >= 30


# --- the other rules ---


def test_epochs_rule_runs_exactly_that_many_and_never_looks(
    scripted: Callable[[list[float]], list[Weights]],
) -> None:
    looked = scripted([])
    log, _ = train(four_samples(), Stop(rule="epochs", epochs=7), batch_size=3)
    assert (log["epochs"], log["steps"], log["stopped"]) == (7, 14, "epochs")
    assert "kept_epoch" not in log
    assert not looked


def test_trained_rule_ends_at_the_first_epoch_below_the_target() -> None:
    data, target = four_samples(), 0.3
    log, _ = train(data, Stop(rule="trained", target=target, min_steps=0))
    assert log["stopped"] == "trained"
    assert log["train_loss"] <= target
    before, _ = train(data, Stop(rule="epochs", epochs=log["epochs"] - 1))
    assert before["train_loss"] > target


def test_trained_rule_waits_for_min_steps_and_for_the_cap() -> None:
    log, _ = train(four_samples(), Stop(rule="trained", target=100.0, min_steps=9))
    assert (log["steps"], log["stopped"]) == (9, "trained")
    log, _ = train(four_samples(), Stop(rule="trained", target=0.0, epochs=5))
    assert (log["epochs"], log["stopped"]) == (5, "epochs")


def test_divergence_is_named_and_not_hidden_by_restoring() -> None:
    data = four_samples()
    net = mlp_net(data.x.width, 8, 1, 3, seed=0)
    step = itertools.count(1)

    def spoil() -> None:
        if next(step) == 3:
            for p in net.parameters():
                p.grad = torch.full_like(p, NAN)

    optimiser = make_optimiser("sgd", net, lr=0.05, weight_decay=0.0)
    log = training(net, optimiser, data, 4, Stop(min_steps=0), regularise=spoil).run()
    assert (log["epochs"], log["kept_epoch"], log["stopped"]) == (4, 4, "diverged")
    assert 0 < log["best"] < math.inf  # there was an epoch to go back to
    assert all(p.isnan().all() for p in net.parameters())


# --- the parts of the loop ---

# One weight w from 0, loss (w - 1)², learning rate ¼, two steps an epoch: a step halves 1 - w.
ENDS = [0.5, 0.75, 0.875, 0.9375]  # of the steps


def one_weight() -> tuple[torch.nn.Linear, torch.optim.Optimizer, Session]:
    """The net, its optimiser and two equal samples of value 1."""
    net = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(net.weight)
    return net, torch.optim.SGD(net.parameters(), lr=0.25), session(np.ones((2, 1)), [0, 0])


def test_two_epochs_worked_by_hand() -> None:
    net, optimiser, data = one_weight()
    gradients: list[float] = []
    ends: list[float] = []
    values = iter([1.0, 2.0])

    def read_gradient() -> None:
        assert net.weight.grad is not None
        gradients.append(net.weight.grad.item())

    hooks: Any = {
        "objective": lambda x, y: ((net(x) - 1) ** 2).mean(),
        "regularise": read_gradient,
        "stepped": lambda: ends.append(net.weight.item()),
        "validate": lambda: next(values),
    }
    log = training(net, optimiser, data, 1, Stop(epochs=2, min_steps=0), **hooks).run()
    assert gradients == [-2, -1, -0.5, -0.25]
    assert ends == ENDS
    last = (0.125**2 + 0.25**2) / 2  # the losses before the third and the fourth step
    assert list(log.values()) == [2, 4, "epochs", last, 1, 2, "loss", 1.0]
    assert net.weight.item() == 0.75  # the first epoch was the best
    assert not net.training


def test_regularise_changes_the_gradient_before_the_step() -> None:
    net, optimiser, data = one_weight()

    def halve() -> None:
        assert net.weight.grad is not None
        net.weight.grad *= 0.5

    hooks: Any = {"objective": lambda x, y: ((net(x) - 1) ** 2).mean(), "regularise": halve}
    training(net, optimiser, data, 1, Stop(rule="epochs", epochs=1), **hooks).run()
    assert net.weight.item() == 1 - 0.75**2


def test_the_loop_has_the_cap_of_the_first_session_or_of_later_ones() -> None:
    stop = Stop(rule="epochs", epochs=2, first_epochs=3)
    assert [training(*one_weight(), 1, stop, first=f).cap for f in (True, False)] == [3, 2]


ALWAYS = ["epochs", "steps", "stopped", "train_loss"]
WATCHED = [*ALWAYS, "kept_epoch", "kept_steps", "monitor", "best"]


@pytest.mark.parametrize(
    ("stop", "names"),
    [
        (Stop(rule="epochs", epochs=2), ALWAYS),
        (Stop(rule="trained", epochs=2), ALWAYS),
        (Stop(rule="patience", epochs=2, min_steps=0), WATCHED),
        (Stop(rule="patience", epochs=2), WATCHED),  # no epoch is looked at: its best is NaN
        (Stop(rule="plateau", epochs=2), [*WATCHED, "lr"]),
    ],
    ids=["epochs", "trained", "patience", "unseen", "plateau"],
)
def test_a_log_survives_json_and_names_what_its_rule_knows(stop: Stop, names: list[str]) -> None:
    log, _ = train(four_samples(), stop)
    entries = json.loads(json.dumps(log))
    assert list(entries) == names
    np.testing.assert_equal(entries, log)


class Recorder:
    """A checkpoint that notes what it is given, and says how far a training had come."""

    def __init__(self, done: int = 0, log: dict[str, Any] | None = None) -> None:
        self.done, self.log = done, log
        self.calls: list[tuple[Any, ...]] = []

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        self.calls.append(("resume", *parts))
        return self.done, self.log

    def save_epoch(self, epochs: int, parts: dict[str, Any]) -> None:
        self.calls.append((epochs, *parts))

    def save_end(self, log: dict[str, Any], parts: dict[str, Any]) -> None:
        rate = parts["optimiser"].param_groups[0]["lr"]
        self.calls.append((log["epochs"], log["lr"], rate, *parts))


PARTS = ("net", "optimiser", "generator", "draws", "views")
INSIDE = (*PARTS, "best", "decay")


def taught(checkpoint: Recorder) -> tuple[Log, float]:
    """Three epochs whose values never improve: the learning rate falls after the second."""
    net, optimiser, data = one_weight()
    stop = Stop(rule="plateau", epochs=3, patience=0, min_steps=0)
    hooks: Any = {"objective": lambda x, y: ((net(x) - 1) ** 2).mean(), "validate": lambda: 1.0}
    log = training(net, optimiser, data, 1, stop, **hooks).run(checkpoint)
    return log, net.weight.item()


def test_a_checkpoint_is_offered_every_epoch_but_the_last_and_the_end() -> None:
    checkpoint = Recorder()
    log, _ = taught(checkpoint)
    assert log["lr"] == pytest.approx(0.0025)
    assert checkpoint.calls == [
        ("resume", *INSIDE),
        (1, *INSIDE),
        (2, *INSIDE),
        (3, log["lr"], 0.25, *PARTS),  # the rate is back before the end is saved
    ]


def test_a_training_goes_on_after_the_epochs_that_are_done() -> None:
    checkpoint = Recorder(done=2)
    log, weight = taught(checkpoint)
    assert (log["epochs"], log["steps"], weight) == (3, 6, ENDS[1])
    assert [call[0] for call in checkpoint.calls] == ["resume", 3]


def test_a_training_that_had_ended_ends_at_once() -> None:
    ended, _ = taught(Recorder())
    checkpoint = Recorder(3, ended)
    assert taught(checkpoint) == (ended, 0)
    assert len(checkpoint.calls) == 1


# --- small sessions ---


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("n_val", [0, 1])
def test_a_new_class_of_few_samples_is_learned(n: int, n_val: int) -> None:
    # Two classes first, then n samples of a third: one step an epoch.
    old, new = [0, 1] * 50, [2] * (n + n_val)
    learner = MLP(units=50, batch_size=16)
    learner.start(StreamSpec((6,), 3), Seeds.of(0), "cpu")
    learn_session(learner, session(blobs(old, 6, seed=0), old, n_val=20), context())
    data = session(blobs(new, 6, seed=1), new, n_val=n_val)
    log = learn_session(learner, data, context())
    assert log["kept_steps"] >= 30
    assert (learner.scores(data.x.tensor()).argmax(1) == 2).all()


def test_restoring_the_best_of_one_validation_sample_learns_nothing() -> None:
    """The trap that min_steps and later ties are there for."""
    old, new = [0, 1] * 50, [2] * 5
    trap = Stop(min_steps=0, patience=2, monitor="accuracy", ties="earlier")
    learner = MLP(units=50, batch_size=16, stop=trap)
    learner.start(StreamSpec((6,), 3), Seeds.of(0), "cpu")
    learn_session(learner, session(blobs(old, 6, seed=0), old, n_val=20), context())
    data = session(blobs(new, 6, seed=1), new, n_val=1)
    log = learn_session(learner, data, context())
    assert log["kept_steps"] == 1
    assert (learner.scores(data.x.tensor()).argmax(1) != 2).all()


@pytest.mark.parametrize(("n", "batch_size", "per_epoch"), [(7, 3, 3), (6, 3, 2), (1, 3, 1)])
def test_steps_are_optimiser_steps(n: int, batch_size: int, per_epoch: int) -> None:
    data = session(blobs([0] * n, 3, seed=0), [0] * n)
    net = mlp_net(3, 4, 1, 2, seed=0)
    optimiser = make_optimiser("adam", net, lr=1e-3, weight_decay=0.0)
    called: list[int] = []
    stop, count = Stop(rule="epochs", epochs=4), lambda: called.append(1)
    log = training(net, optimiser, data, batch_size, stop, regularise=count).run()
    taken = {int(state["step"]) for state in optimiser.state.values()}
    assert taken == {log["steps"]} == {len(called)} == {4 * per_epoch}


# --- the loop itself ---


@pytest.mark.parametrize("name", ["nadam", "adam", "sgd"])
@pytest.mark.parametrize("seed", range(3))
def test_the_loop_is_the_plain_loop(name: str, seed: int) -> None:
    """The same weights, bit for bit, as PyTorch's own way of writing it."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 11)
    data = session(blobs(labels, 4, seed), labels)
    net = mlp_net(4, 5, 2, 3, seed)
    plain = copy.deepcopy(net)
    stop, trained = (
        Stop(rule="epochs", epochs=3),
        make_optimiser(name, net, lr=0.01, weight_decay=0.1),
    )
    Training(net, trained, data, 4, stop, generator(seed, 5), "cpu").run()
    if name == "nadam":
        optimiser: Any = NAdam(
            plain.parameters(), lr=0.01, weight_decay=0.1
        )  # see test_optimisers.py
    elif name == "adam":
        optimiser = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    else:
        optimiser = torch.optim.SGD(
            plain.parameters(), lr=0.01, weight_decay=0.1, momentum=0.9, fused=True
        )
    x, y, draw = torch.tensor(data.x.numpy()), torch.tensor(data.y), generator(seed, 5)
    for _ in range(3):
        order = torch.randperm(11, generator=draw)
        for first in range(0, 11, 4):
            index = order[first : first + 4]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(plain(x[index]), y[index]).backward()
            optimiser.step()
    assert equal(net.state_dict(), plain.state_dict())


def test_train_loss_is_the_mean_over_samples_not_over_batches() -> None:
    labels = [0, 0, 0, 0, 1]
    data = session(blobs(labels, 3, seed=0), labels)
    net = mlp_net(3, 4, 1, 2, seed=0)
    expected = torch.nn.functional.cross_entropy(net(data.x.tensor()), torch.tensor(labels))
    frozen = torch.optim.SGD(net.parameters(), lr=0.0)
    log = training(net, frozen, data, 4, Stop(rule="epochs", epochs=1)).run()
    assert log["train_loss"] == pytest.approx(expected.item(), rel=1e-6)


def test_a_loss_mask_leaves_the_other_classes_units_alone() -> None:
    labels = [0, 1] * 4
    mask = np.array([True, True, False])
    data = session(blobs(labels, 3, seed=0), labels, n_val=2, loss_classes=mask)
    net = mlp_net(3, 4, 1, 3, seed=0)
    head = copy.deepcopy(list(net.children())[-1].state_dict())
    optimiser = make_optimiser("adam", net, lr=0.01, weight_decay=0.0)
    training(net, optimiser, data, 4, Stop(epochs=5, min_steps=0)).run()
    after = list(net.children())[-1].state_dict()
    for name in ("weight", "bias"):
        assert torch.equal(after[name][2], head[name][2])
        assert not torch.equal(after[name][:2], head[name][:2])


# --- fresh or kept ---


def two_sessions(state: str, seed: int = 0, **seeds: int) -> MLP:
    learner = MLP(units=8, batch_size=4, optimiser_state=state, stop=Stop(rule="epochs", epochs=3))
    learner.start(StreamSpec((6,), 2), Seeds.of(seed, **seeds), "cpu")
    stream = class_stream([[0], [1]], n_train=8)
    for s in stream.sessions:
        learn_session(learner, s, context())
    return learner


def test_fresh_optimiser_begins_again_and_kept_goes_on() -> None:
    fresh, kept = two_sessions("fresh"), two_sessions("kept")
    steps = [{int(s["step"]) for s in m.optimiser_.state.values()} for m in (fresh, kept)]
    assert steps == [{6}, {12}]
    assert not equal(fresh.net.state_dict(), kept.net.state_dict())


def test_the_first_session_is_the_same_fresh_or_kept() -> None:
    weights = []
    for state in ("fresh", "kept"):
        learner = MLP(units=8, optimiser_state=state, stop=Stop(rule="epochs", epochs=3))
        learner.start(StreamSpec((6,), 2), Seeds.of(0), "cpu")
        learn_session(learner, class_stream([[0], [1]]).sessions[0], context())
        weights.append(learner.net.state_dict())
    assert equal(*weights)


# --- seeds ---


def test_same_seeds_same_weights_and_each_seed_matters() -> None:
    base = two_sessions("fresh").net.state_dict()
    assert equal(base, two_sessions("fresh").net.state_dict())
    assert not equal(base, two_sessions("fresh", init=1).net.state_dict())
    assert not equal(base, two_sessions("fresh", batches=1).net.state_dict())
    assert equal(base, two_sessions("fresh", memory=1, order=1).net.state_dict())


def test_training_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    two_sessions("fresh")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert equal(two_sessions("fresh").net.state_dict(), two_sessions("fresh").net.state_dict())


def test_generators_differ_by_seed_and_by_use() -> None:
    drawn = {
        tuple(torch.randperm(20, generator=generator(seed, use)).tolist())
        for seed in range(5)
        for use in range(5)
    }
    assert len(drawn) == 25


# --- sizes and refusals ---


@pytest.mark.parametrize(
    ("inputs", "classes", "megabytes"), [(784, 10, 1.91), (2048, 200, 4.24), (1280, 100, 2.85)]
)
def test_sizes_are_those_of_table_2(inputs: int, classes: int, megabytes: float) -> None:
    learner = MLP()
    learner.start(StreamSpec((inputs,), classes), Seeds.of(0), "cpu")
    size = inputs * 400 + 400 + 400 * 400 + 400 + 400 * classes + classes
    assert learner.footprint().total == 4 * size
    assert round(learner.footprint().total / 1e6, 2) == megabytes


def test_a_net_has_the_layers_it_was_asked_for() -> None:
    shapes = [tuple(p.shape) for p in mlp_net(5, 7, 3, 2, seed=0).parameters()]
    assert shapes == [(7, 5), (7,), (7, 7), (7,), (7, 7), (7,), (2, 7), (2,)]
    linear = [tuple(p.shape) for p in mlp_net(5, 7, 0, 2, seed=0).parameters()]
    assert linear == [(2, 5), (2,)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "patiense"}, "unknown stop.rule 'patiense'. Did you mean 'patience'"),
        ({"monitor": "acuracy"}, "Did you mean 'accuracy'"),
        ({"ties": "last"}, "unknown stop.ties 'last'"),
        ({"epochs": 0}, "stop.epochs must be at least 1, got 0"),
        ({"first_epochs": 0}, "stop.first_epochs must be at least 1, got 0"),
        ({"patience": -1}, "stop.patience must be at least 0, got -1"),
        ({"factor": 0.0}, "stop.factor must be in (0, 1), got 0.0"),
        ({"factor": math.nan}, "stop.factor must be finite and in (0, 1), got nan"),
    ],
)
def test_refused_rules(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Stop(**settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimiser": "nadamm"}, "unknown mlp.optimiser 'nadamm'. Did you mean 'nadam'?"),
        ({"optimiser_state": "keep"}, "unknown mlp.optimiser_state 'keep'"),
        ({"units": 0}, "mlp.units must be at least 1, got 0"),
        ({"layers": -1}, "mlp.layers must be at least 0, got -1"),
        ({"batch_size": 0}, "mlp.batch_size must be at least 1, got 0"),
        ({"lr": -1.0}, "mlp.lr must be above 0, got -1.0"),
        ({"lr": float("nan")}, "mlp.lr must be finite and above 0, got nan"),
        ({"weight_decay": -0.1}, "mlp.weight_decay must be at least 0, got -0.1"),
    ],
)
def test_refused_hyperparameters(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        MLP(**settings)
    assert message in str(caught.value)


# --- passes: samples presented for each new one ---


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["mlp", "icarl", "lwf", "joint", "ewc", "bic", "wa", "lucir"])
def test_learners_of_sessions_are_presented_as_many_samples(name: str, seed: int) -> None:
    stream = class_stream([[0, 1], [2, 3], [4, 5]], n_train=12, n_test=4)
    settings = {"units": 4, "passes": 7, "batch_size": 10}
    learner = make(learner_class(name), settings, name=name)
    _, logs = run_stream(stream, learner, Seeds.of(seed))
    for log in logs:  # 7 · 24 samples, whatever the memory holds
        assert 168 <= log.log["presented"] < 168 + 10
        assert log.log["stopped"] == "presented"


def test_a_training_ends_within_an_epoch_in_the_step_that_reaches_its_samples() -> None:
    labels = [0, 1] * 10
    data = session(blobs(labels, 3, seed=0), labels)
    net = mlp_net(3, 8, 1, 2, seed=0)
    optimiser = make_optimiser("sgd", net, lr=0.05, weight_decay=0.0)
    looks = itertools.count()  # two a step, and three samples from memory between them
    hooks: Any = {"presented": 50, "replayed": lambda: (next(looks) + 1) // 2 * 3}
    log = training(net, optimiser, data, 8, Stop(rule="epochs", epochs=99), **hooks).run()
    # an epoch is 8 + 8 + 4 and 9 from memory: 29; then 40 and 51
    assert (log["epochs"], log["steps"], log["presented"], log["stopped"]) == (
        2,
        5,
        51,
        "presented",
    )


class _Saved(Checkpoint):
    """Keeps a training after each epoch, and gives that after `epochs` of them back."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.kept = epochs, dict[int, dict[str, Any]]()

    def save_epoch(self, epochs: int, parts: dict[str, Any]) -> None:
        self.kept[epochs] = {k: copy.deepcopy(take_state(v)) for k, v in parts.items()}

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        if not self.kept:
            return 0, None
        for name, state in self.kept[self.epochs].items():
            put_state(parts[name], state)
        return self.epochs, None


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_resumed_training_presents_no_more(epochs: int) -> None:
    data, saved, logs = four_samples(), _Saved(epochs), []
    for _ in range(2):
        net = mlp_net(data.x.width, 8, 1, 3, seed=0)
        optimiser = make_optimiser("sgd", net, lr=0.05, weight_decay=0.0)
        stop = Stop(rule="epochs", epochs=99)
        logs.append(training(net, optimiser, data, 3, stop, presented=11).run(saved))
    assert logs[0] == logs[1]
    assert tuple(logs[0][name] for name in ("epochs", "steps", "presented")) == (3, 5, 11)
