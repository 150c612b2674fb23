"""Few-shot scores: the corner cases' printed tables, hand-worked values, identities, quadrature."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from report_records import unscored
from scipy.integrate import quad
from toy import predictions

from embedbench.array_types import Floats
from embedbench.config.json_records import plain
from embedbench.papers.fscil.paper import corner_case, printed_rows
from embedbench.scores import metrics, record_files
from embedbench.scores.few_shot_scores import (
    CURVES,
    aacc,
    class_ratio,
    curves_from_accuracies,
    gacc,
    gacc_area,
    hacc,
    kr,
    max_forgetting,
    novel_accuracy,
    pd,
    rpd,
    summary,
    tacc,
)
from embedbench.scores.metrics import Reference
from embedbench.scores.predictions import Predictions
from embedbench.scores.single_label_scores import score_matrix

NAN = float("nan")
HAND = np.array([[0.9, NAN, NAN], [0.8, 0.5, NAN], [0.6, 0.3, 0.7]])
SIZES = [6, 2, 2]


def drawn(seed: int, sessions: int) -> Floats:
    """Random accuracies; above the diagonal values that nothing may read."""
    return np.random.default_rng(seed).uniform(size=(sessions, sessions))


# --- the paper ---


@pytest.mark.parametrize("number", ["A1", "A2", "A3"])
def test_the_corner_cases_have_the_printed_scores(number: str) -> None:
    *rows, mean = printed_rows(number)
    found = corner_case(number)
    a, g = 100 * aacc(found, [60] + [5] * 8), 100 * gacc_area(found, 12)
    assert len(rows) == 9
    for i, row in enumerate(rows):
        assert a[i] == pytest.approx(row["aacc"], abs=0.01)
        assert g[i] == pytest.approx(row["gacc"], abs=0.01)
    assert a.mean() == pytest.approx(mean["aacc"], abs=0.01)
    assert g.mean() == pytest.approx(mean["gacc"], abs=0.01)


def test_lazy_forgets_nothing_by_every_score_of_forgetting() -> None:
    found = corner_case("A1")  # Lazy
    for score, value in ((pd, 0), (rpd, 0), (max_forgetting, 0), (kr, 1)):
        np.testing.assert_array_equal(score(found)[1:], value)
    np.testing.assert_array_equal(hacc(found)[1:], 0)
    assert gacc_area(found, 12, exact=True)[1] == pytest.approx(0.6683, abs=5e-5)


# --- by hand ---


def test_three_sessions_by_hand() -> None:
    expected = {
        "aacc": [0.9, (6 * 0.8 + 2 * 0.5) / 8, (6 * 0.6 + 2 * 0.3 + 2 * 0.7) / 10],
        "tacc": [0.9, 0.65, 1.6 / 3],
        # at α = 0, 1/3, 2/3, 1: 0 .9 .9 .9; .5 .65 .7 .725; .5 .5333 .55 .56
        "gacc": [0.75, (0.25 + 0.65 + 0.7 + 0.3625) / 3, (0.25 + 1.6 / 3 + 0.55 + 0.28) / 3],
        "gacc_exact": [0.9, 0.8 - 0.1 * np.log(4), 0.6 - 0.2 / 3 * np.log(2.5)],
        "novel_accuracy": [NAN, 0.5, 0.5],
        "hacc": [NAN, 0.8 / 1.3, 0.6 / 1.1],
        "pd": [NAN, -0.1, (-0.3 - 0.2) / 2],
        "kr": [NAN, 0.8 / 0.9, (0.6 / 0.9 + 0.3 / 0.5) / 2],
        "rpd": [NAN, -0.1 / 0.9, (-0.3 / 0.9 - 0.2 / 0.5) / 2],
        "max_forgetting": [NAN, 0.1, (0.3 + 0.2) / 2],
    }
    found = curves_from_accuracies(HAND, SIZES)
    assert list(found) == list(expected) == list(CURVES)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12, err_msg=name)
    quoted = summary(found)
    assert quoted["aacc"] == pytest.approx((0.9 + 0.725 + 0.56) / 3)
    assert quoted["lacc"] == pytest.approx(0.56)
    assert quoted["gacc"] == pytest.approx(np.mean(expected["gacc"]))
    assert quoted["novel_accuracy"] == 0.5
    assert quoted["hacc"] == pytest.approx((0.8 / 1.3 + 0.6 / 1.1) / 2)
    assert quoted["pd"] == pytest.approx(-0.25)


def test_a_rise_counts_as_a_range_and_not_as_a_drop() -> None:
    found = np.array([[0.9, NAN, NAN], [0.5, 0.4, NAN], [0.7, 0.6, 0.1]])
    assert max_forgetting(found)[2] == pytest.approx((0.4 + 0.2) / 2)
    assert pd(found)[2] == pytest.approx((-0.2 + 0.2) / 2)


def test_a_session_that_was_never_learned_has_no_share_to_keep() -> None:
    found = np.array([[0.8, NAN, NAN], [0.4, 0.0, NAN], [0.6, 0.5, 0.1]])
    assert kr(found)[2] == pytest.approx(0.75)
    assert np.isnan(kr(np.zeros((3, 3)))).all()


# --- what holds of any accuracies ---


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ratio", [1.0, 2.5, 10.0, 12.0, 0.4])
def test_the_closed_form_is_the_integral(seed: int, ratio: float) -> None:
    found = drawn(seed, 6)
    exact = gacc_area(found, ratio, exact=True)
    for i in range(6):
        base, novel = found[i, 0], sum(found[i, j] for j in range(1, i + 1))

        def value(alpha: float, base: float = base, novel: float = novel, k: int = i) -> float:
            return float((alpha * ratio * base + novel) / (alpha * ratio + k))

        area, _ = quad(value, 0, 1)
        assert exact[i] == pytest.approx(area, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_the_grid_is_summed_as_their_code_does(seed: int) -> None:
    """Σ over neighbouring points of the grid, every value by the definition in integers."""
    found = drawn(seed, 5)
    for r, i in itertools.product((1, 3, 12), range(5)):
        values = []
        for a in range(r + 1):
            n = a + i
            values.append((a * found[i, 0] + sum(found[i, 1 : i + 1])) / n if n else 0.0)
        area = sum((x + y) / 2 / r for x, y in itertools.pairwise(values))
        assert gacc_area(found, r)[i] == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [[60, 5, 5, 5], [7, 2, 2, 2], [3, 4, 4, 4]])
def test_special_values_of_alpha(seed: int, sizes: list[int]) -> None:
    found, ratio = drawn(seed, 4), sizes[0] / sizes[1]
    assert class_ratio(sizes) == ratio
    for i in range(4):
        seen = slice(0, i + 1)
        every_class = np.average(found[i, seen], weights=sizes[seen])
        assert gacc(found, ratio, 1)[i] == pytest.approx(every_class)
        assert aacc(found, sizes)[i] == pytest.approx(every_class)
        assert gacc(found, ratio, 1 / ratio)[i] == pytest.approx(found[i, seen].mean())
        assert tacc(found)[i] == pytest.approx(found[i, seen].mean())
        if i:
            assert gacc(found, ratio, 0)[i] == pytest.approx(found[i, 1 : i + 1].mean())
            assert novel_accuracy(found)[i] == pytest.approx(found[i, 1 : i + 1].mean())
    assert np.isnan(gacc(found, ratio, 0)[0])
    assert np.isnan(novel_accuracy(found)[0])
    grid = gacc(found, ratio, [0.25, 0.5])
    np.testing.assert_array_equal(grid, [gacc(found, ratio, a) for a in (0.25, 0.5)])


def test_both_areas_meet_where_the_grid_is_fine() -> None:
    """A great ratio has a fine grid, but for the base session's 0 at α = 0."""
    found = drawn(0, 5)
    official, exact = (gacc_area(found, 5000, exact=e) for e in (False, True))
    np.testing.assert_allclose(official, exact, atol=2e-4)


@pytest.mark.parametrize("seed", range(5))
def test_forgetting_by_plain_loops(seed: int) -> None:
    found = drawn(seed, 5)
    for i in range(1, 5):
        drops, shares, ranges = [], [], []
        for j in range(i):
            own = [found[row, j] for row in range(j, i + 1)]
            drops.append(own[-1] - own[0])
            shares.append(own[-1] / own[0])
            ranges.append(max(own) - min(own))
        assert pd(found)[i] == pytest.approx(sum(drops) / i)
        assert kr(found)[i] == pytest.approx(sum(shares) / i)
        assert rpd(found)[i] == pytest.approx(sum(shares) / i - 1)
        assert max_forgetting(found)[i] == pytest.approx(sum(ranges) / i)


# --- undefined ---


def test_undefined_is_nan() -> None:
    ragged = curves_from_accuracies(HAND, [6, 2, 1])
    assert np.isnan(ragged["gacc"]).all()
    assert not np.isnan(ragged["aacc"]).any()
    uneven = curves_from_accuracies(HAND, [5, 2, 2])  # r = 2.5 has an integral and no grid
    assert np.isnan(uneven["gacc"]).all()
    assert not np.isnan(uneven["gacc_exact"]).any()
    alone = curves_from_accuracies(HAND[:1, :1], [6])
    assert alone["aacc"] == [0.9]
    assert np.isnan(alone["gacc"]).all()
    assert np.isnan(summary(alone)["hacc"])
    unknown_scores = curves_from_accuracies(np.full((3, 3), NAN), SIZES)
    assert all(np.isnan(v).all() for v in unknown_scores.values())


# --- of a run ---


def answers(seed: int, tests: Sequence[int] = (7,) * 10) -> Predictions:
    """Random answers on six base classes and twice two novel ones, `tests` samples of each."""
    draw, groups = np.random.default_rng(seed), [[*range(6)], [6, 7], [8, 9]]
    truth = [[c for c in group for _ in range(tests[c])] for group in groups]
    y, seen = np.concatenate(truth), np.array([[6], [8], [10]])
    answer = np.where(draw.uniform(size=(3, len(y))) < 0.6, y, draw.integers(0, 10, (3, len(y))))
    within = np.where(draw.uniform(size=answer.shape) < 0.6, y, -1)
    return predictions(truth, np.where(answer < seen, answer, -1), groups, within=within)


@pytest.mark.parametrize("seed", range(3))
def test_aacc_is_the_pooled_score_where_classes_are_alike(seed: int) -> None:
    even, uneven = answers(seed), answers(seed, range(1, 11))
    for p, name in ((even, "accuracy"), (even, "class_accuracy"), (uneven, "class_accuracy")):
        scores = score_matrix(p, name)
        np.testing.assert_allclose(
            curves_from_accuracies(scores.R, scores.n_classes)["aacc"], scores.pooled
        )
    scores = score_matrix(even, "accuracy")
    found = curves_from_accuracies(scores.R, SIZES)
    assert found["pd"][-1] == pytest.approx(metrics.bwt(scores, Reference()))


def test_records_of_few_shot_streams_have_the_curves(tmp_path: Path) -> None:
    p = answers(0)
    p.save(tmp_path / "predictions.h5")
    few = record_files.evaluate(unscored(3, protocol="fscil"), tmp_path, tmp_path)
    other = record_files.evaluate(unscored(3, protocol="incremental-class"), tmp_path, tmp_path)
    for name, own in few.by_score.items():
        scores = score_matrix(p, name)
        expected = plain(curves_from_accuracies(scores.R, scores.n_classes))
        assert {k: plain(own.curves[k]) for k in CURVES} == expected
        assert not set(CURVES) & set(other.by_score[name].curves)
        assert set(own.curves) == set(CURVES) | set(other.by_score[name].curves)
