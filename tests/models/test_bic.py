"""BiC: one bias pair a session, its optimum, the hold-out, and the corrected targets."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from teaching import assert_same_weights, distilling_loss, disturb, learn, plain, start, teach
from toy import class_stream

from embedbench.errors import UserError
from embedbench.learning import Memory, Stop
from embedbench.models.bic import BiC, fitted_bias
from embedbench.streams.stream import Stream, StreamSpec

SMALL: dict[str, Any] = {"units": 8, "batch_size": 16, "stop": Stop(rule="epochs", epochs=4)}
STREAM = class_stream([[0, 1], [2, 3], [4]])


def taught(stream: Stream, sessions: int, **settings: Any) -> Any:
    return teach(BiC(**{**SMALL, **settings}), stream, sessions)[0]


def penalised(bias: Any, logits: Any, y: Any, new: list[int]) -> float:
    """Class-balanced cross-entropy and penalty, a sample at a time."""
    losses: dict[int, list[float]] = {}
    for z, c in zip(logits, y, strict=True):
        moved = [bias[0] * v + bias[1] if k in new else v for k, v in enumerate(z)]
        losses.setdefault(int(c), []).append(np.log(np.sum(np.exp(moved))) - moved[c])
    mean = float(np.mean([np.mean(v) for v in losses.values()]))
    return mean + 0.05 * ((bias[0] - 1) ** 2 + bias[1] ** 2)


@pytest.mark.parametrize("seed", range(2))
def test_the_pair_is_the_optimum_of_a_balanced_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 3])  # of unequal size: each class counts the same
    logits = rng.normal(size=(10, 5)) * 2 + np.eye(5)[y]  # class 4 has no sample
    logits[:, 2:] = 1.5 * logits[:, 2:] + 2  # biased to the new classes
    found = fitted_bias(torch.tensor(logits, dtype=torch.float32), torch.tensor(y), [2, 3, 4])
    known = minimize(penalised, [1.0, 0.0], args=(logits, y, [2, 3, 4]), tol=1e-10)
    np.testing.assert_allclose(found.numpy(), known.x, atol=2e-3)


def test_one_pair_a_session_of_which_only_the_newest_is_fitted() -> None:
    learner = taught(STREAM, 2)
    before = learner.biases
    learn(learner, STREAM.sessions[2])
    assert torch.equal(learner.biases[:-1], before)
    assert before[0].tolist() == [1, 0]  # nothing to correct in the first session
    assert all(pair.tolist() != [1, 0] for pair in learner.biases[1:])
    assert learner.session_of.tolist() == [0, 0, 1, 1, 2]


def test_answers_are_corrected_class_by_class() -> None:
    learner = taught(STREAM, 3)
    learner.biases = torch.tensor([[1.0, 0.0], [2.0, -1.0], [0.5, 3.0]])
    x = STREAM.eval_sets[0].x.tensor()
    z = learner.net(x).detach()
    expected = torch.stack([z[:, 0], z[:, 1], 2 * z[:, 2] - 1, 2 * z[:, 3] - 1, z[:, 4] / 2 + 3], 1)
    torch.testing.assert_close(learner.scores(x), expected)


def test_targets_of_distillation_are_the_corrected_old_answers() -> None:
    """(1 - λ) cross-entropy + λ distillation, a sample at a time, λ = 4/5."""
    learner = taught(STREAM, 2)
    learner.biases = torch.tensor([[1.2, 0.3], [0.7, -0.8], [1.0, 0.0]])
    learner.session_of = torch.tensor([0, 0, 1, 1, 2])
    alpha = np.array([1.2, 1.2, 0.7, 0.7, 1.0])
    beta = np.array([0.3, 0.3, -0.8, -0.8, 0.0])
    x, y = STREAM.sessions[2].x.tensor()[:5], torch.tensor(STREAM.sessions[2].y)[:5]
    objective = learner._objective([0, 1, 2, 3], [0, 1, 2, 3, 4])
    old = alpha * plain(learner.net(x)) + beta
    disturb(learner.net)  # the old answers stay
    new = alpha * plain(learner.net(x)) + beta
    expected = distilling_loss(new, old, y, [[0, 1, 2, 3]], (1 / 5, 4 / 5))
    assert objective(x, y).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("share", "size"), [(0.1, 1), (0.9, 9)])
def test_the_hold_out_is_balanced_and_not_trained_on(share: float, size: int) -> None:
    learner = taught(STREAM, 1, hold_out=share, memory=Memory(per_class=10))
    joined = learner.exemplars.join(STREAM.sessions[1])
    rest, held, held_y = learner._hold_out(joined, [0, 1])
    assert np.bincount(held_y.numpy()).tolist() == [size] * 4
    assert np.bincount(rest.y).tolist() == [10 - size] * 2 + [20 - size] * 2
    both = torch.cat([rest.x.batch(torch.arange(len(rest.x)), "cpu"), held])
    order = torch.cat([torch.tensor(rest.y), held_y])
    every = joined.x.batch(torch.arange(len(joined.y)))
    where = torch.cdist(both, every).argmin(1)
    assert sorted(where.tolist()) == list(range(len(every)))  # each sample once
    assert torch.equal(every[where], both)
    assert order.tolist() == joined.y[where.numpy()].tolist()
    assert learn(learner, STREAM.sessions[1])["held_out"] == 4 * size


def test_a_kept_hold_out_is_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 exemplars in all: 6 a class, then 3, then 2; a third of them, rounded up, is held out."""
    trained: list[torch.Tensor] = []
    fit = BiC.train

    def train(self: BiC, session: Any, *args: Any, **kwargs: Any) -> Any:
        trained.append(session.x.batch(torch.arange(len(session.x)), "cpu"))
        return fit(self, session, *args, **kwargs)

    monkeypatch.setattr(BiC, "train", train)
    settings = {"hold_out": 0.34, "hold_out_kept": True, "memory": Memory(total=12)}
    learner = taught(STREAM, 0, **settings)
    held: list[torch.Tensor] = []
    # the hold-out that the pair of the session is fitted to, what is kept of each class, and stored
    counts = (0, [3, 3], [3, 3]), (8, [2] * 4, [1] * 4), (5, [1] * 5, [1] * 5)
    for part, (log, kept, stored) in zip(STREAM.sessions, counts, strict=True):
        assert learn(learner, part)["held_out"] == log
        assert np.bincount(learner.kept.y).tolist() == kept
        assert np.bincount(learner.exemplars.y).tolist() == stored
        held.append(learner.kept.x)
        each = 4 * STREAM.spec.input_shape[0] + 8
        assert learner.footprint()["samples"] == each * (sum(kept) + sum(stored))
    assert len(trained[0]) == 2 * (20 - 3)
    apart = torch.cat(held).unique(dim=0)
    every = torch.cat(trained).unique(dim=0)
    assert len(torch.cat([apart, every]).unique(dim=0)) == len(apart) + len(every)
    assert len(apart) == 3 + 3 + 2 + 2 + 1  # a part of a class shrinks and is never drawn anew


def test_a_kept_hold_out_of_all_samples_and_of_small_classes() -> None:
    made = {"hold_out": 0.8, "hold_out_kept": True, "memory": Memory(select="all")}
    learner = taught(STREAM, 2, **made)
    assert np.bincount(learner.kept.y).tolist() == [10] * 4  # at most half
    assert np.bincount(learner.exemplars.y).tolist() == [10] * 4
    one = taught(class_stream([[0, 1], [2]], n_train=1), 2, hold_out_kept=True)
    assert len(one.kept) == 0
    assert np.bincount(one.exemplars.y).tolist() == [1, 1, 1]


def test_a_kept_hold_out_goes_on_from_a_checkpoint() -> None:
    first, other = (taught(STREAM, k, hold_out_kept=True) for k in (2, 0))
    other.load_state_dict(first.state_dict())
    for learner in (first, other):
        learn(learner, STREAM.sessions[2])
    assert_same_weights(first, other, rtol=0, atol=0)
    assert torch.equal(first.biases, other.biases)


def test_a_kept_hold_out_is_refused_for_label_sets() -> None:
    with pytest.raises(UserError, match="one label a sample"):
        start(BiC(hold_out_kept=True), StreamSpec((4,), 3, multilabel=True))


@pytest.mark.parametrize(
    ("second", "n", "old", "held", "rest"),
    [
        ([2], 1, [0, 1], [0, 1], [2]),
        ([0, 2], 3, [1], [0, 1, 1, 2], [0] * 5 + [1, 2, 2]),
    ],
)
def test_at_most_half_of_a_class_is_held_out(
    second: list[int], n: int, old: list[int], held: list[int], rest: list[int]
) -> None:
    """A class of one sample is trained on; of one that comes again, only new samples count."""
    stream = class_stream([[0, 1], second], n_train=n)
    learner = taught(stream, 1, hold_out=0.9)
    left, _, held_y = learner._hold_out(learner.exemplars.join(stream.sessions[1]), old)
    assert (sorted(held_y.tolist()), sorted(left.y)) == (held, rest)


def test_a_class_that_comes_again_keeps_its_pair() -> None:
    learner = taught(class_stream([[0, 1], [0, 2], [1]]), 3)
    assert learner.session_of.tolist() == [0, 0, 1]
    assert learner.biases[2].tolist() == [1, 0]  # session 2 introduced no class
