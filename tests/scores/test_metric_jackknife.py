"""The test sample's share: metrics without a group against those of the other samples."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import toy

from embedbench.array_types import Floats
from embedbench.scores import against_chance, few_shot_scores
from embedbench.scores.metric_jackknife import (
    LeftOut,
    find_metric,
    lasting_variances,
    leave_out_final,
    leave_out_means,
    leave_out_metric,
    pair_variances,
    quote_curve,
    share_of_rows,
    weigh_groups,
)
from embedbench.scores.metrics import Reference, all_metrics
from embedbench.scores.predictions import Predictions
from embedbench.scores.score_matrix import ScoreMatrix

NAN = math.nan


def test_relative_accuracy_of_a_learner_that_is_always_right_is_one() -> None:
    """Its mean over five equal sessions would be (1/5 + 2/5 + 3/5 + 4/5 + 1) / 5 = 3/5."""
    right = ScoreMatrix.from_matrix(np.ones((5, 5)))
    assert quote_curve("raa", against_chance.raa(right)) == 1


NAMES = [name for name in (*all_metrics(), "raa", "raf", "gacc") if find_metric(name) is not None]


def offline_answers(p: Predictions, sessions: int, seed: int) -> Predictions:
    """Random answers of an offline run to each test sample of the first sessions, once."""
    rng = np.random.default_rng([7, seed])
    _, rows = np.unique(np.where(p.eval_set < sessions, p.ids, -1), return_index=True)
    rows = rng.permutation(rows[p.eval_set[rows] < sessions])
    y, classes = p.y[rows], np.flatnonzero(p.set_classes[:sessions].any(axis=0))
    answer = np.where(rng.random(len(rows)) < 0.7, y, rng.choice(classes, len(rows)))
    return replace(toy.predictions([y], answer[None], [classes]), ids=p.ids[rows])


def reference(p: Predictions, offline: Sequence[Sequence[Predictions]], score: str) -> Reference:
    """The reference values as `record_files.evaluate` makes them."""
    ideals = [np.mean([q.score_matrix(score).pooled[-1] for q in each]) for each in offline]
    so_far = np.array(ideals) if len(ideals) > 1 else None
    chance = np.linspace(0, 0.3, len(p.set_classes))
    return Reference(ideal=float(ideals[-1]), chance=chance, so_far=so_far, normalise_new=True)


def compute(name: str, p: Predictions, values: Reference, score: str, sizes: list[int]) -> float:
    metric = find_metric(name)
    assert metric is not None
    with np.errstate(invalid="ignore", divide="ignore"):
        return metric(p.score_matrix(score, sizes), values)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_leaving_out_a_group_is_the_metric_of_the_others(seed: int, grouped: bool) -> None:
    """Every metric; α_ideal, or one α_offline a session, stays. The last session has 2 moments."""
    rng = np.random.default_rng(seed)
    score = Predictions.SCORES[seed % 4]
    p = toy.random_predictions(seed, permutation=seed % 3 == 2)
    if seed % 3 == 2:  # each sample in every eval set, where there are as many
        p = replace(p, ids=np.concatenate([np.arange(n) for n in np.bincount(p.eval_set)]))
    sizes = rng.integers(10, 30, p.set_classes.shape[1]).tolist()
    names = rng.integers(0, 5, p.ids.max() + 1) if grouped else np.arange(p.ids.max() + 1)
    sessions = len(p.set_classes)
    at, rows = np.r_[:sessions, sessions - 1], np.r_[: sessions - 1, 0, sessions - 1]
    tables = {"seen": p.seen[at], "answer": p.answer[rows], "within": p.within[rows]}
    p = replace(p, session=at, samples_seen=np.arange(1, sessions + 2) ** 2, **tables)
    fixed = [[offline_answers(p, sessions, s) for s in (1, 2)]]
    so_far = [[offline_answers(p, t + 1, s) for s in (3, 4)] for t in range(sessions)]
    for name in NAMES:
        offline = so_far if name == "omega_streaming" else fixed
        metric = find_metric(name)
        assert metric is not None
        values = reference(p, offline, score)
        result = leave_out_metric(p, score, metric, values, groups=names[p.ids], class_sizes=sizes)
        assert result.names.tolist() == np.unique(names[p.ids]).tolist()
        assert result.grouped
        expected = [
            compute(name, toy.keep_samples(p, names[p.ids] != g), values, score, sizes)
            for g in result.names
        ]
        expected.append(compute(name, p, values, score, sizes))
        np.testing.assert_allclose(result.values, expected, rtol=1e-12, atol=1e-15, err_msg=name)


def test_most_metrics_are_defined_on_some_of_these_streams() -> None:
    """Or else equal NaN would say nothing."""
    defined = set()
    for seed in range(6):
        p = toy.random_predictions(seed, permutation=seed % 3 == 2)
        offline = [[offline_answers(p, t + 1, 3)] for t in range(len(p.set_classes))]
        sizes = np.random.default_rng(seed).integers(10, 30, p.set_classes.shape[1]).tolist()
        for name in NAMES:
            values = reference(p, offline, Predictions.SCORES[0])
            if not math.isnan(compute(name, p, values, Predictions.SCORES[0], sizes)):
                defined.add(name)
    assert defined == {*NAMES}


def test_an_eval_set_that_is_left_out_whole_does_not_count() -> None:
    """R after the last session 1/2 and 1; the second set is one sample."""
    p = toy.predictions([[0, 0], [1]], [[0, 0, 0], [0, 1, 1]], [[0], [1]])
    result = leave_out_metric(p, "accuracy", all_metrics()["average_accuracy"], Reference())
    np.testing.assert_allclose(result.values, [0.5, 1, 0.5, 0.75])
    assert not result.grouped


def test_a_minimum_has_no_jackknife() -> None:
    assert find_metric("worst_class_accuracy") is None
    assert find_metric("mine.metrics:spread") is None


def test_gacc_is_the_mean_of_its_curve() -> None:
    p = toy.predictions([[0, 0, 1, 1], [2, 2], [3, 3]], np.zeros((3, 8)), [[0, 1], [2], [3]])
    metric = find_metric("gacc")
    assert metric is not None
    values = leave_out_metric(p, "accuracy", metric, Reference()).values
    scores = p.score_matrix("accuracy")
    curve = few_shot_scores.curves_from_accuracies(scores.R, scores.n_classes)["gacc"]
    assert values[-1] == pytest.approx(curve.mean())


def test_groups_are_those_of_all_runs() -> None:
    """Without "b" .2 and .4, without "a" .3 in the first run; the second lacks "a"."""
    one = LeftOut(np.array(["a", "b"]), np.array([0.3, 0.2, 0.25]), True, np.array([0.75, 0.25]))
    other = LeftOut(np.array(["b"]), np.array([0.4, 0.5]), True, np.array([1.0]))
    sample = share_of_rows([[[one]], [[other]]])
    assert sample is not None
    # in the mean of both runs the groups have .375 and .625
    assert sample.groups == 2
    assert sample.effective == pytest.approx(1 / (0.375**2 + 0.625**2))
    # differences .2 without "a", .2 without "b"; the first row alone .3, .2: mean .25
    np.testing.assert_allclose(sample.variances, [[0.0025, 0], [0, 0.0025]], atol=1e-15)
    assert share_of_rows([[[]], [[]]]) is None


def test_groups_and_samples_have_no_share_together() -> None:
    one = LeftOut(np.array([0, 1]), np.array([0.3, 0.2, 0.25]), True, np.array([0.5, 0.5]))
    assert share_of_rows([[[one]], [[replace(one, grouped=False)]]]) is None


def test_weights_of_groups_are_their_shares_in_the_score() -> None:
    """Classes of 4, 1 and 1 samples, in groups of 3, 2 and 1: by sample, and by class."""
    y, groups = np.array([0, 0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 2])
    found = weigh_groups(y, groups, by_class=False)
    np.testing.assert_allclose(found, [3 / 6, 2 / 6, 1 / 6])
    found = weigh_groups(y, groups, by_class=True)
    np.testing.assert_allclose(found, [3 / 12, 1 / 12 + 1 / 3, 1 / 3])


def test_lasting_variances_of_answers_that_no_seed_changes_are_all() -> None:
    left_out = np.repeat(np.random.default_rng(0).normal(size=(3, 1, 7)), 4, axis=1)
    found = lasting_variances(left_out)
    pairs = ~np.eye(3, dtype=np.bool_)
    np.testing.assert_allclose(found[pairs], pair_variances(left_out)[pairs])


def test_lasting_variances_are_those_of_products_of_two_seeds() -> None:
    """The mean over ordered pairs of other seeds of Σ_g d_sg d_tg, by plain loops."""
    rng = np.random.default_rng(1)
    left_out = rng.normal(0, 1, (3, 1, 9)) + rng.normal(0, 0.5, (3, 4, 9))
    left_out[2, 3] = NAN
    found = lasting_variances(left_out)
    for i, j, seeds in ((0, 1, 4), (0, 2, 3), (1, 2, 3)):
        d = left_out[i, :seeds] - left_out[j, :seeds]
        d -= d.mean(axis=1, keepdims=True)
        each = [d[s] @ d[t] for s, t in itertools.permutations(range(seeds), 2)]
        assert found[i, j] == pytest.approx(max(np.mean(each) * 8 / 9, 0))


def test_lasting_variances_of_one_seed_are_not_known() -> None:
    assert np.isnan(lasting_variances(np.zeros((2, 1, 5)))).all()


def test_a_class_that_is_one_group_leaves_with_it() -> None:
    """Recalls 1, 1/2 and 0; groups are the classes: the means of the two others."""
    right, y = np.array([[1.0, 1, 1, 0, 0, 0]]), np.array([0, 0, 1, 1, 2, 2])
    result = leave_out_means(right, np.ones((1, 6), dtype=np.bool_), y, y, 4)
    np.testing.assert_allclose(result, [[0.25, 0.5, 0.75, 0.5]])  # group 3 has no samples
    nothing = leave_out_means(right, np.array([[True, True, *[False] * 4]]), y, y, 3)
    np.testing.assert_array_equal(nothing, [[NAN, 1, 1]])


def test_answers_that_another_tool_did_not_give_have_no_share() -> None:
    p = toy.random_predictions(0)
    p = replace(p, within=np.full_like(p.within, -1))
    assert np.isnan(leave_out_final(p, np.arange(len(p.y)), len(p.y), "within_accuracy")).all()


def naive_variance(a: Floats, b: Floats) -> float:
    """Of two rows (n, G): mean over the seeds of both, then the jackknife's sum."""
    total, seeds = np.zeros(a.shape[1]), 0
    for x, y in zip(a, b, strict=True):
        if not (np.isnan(x).any() or np.isnan(y).any()):
            total, seeds = total + x - y, seeds + 1
    if not seeds:
        return NAN
    d = total / seeds
    return float(sum((v - d.mean()) ** 2 for v in d) * (len(d) - 1) / len(d))


@pytest.mark.parametrize("seed", range(3))
def test_pairs_with_missing_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left_out = rng.normal(0.5, 0.01, (6, 3, 9))
    left_out[rng.random((6, 3)) < 0.4] = NAN
    result = pair_variances(left_out)
    for i, j in np.ndindex(6, 6):
        other = np.zeros((3, 9)) if i == j else left_out[j]
        expected = naive_variance(left_out[i], other)
        assert result[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-18, nan_ok=True)
