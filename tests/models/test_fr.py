"""FR: sizes, losses against plain loops, Gaussians and their donors, and what is trained."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from few_shot import GROUPS, few_shot_stream
from teaching import learn, normal, start, teach

from embedbench.errors import UserError
from embedbench.models.fr import (
    FR,
    TERMS,
    Rectifier,
    draw,
    factor,
    instance_relation,
    most_alike,
    novel_entropy,
)
from embedbench.streams.stream import Stream, StreamSpec

QUICK: dict[str, Any] = {"epochs": 10, "epoch_samples": 50}


def started(spec: StreamSpec, **settings: Any) -> Any:
    return start(FR(**{**QUICK, **settings}), spec)


def taught(stream: Stream, sessions: int | None = None, **settings: Any) -> tuple[FR, list[Any]]:
    return teach(FR(**{**QUICK, **settings}), stream, sessions)


def test_losses_of_nothing_are_0_and_gradients_are_finite() -> None:
    x = normal(2, 3, 4).requires_grad_()
    y = torch.zeros(3, dtype=torch.int64)
    assert novel_entropy(x, y, y > 0).tolist() == [0, 0]
    same, different = instance_relation(x, x.detach(), y)
    assert different.tolist() == [0, 0]
    twice = torch.cat([x, x], dim=1)  # samples at distance 0
    total = sum(t.sum() for t in instance_relation(twice, 2 * twice, torch.cat([y, y + 1])))
    (gradient,) = torch.autograd.grad(total + same.sum(), x)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0


def test_linear_maps_begin_as_pytorchs() -> None:
    net = Rectifier(2, 9, 25, seed=0)
    for part in (net.final.enter, net.intermediate.leave, net.mix.enter):
        bound = part.weight.shape[1] ** -0.5
        for values in (part.weight, part.bias):
            assert 0.8 * bound < values.abs().max() <= bound


def test_the_loss_is_the_weighted_sum_over_terms() -> None:
    stream = few_shot_stream(GROUPS, layers=2)
    weights = (0.3, 0.7, 0.5, 2.0, 3.0)
    given: Any = {f"w_{t}": w for t, w in zip(TERMS, weights, strict=True)}
    learner, (first, log) = taught(stream, 2, **given)
    assert first["losses"]["novel"] == 0 < log["losses"]["novel"]
    assert learner._weights().tolist() == pytest.approx(weights)
    weighted = zip(weights, log["losses"].values(), strict=True)
    assert log["train_loss"] == pytest.approx(sum(w * v for w, v in weighted), rel=1e-5)
    still = {"lr": 1e-30, "epoch_samples": 64, "batch_classes": 4, "batch_samples": 8}
    short, long = (taught(stream, 1, epochs=k, **still)[1][0]["losses"] for k in (1, 10))
    assert short == pytest.approx(long, rel=0.3)  # means of an epoch's steps, by other batches


def test_a_class_that_comes_again_moves_its_mean_and_a_base_class_keeps_its_covariance() -> None:
    stream = few_shot_stream([[0, 1, 2], [3], [4]], layers=1, spread=1.0)
    learner, _ = taught(stream, 2, epochs=1)
    other = stream.sessions[2]
    factors, mean = learner.factors.clone(), learner.prototypes.means()
    # samples of class 4 are said to be of 0, a base class, and of 3, a novel one
    for c in (0, 3):
        learn(learner, replace(other, y=np.full(len(other.y), c)))
        own = 20 if c == 0 else 5
        expected = (own * mean[c] + 5 * other.x.tensor().mean(0)) / (own + 5)
        torch.testing.assert_close(learner.prototypes.means()[c], expected)
        torch.testing.assert_close(
            learner.prototypes.rows[c], torch.nn.functional.normalize(expected[:8], dim=0)
        )
    assert torch.equal(learner.factors, factors)
    assert learner.base.tolist() == [True, True, True, False, False]
    means = learner.prototypes.means()
    for t, columns in enumerate([slice(0, 8), slice(8, 16)]):
        assert (learner.donors_[0, :, t] == 0).all()
        alike = torch.cosine_similarity(means[:3, columns], means[3, columns], dim=1)
        assert learner.donors_[3, :, t].tolist() == alike.topk(2).indices.tolist()


def test_draws_have_the_means_and_the_mean_covariance_of_the_donors() -> None:
    """Σ_k F_k z_k / √K has the covariance Σ_k F_k F_kᵀ / K; K = 3, two tables, two classes."""
    factors, means = normal(3, 2, 4, 4, seed=0), normal(2, 2, 4, seed=1)
    donors = torch.tensor([[[0, 1], [1, 1], [2, 0]], [[0, 0], [2, 1], [0, 2]]])  # (P, K, T)
    drawn = draw(means, factors, donors, 5, torch.Generator().manual_seed(2))
    z = normal(2, 3, 2, 5, 4, seed=2)
    assert drawn.shape == (2, 10, 4)
    for t, p in itertools.product(range(2), repeat=2):
        noise = sum(z[p, k, t] @ factors[donors[p, k, t], t].T for k in range(3))
        torch.testing.assert_close(drawn[t, 5 * p : 5 * p + 5], means[p, t] + noise / 3**0.5)


def test_a_factor_of_few_samples_and_of_one() -> None:
    few = factor(normal(2, 2, 6), 1e-6)
    x = normal(2, 2, 6).double().numpy()
    for t in range(2):
        expected = np.cov(x[t].T) + 1e-6 * np.eye(6)
        np.testing.assert_allclose((few[t] @ few[t].T).numpy(), expected, atol=1e-5)
    torch.testing.assert_close(factor(normal(1, 1, 4), 0.25), 0.5 * torch.eye(4)[None])
    with pytest.raises(UserError, match="epsilon=1e-06"):
        factor(1e8 * normal(1, 2, 4), 1e-6)


def test_novel_classes_borrow_from_the_two_base_classes_most_alike_in_each_layer() -> None:
    stream = few_shot_stream([[3, 1, 6, 0], [2, 5], [4]], layers=2, spread=2.0)
    learner, _ = taught(stream, epochs=1)
    data = {c: s.x.numpy()[s.y == c] for s in stream.sessions for c in s.classes.tolist()}
    base = [0, 1, 3, 6]  # by label, as the factors are kept
    for t, columns in enumerate([slice(0, 8), slice(8, 16), slice(16, 24)]):
        means = {c: x[:, columns].mean(0) for c, x in data.items()}
        for c in (2, 5, 4):
            unit = {k: m / np.linalg.norm(m) for k, m in means.items()}
            ranked = sorted(base, key=lambda b: -float(unit[b] @ unit[c]))
            assert [base[k] for k in learner.donors_[c, :, t].tolist()] == ranked[:2]
        for place, c in enumerate(base):
            assert (learner.donors_[c, :, t] == place).all()
            expected = np.cov(data[c][:, columns].T) + 1e-6 * np.eye(8)
            kept = learner.factors[place, t].double().numpy()
            np.testing.assert_allclose(kept @ kept.T, expected, atol=1e-5)


def test_fewer_base_classes_than_donors() -> None:
    learner, logs = taught(few_shot_stream([[0], [1]], layers=1), donors=3, epoch_samples=1)
    assert (learner.donors_ == 0).all()
    assert [log["steps"] for log in logs] == [10, 10]  # one an epoch, however few samples
    assert most_alike(normal(1, 2, 4), normal(1, 2, 4), 2).shape == (1, 1, 2)


def test_batches_of_the_base_session() -> None:
    stream = few_shot_stream([[0, 1, 2, 3, 4], [5]], layers=1, n_base=6)
    learner = started(stream.spec, epochs=1, batch_classes=3, batch_samples=4)
    base = stream.sessions[0]
    y = torch.from_numpy(base.y)
    batch = learner._real(base, y, torch.Generator().manual_seed(0))
    kinds = set()
    for _ in range(30):
        tables, labels = batch()
        assert tables.shape == (2, 12, 8)
        chosen, counts = labels.unique(return_counts=True)
        assert counts.tolist() == [4, 4, 4]
        kinds.add(tuple(chosen.tolist()))
        whole = torch.cat([tables[0], tables[1]], dim=1)
        assert len(whole.unique(dim=0)) == 12  # without repetition
        for row, c in zip(whole, labels, strict=True):
            assert c in y[(base.x.tensor() == row).all(1)]
    assert len(kinds) > 3
    batch = started(stream.spec, batch_samples=6)._real(base, y, torch.Generator().manual_seed(0))
    assert len(batch()[0][0].unique(dim=0)) == 30  # all of a class
    learner = started(stream.spec, batch_classes=9, batch_samples=9)
    tables, labels = learner._real(base, y, torch.Generator().manual_seed(0))()
    assert labels.bincount().tolist() == [9] * 5  # six samples each: with repetition
    assert len(tables[0].unique(dim=0)) > 15


def test_batches_of_a_later_session_are_draws_and_its_shots() -> None:
    stream = few_shot_stream(GROUPS, layers=1, shots=5)
    learner, _ = taught(stream, 2, epochs=1, batch_classes=3, batch_samples=4)
    novel = stream.sessions[1]
    draws = torch.Generator().manual_seed(0)
    batch = learner._replayed(novel, torch.from_numpy(novel.y), draws)
    met = set()
    for _ in range(20):
        tables, labels = batch()
        assert tables.shape == (2, 12 + 10, 8)
        torch.testing.assert_close(torch.cat([*tables[:, 12:]], dim=1), novel.x.tensor())
        assert labels[12:].tolist() == novel.y.tolist()
        met |= set(labels[:12].tolist())
    assert met == {0, 1, 2, 3, 4, 5}
    batch = learner._replayed(stream.sessions[0], torch.from_numpy(stream.sessions[0].y), draws)
    assert batch()[1].shape == (24,)  # of 80 samples no more than there are draws


def test_steps_and_learning_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.SGD.step

    def watched(self: torch.optim.SGD, *args: Any) -> Any:
        group = self.param_groups[0]
        rates.append(group["lr"])
        assert (group["momentum"], group["dampening"], group["weight_decay"]) == (0.9, 0.9, 0)
        return step(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    stream = few_shot_stream(GROUPS, layers=1)
    _, logs = taught(stream, batch_classes=4, batch_samples=8, epoch_samples=30)
    # 30 samples for each of 4, 6 and 7 classes, in batches of 32
    assert [log["steps"] for log in logs] == [10 * 3, 10 * 5, 10 * 6]
    schedule = [0.1] * 6 + [0.01, 0.001, 1e-4, 1e-5]
    assert rates[:30] == pytest.approx(np.repeat(schedule, 3))
    assert rates[30:80] == pytest.approx(np.repeat(schedule, 5))


@pytest.mark.parametrize("ensemble", ["softmax", "cosine"])
def test_the_ensemble_averages_over_layers(ensemble: str) -> None:
    stream = few_shot_stream(GROUPS, layers=2)
    learner, _ = taught(stream, 2, ensemble=ensemble)
    x = stream.eval_sets[0].x.tensor()
    rows = learner.prototypes.rows[:6]
    with torch.no_grad():
        features = learner.net(x[:, :8], torch.stack([x[:, 8:16], x[:, 16:]]))
    each = [torch.cosine_similarity(f[:, None], rows[None], dim=2) for f in features]
    if ensemble == "softmax":
        each = [torch.softmax(16 * c, dim=1) for c in each]
    found = learner.scores(x)
    torch.testing.assert_close(found[:, :6], (each[0] + each[1]) / 2, atol=1e-5, rtol=1e-4)
    assert (found[:, 6] == -1e30).all()


def test_streams_that_fr_cannot_learn_are_refused() -> None:
    layers = {"stage-2": (8, 12), "stage-3": (12, 20)}
    spec = StreamSpec((20,), 3, layers=layers)
    with pytest.raises(UserError, match=r"8 columns, .*stage-2 has 4"):
        started(spec)
    with pytest.raises(UserError, match="layer 'stage-4'"):
        started(spec, layers="stage-4")
    for layers in ("stage-3", "stage-3, stage-3"):
        assert started(spec, layers=layers).slices == [(0, 8), (12, 20)]
