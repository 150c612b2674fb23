"""Few-shot learners on the final embedding: prototypes by hand, calibration, the simplex."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from few_shot import GROUPS, few_shot_stream
from file_helpers import says
from teaching import cosine, learn, start
from toy import blobs, session

from embedbench.checks.learner_check_tools import state_bytes
from embedbench.errors import UserError
from embedbench.learning import UNSEEN, Seeds, Stop, StreamSpec, generator
from embedbench.learning.base_session_prototypes import Classifier
from embedbench.learning.learner import Learner
from embedbench.models.alice import ALICE
from embedbench.models.c_fscil import CFSCIL
from embedbench.models.fr import FR
from embedbench.models.nc_fscil import NCFSCIL, simplex
from embedbench.models.prototype import Prototype
from embedbench.models.teen import TEEN
from embedbench.runs.stream_runner import run_stream


def started(learner: Learner, width: int, n_classes: int) -> Any:
    return start(learner, StreamSpec((width,), n_classes))


def test_prototype_answers_by_cosine_to_class_means() -> None:
    seed, first, second = 0, np.repeat([0, 2], [7, 4]), np.repeat([1], 3)
    x, shots = blobs(first, 5, seed, 1.0), blobs(second, 5, seed + 1, 1.0)
    test = blobs([0, 1, 2, 1], 5, seed + 2, 1.0)
    learner = started(Prototype(), 5, 4)
    learn(learner, session(x, first))
    assert (learner.scores(torch.tensor(test))[:, [1, 3]] == UNSEEN).all()
    learn(learner, session(shots, second))
    found = learner.scores(torch.tensor(test)).numpy()
    for c, mean in enumerate((x[:7].mean(0), shots.mean(0), x[7:].mean(0))):
        assert found[:, c] == pytest.approx([cosine(row, mean) for row in test], abs=1e-5)
    assert (found[:, 3] == UNSEEN).all()
    learn(learner, session(test[3:], [3]))
    assert np.array_equal(learner.prototypes.means()[3], test[3])  # one sample is its class's mean


def test_a_trained_classifier_separates_what_means_do_not() -> None:
    """One feature of large, useless variance: means are blurred, trained weights ignore it."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    useless = 8 * rng.normal(size=120) + 2 * (y == 0)  # by chance, 2/8 of a deviation apart
    x = np.stack([np.where(y == 0, 1.0, -1.0), useless, np.ones(120)], axis=1).astype(np.float32)
    right = {}
    for base in ("means", "trained"):
        learner = started(Prototype(Classifier(base, epochs=60, batch_size=20, lr=0.02)), 3, 3)
        learn(learner, session(x, y))
        right[base] = float((learner.scores(torch.tensor(x)).argmax(1).numpy() == y).mean())
        torch.testing.assert_close(learner.prototypes.rows[:2].norm(dim=1), torch.ones(2))
        before = learner.prototypes.rows.clone()
        learn(learner, session(np.eye(3, dtype=np.float32), [2, 2, 0]))
        if base == "trained":
            assert torch.equal(learner.prototypes.rows[:2], before[:2])  # weights stay
        expected = torch.tensor([1.0, 1.0, 0.0]) / 2**0.5  # the novel class gets its mean
        torch.testing.assert_close(learner.prototypes.rows[2], expected)
    assert right["trained"] > 0.98 > right["means"] + 0.05


def test_teen_by_hand_on_three_classes() -> None:
    """p_0 = (1, 0), p_1 = (0, 1) of the base session, p_2 = (.6, .8) novel; τ = 5, α = .25.

    Weights are e³ and e⁴ over their sum: .26894 and .73106, Δ of length √(.26894² + .73106²) =
    .77896 points to (.34526, .93850). p_2 becomes .75 (.6, .8) + .25 Δ = (.53631, .83463).
    """
    learner = started(TEEN(alpha=0.25, scale=5.0), 2, 3)
    learn(learner, session(np.array([[2.0, 0], [0, 3.0], [4, 0]]), [0, 1, 0]))
    learn(learner, session(np.array([[3.0, 4.0]]), [2]))
    found = learner.scores(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    length = math.hypot(0.53631, 0.83463)
    expected = torch.tensor([[1, 0, 0.53631 / length], [0, 1, 0.83463 / length]])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


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


FR_SHORT: dict[str, Any] = {"epochs": 8, "epoch_samples": 64, "optimiser": "adam", "lr": 3e-3}
FR_SHORT |= {"batch_classes": 4, "batch_samples": 16}


@pytest.mark.parametrize(
    ("learner", "held"),
    [
        (Prototype(), {}),
        (Prototype(Classifier("trained")), {}),
        (TEEN(), {}),
        (NCFSCIL(units=64), {"means": 7 * (16 * 8 + 8 + 1)}),  # float64 sums, counts, a flag
        (ALICE(units=32), {"parameters": 4 * (16 * 32 + 32 + 32 * 32 + 32)}),  # no head is kept
        (ALICE(layers=0), {"parameters": 0}),
        (CFSCIL(units=64), {"parameters": 4 * (16 * 64 + 64), "means": 7 * (16 * 8 + 8 + 1)}),
        (FR(**FR_SHORT), {"covariances": 4 * 3 * 16 * 16 * 4 + 7 * 2 * 3 * 8 + 7}),
    ],
)
def test_classes_are_learned_and_bytes_counted(learner: Learner, held: dict[str, int]) -> None:
    stream = few_shot_stream(GROUPS, width=16, layers=2 * learner.tags.needs_layers)
    found, logs = run_stream(stream, learner, Seeds.of(0))
    right = found.answer[-1] == found.y
    assert right[found.y < 4].mean() > 0.9
    assert right[found.y >= 4].mean() > 0.9
    footprint = learner.footprint()
    assert footprint.total == state_bytes(learner.state_dict())
    assert {kind: footprint[kind] for kind in held} == held
    assert logs[0].footprint == logs[-1].footprint  # nothing grows with the sessions
