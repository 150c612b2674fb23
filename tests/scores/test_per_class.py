"""Recalls of single classes, and the metrics of them: by hand, by plain loops, and what is NaN."""

import dataclasses
import math

import numpy as np
import pytest
from toy import predictions, random_predictions, until

from embedbench.scores import metrics
from embedbench.scores.metrics import Reference
from embedbench.scores.predictions import Predictions
from embedbench.scores.single_label_scores import SCORES, score_matrix

NAN = math.nan

# Session 0: classes 0 (4 test samples) and 1 (2). Session 1: class 2 (2). Class 3 has none.
TRUTH = [[0, 0, 0, 0, 1, 1], [2, 2]]
ANSWERS = [
    [0, 0, 0, 1, 1, 0, 0, 0],  # class 0: 3 of 4, class 1: 1 of 2
    [0, 2, 2, 2, 1, 1, 2, 0],  # class 0: 1 of 4, class 1: 2 of 2, class 2: 1 of 2
]


def by_hand() -> Predictions:
    made = predictions(TRUTH, ANSWERS, [[0, 1], [2]])
    none = np.zeros((2, 1), dtype=np.bool_)
    seen = np.hstack([made.seen, ~none])  # class 3 is seen, and never asked
    return dataclasses.replace(made, seen=seen, set_classes=np.hstack([made.set_classes, none]))


def test_recalls_and_metrics_by_hand() -> None:
    scores = score_matrix(by_hand(), class_sizes=[100, 19, 5, 3])
    expected = [[0.75, 0.5, NAN, NAN], [0.25, 1.0, 0.5, NAN]]
    np.testing.assert_array_equal(scores.per_class, expected)
    assert scores.pooled.tolist() == pytest.approx([0.625, (0.25 + 1.0 + 0.5) / 3])
    reference = Reference()
    assert metrics.worst_class_accuracy(scores, reference) == 0.25
    # class 0 falls from .75 to .25, class 1 rises from .5 to 1; class 2 is new
    assert metrics.per_class_forgetting(scores, reference) == 0.0
    # classes 1 (19 samples) and 2; class 3 has no test sample
    assert metrics.few_shot_accuracy(scores, reference) == 0.75
    many = score_matrix(by_hand(), class_sizes=[20, 20, 20, 3])
    assert math.isnan(metrics.few_shot_accuracy(many, reference))
    first = until(scores, 0)
    assert metrics.worst_class_accuracy(first, reference) == 0.5
    assert math.isnan(metrics.per_class_forgetting(first, reference))
    assert metrics.few_shot_accuracy(first, reference) == 0.5


def test_sizes_that_are_not_known_are_nan() -> None:
    scores = score_matrix(by_hand())
    assert scores.class_sizes.shape == (4,)
    assert math.isnan(metrics.few_shot_accuracy(scores, Reference()))
    with pytest.raises(ValueError, match="3 sizes of 4 classes"):
        score_matrix(by_hand(), class_sizes=[1, 2, 3])


def loops(p: Predictions, name: str, sizes: list[int]) -> tuple[list[list[float]], list[float]]:
    """Recalls (M, C), and the three metrics, an answer at a time."""
    answer = p.within if name.startswith("within") else p.answer
    table: list[list[float]] = []
    for m, session in enumerate(p.session.tolist()):
        row = []
        for c in range(p.seen.shape[1]):
            right = asked = 0
            for i, (y, e) in enumerate(zip(p.y.tolist(), p.eval_set.tolist(), strict=True)):
                if y == c and e <= session and p.seen[m, c]:
                    asked += 1
                    right += int(answer[m, i]) == c
            row.append(right / asked if asked else NAN)
        table.append(row)
    ends = [m for m in range(len(table)) if m + 1 == len(table) or p.session[m + 1] > p.session[m]]
    worst, drops, few = math.inf, [], []
    for c, last in enumerate(table[-1]):
        if math.isnan(last):
            continue
        worst = min(worst, last)
        before = [table[m][c] for m in ends[:-1] if not math.isnan(table[m][c])]
        if before:
            drops.append(max(before) - last)
        if sizes[c] < 20:
            few.append(last)
    means = [sum(v) / len(v) if v else NAN for v in (drops, few)]
    return table, [worst, *means]


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_matches_plain_loops(seed: int, permutation: bool) -> None:
    p = random_predictions(seed, permutation=permutation)
    rng = np.random.default_rng(seed)
    if seed % 2:  # moments within the first session
        first = rng.permutation(p.session)[:1]
        session = np.sort(np.concatenate([p.session, first]))
        tables = {k: getattr(p, k)[session] for k in ("seen", "answer", "within")}
        p = dataclasses.replace(p, session=session, samples_seen=10 * session, **tables)
    sizes = rng.integers(1, 40, p.seen.shape[1]).tolist()
    for name in SCORES:
        scores = score_matrix(p, name, sizes)
        table, values = loops(p, name, sizes)
        np.testing.assert_array_equal(scores.per_class, table)
        if name == "class_accuracy":
            np.testing.assert_allclose(scores.pooled, np.nanmean(scores.per_class, axis=1))
        three = (metrics.worst_class_accuracy, metrics.per_class_forgetting)
        found = [f(scores, Reference()) for f in (*three, metrics.few_shot_accuracy)]
        assert found == pytest.approx(values, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("seed", range(4))
def test_with_one_class_a_session_it_is_average_forgetting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = [[c] * int(rng.integers(1, 9)) for c in range(4)]
    n = sum(map(len, truth))
    answers = [rng.integers(0, m + 1, n) for m in range(4)]
    scores = score_matrix(predictions(truth, np.array(answers), [[c] for c in range(4)]))
    one, other = (
        f(scores, Reference()) for f in (metrics.per_class_forgetting, metrics.average_forgetting)
    )
    assert one == pytest.approx(other)
