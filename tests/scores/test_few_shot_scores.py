"""Few-shot scores: hand-worked values, identities, quadrature; the paper's tables have a test."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from report_records import unscored
from scipy.integrate import quad
from toy import predictions, random_predictions

from embedbench.array_types import Floats
from embedbench.config.json_records import plain
from embedbench.scores import record_files
from embedbench.scores.few_shot_scores import (
    CURVES,
    aacc,
    class_ratio,
    curves_from_accuracies,
    gacc,
    gacc_area,
    kr,
    max_forgetting,
    novel_accuracy,
    pd,
    rpd,
    summary,
    tacc,
)
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import UnscoredRun

NAN = float("nan")
HAND = np.array([[0.9, NAN, NAN], [0.8, 0.5, NAN], [0.6, 0.3, 0.7]])


def drawn(seed: int, sessions: int) -> Floats:
    """Random accuracies; above the diagonal values that nothing may read."""
    return np.random.default_rng(seed).uniform(size=(sessions, sessions))


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
    found = curves_from_accuracies(HAND, [6, 2, 2])
    assert list(found) == list(expected) == list(CURVES)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12, err_msg=name)
    quoted = {name: np.mean(expected[name]) for name in ("aacc", "tacc", "gacc", "gacc_exact")}
    quoted |= {name: np.mean(expected[name][1:]) for name in ("novel_accuracy", "hacc")}
    quoted |= {name: expected[name][2] for name in ("pd", "kr", "rpd", "max_forgetting")}
    assert summary(found) == pytest.approx({**quoted, "lacc": 0.56})


def test_a_session_that_was_never_learned_has_no_share_to_keep() -> None:
    found = np.array([[0.8, NAN, NAN], [0.4, 0.0, NAN], [0.6, 0.5, 0.1]])
    assert kr(found)[2] == pytest.approx(0.75)
    assert np.isnan(kr(np.zeros((3, 3)))).all()


@pytest.mark.parametrize("ratio", [1.0, 2.5, 12.0, 0.4])
def test_the_closed_form_is_the_integral(ratio: float) -> None:
    found = drawn(0, 6)
    exact = gacc_area(found, ratio, exact=True)
    for i in range(6):
        area, _ = quad(lambda alpha, i=i: gacc(found, ratio, alpha)[i], 0, 1)
        assert exact[i] == pytest.approx(area, abs=1e-8)


def test_the_grid_is_summed_as_their_code_does() -> None:
    """Σ over neighbouring points of the grid, every value by the definition in integers."""
    found = drawn(1, 5)
    for r, i in itertools.product((1, 3, 12), range(5)):
        values = []
        for a in range(r + 1):
            n = a + i
            values.append((a * found[i, 0] + sum(found[i, 1 : i + 1])) / n if n else 0.0)
        area = sum((x + y) / 2 / r for x, y in itertools.pairwise(values))
        assert gacc_area(found, r)[i] == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("sizes", [[60, 5, 5, 5], [7, 2, 2, 2], [3, 4, 4, 4]])
def test_special_values_of_alpha(sizes: list[int]) -> None:
    found, ratio = drawn(2, 4), sizes[0] / sizes[1]
    assert class_ratio(sizes) == ratio
    by_class = [np.average(found[i, : i + 1], weights=sizes[: i + 1]) for i in range(4)]
    by_session = [found[i, : i + 1].mean() for i in range(4)]
    novel = [NAN, *(found[i, 1 : i + 1].mean() for i in range(1, 4))]
    for expected, score, alpha in (
        (by_class, aacc(found, sizes), 1),
        (by_session, tacc(found), 1 / ratio),
        (novel, novel_accuracy(found), 0),
    ):
        np.testing.assert_allclose(score, expected)
        np.testing.assert_allclose(gacc(found, ratio, [alpha, 0.5])[0], expected)


def test_forgetting_by_plain_loops() -> None:
    found = drawn(3, 5)
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


def test_undefined_is_nan() -> None:
    def undefined(accuracies: Floats, sizes: list[int]) -> set[str]:
        found = curves_from_accuracies(accuracies, sizes)
        return {name for name, values in found.items() if np.isnan(values).all()}

    assert undefined(HAND, [5, 2, 2]) == {"gacc"}  # r = 2.5 has an integral and no grid
    ragged = curves_from_accuracies(HAND, [6, 2, 1])
    assert np.isnan([ragged["gacc"][1:], ragged["gacc_exact"][1:]]).all()
    assert undefined(np.full((3, 3), NAN), [6, 2, 2]) == {*CURVES}
    assert undefined(HAND[:1, :1], [6]) == {*CURVES} - {"aacc", "tacc", "gacc_exact"}


# test samples of the three sessions of `HAND`: its means are then of 9, 9 + 2 and 9 + 2 + 1
SAMPLES = [9, 2, 1]
PER_SAMPLE = {
    "aacc": [0.9, (9 * 0.8 + 2 * 0.5) / 11, (9 * 0.6 + 2 * 0.3 + 1 * 0.7) / 12],
    "novel_accuracy": [NAN, 0.5, (2 * 0.3 + 1 * 0.7) / 3],
    "hacc": [NAN, 0.8 / 1.3, 2 * 0.6 * (1.3 / 3) / (0.6 + 1.3 / 3)],
}


@pytest.mark.parametrize("name", PER_SAMPLE)
def test_a_mean_over_test_samples_weighs_each_sample_alike(name: str) -> None:
    found = curves_from_accuracies(HAND, [6, 2, 2], SAMPLES)[name]
    np.testing.assert_allclose(found, PER_SAMPLE[name])


@pytest.mark.parametrize("name", sorted({*CURVES} - {*PER_SAMPLE}))
def test_what_the_paper_defines_by_sessions_stays_so(name: str) -> None:
    found = curves_from_accuracies(HAND, [6, 2, 2], SAMPLES)[name]
    np.testing.assert_array_equal(found, curves_from_accuracies(HAND, [6, 2, 2])[name])


def test_a_session_without_test_samples_counts_nothing() -> None:
    untested = np.array([[0.9, NAN, NAN], [0.8, NAN, NAN], [0.6, NAN, 0.7]])
    assert novel_accuracy(untested, [9, 0, 1])[2] == 0.7


def novel_run(protocol: str) -> tuple[UnscoredRun, Predictions]:
    """A base session of two test samples, a session of three and one of one."""
    answers = [[0, 0, 0, 0, 0, 0], [0, 1, 2, 2, 0, 0], [0, 1, 2, 0, 0, 3]]
    within = np.array([[0, 1, 2, 2, 2, 3]] * 3)
    p = predictions([[0, 1], [2, 2, 2], [3]], answers, [[0, 1], [2], [3]], within=within)
    return unscored(3, protocol=protocol), p


@pytest.mark.parametrize(
    ("score", "last"),
    [
        ("accuracy", 2 / 4),  # of four novel samples two are right
        ("class_accuracy", (1 / 3 + 1) / 2),
    ],
)
def test_the_record_weighs_as_its_score_does(tmp_path: Path, score: str, last: float) -> None:
    made, p = novel_run("fscil")
    p.save(tmp_path / "predictions.h5")
    record = record_files.evaluate(made, tmp_path, tmp_path)
    assert (record.by_score[score].curves or {})["novel_accuracy"][-1] == pytest.approx(last)


def test_aacc_of_accuracy_is_the_share_of_right_answers(tmp_path: Path) -> None:
    made, p = novel_run("fscil")
    p.save(tmp_path / "predictions.h5")
    record = record_files.evaluate(made, tmp_path, tmp_path)
    assert (record.by_score["accuracy"].curves or {})["aacc"] == pytest.approx(
        (1 / 2, 4 / 5, 4 / 6)
    )


def test_records_of_few_shot_streams_have_the_curves(tmp_path: Path) -> None:
    p = random_predictions(5)
    p.save(tmp_path / "predictions.h5")
    few, other = (
        record_files.evaluate(unscored(len(p.session), protocol=name), tmp_path, tmp_path)
        for name in ("fscil", "incremental-class")
    )
    for name, own in few.by_score.items():
        scores = p.score_matrix(name)
        expected = curves_from_accuracies(scores.R, scores.n_classes, scores.sizes)
        assert plain(own.curves) == plain(other.by_score[name].curves | expected)
        assert not {*CURVES} & {*other.by_score[name].curves}
