"""FearNet: HC's probabilities, pseudo-samples, BLA's rule and sleep, by hand and by plain loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import toy
from teaching import learn, normal, start, teach
from torch.nn.functional import elu, log_softmax

from embedbench.checks.learner_check_tools import state_bytes
from embedbench.learning import Stop
from embedbench.models import fearnet
from embedbench.models.fearnet import MPFC, Codes, FearNet, recall
from embedbench.streams.stream import Stream, StreamSpec

EPOCHS = Stop(rule="epochs", epochs=25)
ONE_BY_ONE = [[0, 1, 2], [3], [4], [5]]


def taught(stream: Stream, sessions: int, **settings: Any) -> tuple[FearNet, list[dict[str, Any]]]:
    """A learner after the first sessions of a stream, and its logs."""
    short: dict[str, Any] = {"hidden": 24, "code": 8, "batch_size": 32, "lr": 0.02, "w_input": 1.0}
    short |= {"base": EPOCHS, "sleep": EPOCHS}
    return teach(FearNet(**{**short, **settings}), stream, sessions)


def right(learner: FearNet, stream: Stream, sets: slice) -> float:
    """The share of right answers on some eval sets."""
    asked = ((learner.scores(e.x.tensor()).argmax(1), e.y) for e in stream.eval_sets[sets])
    return float(np.mean([(found.numpy() == y).mean() for found, y in asked]))


def test_hc_is_the_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fearnet, "NUMBERS", 20)  # two rows at once
    draw = np.random.default_rng(0)
    x, held = draw.normal(50, 0.3, (7, 4)), draw.normal(50, 0.3, (9, 4))  # close, far from 0
    y = draw.choice([0, 2, 5], 9)
    logs, classes = recall(*(torch.tensor(v) for v in (x, held, y)), 0.1)
    for row, got in zip(x, logs, strict=True):
        beta = [1 / (0.1 + min(math.dist(row, u) for u in held[y == c])) for c in classes.tolist()]
        np.testing.assert_allclose(got.exp(), np.array(beta) / sum(beta), rtol=1e-9)
    assert classes.tolist() == sorted({*y.tolist()})
    assert recall(*(torch.tensor(v) for v in (x[:0], held, y)), 0.1)[0].shape == (0, len(classes))


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("n", [3, 40])
def test_draws_have_the_mean_and_the_covariance_of_the_codes(n: int, covariance: str) -> None:
    """Also with fewer codes than dimensions, where the covariance is singular."""
    draw = np.random.default_rng(n)
    codes = draw.normal(size=(2 * n, 5)) @ draw.normal(size=(5, 5)) + 3
    y = np.repeat([4, 1], n)
    gaussians = Codes(6, 5, covariance, "cpu")
    gaussians.renew(torch.tensor(codes, dtype=torch.float32), torch.tensor(y))
    assert gaussians.classes.tolist() == [1, 4]
    drawn, classes = gaussians.draw(9, torch.Generator().manual_seed(n))
    assert classes.tolist() == [1] * 9 + [4] * 9
    noise = normal(2, 9, 5, seed=n)
    for place, c in enumerate((1, 4)):
        sigma = np.cov(codes[y == c].T)
        root = gaussians.roots[place]
        if covariance == "diagonal":
            sigma, root = np.diag(np.diag(sigma)), root.diag()
        np.testing.assert_allclose(root.T @ root, sigma, atol=1e-4 * np.abs(sigma).max())
        mean = torch.tensor(codes[y == c].mean(0), dtype=torch.float32)
        torch.testing.assert_close(drawn[classes == c], mean + noise[place] @ root)


def test_a_class_of_one_sample_has_no_spread_and_others_keep_theirs() -> None:
    gaussians = Codes(3, 2, "full", "cpu")
    gaussians.renew(torch.tensor([[1.0, 2.0]]), torch.tensor([2]))
    gaussians.renew(torch.tensor([[5.0, 5.0], [7.0, 5.0]]), torch.tensor([0, 0]))
    assert gaussians.means.tolist() == [[6.0, 5.0], [1.0, 2.0]]
    sigma = gaussians.roots[0].T @ gaussians.roots[0]
    torch.testing.assert_close(sigma, torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
    assert not gaussians.roots[1].any()


def test_the_loss_is_cross_entropy_and_the_errors_of_matched_levels() -> None:
    net = MPFC([4, 3, 2], 3, seed=0)
    x, y = normal(5, 4), torch.tensor([0, 1, 0, 1, 1])
    mask = torch.tensor([0.0, 0.0, -math.inf])  # class 2 has not come
    (e1, e2), (d1, d2) = net.encoder, net.decoder
    hidden = elu(e1(x))
    code = e2(hidden)
    back = elu(d1(code))
    logits = net.head(code)[:, :2]
    expected = -log_softmax(logits, 1)[torch.arange(5), y].mean()
    expected = expected + 7 * (d2(back) - x).square().mean() + 2 * (back - hidden).square().mean()
    torch.testing.assert_close(net.loss(x, y, mask, [7.0, 2.0]), expected)


def test_the_answer_is_the_likelier_of_both_memories() -> None:
    """Scores are max(A P_HC, (1 - A) P_mPFC); HC wins where A/(1 - A) max P_HC > max P_mPFC."""
    stream = toy.class_stream(ONE_BY_ONE, spread=1.2)
    learner, _ = taught(stream, 3, bla=Stop(rule="epochs", epochs=1))
    x = torch.cat([e.x.tensor() for e in stream.eval_sets])
    with torch.no_grad():
        a = torch.sigmoid(learner.chooser(x)[:, 0]).double()
        slow = torch.softmax(learner.net(x)[:, :3], 1).double()  # classes 0 to 2
    fast = recall(x, learner.hc_x, learner.hc_y, learner.epsilon)[0].exp().double()  # 3 and 4
    got = learner.scores(x)
    joint = torch.cat([(1 - a[:, None]) * slow, a[:, None] * fast], 1)
    torch.testing.assert_close(got[:, :5].double().exp(), joint, rtol=1e-4, atol=1e-9)
    assert (got[:, 5] < -1e20).all()  # class 5 has not come
    from_hc = a / (1 - a) * fast.amax(1) > slow.amax(1)
    assert 0 < int(from_hc.sum()) < len(x)
    assert torch.equal(got.argmax(1), torch.where(from_hc, 3 + fast.argmax(1), slow.argmax(1)))


def test_the_decoder_has_a_rate_of_its_own() -> None:
    """One plain step: four times the rate, four times as far."""
    once: dict[str, Any] = {"optimiser": "plain-sgd", "batch_size": 1000}
    once["base"] = Stop(rule="epochs", epochs=25, first_epochs=1)
    far = []
    for rate in (1.0, 4.0):
        nets = [taught(toy.class_stream(ONE_BY_ONE), k, decoder_rate=rate, **once)[0].net
                for k in (0, 1)]  # fmt: skip
        pairs = zip(nets[1].named_parameters(), nets[0].parameters(), strict=True)
        far.append({name: (p - q).detach() for (name, p), q in pairs})
    first = toy.class_stream(ONE_BY_ONE).sessions[0]
    both = [taught(toy.class_stream(ONE_BY_ONE), k, w_hidden=3.0, **once) for k in (0, 1)]
    mask = torch.tensor([0.0] * 3 + [-math.inf] * 3)
    loss = both[0][0].net.loss(first.x.tensor(), torch.tensor(first.y), mask, [1.0, 3.0])
    assert both[1][1][0]["train_loss"] == pytest.approx(loss.item(), rel=1e-4)
    for name, moved in far[0].items():
        times = 4 if name.startswith("decoder") else 1
        torch.testing.assert_close(far[1][name], times * moved, rtol=1e-3, atol=1e-6)
        assert moved.any()


def test_bla_learns_what_is_in_hc(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, seen = toy.class_stream(ONE_BY_ONE), list[Any]()
    learner, _ = taught(stream, 2)
    monkeypatch.setattr(learner, "_choose", lambda s, _: seen.append(s) or {})
    learn(learner, stream.sessions[2])
    assert seen[0].y.tolist() == [1] * 40 + [0] * 60  # two classes in HC, 20 of each older one
    assert torch.equal(seen[0].x.x[:40], learner.hc_x)
    assert len(seen[0].val_x) == len(seen[0].val_y) == 0


def test_sleep_empties_hc_and_keeps_the_answers() -> None:
    stream = toy.class_stream(ONE_BY_ONE)
    awake, _ = taught(stream, 3, period=3)
    asleep, logs = taught(stream, 4, period=3)
    assert [log.get("asleep") for log in logs] == [None, False, False, True]
    assert [log["hc_bytes"] for log in logs[1:]] == [k * 20 * (6 * 4 + 8) for k in (1, 2, 3)]
    assert asleep.footprint()["samples"] == 0
    for learner, held, classes in ((awake, 40, 3), (asleep, 0, 6)):
        assert len(learner.hc_y) == held
        assert learner.codes.classes.tolist() == [*range(classes)]
        assert learner.footprint().total == state_bytes(learner.state_dict())
    assert right(awake, stream, slice(3)) > 0.9
    assert right(asleep, stream, slice(4)) > 0.9


def test_pseudo_samples_are_as_many_as_hc_has_a_class() -> None:
    """20 and 20 of classes 3 and 4, then 5 of class 3: 45 of 2 classes, 23 of each old one."""
    learner, _ = taught(toy.class_stream(ONE_BY_ONE), 3)
    learner.chooser.head.bias.data.fill_(1e6)
    learn(learner, toy.session(toy.blobs([3] * 5, 6, 9), [3] * 5))
    assert learner.chooser.head.bias.abs() < 10  # BLA has begun anew
    assert learner._each() == 23
    learner.pseudo = 4
    assert learner._each() == 4


def test_a_class_that_comes_again_has_a_gaussian_of_both_kinds_of_samples() -> None:
    stream = toy.class_stream([[0, 1], [2]])
    learner, _ = taught(stream, 1, period=1, sleep=Stop(rule="epochs", epochs=1), pseudo=30)
    again = toy.blobs([1] * 10, 6, 3) + 1
    codes: list[Any] = []
    renew = learner.codes.renew
    learner.codes.renew = lambda c, y: (codes.append((c, y)), renew(c, y))[1]  # type: ignore[method-assign,func-returns-value]
    learn(learner, toy.session(again, [1] * 10))
    ((taken, y),) = codes
    assert torch.bincount(y).tolist() == [30, 40]
    with torch.no_grad():
        torch.testing.assert_close(taken[:10], learner.net.code(torch.tensor(again)))
    torch.testing.assert_close(learner.codes.means[1], taken[y == 1].mean(0))


def test_rows_of_classes_that_have_not_come_stay_as_they_began() -> None:
    stream = toy.class_stream(ONE_BY_ONE)
    fresh, _ = taught(stream, 0)
    learner, _ = taught(stream, 2, period=1)
    assert torch.equal(learner.net.head.weight[4:], fresh.net.head.weight[4:])
    assert not torch.equal(learner.net.head.weight[3], fresh.net.head.weight[3])


@pytest.mark.parametrize(
    ("classes", "covariance", "megabytes"),
    [(100, "full", 10.7), (100, "diagonal", 3.8), (1000, "full", 74.4)],
)
def test_bytes_are_near_those_quoted(classes: int, covariance: str, megabytes: float) -> None:
    """Of CIFAR-100 with ResNet-50's 2,048 features; `hidden` and `code` were inferred from them."""
    learner = start(FearNet(covariance=covariance), StreamSpec((2048,), classes))
    learner.codes.renew(torch.zeros(classes, learner.code), torch.arange(classes))
    held = learner.footprint()
    each = learner.code if covariance == "diagonal" else learner.code**2
    assert held["covariances"] == 4 * classes * each
    assert held.total / 1e6 == pytest.approx(megabytes, rel=0.01)
