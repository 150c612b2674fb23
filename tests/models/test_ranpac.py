"""RanPAC: ridge regression in closed form, the choice of λ, sessions that add up."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from teaching import learn, start, teach
from toy import blobs, class_stream, session

from embedbench.learning import Seeds, Session, StreamSpec, generator
from embedbench.models.ranpac import LAMBDAS, RanPAC


def started(n_classes: int = 3, **settings: Any) -> Any:
    return start(RanPAC(**{"projections": 40, **settings}), StreamSpec((6,), n_classes))


def noisy(spread: float, n: int = 30, seed: int = 0) -> Session:
    """A session of three classes; the larger the spread, the larger the best λ."""
    y = np.resize([0, 1, 2], n)
    return session(blobs(y, 6, seed, spread=spread), y)


def one_sample(y: int) -> Session:
    return session(np.ones((1, 6), dtype=np.float32), [y])


def projected(learner: RanPAC, x: torch.Tensor) -> np.ndarray[Any, Any]:
    """h = ReLU(x P), float64."""
    return np.maximum(x.double().numpy() @ learner.projection.double().numpy(), 0)


@pytest.mark.parametrize("lam", [1e-2, 1e3])
def test_it_is_ridge_regression_on_all_sessions(lam: float) -> None:
    stream = class_stream([[0, 1], [2], [3]], spread=1.0)
    learner, logs = teach(RanPAC(projections=40, lam=lam), stream)
    assert logs == [{"lam": lam}] * 3
    h = np.concatenate([projected(learner, s.x.tensor()) for s in stream.sessions])
    y = np.concatenate([s.y for s in stream.sessions])
    known = Ridge(alpha=lam, fit_intercept=False, solver="cholesky").fit(h, np.eye(4)[y])
    test = stream.eval_sets[2].x.tensor()
    expected = known.predict(projected(learner, test))
    np.testing.assert_allclose(learner.scores(test).numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("projections", [12, 40])  # fewer and more than the 24 fitted samples
@pytest.mark.parametrize("seed", range(2))
def test_lambda_has_the_least_squared_error_on_a_fifth(seed: int, projections: int) -> None:
    given = noisy(2.0, seed=seed)
    learner = started(projections=projections)
    log = learn(learner, given)
    drawn = torch.randn(6, projections, generator=generator(Seeds.of(0).init, 0))
    assert torch.equal(learner.projection, drawn)
    order = torch.randperm(30, generator=generator(Seeds.of(0).batches, 0)).numpy()
    h, true = projected(learner, given.x.tensor())[order], np.eye(3)[given.y[order]]
    errors = []
    for lam in LAMBDAS:
        if lam < 1e-3:  # singular to the oracle's precision
            continue
        gram = h[:24].T @ h[:24] + lam * np.eye(projections)
        w = np.linalg.solve(gram, h[:24].T @ true[:24])
        errors.append(np.mean((h[24:] @ w - true[24:]) ** 2))
    np.testing.assert_allclose(log["validation_mse"][-len(errors) :], errors, rtol=1e-3)
    assert log["lam"] == LAMBDAS[int(np.argmin(log["validation_mse"]))]
    assert log["lam"] >= 1e-3  # noise: so that the least is among those compared
    np.testing.assert_allclose(LAMBDAS, np.logspace(-8, 8, 17))


@pytest.mark.parametrize("projections", [12, 40])
@pytest.mark.parametrize("seed", range(2))
def test_later_choices_have_the_error_on_all_held_out_samples(seed: int, projections: int) -> None:
    """The error from moments is that of the samples themselves, and no neighbour has a smaller."""
    learner = started(projections=projections, n_classes=4)
    fitted, held = [], []
    for k, (labels, spread) in enumerate((([0, 1], 0.5), ([2], 3.0), ([3], 0.1), ([1, 3], 2.0))):
        y = np.resize(labels, 25)
        part = session(blobs(y, 6, 10 * seed + k, spread=spread), y)
        before, log = learner.lam_, learn(learner, part)
        order = torch.randperm(25, generator=generator(Seeds.of(0).batches, k)).numpy()
        h, true = projected(learner, part.x.tensor())[order], np.eye(4)[y[order]]
        fitted.append((h[:20], true[:20]))
        held.append((h[20:], true[20:]))
        if k == 0:
            continue
        (x, t), (held_x, held_t) = (
            (np.concatenate(part) for part in zip(*parts, strict=True)) for parts in (fitted, held)
        )
        tried = {float(lam): error for lam, error in log["tried_mse"].items()}
        for lam, error in tried.items():
            if lam >= 1e-3:  # below, singular to the oracle's precision
                w = np.linalg.solve(x.T @ x + lam * np.eye(projections), x.T @ t)
                np.testing.assert_allclose(error, np.mean((held_x @ w - held_t) ** 2), rtol=1e-3)
        assert tried[log["lam"]] <= 1.0001 * min(tried.values())
        h, t = np.concatenate([x, held_x]), np.concatenate([t, held_t])
        w = np.linalg.solve(h.T @ h + log["lam"] * np.eye(projections), h.T @ t)
        np.testing.assert_allclose(learner.weights.numpy(), w, rtol=1e-3, atol=1e-5)
        low, high = sorted(map(LAMBDAS.index, (log["lam"], before)))
        assert [*tried] == pytest.approx(LAMBDAS[low - 1 : high + 2])  # and neighbours of both


def test_a_first_choice_that_rounding_decides_is_left() -> None:
    """With fewer samples than projections, every small λ has one error but for rounding."""
    learner = started(projections=120, n_classes=6)
    y = np.resize(range(6), 60)
    whole = blobs(y, 6, 0, spread=3.0)
    for part in (slice(0, 12), slice(12, 24), slice(24, 60)):
        tried = learn(learner, session(whole[part], y[part])).get("tried_mse", ["1"])
        assert min(map(float, tried)) >= 1e-12 * float(learner.gram.trace()) > 2e-8
        if part.start == 0:
            learner.lam_ = LAMBDAS[0]
    least = min(learner._error(lam) for lam in LAMBDAS[5:])
    assert learner._error(learner.lam_) <= 1.01 * least < learner._error(1e-30) == np.inf


def test_a_last_session_of_few_samples_does_not_decide() -> None:
    """By the authors' rule it does: what two samples ask for, all of W is solved with."""
    few, last = session(np.full((2, 6), 0.1), [3, 3]), {}
    for rule in ("all", "session"):
        learner = started(n_classes=4, lam_rule=rule)
        first = learn(learner, noisy(2.0, 300))["lam"]
        last[rule] = learn(learner, few)["lam"] / first
    assert 0.1 <= last["all"] <= 10
    assert last["session"] <= 1e-3


def test_lambda_stays_after_lam_sessions_choices() -> None:
    easy, hard = noisy(0.01, 60), noisy(3.0, 60)
    learner = started(lam_sessions=1)
    assert learn(learner, one_sample(0)) == {"lam": 1.0}  # nothing to choose it on: no choice
    chosen = learn(learner, easy)["lam"]
    assert chosen != 1.0
    assert learn(learner, hard) == {"lam": chosen}
    assert learn(learner, one_sample(2)) == {"lam": chosen}
    assert learn(started(), easy, hard)["lam"] > chosen


@pytest.mark.parametrize(("n", "held"), [(1, 0), (2, 1), (4, 1), (9, 1), (10, 2)])
def test_a_fifth_is_held_out_and_at_least_one_of_two(n: int, held: int) -> None:
    learner = started()
    learn(learner, noisy(1.0, n))
    assert learner.n_held == held


def test_lambda_rises_until_the_sum_can_be_factored() -> None:
    learner = started(lam=0.0)
    assert learn(learner, one_sample(1))["lam"] >= LAMBDAS[0]  # G has rank 1
    assert torch.isfinite(learner.scores(torch.ones(1, 6))).all()
    assert learn(learner, noisy(2.0, 90))["lam"] == 0.0
