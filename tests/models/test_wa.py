"""WA: γ and the loss by hand, and what is aligned."""

from typing import Any

import pytest
import torch
from teaching import distilling_loss, disturb, learn, plain, teach
from toy import class_stream

from embedbench.learning.stopping import Stop
from embedbench.models import wa
from embedbench.models.wa import WA, align

SMALL: dict[str, Any] = {"units": 8, "batch_size": 16, "stop": Stop(rule="epochs", epochs=4)}
STREAM = class_stream([[0, 1], [2, 3], [4]])


def test_gamma_by_hand() -> None:
    w = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0], [0.0, 2.0], [7.0, 7.0]])
    assert align(w, [0, 1], [2, 3]) == pytest.approx(0.5)  # (5 + 1)/2 over (10 + 2)/2
    assert w.tolist() == [[3, 4], [0, 1], [3, 4], [0, 1], [7, 7]]
    zero = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    for old, new in (([], [0, 1]), ([0, 1], []), ([0], [1])):
        assert align(zero, old, new) == 1
        assert zero.tolist() == [[3, 4], [0, 0]]


def test_the_loss_a_sample_at_a_time() -> None:
    """(1 - λ) cross-entropy + λ distillation, λ = 4/5, the old answers those of the aligned net."""
    learner, _ = teach(WA(**SMALL), STREAM, 2)
    x, y = STREAM.sessions[2].x.tensor()[:5], torch.tensor(STREAM.sessions[2].y)[:5]
    objective = learner._objective([0, 1, 2, 3], [4])
    old = plain(learner.net(x))
    disturb(learner.net)  # the old answers stay
    expected = distilling_loss(plain(learner.net(x)), old, y, [[0, 1, 2, 3]], (1 / 5, 4 / 5))
    assert objective(x, y).item() == pytest.approx(expected, rel=1e-4)
    y = y % 2  # in the first session: plain cross-entropy over its classes
    expected = torch.nn.functional.cross_entropy(learner.net(x)[:, :2], y)
    torch.testing.assert_close(learner._objective([], [0, 1])(x, y), expected)


def test_it_is_the_loss_of_training() -> None:
    """Of one batch of all samples and exemplars, before the step."""
    learner, _ = teach(WA(units=8, batch_size=1000, stop=Stop(rule="epochs", epochs=1)), STREAM, 2)
    joined = learner.exemplars.join(STREAM.sessions[2])
    x, y = joined.x.batch(torch.arange(len(joined.y))), torch.tensor(joined.y)
    expected = learner._objective([0, 1, 2, 3], [4])(x, y)
    assert learn(learner, STREAM.sessions[2])["train_loss"] == pytest.approx(expected.item())


def test_a_class_that_comes_again_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = class_stream([[0, 1], [1, 2]])
    learner, logs = teach(WA(**SMALL), stream)
    length = learner.net.head.weight.detach().norm(dim=1)
    assert float(length[0]) == pytest.approx(float(length[[1, 2]].mean()), rel=1e-5)
    assert logs[0]["gamma"] == 1 != logs[1]["gamma"]
    scale = torch.tensor([1.0, logs[1]["gamma"], logs[1]["gamma"]])
    _, logs = teach(WA(**SMALL), class_stream([[0, 1], [0, 1]]))
    assert logs[1]["gamma"] == 1  # no old class
    monkeypatch.setattr(wa, "align", lambda *_: 1.0)
    raw = teach(WA(**SMALL), stream)[0].net.head
    assert torch.equal(learner.net.head.bias, raw.bias)
    torch.testing.assert_close(learner.net.head.weight, scale[:, None] * raw.weight)


@pytest.mark.parametrize("positive", [True, False])
def test_clipped_weights_are_not_negative(positive: bool) -> None:
    learner, _ = teach(WA(**SMALL, positive=positive), STREAM)
    least = learner.net.head.weight.min()
    assert least == 0 if positive else least < 0
    assert learner.footprint()["samples"] == 5 * 20 * (6 * 4 + 8)
