"""Label sets in the training loop: the loss over the classes seen, pw-JS, decay on a plateau."""

from typing import Any

import numpy as np
import pytest
import torch
from file_helpers import says
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
from embedbench.streams.view import rows_of

STREAM = hierarchy_stream()
FEW: dict[str, Any] = {"units": 8, "batch_size": 16, "stop": Stop(rule="epochs", epochs=3)}


def test_the_loss_is_a_mean_over_samples_and_classes() -> None:
    draw = torch.Generator().manual_seed(0)
    logits, y = torch.randn(7, 5, generator=draw), torch.rand(7, 5, generator=draw) < 0.4
    p = torch.sigmoid(logits)
    losses = -torch.where(y, p, 1 - p).log()
    torch.testing.assert_close(set_loss(logits, y), losses.mean())
    torch.testing.assert_close(set_loss(logits, y, torch.tensor([0, 3])), losses[:, [0, 3]].mean())


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


def test_pw_js_by_hand() -> None:
    y = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]).bool()
    logits = torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0], [-1.0, 0.0, -1.0], [-1.0, 2.0, 3.0]])
    # exact: 1; one of three: 1/3 · 1/3; no answer (0 is not above 0): 0; {1, 2} for {0, 1}: 1/3 · ½
    assert pw_js(logits, y) == pytest.approx((1 + 1 / 9 + 0 + 1 / 6) / 4)
    # class 2 is not seen yet: 1, ½ · ½, 0, ½ · 1
    assert pw_js(logits, y, torch.tensor([0, 1])) == pytest.approx((1 + 1 / 4 + 0 + 1 / 2) / 4)


def test_the_monitored_value_is_pw_js_over_the_classes_seen() -> None:
    stop = Stop(rule="plateau", monitor="pw_js", epochs=4, min_steps=0)
    learner = MLP(units=16, optimiser="sgd", lr=0.5, stop=stop)
    *_, log = teach(learner, STREAM.sessions[:2], STREAM.spec)
    session = STREAM.sessions[1]  # the best epoch's weights are back
    scores = learner.scores(session.val_x.tensor()).numpy()
    assert log["monitor"] == "pw_js"
    assert log["best"] == pytest.approx(plain_pw_js(scores, session.val_y, [0, 1, 2, 5, 7]))


def test_a_monitor_for_other_labels_is_refused() -> None:
    for monitor, stream in (("accuracy", STREAM), ("pw_js", class_stream([[0, 1]]))):
        with pytest.raises(UserError, check=says(what="stop.monitor", got=monitor)):
            teach(MLP(stop=Stop(monitor=monitor, min_steps=0)), stream.sessions, stream.spec)


def test_joint_gives_a_sample_all_labels_that_it_ever_had() -> None:
    learner = Joint(**FEW)
    teach(learner, STREAM.sessions, STREAM.spec)
    given: dict[int, set[int]] = {}
    for s in STREAM.sessions:
        for row, y in zip(rows_of(s.x), s.y, strict=True):
            given.setdefault(int(row), set()).update(np.flatnonzero(y).tolist())
    (view,) = learner.samples.views
    rows, labels = rows_of(view).tolist(), learner.samples.y
    assert len(rows) == len(set(rows))
    assert {r: {*np.flatnonzero(y)} for r, y in zip(rows, labels, strict=True)} == given
    twice = [labels for labels in given.values() if len(labels) == 2]
    assert len(twice) == 5 * 4  # a fifth of 20, of each of five subclasses
    assert labels.dtype == np.bool_
    assert len(learner.validation.y) == 6 * 5


def test_chance_tosses_a_coin_for_every_label() -> None:
    learner = Chance()
    learner.start(STREAM.spec, Seeds.of(0), "cpu")
    answers = learner.scores(torch.randn(2000, WIDTH)) > 0
    assert answers.float().mean(0).tolist() == pytest.approx([0.5] * 8, abs=0.05)
