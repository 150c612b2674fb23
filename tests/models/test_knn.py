"""kNN: votes and ties worked out by hand, scikit-learn's answers, memories, blocks."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from toy import blobs

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.learning.exemplars import Memory
from embedbench.models import knn
from embedbench.models.knn import KNN
from embedbench.streams.stream import StreamSpec

Array = NDArray[Any]


def taught(x: Array, y: Array, cuts: list[int], n_classes: int = 4, **settings: Any) -> KNN:
    learner = KNN(**settings)
    learner.start(StreamSpec((x.shape[1],), n_classes), Seeds.of(0), "cpu")
    for part in np.split(np.arange(len(y)), cuts):
        learner.observe(torch.tensor(x[part]), torch.tensor(y[part]))
    return learner


def line(*places: float) -> Array:
    return np.array(places, dtype=np.float32)[:, None]


def test_votes_and_ties_on_a_line() -> None:
    """Stored 0, 1 (class 0), 3, 7 (class 2), 4 (class 1); the sample is at 2.2."""
    x, y = line(0, 1, 3, 7, 4), np.array([0, 0, 2, 2, 1])
    # distances 2.2, 1.2, 0.8, 4.8, 1.8: neighbours in order 3 (2), 1 (0), 4 (1), 0 (0), 7 (2)
    asked = torch.tensor(line(2.2))
    for k, votes in ((1, [0, 0, 1, 0]), (3, [1, 1, 1, 0]), (4, [2, 1, 1, 0]), (9, [2, 1, 2, 0])):
        scores = taught(x, y, [2], k=k, metric="euclidean").scores(asked)[0]
        assert scores.floor().tolist() == votes
        size = 1 + 2.2**2
        rest = [size / (size + d**2) / 2 for d in (1.2, 1.8, 0.8)] + [0]
        np.testing.assert_allclose((scores - scores.floor()).numpy(), rest, atol=1e-5)
    assert taught(x, y, [], k=3, metric="euclidean").scores(asked).argmax() == 2  # tie: 0.8
    assert taught(x, y, [], k=9, metric="euclidean").scores(asked).argmax() == 2


def test_cosine_ignores_lengths() -> None:
    x = np.array([[10, 1], [0, 0.1], [1, 1]], dtype=np.float32)
    learner = taught(x, np.array([0, 1, 2]), [], k=1)
    asked = torch.tensor([[1.0, 0.0], [0.0, 50.0], [0.3, 0.28]])
    assert learner.scores(asked).argmax(1).tolist() == [0, 1, 2]
    euclidean = taught(x, np.array([0, 1, 2]), [], k=1, metric="euclidean")
    assert euclidean.scores(asked).argmax(1).tolist() == [2, 2, 1]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 5, 12])
@pytest.mark.parametrize("seed", range(3))
def test_votes_are_scikit_learns(seed: int, k: int, metric: str) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 80)
    x, asked = blobs(y, 5, seed, spread=2.0), blobs(y[:40], 5, seed + 9, spread=2.0)
    scores = taught(x, y, [3, 40], k=k, metric=metric).scores(torch.tensor(asked)).numpy()
    known = KNeighborsClassifier(k, metric=metric, algorithm="brute").fit(x, y)
    votes = np.rint(known.predict_proba(asked) * k)
    np.testing.assert_array_equal(np.floor(scores[:, :3]), votes)
    clear = (votes == votes.max(1, keepdims=True)).sum(1) == 1
    assert clear.sum() > 15
    np.testing.assert_array_equal(scores.argmax(1)[clear], known.predict(asked)[clear])
    assert not scores[:, 3].any()


@pytest.mark.parametrize("seed", range(3))
def test_classes_without_votes_are_in_the_order_of_their_nearest_samples(seed: int) -> None:
    """So that an answer among some classes alone is the nearest neighbour's, too."""
    y = np.arange(60) % 4
    x, asked = blobs(y, 5, seed, spread=2.0), blobs(y[:20], 5, seed + 9, spread=2.0)
    scores = taught(x, y, [], k=1, metric="euclidean").scores(torch.tensor(asked)).numpy()
    near = np.square(asked[:, None] - x[None]).sum(2)
    nearest = np.stack([near[:, y == c].min(1) for c in range(4)], 1)
    np.testing.assert_array_equal(np.argsort(-scores, 1), np.argsort(nearest, 1))


@pytest.mark.parametrize("select", ["all", "reservoir", "balanced"])
@pytest.mark.parametrize("seed", range(2))
def test_blocks_and_cuts_change_nothing(
    seed: int, select: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = np.random.default_rng(seed).integers(0, 4, 90)
    x, asked = blobs(y, 5, seed), torch.tensor(blobs(y[:33], 5, seed + 9))
    memory = Memory(total=20, select=select)
    one = taught(x, y, list(range(10, 90, 10)), memory=memory)
    whole = one.scores(asked)
    monkeypatch.setattr(knn, "DISTANCES", 50)
    torch.testing.assert_close(one.scores(asked), whole)
    if select == "all":  # the other memories draw batch by batch, as in `er`
        torch.testing.assert_close(taught(x, y, [7, 8, 50]).scores(asked), whole)


def test_a_memory_bounds_what_is_stored() -> None:
    y = np.arange(60) % 4
    x = blobs(y, 5, 0)
    for memory, stored in (
        (Memory(select="all"), 60),
        (Memory(total=12, select="balanced"), 12),
        (Memory(total=10, select="reservoir"), 10),
    ):
        learner = taught(x, y, [30], memory=memory)
        assert learner.footprint() == {"samples": stored * (5 * 4 + 8)}


def test_before_the_first_sample_all_scores_are_0() -> None:
    learner = taught(np.zeros((0, 3), dtype=np.float32), np.zeros(0, dtype=np.int64), [])
    assert learner.scores(torch.ones(2, 3)).tolist() == [[0] * 4] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "knn.k must be at least 1, got 0"),
        ({"metric": "cosinus"}, "Did you mean 'cosine'"),
        ({"memory": Memory(total=9, select="herding")}, "knn.memory.select"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        KNN(**settings)
