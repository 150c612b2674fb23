"""The training loop: its parts by hand, steps, optimisers, checkpoints, seeds."""

import copy
import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_training import Log, equal, four_samples, small_net, training
from toy import blobs, class_stream, context, session

from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds, generator
from embedbench.learning.checkpoint_state import put_state, take_state
from embedbench.learning.learner import learn_session
from embedbench.learning.network import cosine_mlp, mlp_net
from embedbench.learning.optimisers import NAdam, make_optimiser
from embedbench.learning.stopping import Stop
from embedbench.models.mlp import MLP
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Session, StreamSpec

# One weight w from 0, loss (w - 1)², learning rate ¼, two steps an epoch: a step halves 1 - w.
ENDS = [0.5, 0.75, 0.875, 0.9375]  # of the steps


def one_weight() -> tuple[torch.nn.Linear, torch.optim.Optimizer, Session]:
    """The net, its optimiser and two equal samples of value 1."""
    net = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(net.weight)
    return net, torch.optim.SGD(net.parameters(), lr=0.25), session(np.ones((2, 1)), [0, 0])


def test_two_epochs_worked_by_hand() -> None:
    net, optimiser, data = one_weight()
    gradients, ends, values = list[float](), list[float](), iter([1.0, 2.0])
    hooks: Any = {
        "objective": lambda x, y: ((net(x) - 1) ** 2).mean(),
        "regularise": lambda: gradients.append(net.weight.grad.item()),
        "stepped": lambda: ends.append(net.weight.item()),
        "validate": lambda: next(values),
    }
    log = training(net, optimiser, data, 1, Stop(epochs=2, min_steps=0), **hooks).run()
    assert gradients == [-2, -1, -0.5, -0.25]
    assert ends == ENDS
    last = (0.125**2 + 0.25**2) / 2  # the losses before the third and the fourth step
    known = {"epochs": 2, "steps": 4, "stopped": "epochs", "train_loss": last}
    assert log == known | {"kept_epoch": 1, "kept_steps": 2, "monitor": "loss", "best": 1.0}
    assert net.weight.item() == 0.75  # the first epoch was the best
    assert not net.training


class Recorder:
    """A checkpoint that notes what it is given, and says how far a training had come."""

    def __init__(self, done: int = 0, log: dict[str, Any] | None = None) -> None:
        self.done, self.log = done, log
        self.calls: list[Any] = []

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        self.calls.append(("resume", *parts))
        return self.done, self.log

    def save_training(self, epochs: int, parts: dict[str, Any], log: Log | None = None) -> None:
        rates = (log["lr"], parts["optimiser"].param_groups[0]["lr"]) if log else ()
        self.calls.append((epochs, *rates, *parts))


PARTS = ("net", "optimiser", "generator", "draws", "views")
INSIDE = (*PARTS, "best", "decay")


def taught(checkpoint: Any) -> tuple[Log, float]:
    """Three epochs whose values never improve: the learning rate falls after the second."""
    net, optimiser, data = one_weight()
    stop = Stop(rule="plateau", epochs=3, patience=0, min_steps=0)
    hooks: Any = {"objective": lambda x, y: ((net(x) - 1) ** 2).mean(), "validate": lambda: 1.0}
    log = training(net, optimiser, data, 1, stop, **hooks).run(checkpoint)
    return log, net.weight.item()


def test_a_checkpoint_is_offered_every_epoch_and_the_end_and_gone_on_from() -> None:
    checkpoint = Recorder()
    ended, _ = taught(checkpoint)
    assert ended["lr"] == pytest.approx(0.0025)
    assert checkpoint.calls == [
        ("resume", *INSIDE),
        (1, *INSIDE),
        (2, *INSIDE),
        (3, ended["lr"], 0.25, *PARTS),  # the rate is back before the end is saved
    ]
    checkpoint = Recorder(done=2)
    log, weight = taught(checkpoint)
    assert log["epochs"] == 3
    assert log["steps"] == 6
    assert weight == ENDS[1]
    assert [call[0] for call in checkpoint.calls] == ["resume", 3]
    checkpoint = Recorder(3, ended)
    assert taught(checkpoint) == (ended, 0)
    assert len(checkpoint.calls) == 1


@pytest.mark.parametrize("name", ["nadam", "adam", "sgd"])
def test_the_loop_is_the_plain_loop(name: str) -> None:
    """The same weights, bit for bit, as PyTorch's own way of writing it; the mean over samples."""
    labels = np.random.default_rng(0).integers(0, 3, 11)
    data = session(blobs(labels, 4, 0), labels)
    net = mlp_net(4, 5, 2, 3, seed=0)
    plain = copy.deepcopy(net)
    trained = make_optimiser(name, net, lr=0.01, weight_decay=0.1)
    log = training(net, trained, data, 4, Stop(rule="epochs", epochs=3)).run()
    given: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1}
    make_plain: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "nadam": NAdam,  # see test_optimisers.py
        "adam": functools.partial(torch.optim.Adam, fused=True),
        "sgd": functools.partial(torch.optim.SGD, momentum=0.9, fused=True),
    }
    optimiser = make_plain[name](plain.parameters(), **given)
    x, y, draw = torch.tensor(data.x.numpy()), torch.tensor(data.y), generator(0, 0)
    for _ in range(3):
        order, total = torch.randperm(11, generator=draw), 0.0
        for first in range(0, 11, 4):
            index = order[first : first + 4]
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(plain(x[index]), y[index])
            loss.backward()
            optimiser.step()
            total += loss.item() * len(index)
    assert equal(net.state_dict(), plain.state_dict())
    assert log["train_loss"] == pytest.approx(total / 11)


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
    held = kept.footprint()  # two moments a weight, and a step count for each of six tensors
    assert held["optimiser"] == 2 * held["parameters"] + 4 * 6
    assert "optimiser" not in fresh.footprint()


def test_same_seeds_same_weights_and_each_seed_matters() -> None:
    base = two_sessions("fresh").net.state_dict()
    assert equal(base, two_sessions("fresh").net.state_dict())
    assert not equal(base, two_sessions("fresh", init=1).net.state_dict())
    assert not equal(base, two_sessions("fresh", batches=1).net.state_dict())
    assert equal(base, two_sessions("fresh", memory=1, order=1).net.state_dict())


@pytest.mark.parametrize(
    ("inputs", "classes", "megabytes"), [(784, 10, 1.91), (2048, 200, 4.24), (1280, 100, 2.85)]
)
def test_sizes_are_those_of_table_2(inputs: int, classes: int, megabytes: float) -> None:
    learner = MLP()
    learner.start(StreamSpec((inputs,), classes), Seeds.of(0), "cpu")
    assert round(learner.footprint().total / 1e6, 2) == megabytes


def test_a_net_has_the_layers_it_was_asked_for() -> None:
    nets = [mlp_net(5, 7, n, 2, seed=0) for n in (0, 3)], [cosine_mlp(5, 7, 3, 2, eta=1.0, seed=0)]
    shapes = [[tuple(p.shape) for p in net.parameters()] for net in itertools.chain(*nets)]
    hidden = [(7, 5), (7,), *[(7, 7), (7,)] * 2]
    assert shapes == [[(2, 5), (2,)], [*hidden, (2, 7), (2,)], [(2, 7), (), *hidden]]


@pytest.mark.parametrize("name", ["mlp", "icarl", "bic", "lucir"])
def test_learners_of_sessions_are_presented_as_many_samples(name: str) -> None:
    stream = class_stream([[0, 1], [2, 3], [4, 5]], n_train=12, n_test=4)
    settings = {"units": 4, "passes": 7, "batch_size": 10}
    _, logs = run_stream(stream, make(learner_class(name), settings, name=name), Seeds.of(0))
    for log in logs:  # 7 · 24 samples, whatever the memory holds
        assert 168 <= log.log["presented"] < 168 + 10
        assert log.log["stopped"] == "presented"
    alone = MLP(units=4, passes=3, batch_size=12)
    alone.start(stream.spec, Seeds.of(0), "cpu")
    assert learn_session(alone, stream.sessions[0], context())["presented"] == 3 * 24
    er = make(learner_class("er-ace"), settings, name="er-ace")
    _, logs = run_stream(replace(stream, observe_batch=0), er, Seeds.of(0))
    # an epoch is 10 + 10 + 4 new samples, and 10 from memory in each step: 24, and later 54
    assert [log.log["steps"] for log in logs] == [7 * 3, 3 * 3 + 1, 3 * 3 + 1]


def test_a_training_ends_within_an_epoch_in_the_step_that_reaches_its_samples() -> None:
    labels = [0, 1] * 10
    data = session(blobs(labels, 3, seed=0), labels)
    net, optimiser = small_net()
    looks = itertools.count()  # two a step, and three samples from memory between them
    hooks: Any = {"presented": 50, "replayed": lambda: (next(looks) + 1) // 2 * 3}
    log = training(net, optimiser, data, 8, Stop(rule="epochs", epochs=99), **hooks).run()
    # an epoch is 8 + 8 + 4 and 9 from memory: 29; then 40 and 51
    assert [log[k] for k in ("epochs", "steps", "presented", "stopped")] == [2, 5, 51, "presented"]


class Saved(Recorder):
    """Keeps a training after each epoch, and gives that after `done` of them back."""

    def save_training(self, epochs: int, parts: dict[str, Any], log: Log | None = None) -> None:
        if log is None:
            self.calls.append({k: copy.deepcopy(take_state(v)) for k, v in parts.items()})

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        if not self.calls:
            return 0, None
        for name, state in self.calls[self.done - 1].items():
            put_state(parts[name], state)
        return self.done, None


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_resumed_training_presents_no_more(epochs: int) -> None:
    saved, stop = Saved(epochs), Stop(rule="epochs", epochs=99)
    first, again = (
        training(*small_net(), four_samples(), 3, stop, presented=11).run(saved) for _ in range(2)
    )
    assert first == again
    assert [first[name] for name in ("epochs", "steps", "presented")] == [3, 5, 11]
