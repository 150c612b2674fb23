"""The stability gap: by hand, by loops, and that only moments inside sessions show it."""

import math

import numpy as np
import pytest

from embedbench.scores.metrics import Reference
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.scores.unrecorded_metrics import WINDOW, min_accuracy, windowed_forgetting

NAN = math.nan
NOTHING = Reference()


# Session 0 rises to .9, falls to .2 as session 1 begins, and is back at .8 when that ends.
GAP = ScoreMatrix.from_matrix(
    [
        [0.5, NAN, NAN],
        [0.9, NAN, NAN],
        [0.2, 0.6, NAN],
        [0.6, 0.7, NAN],
        [0.8, 0.8, NAN],
        [0.3, 0.4, 0.9],
        [0.7, 0.8, 0.8],
    ],
    [0, 0, 1, 1, 1, 2, 2],
)


def test_by_hand() -> None:
    # the lowest: .2 of session 0 and .4 of session 1, each after its own session
    assert min_accuracy(GAP, NOTHING) == pytest.approx((0.2 + 0.4) / 2)
    # the largest drops: .9 to .2, .8 to .4, .9 to .8
    assert windowed_forgetting(GAP, NOTHING) == pytest.approx((0.7 + 0.4 + 0.1) / 3)


def test_ends_of_sessions_alone_say_nothing() -> None:
    ends = ScoreMatrix.from_matrix(GAP.R)
    assert math.isnan(min_accuracy(ends, NOTHING))
    assert math.isnan(windowed_forgetting(ends, NOTHING))


def test_a_drop_outside_the_window_does_not_count() -> None:
    slow = ScoreMatrix.from_matrix([[1.0 - 0.05 * k] for k in range(15)], [0] * 15)
    assert windowed_forgetting(slow, NOTHING) == pytest.approx(0.05 * 9)
    rising = ScoreMatrix.from_matrix([[0.1 * k] for k in range(8)], [0] * 8)
    assert windowed_forgetting(rising, NOTHING) == 0


@pytest.mark.parametrize("seed", range(5))
def test_all_agree_with_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = int(rng.integers(2, 5))
    session = [s for s in range(sets) for _ in range(rng.integers(2, 9))]
    table = rng.random((len(session), sets))
    table[np.array(session)[:, None] < np.arange(sets)] = NAN
    scores = ScoreMatrix.from_matrix(table, session)
    lows, drops = [], []
    for j in range(sets):
        later = [table[m, j] for m in range(len(session)) if session[m] > j]
        lows += [min(later)] if later else []
        here = [v for v in table[:, j] if not math.isnan(v)]
        windows = [here[k : k + WINDOW] for k in range(len(here))]
        drops.append(max(0.0, *(w[0] - v for w in windows for v in w)))
    assert min_accuracy(scores, NOTHING) == pytest.approx(np.mean(lows))
    assert windowed_forgetting(scores, NOTHING) == pytest.approx(np.mean(drops))
