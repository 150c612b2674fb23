"""Label sets in the training loop: the loss over the classes seen, pw-JS, decay on a plateau."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from multilabel_streams import WIDTH, hierarchy_stream, plain_pw_js, teach
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.learner import learn_session
from embedbench.learning.loss import set_loss
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop, pw_js
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
