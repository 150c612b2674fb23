"""nc-fscil: the simplex, the dot-regression loss by a naive loop, what later sessions train on."""

from typing import Any

import numpy as np
import pytest
import torch
from few_shot import GROUPS, few_shot_stream
from file_helpers import says
from teaching import cosine, learn, start
from toy import blobs

from embedbench.errors import UserError
from embedbench.learning import Seeds, Stop, StreamSpec, generator
from embedbench.learning.learner import Learner
from embedbench.models.nc_fscil import NCFSCIL, simplex


def started(learner: Learner, width: int, n_classes: int) -> Any:
    return start(learner, StreamSpec((width,), n_classes))


@pytest.mark.parametrize(("width", "n"), [(16, 5), (8, 8), (7, 8), (1, 2)])
def test_the_frame_is_a_simplex(width: int, n: int) -> None:
    frame = simplex(width, n, torch.Generator().manual_seed(0)).double()
    gram = frame.T @ frame
    expected = torch.full((n, n), -1 / (n - 1), dtype=torch.float64)
    expected.fill_diagonal_(1.0)
    torch.testing.assert_close(gram, expected, atol=1e-6, rtol=0)


def test_too_few_outputs_are_refused() -> None:
    with pytest.raises(UserError, check=says(what="nc-fscil.outputs", got=6)):
        started(NCFSCIL(), 6, 8)
    started(NCFSCIL(outputs=7), 6, 8)


def test_the_dot_regression_loss_by_a_naive_loop() -> None:
    learner = started(NCFSCIL(units=8), 6, 4)
    assert torch.equal(learner.frame, simplex(6, 4, generator(Seeds.of(0).init, 0)))
    y = torch.tensor([0, 3, 3, 1])
    x = torch.tensor(blobs(y.numpy(), 6, 0))
    with torch.no_grad():
        out = learner.net(x).double().numpy()
        expected = [
            0.5 * (cosine(f, learner.frame[:, c].double().numpy()) - 1) ** 2
            for f, c in zip(out, y.tolist(), strict=True)
        ]
        assert float(learner._loss(x, y)) == pytest.approx(np.mean(expected), rel=1e-4)


def test_later_sessions_train_on_their_samples_and_one_mean_of_each_class_before() -> None:
    learner = started(NCFSCIL(units=8, stop=Stop(rule="epochs", epochs=1)), 8, 7)
    base, novel = few_shot_stream(GROUPS, shots=3).sessions[:2]
    learn(learner, base)
    joined = learner._joined(novel)
    assert joined.y.tolist() == [4, 4, 4, 5, 5, 5, 0, 1, 2, 3]
    x = joined.x.batch(torch.arange(len(joined.y)))
    torch.testing.assert_close(x[:6], novel.x.tensor())
    for c in range(4):
        torch.testing.assert_close(x[6 + c], base.x.tensor()[torch.from_numpy(base.y) == c].mean(0))
