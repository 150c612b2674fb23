"""Metrics: hand-worked 3×3 cases; test_predictions_page.py has plain loops on random answers."""

import dataclasses
import math

import numpy as np
import pytest
from toy import predictions, until

from embedbench.scores import metrics
from embedbench.scores.against_chance import aa, af
from embedbench.scores.metrics import Reference, compute
from embedbench.scores.score_matrix import ScoreMatrix

NAN = math.nan
BY_CLASS = {"worst_class_accuracy", "per_class_forgetting", "few_shot_accuracy"}


def matrix(R: list[list[float]], pooled: list[float]) -> ScoreMatrix:
    """A score matrix with one moment a session, and no scores of single classes."""
    scores = ScoreMatrix.from_matrix(R)
    undefined = np.full_like(scores.per_class, NAN)
    return dataclasses.replace(scores, pooled=np.array(pooled), per_class=undefined)


def plain(scores: ScoreMatrix, reference: Reference) -> dict[str, float]:
    """All metrics but those of single classes."""
    return {k: v for k, v in compute(scores, reference).items() if k not in BY_CLASS}


# Class-incremental, T = 3. Base falls .9 → .6 → .3, session 1 is learned to .8 and falls to .5,
# session 2 is learned to 1.0. The pooled scores are given, as if the sets had unequal sizes.
INCREMENTAL = matrix([[0.9, NAN, NAN], [0.6, 0.8, NAN], [0.3, 0.5, 1.0]], [0.9, 0.65, 0.55])
# Domain-incremental, T = 3: sets of later sessions can be answered before they are learned.
PERMUTED = matrix([[0.9, 0.3, 0.1], [0.7, 0.8, 0.4], [0.8, 0.5, 0.6]], [0.9, 0.75, 19 / 30])


def test_incremental_by_hand() -> None:
    assert plain(INCREMENTAL, Reference(ideal=0.5)) == pytest.approx(
        {
            "omega_base": (0.6 + 0.3) / 2 / 0.5,  # .9: column 0 after sessions 1 and 2, over ideal
            "omega_new": (0.8 + 1.0) / 2,  # .9: the diagonal but for session 0, not divided
            "omega_all": (0.65 + 0.55) / 2 / 0.5,  # 1.2, not clipped
            "omega_streaming": NAN,  # no offline learner of the data so far
            "final_accuracy": 0.55,
            "average_incremental_accuracy": (0.9 + 0.65 + 0.55) / 3,  # .7
            "average_anytime_accuracy": 0.7,  # the same: ends of equal sessions only
            "average_accuracy": (0.3 + 0.5 + 1.0) / 3,  # .6
            # session 0: max(.9, .6) - .3 = .6; session 1: .8 - .5 = .3
            "average_forgetting": 0.45,
            "learning_accuracy": (0.9 + 0.8 + 1.0) / 3,  # .9
            "bwt": ((0.3 - 0.9) + (0.5 - 0.8)) / 2,  # -.45
            "fwt": NAN,  # future classes are masked
        },
        nan_ok=True,
    )


def test_permuted_by_hand() -> None:
    reference = Reference(
        ideal=0.8,
        normalise_new=True,
        chance=np.array([NAN, 0.2, 0.2]),
        so_far=np.array([0.9, 1.0, 0.8]),
    )
    assert plain(PERMUTED, reference) == pytest.approx(
        {
            "omega_base": (0.7 + 0.8) / 2 / 0.8,
            "omega_new": (0.8 + 0.6) / 2 / 0.8,  # divided on permutation streams
            "omega_all": (0.75 + 19 / 30) / 2 / 0.8,
            "omega_streaming": (0.9 / 0.9 + 0.75 / 1.0 + 19 / 30 / 0.8) / 3,
            "final_accuracy": 19 / 30,
            "average_incremental_accuracy": (0.9 + 0.75 + 19 / 30) / 3,
            "average_anytime_accuracy": (0.9 + 0.75 + 19 / 30) / 3,
            "average_accuracy": (0.8 + 0.5 + 0.6) / 3,
            # session 0: max(.9, .7) - .8 = .1; session 1: .8 - .5 = .3 (its .3 before learning and
            # the last row do not enter the maximum)
            "average_forgetting": 0.2,
            "learning_accuracy": (0.9 + 0.8 + 0.6) / 3,
            "bwt": ((0.8 - 0.9) + (0.5 - 0.8)) / 2,  # -.2
            "fwt": ((0.3 - 0.2) + (0.4 - 0.2)) / 2,  # .15
        }
    )


def test_anytime_accuracy_by_hand() -> None:
    """Moments after 10, 30, 40 | 50 samples, session 0 ending at 40: widths 10, 20, 10, 10."""
    values = [[0.2, NAN], [0.6, NAN], [0.8, NAN], [0.5, 0.1]]
    moments = dataclasses.replace(
        ScoreMatrix.from_matrix(values, [0, 0, 0, 1]),
        pooled=np.array([0.2, 0.6, 0.8, 0.4]),
        samples_seen=np.array([10, 30, 40, 50]),
    )
    found = metrics.average_anytime_accuracy(moments, Reference())
    assert found == pytest.approx((10 * 0.2 + 20 * 0.6 + 10 * 0.8 + 10 * 0.4) / 50)  # .52
    assert metrics.average_incremental_accuracy(moments, Reference()) == pytest.approx(0.6)
    first = metrics.average_anytime_accuracy(until(moments, 0), Reference())
    assert first == pytest.approx((10 * 0.2 + 20 * 0.6 + 10 * 0.8) / 40)  # .55
    # at the ends only: session 0 weighs its four fifths of the samples
    coarse = dataclasses.replace(
        matrix(moments.R.tolist(), [0.8, 0.4]), samples_seen=np.array([40, 50])
    )
    assert metrics.average_anytime_accuracy(coarse, Reference()) == pytest.approx(0.72)
    nothing = dataclasses.replace(coarse, samples_seen=np.zeros(2, dtype=np.int64))
    assert math.isnan(metrics.average_anytime_accuracy(nothing, Reference()))


def test_forgetting_may_be_negative_and_is_not_minus_bwt() -> None:
    # Session 0 rises to .9 in the middle and ends at .8; session 1 improves from .5 to .7.
    scores = matrix([[0.6, 0.1, 0.1], [0.9, 0.5, 0.1], [0.8, 0.7, 0.4]], [0.6, 0.7, 0.6])
    values = compute(scores, Reference())
    # AF: (max(.6, .9) - .8 + .5 - .7)/2 = (.1 - .2)/2; BWT: (.8 - .6 + .7 - .5)/2
    assert values["average_forgetting"] == pytest.approx(-0.05)
    assert values["bwt"] == pytest.approx(0.2)


def test_forgetting_starts_when_the_set_is_learned() -> None:
    # Before session 1 was learned, set 1 scored .9 by accident; Chaudhry et al. would count it.
    scores = matrix([[0.5, 0.9, 0.1], [0.5, 0.6, 0.1], [0.5, 0.6, 0.5]], [0.5, 0.5, 0.5])
    assert metrics.average_forgetting(scores, Reference()) == pytest.approx(0.0)


def test_one_session_has_no_omega_no_forgetting_no_transfer() -> None:
    values = plain(matrix([[0.7]], [0.7]), Reference(ideal=0.7, chance=np.array([NAN, NAN])))
    defined = {k: v for k, v in values.items() if not math.isnan(v)}
    names = ("final", "average_incremental", "average_anytime", "average", "learning")
    assert defined == {f"{name}_accuracy": 0.7 for name in names}


@pytest.mark.parametrize("ideal", [NAN, 0.0])
def test_omega_is_undefined_without_a_reference(ideal: float) -> None:
    so_far = np.array([0.5, ideal, 0.5])
    values = compute(PERMUTED, Reference(ideal=ideal, normalise_new=True, so_far=so_far))
    for name in ("omega_base", "omega_new", "omega_all", "omega_streaming"):
        assert math.isnan(values[name])
    assert math.isnan(values["fwt"])  # without chance
    raw = compute(PERMUTED, Reference(ideal=ideal, normalise_new=False))
    assert raw["omega_new"] == pytest.approx(0.7)  # divided by nothing, so it needs no reference


@pytest.mark.parametrize(
    ("row", "column", "touched"),
    [
        (1, 0, {"omega_base", "average_forgetting"}),
        (0, 0, {"average_forgetting", "learning_accuracy", "bwt"}),
        (2, 2, {"omega_new", "average_accuracy", "learning_accuracy"}),
        (0, 1, {"fwt"}),
        (0, 2, set()),  # nobody asks for two sessions ahead
    ],
)
def test_an_undefined_score_spreads_to_metrics(row: int, column: int, touched: set[str]) -> None:
    R = PERMUTED.R.tolist()
    R[row][column] = NAN
    reference = Reference(ideal=0.8, chance=np.array([NAN, 0.2, 0.2]), so_far=np.ones(3))
    values = plain(matrix(R, PERMUTED.pooled.tolist()), reference)
    assert {k for k, v in values.items() if math.isnan(v)} == touched


def newest(base: int, later: int, base_kept: float = 0.0, later_kept: float = 0.0) -> ScoreMatrix:
    """A learner that answers every sample with the newest class, but for what it keeps.

    There are 100 test samples a class. `base_kept` of the base set's samples and `later_kept` of
    those of later classes, spread evenly, are answered rightly at all times.
    """
    groups = [list(range(base)), *([c] for c in range(base, base + later))]
    truth = [group * 100 for group in groups]
    y = np.concatenate(truth)
    answers = np.tile(np.arange(base - 1, base + later)[:, None], (1, len(y)))
    for part, kept in ((y < base, base_kept), (y >= base, later_kept)):
        samples = np.flatnonzero(part)
        steps = np.floor(np.arange(len(samples) + 1) * kept)
        right = samples[np.diff(steps) > 0]
        answers[:, right] = y[right]
    return predictions(truth, answers, groups).score_matrix()


def test_ewc_on_incremental_mnist_omega_all() -> None:
    # Ω_new 1.000 and Ω_base .001: only the newest of 6…10 classes is right, so α_i is 1/6 … 1/10,
    # mean .12913. Printed Ω_all .133 then says α_ideal = .12913/.133 = .971.
    scores = newest(5, 5)
    np.testing.assert_allclose(scores.pooled[1:], [1 / 6, 1 / 7, 1 / 8, 1 / 9, 1 / 10])
    values = compute(scores, Reference(ideal=0.971))
    assert values["omega_new"] == 1.0
    assert values["omega_base"] == 0.0
    assert round(values["omega_all"], 3) == 0.133


@pytest.mark.parametrize(
    ("base", "later", "ideal", "omega_base", "band"),
    [
        (50, 50, 0.461, 0.016, (0.041, 0.046)),  # AudioSet, MLP: printed Ω_all .044
        (100, 100, 0.621, 0.020, (0.025, 0.031)),  # CUB-200, MLP: printed Ω_all .031
    ],
)
def test_mlp_omega_all(
    base: int, later: int, ideal: float, omega_base: float, band: tuple[float, float]
) -> None:
    # Ω_new 1.000 and the printed Ω_base leave Ω_all between "nothing of the classes between" and
    # "as much of them as of the base set", α_ideal being the accuracy over all classes.
    share = omega_base * ideal
    for later_kept, end in zip((0.0, share), band, strict=True):
        values = compute(newest(base, later, share, later_kept), Reference(ideal=ideal))
        assert values["omega_base"] == pytest.approx(omega_base, abs=5e-4)
        assert values["omega_new"] == 1.0
        assert values["omega_all"] == pytest.approx(end, abs=1e-3)


def test_cub_permutation_omega_new_must_be_divided() -> None:
    # MLP on CUB-200: printed Ω_new .917 is above the offline accuracy .621 that bounds R[i, i], so
    # the table divides by it: .569 / .621.
    scores = matrix([[0.6, 0.0], [0.5, 0.5694]], [0.6, 0.53])
    table = Reference(ideal=0.621, normalise_new=True, preset="kemker_table")
    assert round(metrics.omega_new(scores, table), 3) == 0.917
    literal = Reference(ideal=0.621, normalise_new=True, preset="kemker_eq")
    assert metrics.omega_new(scores, literal) == 0.5694


@pytest.mark.parametrize(("base", "later", "expected"), [(5, 5, 0.646), (100, 100, 0.691)])
def test_not_learning_scores_well(base: int, later: int, expected: float) -> None:
    # Perfect on the base set, which is all it ever answers: Ω_all = mean of B/(B + i), i = 1 … B.
    # Only 0.0 of Ω_new tells; docs/metrics.md warns with these two numbers.
    groups = [list(range(base)), *([c] for c in range(base, base + later))]
    y = np.arange(base + later)
    answers = np.tile(np.where(y < base, y, 0), (later + 1, 1))
    values = compute(predictions(groups, answers, groups).score_matrix(), Reference(ideal=1.0))
    assert values["omega_base"] == 1.0
    assert values["omega_new"] == 0.0
    assert values["bwt"] == 0.0
    assert values["average_forgetting"] == 0.0
    assert values["omega_all"] == pytest.approx(expected, abs=5e-4)


# Four sessions; session 0 introduces classes 0 and 1, session 2 class 2, the others none.
TRUTH = [[0, 0, 1, 1], [], [2, 2], []]
GROUPS = [[0, 1], [], [2], []]
ANSWERS = [
    [0, 0, 1, 0, 0, 1],  # set 0: 3/4
    [0, 1, 0, 0, 0, 0],  # 1/4
    [0, 1, 1, 2, 2, 2],  # 2/4, and set 2: 2/2
    [0, 0, 1, 1, 2, 1],  # 4/4 and 1/2
]
WITHIN = np.tile([0, 0, 1, 1, 2, 2], (4, 1))
P = predictions(TRUTH, ANSWERS, GROUPS, within=WITHIN)


def test_untested_sessions_by_hand() -> None:
    scores = P.score_matrix("accuracy")
    assert scores.tested.tolist() == [True, False, True, False]
    assert scores.pooled.tolist() == [3 / 4, 1 / 4, 4 / 6, 5 / 6]  # all classes seen so far
    chance, so_far = np.full(4, 0.25), np.array([1.0, 0.5, 1.0, 1.0])
    values = compute(scores, Reference(ideal=0.5, chance=chance, so_far=so_far))
    assert values["omega_base"] == pytest.approx((1 / 4 + 2 / 4 + 4 / 4) / 3 / 0.5)
    assert values["omega_new"] == 1.0  # session 2 alone
    assert values["omega_all"] == pytest.approx((1 / 4 + 4 / 6 + 5 / 6) / 3 / 0.5)
    assert values["omega_streaming"] == pytest.approx((3 / 4 + 1 / 2 + 4 / 6 + 5 / 6) / 4)
    assert values["final_accuracy"] == pytest.approx(5 / 6)
    assert values["average_anytime_accuracy"] == pytest.approx((3 / 4 + 1 / 4 + 4 / 6 + 5 / 6) / 4)
    assert values["average_accuracy"] == pytest.approx((1 + 1 / 2) / 2)
    assert values["average_forgetting"] == pytest.approx(((3 / 4 - 1) + (1 - 1 / 2)) / 2)
    assert values["learning_accuracy"] == pytest.approx((3 / 4 + 1) / 2)
    assert values["bwt"] == pytest.approx(((1 - 3 / 4) + (1 / 2 - 1)) / 2)
    assert math.isnan(values["fwt"])  # class 2 was not seen before session 2


def test_curves_of_untested_sessions_by_hand() -> None:
    scores = P.score_matrix("accuracy")
    assert aa(scores).tolist() == [3 / 4, 1 / 4, (2 / 4 + 1) / 2, (1 + 1 / 2) / 2]
    expected = [3 / 4 - 1 / 4, 3 / 4 - 2 / 4, ((3 / 4 - 1) + (1 - 1 / 2)) / 2]
    assert af(scores)[1:] == pytest.approx(expected)
