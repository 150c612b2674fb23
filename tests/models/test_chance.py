"""chance: even answers over the classes, uncorrelated scores, known by a sample's values alone."""

from typing import Any

import numpy as np
import pytest
import torch
from teaching import start

from embedbench.learning import StreamSpec
from embedbench.models.chance import Chance


def chance(width: int, n_classes: int, seed: int = 0) -> Any:
    return start(Chance(), StreamSpec((width,), n_classes), seed)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 100])
def test_chance_answers_every_class_equally_often(n_classes: int, sparse: bool) -> None:
    rng = np.random.default_rng(n_classes)
    n = 20_000
    x = rng.normal(size=(n, 8)).astype(np.float32)
    if sparse:  # pixels: few values, mostly 0; and no two samples alike
        x = np.float32(rng.integers(0, 256, (n, 8)) / 255) * (rng.random((n, 8)) < 0.5)
        x[:, 0] = np.arange(n, dtype=np.float32)
    answers = chance(8, n_classes).scores(torch.tensor(x.astype(np.float32))).argmax(1).numpy()
    counts = np.bincount(answers, minlength=n_classes)
    expected = n / n_classes
    z = (counts - expected) / np.sqrt(expected * (1 - 1 / n_classes))
    assert np.abs(z).max() < 4.5
    chi_square = (z**2).sum() * (1 - 1 / n_classes)
    freedom = n_classes - 1
    assert abs(chi_square - freedom) < 4.5 * np.sqrt(2 * freedom) + 4  # neither more nor less even


def test_chance_scores_are_uncorrelated_between_classes_and_lie_in_range() -> None:
    x = np.random.default_rng(1).normal(size=(10_000, 4)).astype(np.float32)
    scores = chance(4, 6).scores(torch.tensor(x)).numpy()
    assert 0 <= scores.min() < 0.001
    assert 0.999 < scores.max() < 1
    sets = start(Chance(), StreamSpec((4,), 6, multilabel=True))
    np.testing.assert_allclose(sets.scores(torch.tensor(x)).numpy(), scores - 0.5, atol=1e-6)
    correlations = np.corrcoef(scores.T)[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(10_000)
    assert scores.std() == pytest.approx(1 / np.sqrt(12), abs=0.01)  # uniform on [0, 1)


def test_chance_knows_a_sample_by_its_values_alone() -> None:
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    (found,) = chance(2, 3).scores(torch.tensor([[1.0, 2.0]])).tolist()
    assert found == pytest.approx([0.10517335, 0.97084451, 0.92455375])  # as in finished runs
    learner = chance(4, 10)
    whole = learner.scores(x)
    strided = torch.cat([x, x], 1)[:, :4]
    assert torch.equal(whole, learner.scores(strided))
    for other in (x.flip(1), x + 1e-6):  # a permuted or changed sample is another one
        same = (learner.scores(other).argmax(1) == whole.argmax(1)).float().mean()
        assert same < 0.4
    same = (chance(4, 10, seed=1).scores(x).argmax(1) == whole.argmax(1)).float().mean()
    assert same < 0.4
