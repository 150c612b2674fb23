"""NCM, chance and offline: what the conformance suite cannot know about them."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid
from teaching import show, start
from toy import Array, blobs, class_stream

from embedbench.config.fields_added_later import identity
from embedbench.errors import UserError
from embedbench.learning import UNSEEN, Seeds, Stop, StreamSpec
from embedbench.models.chance import Chance
from embedbench.models.mlp import MLP
from embedbench.models.ncm import NCM
from embedbench.models.offline import Offline
from embedbench.models.slda import SLDA
from embedbench.runs.stream_runner import run_stream


def data(seed: int, n: int = 40) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)  # class 3 never comes
    y[:3] = [0, 1, 2]
    return blobs(y, 5, seed, spread=1.0), y, blobs(rng.integers(0, 3, 20), 5, seed + 1, spread=1.0)


def test_euclidean_scores_are_minus_squared_distances() -> None:
    x, y, test = data(0)
    found = show(NCM(), x, y, [10, 11, 30]).scores(torch.tensor(test)).numpy()
    for c in range(3):
        mean = x[y == c].astype(np.float64).mean(0)
        expected = [-sum((row.astype(np.float64) - mean) ** 2) for row in test]
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.argmax(1), NearestCentroid().fit(x, y).predict(test))
    assert (found[:, 3] == UNSEEN).all()


def test_cosine_scores_are_cosines_to_the_mean_of_unit_vectors() -> None:
    x, y, test = data(0)
    found = show(NCM(metric="cosine"), x, y, [7]).scores(torch.tensor(test)).numpy()
    for c in range(3):
        mean = np.mean([row / np.linalg.norm(row) for row in x[y == c]], axis=0)
        for i, row in enumerate(test):
            cosine = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
            assert found[i, c] == pytest.approx(cosine, abs=1e-5)


def test_ncm_sums_do_not_drift() -> None:
    # 60,000 samples around .1: a float32 sum would be off in the fourth digit
    x = np.full((60_000, 1), 0.1, np.float32)
    learner = show(NCM(), x, np.zeros(60_000, np.int64), range(1000, 60_000, 1000))
    assert float(learner.sums[0, 0] / 60_000) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


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


def test_offline_is_the_mlp_on_the_merged_stream_with_its_size() -> None:
    stream = class_stream([[0, 1], [2], [3]], spread=1.0)
    learner = Offline(mlp=MLP(units=10, stop=Stop(epochs=5)))
    offline, logs = run_stream(stream, learner, Seeds.of(4))
    plain, _ = run_stream(stream.merged(), MLP(units=10, stop=Stop(epochs=5)), Seeds.of(4))
    assert len(logs) == len(offline.session) == 1
    for name, value in vars(plain).items():
        np.testing.assert_array_equal(getattr(offline, name), value)
    assert learner.footprint() == learner.mlp.footprint()


def test_offline_may_be_slda_on_the_merged_stream() -> None:
    stream = class_stream([[0, 1], [2], [3]], spread=1.0, n_train=700)  # more than one batch
    offline, logs = run_stream(stream, Offline(learner="slda"), Seeds.of(4))
    plain, _ = run_stream(stream.merged(), SLDA(), Seeds.of(1))
    assert [log.log for log in logs] == [{"epochs": 1}]
    np.testing.assert_array_equal(offline.answer, plain.answer)
    old = Offline(learner="mlp")
    assert identity(old) == {"mlp": identity(old.mlp)}  # older runs stay finished


@pytest.mark.parametrize("spec", [StreamSpec((4,), 3, multilabel=True), StreamSpec((3, 8, 8), 3)])
def test_the_reference_slda_takes_vectors_with_one_class(spec: StreamSpec) -> None:
    with pytest.raises(UserError, match="slda takes vectors"):
        Offline(learner="slda").start(spec, Seeds.of(0), "cpu")
