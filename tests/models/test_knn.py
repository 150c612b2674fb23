"""kNN: votes and ties worked out by hand, scikit-learn's answers, memories, blocks."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from teaching import show
from toy import Array, blobs

from embedbench.learning.exemplars import Memory
from embedbench.models import knn
from embedbench.models.knn import KNN


def line(*places: float) -> Array:
    return np.array(places, dtype=np.float32)[:, None]


def test_votes_and_ties_on_a_line() -> None:
    """Stored 0, 1 (class 0), 3, 7 (class 2), 4 (class 1); the sample is at 2.2."""
    x, y = line(0, 1, 3, 7, 4), np.array([0, 0, 2, 2, 1])
    # distances 2.2, 1.2, 0.8, 4.8, 1.8: neighbours in order 3 (2), 1 (0), 4 (1), 0 (0), 7 (2)
    asked = torch.tensor(line(2.2))
    for k, votes, best in (
        (1, [0, 0, 1, 0], 2),
        (3, [1, 1, 1, 0], 2),  # a tie: .8 is nearest
        (4, [2, 1, 1, 0], 0),
        (9, [2, 1, 2, 0], 2),
    ):
        scores = show(KNN(k=k, metric="euclidean"), x, y, [2]).scores(asked)[0]
        assert scores.floor().tolist() == votes
        assert scores.argmax() == best
        assert show(KNN(k=k), x, y).scores(asked[:0]).shape == (0, 4)
        size = 1 + 2.2**2
        rest = [size / (size + d**2) / 2 for d in (1.2, 1.8, 0.8)] + [0]
        np.testing.assert_allclose((scores - scores.floor()).numpy(), rest, atol=1e-5)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 5, 12])
def test_votes_are_scikit_learns(k: int, metric: str) -> None:
    y = np.random.default_rng(k).integers(0, 3, 80)
    x, asked = blobs(y, 5, k, spread=2.0), blobs(y[:40], 5, k + 9, spread=2.0)
    scores = show(KNN(k=k, metric=metric), x, y, [3, 40]).scores(torch.tensor(asked)).numpy()
    known = KNeighborsClassifier(k, metric=metric, algorithm="brute").fit(x, y)
    votes = np.rint(known.predict_proba(asked) * k)
    np.testing.assert_array_equal(np.floor(scores[:, :3]), votes)
    clear = (votes == votes.max(1, keepdims=True)).sum(1) == 1
    assert clear.sum() > 15
    np.testing.assert_array_equal(scores.argmax(1)[clear], known.predict(asked)[clear])
    assert not scores[:, 3].any()


@pytest.mark.parametrize(("select", "stored"), [("all", 90), ("reservoir", 20), ("balanced", 20)])
def test_a_memory_is_bounded(select: str, stored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.random.default_rng(0).integers(0, 4, 90)
    x, asked = blobs(y, 5, 0), torch.tensor(blobs(y[:33], 5, 9))
    one = show(KNN(memory=Memory(total=20, select=select)), x, y, range(10, 90, 10))
    assert one.footprint() == {"samples": stored * (5 * 4 + 8)}
    whole = one.scores(asked)
    monkeypatch.setattr(knn, "DISTANCES", 50)
    torch.testing.assert_close(one.scores(asked), whole)
    if select == "all":  # the other memories draw batch by batch, as in `er`
        torch.testing.assert_close(show(KNN(), x, y, [7, 8, 50]).scores(asked), whole)


def test_before_the_first_sample_all_scores_are_0() -> None:
    learner = show(KNN(), np.zeros((0, 3), dtype=np.float32), np.zeros(0, dtype=np.int64))
    assert learner.scores(torch.ones(2, 3)).tolist() == [[0] * 4] * 2
