"""LayUP: a ridge on concatenated layers, its choice of λ, sessions that add up."""

import warnings

import numpy as np
import pytest
import torch
from few_shot import few_shot_stream
from sklearn.model_selection import StratifiedKFold
from teaching import learn, start, teach
from toy import Array

from embedbench.models.layup import LAMBDAS, LayUP, stratified_folds

GROUPS = [[0, 1, 2], [3], [4, 5]]
WIDTH = 6


def naive_ridge(h: Array, y: Array, lam: float) -> Array:
    return np.linalg.solve(h.T @ h + lam * np.eye(h.shape[1]), h.T @ np.eye(6)[y])


@pytest.mark.parametrize(
    ("layers", "columns", "lam"), [("all", [0, 1, 2], 0.01), ("block-2", [0, 2], 10.0)]
)
def test_it_is_a_ridge_on_the_layers(layers: str, columns: list[int], lam: float) -> None:
    stream = few_shot_stream(GROUPS, width=WIDTH, layers=2, spread=1.0)
    learner, logs = teach(LayUP(lam=lam, layers=layers), stream)
    assert logs == [{"lam": lam}] * 3

    def chosen(x: torch.Tensor) -> Array:
        whole = x.double().numpy()
        return np.concatenate([whole[:, k * WIDTH : (k + 1) * WIDTH] for k in columns], axis=1)

    h = np.concatenate([chosen(s.x.tensor()) for s in stream.sessions])
    y = np.concatenate([s.y for s in stream.sessions])
    test = stream.eval_sets[1].x.tensor()
    expected = chosen(test) @ naive_ridge(h, y, lam)
    np.testing.assert_allclose(learner.scores(test).numpy(), expected, atol=1e-5)


def test_lambda_is_the_most_accurate_on_four_folds_with_all_that_came_before() -> None:
    np.testing.assert_allclose(LAMBDAS, [*np.logspace(-4, 3, 15), 1e-8])  # the authors'
    stream = few_shot_stream(GROUPS, width=WIDTH, layers=1, spread=3.0)
    learner = start(LayUP(), stream.spec)
    before_h, before_y = np.zeros((0, 2 * WIDTH)), np.zeros(0, dtype=np.int64)
    for session in stream.sessions:
        log = learn(learner, session)
        h, y = session.x.tensor().double().numpy(), session.y
        accuracies = []
        for lam in LAMBDAS:
            right = []
            for rest, held in StratifiedKFold(4, shuffle=False).split(h, y):
                fitted = np.concatenate([before_h, h[rest]]), np.concatenate([before_y, y[rest]])
                right.append(np.mean((h[held] @ naive_ridge(*fitted, lam)).argmax(1) == y[held]))
            accuracies.append(np.mean(right))
        np.testing.assert_allclose(log["validation_accuracy"], accuracies, atol=1e-12)
        assert log["lam"] == LAMBDAS[int(np.argmax(accuracies))]
        before_h, before_y = np.concatenate([before_h, h]), np.concatenate([before_y, y])


def test_sessions_with_few_samples_have_fewer_folds_or_choose_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [len(f) for f in stratified_folds(np.array([0, 0, 1]))] == [2, 1]
    assert [f.tolist() for f in stratified_folds(np.array([2, 0]))] == [[0, 1]]
    for n in (2, 1):
        _, logs = teach(LayUP(), few_shot_stream(GROUPS, width=WIDTH, layers=1, shots=n))
        assert ["validation_accuracy" in log for log in logs] == [True, n > 1, n > 1]
    assert logs[2]["lam"] == logs[0]["lam"]  # the last choice stands
    one = few_shot_stream(GROUPS, width=WIDTH, layers=1, n_base=1, shots=1)
    assert teach(LayUP(), one)[1] == [{"lam": 1.0}] * 3
    _, logs = teach(LayUP(lam=0), few_shot_stream(GROUPS, width=200, layers=1))  # of 60 samples
    assert [log["lam"] for log in logs] == [LAMBDAS[-1]] * 3
