"""RAA and RAF: Michel et al.'s tables, and the definitions in exact rationals."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from toy import random_predictions, until

from embedbench.array_types import Floats
from embedbench.cli.list_entries import entries
from embedbench.papers.new_metrics.paper import beta, random_tables
from embedbench.scores import against_chance, few_shot_scores, metrics
from embedbench.scores.against_chance import curves, random_forgetting
from embedbench.scores.metrics import Reference
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.scores.single_label_scores import score_matrix

UNEQUAL = {
    "5+1×5": [5, 6, 7, 8, 9, 10],
    "100+1×100": list(range(100, 201)),
    "60+5×8": list(range(60, 101, 5)),
    "10+5×21": list(range(10, 116, 5)),
}


def percent(value: Fraction, digits: str) -> str:
    """A table's digits: as many decimals as it prints."""
    places = len(digits.partition(".")[2])
    return f"{float(100 * value):.{places}f}"


def test_table_1_of_the_paper() -> None:
    printed = ["50", "25", "16.7", "12.5", "10"]
    accuracy, _ = random_tables([2, 4, 6, 8, 10])
    for k, (row, digits) in enumerate(zip(accuracy, printed, strict=True), start=1):
        assert [percent(a, digits) for a in row] == [digits] * k
        assert percent(sum(row, Fraction(0)) / k, digits) == digits


def test_table_2_of_the_paper() -> None:
    # 4.1666… and 6.6666… are printed 4.16 and 6.66: cut off. The means are rounded: 18.0555… 18.06.
    printed = [
        [],
        ["25"],
        ["33.3", "8.33"],
        ["37.5", "12.5", "4.16"],
        ["40", "15", "6.66", "2.5"],
    ]
    means = ["25", "20.83", "18.06", "16.04"]
    _, forgetting = random_tables([2, 4, 6, 8, 10])
    for row, digits in zip(forgetting, printed, strict=True):
        for share, start in zip(row, digits, strict=True):
            assert str(float(100 * share)).startswith(start)
    averages = [sum(row, Fraction(0)) / len(row) for row in forgetting[1:]]
    assert [percent(a, d) for a, d in zip(averages, means, strict=True)] == means
    assert averages == random_forgetting([2, 4, 6, 8, 10])
    assert averages == [Fraction(1, 4), Fraction(5, 24), Fraction(13, 72), Fraction(77, 480)]


def test_the_printed_beta_2() -> None:
    found = [round(float(beta(2, K)), 4) for K in (5, 10, 20, 100)]
    assert found == [0.6417, 0.4287, 0.2734, 0.0846]


@pytest.mark.parametrize("sessions", [2, 5, 10, 20, 100])
@pytest.mark.parametrize("n", [1, 2, 10])
def test_closed_forms_follow_from_the_definitions(sessions: int, n: int) -> None:
    """Definitions 4.1 and 4.2 by their maxima over all k, in exact rationals."""
    seen = [n * k for k in range(1, sessions + 1)]
    chance = random_forgetting(seen)  # k = 2 …
    most = max(1 / c for c in chance)  # the worst classifier has AF = 1
    assert most == 1 / chance[-1]
    for k in range(2, sessions + 1):
        assert beta(k, sessions) == (1 / chance[k - 2]) / most
    assert beta(sessions, sessions) == 1
    assert all(a < b for a, b in pairwise(beta(k, sessions) for k in range(2, sessions + 1)))


@pytest.mark.parametrize("seen", [*UNEQUAL.values(), [2, 4, 6], [3, 3, 5], [1, 7, 8, 20]])
def test_random_forgetting_is_the_mean_of_its_table(seen: list[int]) -> None:
    _, forgetting = random_tables(seen)
    assert random_forgetting(seen) == [sum(r, Fraction(0)) / len(r) for r in forgetting[1:]]


@pytest.mark.parametrize(
    ("stream", "share"),
    [("5+1×5", 0.679), ("100+1×100", 0.0506), ("60+5×8", 0.401), ("10+5×21", 1.0)],
)
def test_raf_at_the_end_of_a_base_heavy_stream(stream: str, share: float) -> None:
    scores = drawn(UNEQUAL[stream], seed=0)
    found = curves(scores)
    assert found["raf"][-1] / found["af"][-1] == pytest.approx(share, abs=5e-4)
    assert found["raf_lastnorm"][-1] == found["af"][-1]


def drawn(seen: list[int], seed: int, *, constant: float | None = None) -> ScoreMatrix:
    """Random scores on a class-incremental stream, or the same score everywhere."""
    T = len(seen)
    values: Floats = np.random.default_rng(seed).uniform(0.1, 0.9, (T, T))
    if constant is not None:
        values[:] = constant
    values[np.triu_indices(T, 1)] = np.nan
    return replace(ScoreMatrix.from_matrix(values), classes_seen=np.array(seen))


@pytest.mark.parametrize("seen", [*UNEQUAL.values(), [2, 4, 6, 8, 10], [7, 14], [4]])
@pytest.mark.parametrize("seed", range(3))
def test_curves_by_exact_loops(seen: list[int], seed: int) -> None:
    """Every curve by its definition in rationals, an element at a time."""
    scores = drawn(seen, seed)
    R = [[Fraction(v) for v in row[: k + 1]] for k, row in enumerate(scores.R.tolist())]
    accuracy, forgetting = random_tables(seen)
    K = len(seen)
    aa = [sum(row) / len(row) for row in R]
    af = [
        sum(max(R[m][j] for m in range(j, k)) - R[k][j] for j in range(k)) / k for k in range(1, K)
    ]
    aa_rand = [sum(row) / len(row) for row in accuracy]
    af_rand = [sum(row) / len(row) for row in forgetting[1:]]
    uraa = [a / b for a, b in zip(aa, aa_rand, strict=True)]
    uraf = [a / b for a, b in zip(af, af_rand, strict=True)]
    top_accuracy = max(1 / b for b in aa_rand)
    top_forgetting = max((1 / b for b in af_rand), default=Fraction(1))
    expected = {
        "aa": aa,
        "af": [math.nan, *af],
        "uraa": uraa,
        "uraf": [math.nan, *uraf],
        "raa": [u / top_accuracy for u in uraa],
        "raf": [math.nan, *(u / top_forgetting for u in uraf)],
        "raf_lastnorm": [math.nan, *(u * af_rand[-1] for u in uraf)],
    }
    found = curves(scores)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], np.array(values, float), atol=1e-12, err_msg=name)
    assert found["raa"][-1] == found["aa"][-1]
    if len(set(np.diff([0, *seen]))) == 1 and K > 1:
        assert found["raf"][-1] == found["af"][-1]
        for k in range(2, K + 1):
            assert found["raf"][k - 1] == pytest.approx(found["af"][k - 1] * float(beta(k, K)))


@pytest.mark.parametrize("seen", [[2, 4, 6, 8, 10], UNEQUAL["60+5×8"]])
def test_the_random_classifier_has_one_everywhere(seen: list[int]) -> None:
    """uRAA and uRAF of the random classifier are 1, its RAA and RAF constant."""
    scores = drawn(seen, 0)
    scores.values[:] = np.tril(np.ones_like(scores.values)) / np.array(seen)[:, None]
    scores.values[np.triu_indices(len(seen), 1)] = np.nan
    found = curves(scores)
    np.testing.assert_allclose(found["uraa"], 1)
    np.testing.assert_allclose(found["uraf"][1:], 1)
    np.testing.assert_allclose(found["raa"], 1 / seen[-1])
    np.testing.assert_allclose(found["raf"][1:], found["raf"][-1])


def test_raa_and_raf_are_fractions_at_their_bounds() -> None:
    """The perfect and the worst learner: RAA at most 1, RAF at most 1 and 1 somewhere."""
    for seen in UNEQUAL.values():
        perfect = curves(drawn(seen, 0, constant=1.0))
        assert perfect["raa"].max() == 1.0
        worst = drawn(seen, 0, constant=0.0)
        worst.values[np.diag_indices(len(seen))] = 1.0
        assert curves(worst)["raf"][1:].max() == pytest.approx(1.0)


def test_a_metric_of_the_first_sessions_is_that_of_a_shorter_run() -> None:
    for seed, permutation in product(range(5), (False, True)):
        scores = score_matrix(random_predictions(seed, permutation=permutation), "accuracy")
        found = curves(scores)
        for k in range(len(scores.R)):
            short = until(scores, k)
            assert found["aa"][k] == metrics.average_accuracy(short, Reference())
            np.testing.assert_equal(found["af"][k], metrics.average_forgetting(short, Reference()))


def test_undefined_where_no_class_is_added() -> None:
    """A permutation stream has every class from the start: forgetting has no chance level."""
    p = random_predictions(3, permutation=True)
    found = curves(score_matrix(p))
    assert not np.isnan(found["af"][1:]).any()
    for name in ("uraf", "raf", "raf_lastnorm"):
        assert np.isnan(found[name]).all()
    np.testing.assert_array_equal(found["raa"], found["aa"])  # always as hard as at the end
    np.testing.assert_array_equal(found["uraa"], found["aa"] * p.seen.sum(axis=1))


def test_undefined_where_answers_are_restricted() -> None:
    found = curves(drawn([2, 4, 6], 0), restricted=True)
    assert {k for k, v in found.items() if np.isnan(v).all()} == set(found) - {"aa", "af"}


def test_every_curve_is_listed_and_says_where_it_comes_from() -> None:
    listed = {e["name"]: e["summary"] for e in entries("metrics")}
    assert {*(c.__name__ for c in against_chance.CURVES), "gacc_area"} <= set(listed)
    assert {*few_shot_scores.CURVES} - {"gacc_exact"} <= set(listed)
    assert "curves_from_accuracies" not in listed
    assert all(summary.endswith(".") for summary in listed.values())
    assert all("**Source**" in (curve.__doc__ or "") for curve in against_chance.CURVES)
