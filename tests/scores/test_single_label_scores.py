"""Score matrices against hand-worked answers and against plain loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from toy import predictions, random_predictions, until

from embedbench.array_types import Ints
from embedbench.scores import metrics
from embedbench.scores.metrics import Reference
from embedbench.scores.predictions import Predictions
from embedbench.scores.single_label_scores import SCORES, score_matrix

NAN = math.nan
BY_CLASS = (
    metrics.worst_class_accuracy,
    metrics.per_class_forgetting,
    metrics.few_shot_accuracy,
)


def at_moments(p: Predictions, sessions: Ints) -> Predictions:
    """The answers after these sessions, which may come several times."""
    tables = {name: getattr(p, name)[sessions] for name in ("seen", "answer", "within")}
    return replace(p, session=sessions, samples_seen=10 * sessions, **tables)


def loop_score(p: Predictions, name: str, moment: int, sample_numbers: list[int]) -> float:
    """One base score over some samples, a sample at a time."""
    answers = p.within if name.startswith("within_") else p.answer
    by_class: dict[int, list[float]] = {}
    for i in sample_numbers:
        hit = 1.0 if answers[moment, i] == p.y[i] else 0.0
        by_class.setdefault(int(p.y[i]), []).append(hit)
    if not by_class:
        return NAN
    if name.endswith("class_accuracy"):
        return sum(sum(v) / len(v) for v in by_class.values()) / len(by_class)
    every = [h for v in by_class.values() for h in v]
    return sum(every) / len(every)


def by_class(recalls: list[list[float]], sizes: list[int]) -> list[float]:
    """The three metrics of single classes, from the recalls after each session."""
    worst, drops, few = math.inf, [], []
    for c, last in enumerate(recalls[-1]):
        if math.isnan(last):
            continue
        worst = min(worst, last)
        before = [row[c] for row in recalls[:-1] if not math.isnan(row[c])]
        if before:
            drops.append(max(before) - last)
        if sizes[c] < 20:
            few.append(last)
    return [worst, *(sum(v) / len(v) if v else NAN for v in (drops, few))]


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", SCORES)
def test_matches_plain_loops(name: str, seed: int, permutation: bool) -> None:
    p, rng = random_predictions(seed, permutation=permutation), np.random.default_rng(seed)
    if seed % 2:  # moments within a session
        p = at_moments(p, np.sort(np.append(p.session, rng.choice(p.session))))
    n_classes, sets = p.seen.shape[1], len(p.set_classes)
    sizes = rng.integers(1, 40, n_classes).tolist()
    found = score_matrix(p, name, sizes)
    after: dict[int, list[float]] = {}
    for m, session in enumerate(p.session.tolist()):
        for e in range(sets):
            numbers = [i for i in range(len(p.y)) if p.eval_set[i] == e]
            known = all(p.seen[m, c] for c in range(n_classes) if p.set_classes[e, c])
            expected = loop_score(p, name, m, numbers)
            if not known and not name.startswith("within_"):
                expected = NAN
            assert found.values[m, e] == pytest.approx(expected, abs=1e-12, nan_ok=True)
        so_far = [i for i in range(len(p.y)) if p.eval_set[i] <= session]
        assert found.pooled[m] == pytest.approx(loop_score(p, name, m, so_far), abs=1e-12)
        after[session] = [
            loop_score(p, name, m, [i for i in so_far if p.y[i] == c]) if p.seen[m, c] else NAN
            for c in range(n_classes)
        ]
        np.testing.assert_array_equal(found.per_class[m], after[session])
    assert found.n_samples.tolist() == [int((p.eval_set == e).sum()) for e in range(sets)]
    assert found.n_classes.tolist() == [int(row.sum()) for row in p.set_classes]
    assert found.classes_seen.tolist() == [int(row.sum()) for row in p.seen]
    expected_metrics = by_class([*after.values()], sizes)
    metrics_found = [f(found, Reference()) for f in BY_CLASS]
    assert metrics_found == pytest.approx(expected_metrics, abs=1e-12, nan_ok=True)


def test_class_accuracy_weighs_classes_accuracy_weighs_samples() -> None:
    # Class 0: 3 of 4 right; class 1: 0 of 1. By class (3/4 + 0)/2 = 3/8; by sample 3/5.
    p = predictions([[0, 0, 0, 0, 1]], [[0, 0, 0, 1, 0]], [[0, 1]])
    assert score_matrix(p, "class_accuracy").values[0, 0] == 3 / 8
    assert score_matrix(p, "accuracy").values[0, 0] == 3 / 5


def test_pooled_is_over_samples_not_over_sets() -> None:
    # Set 0 has 4 samples, all right; set 1 has one, wrong: pooled 4/5, not (1 + 0)/2.
    p = predictions([[0, 0, 0, 0], [1]], [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], [[0], [1]])
    assert score_matrix(p, "accuracy").pooled.tolist() == [1.0, 4 / 5]


def test_sets_with_unseen_classes_are_undefined_but_within_is_not() -> None:
    p = predictions([[0], [1]], [[0, 0], [0, 1]], [[0], [1]], within=np.array([[0, 1], [0, 1]]))
    assert math.isnan(score_matrix(p, "accuracy").R[0, 1])
    assert score_matrix(p, "within_accuracy").R.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_set_is_undefined_while_one_of_its_classes_is_unseen() -> None:
    p = predictions([[0], [0, 1]], [[0, 0, 0], [0, 0, 1]], [[0], [0, 1]])
    assert math.isnan(score_matrix(p, "accuracy").R[0, 1])
    assert score_matrix(p, "accuracy").R[1, 1] == 1.0


def test_no_answer_counts_as_wrong() -> None:
    p = predictions([[0, 0]], [[0, -1]], [[0]])
    assert score_matrix(p, "accuracy").R[0, 0] == 0.5
    assert score_matrix(p, "class_accuracy").R[0, 0] == 0.5


def test_ends_are_the_last_moment_of_each_session() -> None:
    p = random_predictions(3)
    sessions = np.sort(np.append(p.session, p.session[1:]))  # two moments in later sessions
    found = score_matrix(at_moments(p, sessions))
    last = [max(m for m in range(len(sessions)) if sessions[m] == s) for s in p.session]
    assert found.ends.tolist() == last
    np.testing.assert_array_equal(found.R, score_matrix(p).R)


# --- single classes ---

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
    return replace(made, seen=seen, set_classes=np.hstack([made.set_classes, none]))


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


@pytest.mark.parametrize("seed", range(4))
def test_with_one_class_a_session_it_is_average_forgetting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = [[c] * int(rng.integers(1, 9)) for c in range(4)]
    n = sum(map(len, truth))
    answers = [rng.integers(0, m + 1, n) for m in range(4)]
    scores = score_matrix(predictions(truth, np.array(answers), [[c] for c in range(4)]))
    one = metrics.per_class_forgetting(scores, Reference())
    assert one == pytest.approx(metrics.average_forgetting(scores, Reference()))
