"""Confidence and unknown classes: by hand, by loops, and what is not there."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from confident_runs import confident_predictions, from_scores, random_run
from toy import random_predictions

from embedbench.scores import top5_and_calibration
from embedbench.scores.predictions import Predictions
from embedbench.scores.unknown_class_detection import oscr, unknown_auroc, unknown_fpr95
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS

SINGLE = 2e-6  # relative: values are stored as float32


@pytest.fixture
def small() -> Predictions:
    """Classes 0 and 1, then 2; five samples; the energy of each is what is added to its logits."""
    chances = [
        [[0.82, 0.18], [0.61, 0.39], [0.1, 0.9], [0.55, 0.45], [0.3, 0.7]],  # 0, 1, 1, later, later
        [[0.5, 0.3], [0.5, 0.3], [0.5, 0.3], [0.5, 0.3], [0.2, 0.2]],  # and class 2 has the rest
    ]
    energy = np.array([3.0, 1.0, 2.0, 0.0, 2.0])
    scores = np.full((2, 5, 3), -9.0)
    scores[..., :2] = np.log(chances)
    scores[1, :, 2] = np.log(1 - np.sum(chances[1], axis=1))
    return from_scores(scores + energy[:, None], [[0, 1, 1], [2, 2]], [[0, 1], [2]])


def test_confidence_by_hand(small: Predictions) -> None:
    expected = [-math.log(0.82 * 0.39 * 0.9) / 3, -math.log(0.5 * 0.3 * 0.3 * 0.2 * 0.6) / 5]
    assert top5_and_calibration.nll(small) == pytest.approx(expected, rel=SINGLE)
    # two classes: twice the squared distance. Then .25 + .09 + .04, twice .25 + .49 + .04, …
    expected = [(2 * 0.18**2 + 2 * 0.61**2 + 2 * 0.1**2) / 3, (0.38 + 2 * 0.78 + 0.98 + 0.24) / 5]
    assert top5_and_calibration.brier_score(small) == pytest.approx(expected, rel=SINGLE)
    # first each in a bin of its own: .18, .61 and .1 apart. Then 4 at .5 with one right, 1 at .6:
    # 9/15, the upper end of a bin, and in single precision just above it: two bins in any case
    expected = [(0.18 + 0.61 + 0.1) / 3, (abs(1 - 4 * 0.5) + 0.4) / 5]
    assert top5_and_calibration.calibration_error(small) == pytest.approx(expected, rel=SINGLE)
    assert top5_and_calibration.top5_accuracy(small) == pytest.approx([1, 1])


def test_unknown_classes_by_hand(small: Predictions) -> None:
    nan = math.nan
    # .82, .61, .9 against .55, .7: 2 + 1 + 2 of six pairs; without the wrong answer .61: 4
    assert unknown_auroc(small, "softmax") == pytest.approx([5 / 6, nan], nan_ok=True)
    assert oscr(small, "softmax") == pytest.approx([4 / 6, nan], nan_ok=True)
    assert unknown_fpr95(small, "softmax") == pytest.approx([1 / 2, nan], nan_ok=True)
    # log .82 + 3, log .61 + 1, log .9 + 2 against log .55, log .7 + 2: 2 + 1 + 2
    assert unknown_auroc(small, "score") == pytest.approx([5 / 6, nan], nan_ok=True)
    assert ANSWER_METRICS["unknown_auroc_by_score"](small) == pytest.approx(5 / 6)


def test_far_samples_by_hand(small: Predictions) -> None:
    score = np.float32([[2.5, 0.5], [1.5, 9.0]])
    p = replace(small, far_ids=np.arange(2), far_score=score, far_logp=np.log(score / 10))
    p = replace(p, score=np.float32([[3, 1, 2, 4, 5]] * 2))
    # 3, 1, 2 against 2.5, .5: 2 + 1 + 1 of six; the answer with 1 is wrong. Then all five against
    # 1.5, 9, of which the first and the last are right
    assert [np.flatnonzero(row).tolist() for row in p.answer == p.y] == [[0, 2], [0, 4]]
    assert unknown_auroc(p, "score", far=True) == pytest.approx([4 / 6, (1 + 0 + 1 + 1 + 1) / 10])
    assert oscr(p, "score", far=True) == pytest.approx([3 / 6, (1 + 1) / 10])
    assert unknown_fpr95(p, "score", far=True) == pytest.approx([1 / 2, 1])  # at or above 1
    # .82, .61, .9 against .25, .05; then .5 four times and .6 against .15 and .9
    assert unknown_auroc(p, "softmax", far=True) == pytest.approx([1, 1 / 2])
    assert ANSWER_METRICS["far_auroc_by_score"](p) == pytest.approx((4 / 6 + 4 / 10) / 2)


def plain(p: Predictions, m: int, name: str) -> float:
    """A metric at a moment, sample by sample."""
    rows = [i for i in range(len(p.y)) if p.eval_set[i] <= p.session[m] and p.seen[m, p.y[i]]]
    chance = [math.exp(p.logp[m, i]) for i in range(len(p.y))]
    if name == "top5_accuracy":
        return sum(p.rank[m, i] < 5 for i in rows) / len(rows)
    if name == "nll":
        return -sum(float(p.true_logp[m, i]) for i in rows) / len(rows)
    if name == "brier_score":
        each = [float(p.squares[m, i]) - 2 * math.exp(p.true_logp[m, i]) + 1 for i in rows]
        return sum(each) / len(rows)
    if name == "calibration_error":
        total = 0.0
        for b in range(15):
            inside = [i for i in rows if b / 15 < chance[i] <= (b + 1) / 15]
            right = sum(p.answer[m, i] == p.y[i] for i in inside)
            total += abs(right - sum(chance[i] for i in inside)) / len(rows)
        return total
    name, _, signal = name.partition("_by_")

    def signals(score: Any, logp: Any) -> list[float]:
        return {
            "score": [float(v) for v in score],
            "softmax": [float(v) for v in logp],
            "energy": [float(s) - float(v) for s, v in zip(score, logp, strict=True)],
        }[signal]

    values = signals(p.score[m], p.logp[m])
    unknown = [values[i] for i in range(len(p.y)) if not p.seen[m, p.y[i]]]
    if name.startswith("far_"):
        unknown = signals(p.far_score[m], p.far_logp[m])
    if not unknown:
        return math.nan
    if name.endswith("_fpr95"):
        good = [t for t in values if sum(values[i] >= t for i in rows) >= 0.95 * len(rows) - 1e-9]
        return sum(u >= max(good) for u in unknown) / len(unknown)
    right = [i for i in rows if name.endswith("_auroc") or p.answer[m, i] == p.y[i]]
    pairs = sum((values[i] > u) + (values[i] == u) / 2 for i in right for u in unknown)
    return pairs / len(rows) / len(unknown)


@pytest.mark.parametrize("seed", range(3))
def test_all_agree_with_loops(seed: int) -> None:
    p, _ = random_run(seed)
    for name, metric in ANSWER_METRICS.items():
        expected = [plain(p, m, name) for m in range(3)]
        assert metric.curve(p) == pytest.approx(expected, nan_ok=True, abs=1e-12), name
        value = expected[-1] if metric.signal is None else sum(expected[:2]) / 2
        value = sum(expected) / 3 if name.startswith("far_") else value
        assert metric(p) == pytest.approx(value, abs=1e-12), name


def test_only_the_sessions_so_far_count_where_all_classes_are_seen() -> None:
    rng = np.random.default_rng(0)
    p = from_scores(
        rng.normal(size=(3, 30, 3)), [[0, 1, 2] * 3, [0, 1] * 6, [2] * 9], [[0, 1, 2]] * 3
    )
    for name in ("top5_accuracy", "nll", "brier_score", "calibration_error"):
        expected = [plain(p, m, name) for m in range(3)]
        assert ANSWER_METRICS[name].curve(p) == pytest.approx(expected), name


def test_moments_between_the_ends_of_sessions_do_not_count() -> None:
    p, _ = random_run(0)
    at = [0, 0, 1, 2, 2]  # moments of the same answers; an end is the last one of its session
    tables = ("session", "samples_seen", "seen", "answer", "within")
    sure = ("rank", "score", "logp", "true_logp", "squares", "far_score", "far_logp")
    longer = replace(p, **{name: getattr(p, name)[at] for name in (*tables, *sure)})
    turned = {name: getattr(longer, name).copy() for name in sure}
    for name in sure:
        turned[name][[0, 3]] = getattr(p, name)[[0, 2]][:, ::-1]
    longer = replace(longer, **turned)
    for name, metric in ANSWER_METRICS.items():
        assert metric.curve(longer) == pytest.approx(metric.curve(p), nan_ok=True), name


def test_a_file_without_confidence_has_none_of_them() -> None:
    assert {metric(random_predictions(0)) for metric in ANSWER_METRICS.values()} == {None}
    cosines = confident_predictions(0, logits=False)
    there = {name for name, metric in ANSWER_METRICS.items() if metric(cosines) is not None}
    near = {n for n in ANSWER_METRICS if not n.startswith("far_")}
    assert there == {"top5_accuracy", *(n for n in near if n.endswith("_by_score"))}
    far = replace(cosines, far_ids=np.arange(2), far_score=np.zeros((len(cosines.seen), 2), "f4"))
    far.check()
    assert {n for n, metric in ANSWER_METRICS.items() if metric(far) is not None} - there == {
        f"far_{what}_by_score" for what in ("auroc", "fpr95", "oscr")
    }


def test_a_score_that_was_nan_is_no_silent_number() -> None:
    p, _ = random_run(1)
    there = int(np.flatnonzero(p.eval_set == 0)[0])
    tables = {name: getattr(p, name).copy() for name in ("score", "logp", "true_logp", "squares")}
    for table in tables.values():
        table[:, there] = np.nan
    answer, rank = p.answer.copy(), p.rank.copy()
    answer[:, there], rank[:, there] = -1, 65535
    broken = replace(p, answer=answer, rank=rank, **tables)
    broken.check()
    for name, metric in ANSWER_METRICS.items():
        assert math.isnan(metric(broken)) == (name != "top5_accuracy"), name


def test_what_is_lower_is_named() -> None:
    for name, metric in ANSWER_METRICS.items():
        assert metric.lower_is_better == (not any(w in name for w in ("top5", "auroc", "oscr")))
