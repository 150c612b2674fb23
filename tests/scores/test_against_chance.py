"""RAA and RAF: the definitions in exact rationals, and where they are undefined."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from toy import random_predictions

from embedbench.array_types import Floats
from embedbench.cli.list_entries import entries
from embedbench.papers.new_metrics.paper import beta, random_tables
from embedbench.scores import against_chance, few_shot_scores
from embedbench.scores.against_chance import curves, random_forgetting
from embedbench.scores.score_matrix import ScoreMatrix


def drawn(seen: list[int], seed: int) -> ScoreMatrix:
    T = len(seen)
    values: Floats = np.random.default_rng(seed).uniform(0.1, 0.9, (T, T))
    values[np.triu_indices(T, 1)] = np.nan
    return replace(ScoreMatrix.from_matrix(values), classes_seen=np.array(seen))


@pytest.mark.parametrize(
    "seen", [[4], [7, 14], [2, 4, 6, 8, 10], [5, 6, 7, 8], [*range(10, 116, 5)]]
)
def test_curves_by_exact_loops(seen: list[int]) -> None:
    """Every curve by its definition in rationals, an element at a time."""
    scores = drawn(seen, len(seen))
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
    assert random_forgetting(seen) == af_rand
    if len({*np.diff([0, *seen])}) == 1:
        for k in range(2, K + 1):
            assert found["raf"][k - 1] == pytest.approx(found["af"][k - 1] * float(beta(k, K)))


def test_the_printed_values() -> None:
    """Those of docs/metrics.md, and the paper's β₂."""
    for seen, share in (([*range(5, 11)], 0.679), ([*range(100, 201)], 0.0506)):
        found = curves(drawn(seen, 0))
        assert found["raf"][-1] / found["af"][-1] == pytest.approx(share, abs=5e-4)
    assert [round(float(beta(2, K)), 4) for K in (5, 10)] == [0.6417, 0.4287]


def test_undefined_where_no_class_is_added() -> None:
    """A permutation stream has every class from the start: forgetting has no chance level."""
    p = random_predictions(3, permutation=True)
    found = curves(p.score_matrix())
    assert {k for k, v in found.items() if np.isnan(v[1:]).all()} == {"uraf", "raf", "raf_lastnorm"}
    np.testing.assert_array_equal(found["raa"], found["aa"])  # always as hard as at the end
    np.testing.assert_array_equal(found["uraa"], found["aa"] * p.seen.sum(axis=1))


def test_undefined_where_answers_are_restricted() -> None:
    found = curves(drawn([2, 4, 6], 0), restricted=True)
    assert {k for k, v in found.items() if np.isnan(v).all()} == set(found) - {"aa", "af"}


def test_every_curve_is_listed_and_says_where_it_comes_from() -> None:
    listed = {e["name"] for e in entries("metrics")}
    assert {c.__name__ for c in against_chance.CURVES} | {"gacc_area"} <= listed
    assert {*few_shot_scores.CURVES} - {"gacc_exact"} <= listed
    assert all("**Source**" in (curve.__doc__ or "") for curve in against_chance.CURVES)
