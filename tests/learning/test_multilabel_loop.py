"""Label sets in the training loop: the loss over the classes seen, pw-JS, decay on a plateau."""

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from multilabel_streams import WIDTH, hierarchy_stream, plain_pw_js, teach
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning.learner import learn_session
from embedbench.learning.loss import set_loss
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.stopping import Stop, pw_js
from embedbench.learning.training_loop import Training
from embedbench.models.chance import Chance
from embedbench.models.joint import Joint
from embedbench.models.mlp import MLP
from embedbench.models.offline import Offline
from embedbench.streams.view import rows_of

STREAM = hierarchy_stream()
FEW: dict[str, Any] = {"units": 8, "batch_size": 16, "stop": Stop(rule="epochs", epochs=3)}


# --- loss ---


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_a_mean_over_samples_and_classes(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, 5, generator=draw)
    y = torch.rand(7, 5, generator=draw) < 0.4
    seen = [0, 2, 3]
    total = 0.0
    for row, labels in zip(logits.tolist(), y.tolist(), strict=True):
        for c in seen:
            p = 1 / (1 + math.exp(-row[c]))
            total -= math.log(p if labels[c] else 1 - p)
    found = set_loss(logits, y, torch.tensor(seen))
    assert float(found) == pytest.approx(total / 21, rel=1e-5)
    every = set_loss(logits, y)
    assert float(every) == pytest.approx(float(set_loss(logits, y, torch.arange(5))))


def test_future_classes_get_no_gradient_and_old_ones_are_learned_as_absent() -> None:
    learner = MLP(**FEW, lr=0.05, optimiser="sgd")
    teach(learner, STREAM.sessions[:1], STREAM.spec)
    start = mlp_net(WIDTH, 8, 2, 8, Seeds.of(0).init)[-1]
    head = learner.net[-1]
    assert torch.equal(head.weight[2:], start.weight[2:])
    assert torch.equal(head.bias[2:], start.bias[2:])
    assert (head.weight[:2] != start.weight[:2]).any()
    before = head.bias[:2].detach().clone()
    learn_session(learner, STREAM.sessions[1], context())
    assert (head.bias[:2] < before).all()  # the session shows none of them
    assert torch.equal(head.weight[[3, 4, 6]], start.weight[[3, 4, 6]])


# --- pw-JS ---


def test_pw_js_by_hand() -> None:
    y = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]).bool()
    logits = torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0], [-1.0, -1.0, 0.0], [-1.0, 2.0, 3.0]])
    # exact: 1; one of three: 1/3 · 1/3; no answer (0 is not above 0): 0; {1, 2} for {0, 1}: 1/3 · ½
    assert pw_js(logits, y) == pytest.approx((1 + 1 / 9 + 0 + 1 / 6) / 4)
    # class 2 is not seen yet: 1, ½ · ½, 0, ½ · 1
    assert pw_js(logits, y, torch.tensor([0, 1])) == pytest.approx((1 + 1 / 4 + 0 + 1 / 2) / 4)


@pytest.mark.parametrize("seed", range(4))
def test_pw_js_is_its_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(30, 6)).astype(np.float32)
    y = draw.random((30, 6)) < 0.3
    y[:, 1] = True
    seen = [1, 2, 4]
    found = pw_js(torch.from_numpy(logits), torch.from_numpy(y), torch.tensor(seen))
    assert found == pytest.approx(plain_pw_js(logits, y, seen))


def test_the_monitored_value_is_pw_js_over_the_classes_seen() -> None:
    stop = Stop(rule="plateau", monitor="pw_js", epochs=4, min_steps=0)
    learner = MLP(units=16, optimiser="sgd", lr=0.5, stop=stop)
    for t, log in enumerate(teach(learner, STREAM.sessions[:2], STREAM.spec)):
        assert log["monitor"] == "pw_js"
        assert 0 <= log["best"] <= 1
        last = (t, log)
    t, log = last
    session = STREAM.sessions[t]  # the best epoch's weights are back
    scores = learner.scores(session.val_x.tensor()).numpy()
    assert log["best"] == pytest.approx(plain_pw_js(scores, session.val_y, [0, 1, 2, 5, 7]))


def test_a_monitor_for_other_labels_is_refused() -> None:
    with pytest.raises(UserError, match=r"stop.monitor must be .* got accuracy"):
        teach(MLP(stop=Stop(monitor="accuracy", min_steps=0)), STREAM.sessions, STREAM.spec)
    single = class_stream([[0, 1]])
    with pytest.raises(UserError, match=r"stop.monitor must be .* got pw_js"):
        teach(MLP(stop=Stop(monitor="pw_js", min_steps=0)), single.sessions, single.spec)


# --- plateau ---


def plateau(values: list[float], **settings: Any) -> tuple[dict[str, Any], list[float], Any]:
    """The log, the learning rate of every epoch, and the optimiser, of scripted values."""
    net = mlp_net(WIDTH, 4, 1, 8, seed=0)
    optimiser = make_optimiser("sgd", net, lr=1.0, weight_decay=0.0)
    rates: list[float] = []
    left = iter(values)
    stop = Stop(rule="plateau", epochs=len(values), min_steps=0, **settings)
    training = Training(
        *(net, optimiser, STREAM.sessions[0], 1000, stop, generator(0, 0), "cpu"),
        regularise=lambda: rates.append(optimiser.param_groups[0]["lr"]),
        validate=lambda: next(left),
    )
    return training.run(), rates, optimiser


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
    assert (log["epochs"], log["stopped"]) == (7, "lr_min")
    assert log["lr"] == pytest.approx(1 / 27)
    log, _, _ = plateau([-0.5] * 8, patience=1, factor=1 / 3, lr_min=1 / 28)
    assert (log["epochs"], log["stopped"]) == (8, "epochs")
    with pytest.raises(UserError, match=r"stop.factor must be in \(0, 1\), got 1"):
        Stop(factor=1.0)
    with pytest.raises(UserError, match=r"stop.rewind goes to .* needs stop.restore=true"):
        Stop(rewind=True, restore=False)


@pytest.mark.parametrize("rewind", [False, True])
def test_training_goes_on_from_the_best_epoch_or_the_last(rewind: bool) -> None:
    """Epoch 2 is the best; the rate falls after epoch 4, and epoch 5 begins where it is said."""
    net = mlp_net(WIDTH, 4, 1, 8, seed=0)
    ends: list[Any] = []
    starts: list[Any] = []
    left = iter([-0.1, -0.9, -0.2, -0.3, -0.4])

    def looked() -> float:
        ends.append(copy.deepcopy(net.state_dict()))
        return next(left)

    stop = Stop(rule="plateau", epochs=5, min_steps=0, patience=1, rewind=rewind)
    optimiser = make_optimiser("sgd", net, lr=0.5, weight_decay=0.0)
    Training(
        *(net, optimiser, STREAM.sessions[0], 1000, stop, generator(0, 0), "cpu"),
        regularise=lambda: starts.append(copy.deepcopy(net.state_dict())),
        validate=looked,
    ).run()
    same = [all(torch.equal(starts[4][k], end[k]) for k in end) for end in ends]
    assert same == [False, rewind, False, not rewind, False]


def test_the_best_epoch_is_kept_or_the_last() -> None:
    kept, _, _ = plateau([-0.1, -0.9, -0.2, -0.3], patience=9, min_delta=0.0)
    assert kept["kept_epoch"] == 2
    assert kept["best"] == -0.9
    last, _, _ = plateau([-0.1, -0.9, -0.2, -0.3], patience=9, min_delta=0.0, restore=False)
    assert last["kept_epoch"] == 4


def test_the_first_session_has_a_cap_of_its_own() -> None:
    stop = Stop(rule="plateau", monitor="pw_js", epochs=3, first_epochs=7, min_steps=0)
    logs = teach(MLP(units=4, stop=stop), STREAM.sessions, STREAM.spec)
    assert [log["epochs"] for log in logs] == [7, 3, 3, 3]
    plain = teach(MLP(units=4, stop=Stop(rule="epochs", epochs=3)), STREAM.sessions, STREAM.spec)
    assert [log["epochs"] for log in plain] == [3, 3, 3, 3]
    with pytest.raises(UserError, match=r"stop.first_epochs must be at least 1, got 0"):
        Stop(first_epochs=0)


# --- learners that are this loop alone ---

LONG: dict[str, Any] = {"units": 32, "lr": 0.01, "optimiser": "adam", "batch_size": 32}


@pytest.mark.parametrize("seed", range(2))
def test_complete_labels_are_learned_and_incomplete_ones_as_far_as_they_are_shown(
    seed: int,
) -> None:
    stream = hierarchy_stream(seed=seed)
    test = stream.eval_sets[0]
    offline = Offline(mlp=MLP(**LONG, stop=Stop(rule="epochs", epochs=60)))
    teach(offline, stream.merged().sessions, stream.spec, seed)
    assert plain_pw_js(offline.scores(test.x.tensor()), test.y, range(8)) > 0.95
    mlp = MLP(**LONG, stop=Stop(rule="epochs", epochs=60))
    teach(mlp, stream.sessions, stream.spec, seed)
    answers = mlp.scores(test.x.tensor()) > 0
    last = test.y[:, 4]
    assert answers[:, 4].numpy()[last].mean() > 0.9  # the last session's class, and no other
    assert answers[:, [0, 1, 2, 3, 5, 6, 7]].numpy().mean() < 0.05


def test_joint_gives_a_sample_all_labels_that_it_ever_had() -> None:
    learner = Joint(**FEW)
    teach(learner, STREAM.sessions, STREAM.spec)
    given: dict[int, set[int]] = {}
    for s in STREAM.sessions:
        for row, y in zip(rows_of(s.x), s.y, strict=True):
            given.setdefault(int(row), set()).update(np.flatnonzero(y).tolist())
    (view,) = learner.samples.views
    found = {
        int(r): set(np.flatnonzero(y))
        for r, y in zip(rows_of(view), learner.samples.y, strict=True)
    }
    assert found == given
    assert len(rows_of(view)) == len(set(rows_of(view)))
    twice = [labels for labels in given.values() if len(labels) == 2]
    assert len(twice) == 5 * 4  # a fifth of 20, of each of five subclasses
    assert {c for labels in twice for c in labels} == {0, 1, 2, 3, 4, 5, 6}
    assert learner.samples.y.dtype == np.bool_
    assert len(learner.validation.y) == 6 * 5


def test_joint_on_sessions_that_hold_everything_is_the_last_one_alone() -> None:
    (first,) = STREAM.whole
    half = np.zeros(8, dtype=np.bool_)
    half[[0, 1, 2]] = True
    shown = first.y.copy()
    shown[:, ~half] = False
    early = replace(first, y=shown, loss_classes=half)
    one, two = Joint(**FEW), Joint(**FEW)
    teach(one, [early, first], STREAM.spec)
    two.start(STREAM.spec, Seeds.of(0), "cpu")
    two.learned = 1  # the same order of batches
    learn_session(two, first, context())
    x = STREAM.eval_sets[0].x.tensor()
    assert torch.equal(one.scores(x), two.scores(x))
    assert np.array_equal(one.samples.y, first.y)


def test_chance_tosses_a_coin_for_every_label() -> None:
    learner = Chance()
    learner.start(STREAM.spec, Seeds.of(0), "cpu")
    answers = learner.scores(torch.randn(2000, WIDTH)) > 0
    assert answers.float().mean(0).tolist() == pytest.approx([0.5] * 8, abs=0.05)
