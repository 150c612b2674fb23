"""When training ends and which epoch is kept: the rules on scripted values."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from small_training import Log, Weights, equal, four_samples, small_net, train, training
from toy import blobs, class_stream, context, session

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.learner import learn_session
from embedbench.learning.stopping import Stop
from embedbench.models.mlp import MLP

NAN = math.nan
Script = Callable[[list[float]], list[Weights]]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Script:
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


EASY: dict[str, Any] = {"min_steps": 0, "min_delta": 0.0}


@pytest.mark.parametrize(
    ("values", "settings", "epochs", "kept"),
    [
        # patience p: p epochs without improvement are borne, the next one ends the session
        ([3, 2, 2.5], {"patience": 0}, 3, 2),
        ([3, 2, 2.5, 2.4], {"patience": 1}, 4, 2),
        ([3, 2, 2.5, 1, 1.5, 1.4], {"patience": 1}, 6, 4),
        ([3, 2, 2.5, 2.4, 2.3], {"patience": 2}, 5, 2),
        # in a row: every improvement starts the count anew
        ([5, 6, 4, 6, 3, 6, 7], {"patience": 1}, 7, 5),
        # an equally good epoch is no improvement, whichever is kept
        ([2, 2, 2], {"patience": 1, "ties": "later"}, 3, 3),
        ([2, 2, 2], {"patience": 1, "ties": "earlier"}, 3, 1),
        ([3, 2, 2, 2.5], {"patience": 1, "ties": "later"}, 4, 3),
        ([3, 2, 2, 2.5], {"patience": 1, "ties": "earlier"}, 4, 2),
        # min_delta: slow progress does not count, but the best epoch is still the lowest
        ([1, 0.95, 0.92], {"patience": 1, "min_delta": 0.1}, 3, 3),
        ([1, 0.95, 0.89, 0.9, 0.9], {"patience": 1, "min_delta": 0.1}, 5, 3),
        # slow progress adds up against the last epoch that counted
        ([1, 0.95, 0.89, 0.85, 0.78], {"epochs": 5, "patience": 1, "min_delta": 0.1}, 5, 5),
        # without restore the last weights stay
        ([1, 2, 3], {"patience": 1, "restore": False}, 3, 3),
        # the cap
        ([3, 2, 1], {"patience": 5, "epochs": 3}, 3, 3),
        ([1, 2, 3], {"patience": 5, "epochs": 3}, 3, 1),
        # a value that is not a number is no improvement
        ([2, NAN, 1, NAN, NAN], {"patience": 1}, 5, 3),
        ([NAN, NAN], {"patience": 1}, 2, 2),
    ],
)
def test_patience(
    scripted: Script, values: list[float], settings: dict[str, Any], epochs: int, kept: int
) -> None:
    looked = scripted(values)
    log, net = train(four_samples(), Stop(**{**EASY, **settings}))
    assert (log["epochs"], log["kept_epoch"]) == (epochs, kept)
    assert log["stopped"] == ("epochs" if epochs == settings.get("epochs") else "patience")
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
    scripted: Script, values: list[float], settings: dict[str, Any], epochs: int, reason: str
) -> None:
    scripted(values)
    log, _ = train(four_samples(), Stop(**{**EASY, "monitor": "accuracy", "epochs": 9, **settings}))
    assert (log["epochs"], log["stopped"]) == (epochs, reason or "perfect")


def test_settings_that_go_with_others() -> None:  # what has no effect must not tell runs apart
    assert Stop(rule="epochs", perfect=3) == Stop(rule="epochs")
    assert Stop(perfect=3) != Stop()
    with pytest.raises(UserError, match=r"stop\.rewind .*stop\.restore=true"):
        Stop(rewind=True, restore=False)


def test_epochs_before_min_steps_are_neither_counted_nor_kept(scripted: Script) -> None:
    cases = (0, 2, 1), (2, 2, 1), (3, 2, 2), (7, 2, 4), (7, 3, 4), (7, 4, 7), (5, 100, 5)
    for min_steps, batch_size, first_seen in cases:
        looked = scripted([1, 2])  # the first epoch that is looked at is the best
        stop = Stop(min_steps=min_steps, min_delta=0.0, patience=0)
        log, net = train(four_samples(), stop, batch_size=batch_size)
        per_epoch = math.ceil(4 / batch_size)
        assert (log["epochs"], log["steps"]) == (first_seen + 1, (first_seen + 1) * per_epoch)
        assert (log["kept_epoch"], log["kept_steps"]) == (first_seen, first_seen * per_epoch)
        assert equal(net.state_dict(), looked[0])


@pytest.mark.parametrize("stop", [Stop(epochs=3, min_steps=30), Stop(rule="epochs", epochs=3)])
def test_what_is_not_watched_runs_to_the_cap_without_a_look(scripted: Script, stop: Stop) -> None:
    scripted([])  # a look would raise
    log, _ = train(four_samples(), stop)
    watched = {"kept_epoch": 3, "kept_steps": 3, "monitor": "loss", "best": NAN}
    known = {"epochs": 3, "steps": 3, "stopped": "epochs", "train_loss": log["train_loss"]}
    np.testing.assert_equal(log, known | (watched if stop.rule == "patience" else {}))


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


def test_without_validation_data_the_training_loss_is_watched_and_nothing_is_perfect() -> None:
    data = session(blobs([0, 1, 0, 1], 3, seed=0), [0, 1, 0, 1])
    log, _ = train(data, Stop(monitor="accuracy", perfect=1))
    assert log["monitor"] == "train_loss"
    assert log["stopped"] != "perfect"
    assert 0 < log["best"] < 1
    assert log["steps"] >= 30


def test_trained_rule_ends_at_the_first_epoch_below_the_target() -> None:
    data, target = four_samples(), 0.3
    log, _ = train(data, Stop(rule="trained", target=target, min_steps=0))
    assert log["stopped"] == "trained"
    assert log["train_loss"] <= target
    assert train(data, Stop(rule="trained", target=log["train_loss"], min_steps=0))[0] == log
    before, _ = train(data, Stop(rule="epochs", epochs=log["epochs"] - 1))
    assert before["train_loss"] > target
    late, _ = train(data, Stop(rule="trained", target=100.0, min_steps=9))
    never, _ = train(data, Stop(rule="trained", target=0.0, epochs=5))
    ends = [(log["epochs"], log["stopped"]) for log in (late, never)]
    assert ends == [(9, "trained"), (5, "epochs")]


def test_divergence_is_named_and_not_hidden_by_restoring() -> None:
    net, optimiser = small_net()
    step = itertools.count(1)

    def spoil() -> None:
        if next(step) == 3:
            for p in net.parameters():
                p.grad = torch.full_like(p, NAN)

    log = training(net, optimiser, four_samples(), 4, Stop(min_steps=0), regularise=spoil).run()
    assert log["epochs"] == 4
    assert log["kept_epoch"] == 4
    assert log["stopped"] == "diverged"
    assert 0 < log["best"] < math.inf  # there was an epoch to go back to
    assert all(p.isnan().all() for p in net.parameters())


def plateau(values: list[float], **settings: Any) -> tuple[Log, list[float], Any]:
    """The log, the learning rate of every epoch, and the optimiser, of scripted values."""
    net, optimiser = small_net(lr=1.0)
    rates: list[float] = []
    left = iter(values)
    log = training(
        *(net, optimiser, four_samples(), 4),
        Stop(rule="plateau", epochs=len(values), min_steps=0, **settings),
        regularise=lambda: rates.append(optimiser.param_groups[0]["lr"]),
        validate=lambda: next(left),
    ).run()
    return log, rates, optimiser


def test_the_learning_rate_falls_on_a_plateau_and_training_goes_on_to_the_cap() -> None:
    """Patience 2: the third epoch in a row without a gain of .1 lowers it and ends the count."""
    values = [-0.2, -0.25, -0.29, -0.28, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5]
    log, rates, optimiser = plateau(values, patience=2, min_delta=0.1)
    assert rates == pytest.approx([1.0] * 4 + [0.1] * 4 + [0.01] * 3)
    assert log["epochs"] == 11
    assert log["stopped"] == "epochs"
    assert log["lr"] == pytest.approx(0.001)  # after the last epoch once more
    assert optimiser.param_groups[0]["lr"] == 1.0  # the next session begins where this one did


def test_a_plateau_ends_training_once_the_rate_is_low_enough() -> None:
    """A third at every second epoch without a gain: 1, 1/3, 1/9, and 1/27 is below 0.05."""
    log, rates, _ = plateau([-0.5] * 20, patience=1, factor=1 / 3, lr_min=0.05)
    assert rates == pytest.approx([1.0] * 3 + [1 / 3] * 2 + [1 / 9] * 2)
    assert log["epochs"] == 7
    assert log["stopped"] == "lr_min"
    assert log["lr"] == pytest.approx(1 / 27)
    log, _, _ = plateau([-0.5] * 8, patience=1, factor=1 / 3, lr_min=1 / 28)
    assert log["epochs"] == 8
    assert log["stopped"] == "epochs"
    log, _, _ = plateau([-0.5] * 8, patience=1, factor=0.5, lr_min=0.25)  # 1/4 is not below it
    assert log["lr"] == 0.125
    assert log["stopped"] == "lr_min"


@pytest.mark.parametrize("rewind", [False, True])
def test_training_goes_on_from_the_best_epoch_or_the_last(rewind: bool) -> None:
    """Epoch 2 is the best; the rate falls after epoch 4, and epoch 5 begins where it is said."""
    net, optimiser = small_net()
    ends: list[Weights] = []
    starts: list[Weights] = []
    left = iter([-0.1, -0.9, -0.2, -0.3, -0.4])

    def looked() -> float:
        ends.append(copy.deepcopy(net.state_dict()))
        return next(left)

    training(
        *(net, optimiser, four_samples(), 4),
        Stop(rule="plateau", epochs=5, min_steps=0, patience=1, rewind=rewind),
        regularise=lambda: starts.append(copy.deepcopy(net.state_dict())),
        validate=looked,
    ).run()
    assert [equal(starts[4], end) for end in ends] == [False, rewind, False, not rewind, False]


@pytest.mark.parametrize(("restore", "kept"), [(True, 2), (False, 4)])
def test_a_plateau_keeps_the_best_epoch_or_the_last(restore: bool, kept: int) -> None:
    log, _, _ = plateau([-0.1, -0.9, -0.2, -0.3], patience=9, min_delta=0.0, restore=restore)
    assert (log["kept_epoch"], log["best"]) == (kept, -0.9)


def test_the_first_session_has_a_cap_of_its_own() -> None:
    learner = MLP(units=4, stop=Stop(rule="epochs", epochs=3, first_epochs=7))
    stream = class_stream([[0], [1], [2]], n_train=4)
    learner.start(stream.spec, Seeds.of(0), "cpu")
    logs = [learn_session(learner, s, context()) for s in stream.sessions]
    assert [log["epochs"] for log in logs] == [7, 3, 3]
