"""Tables of confidence: whatever probabilities give passes, and what none can give is refused."""

import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confident_runs import confident_predictions, from_scores, random_run
from toy import predictions

from embedbench.errors import UserError
from embedbench.scores.array_file import WrongError
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.possible_confidence import check_probabilities
from embedbench.scores.predictions import Predictions

PARTS = 12  # every probability is a whole number of 12ths

# One session of three classes; sample 0 is right, 1 has rank 1, 2 rank 2. By hand:
# (.5, .3, .2), (.2, .5, .3) and (.5, .3, .2), each with Σ p² = .25 + .09 + .04 = .38
BY_HAND = np.log([[[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2]]])


def three() -> Predictions:
    return from_scores(BY_HAND, [[0, 2, 2]], [[0, 1, 2]])


def changed(name: str, at: int, value: float) -> Predictions:
    p = three()
    table = getattr(p, name).copy()
    table[0, at] = value
    return replace(p, **{name: table})


def test_what_the_tables_of_three_answers_are() -> None:
    p = three()
    assert p.rank is not None
    assert p.rank.tolist() == [[0, 1, 2]]
    assert p.squares == pytest.approx(np.full((1, 3), 0.38))


LOG = {chance: float(np.log(chance)) for chance in (0.2, 0.3, 0.32, 0.34, 0.45, 0.5, 0.51)}
IMPOSSIBLE: dict[str, tuple[str, int, float, str]] = {
    "less than a third": ("logp", 0, LOG[0.32], "an equal share"),
    "surer of another class": ("true_logp", 1, LOG[0.51], "true_logp must be at most logp"),
    "right with another probability": ("true_logp", 0, LOG[0.45], "logp where the answer is right"),
    # .5 + .3 + .3 > 1: two classes come before the third
    "third with .3": ("true_logp", 2, LOG[0.3], "would exceed 1"),
    # .5 + .2 + .2 < 1: what is not before the second has no more than it
    "second with .2": ("true_logp", 1, LOG[0.2], "would not reach 1"),
    "true class without chance": ("true_logp", 1, -3.4e38, "would not reach 1"),
    "impossible logarithm": ("true_logp", 1, -np.inf, "true_logp must be finite"),
    "logp of nothing": ("logp", 1, -np.inf, "logp must be finite"),
    "squares of almost nothing": ("squares", 1, 1e-45, "squares is less"),
    # .5² + .25² + .25² = .375 is the least beside a right answer with .5
    "squares below the flattest": ("squares", 0, 0.37, "squares is less"),
    # .5² + .5² = .5 is the most
    "squares above the steepest": ("squares", 0, 0.51, "squares is more"),
    # with .3 for the true class only .25 + .09 + .04 is left
    "squares beside the rank": ("squares", 1, 0.385, "squares is more"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_no_probabilities_give_is_refused(case: str) -> None:
    name, at, value, says = IMPOSSIBLE[case]
    with pytest.raises(WrongError, match=says):
        changed(name, at, value).check()


def test_it_is_refused_in_a_file(tmp_path: Path) -> None:
    changed("squares", 1, 1e-45).save(tmp_path / "predictions.h5")
    with pytest.raises(UserError, match="squares is less"):
        load_any(tmp_path / "predictions.h5")


def test_a_rank_beyond_the_classes_is_refused() -> None:
    p = three()
    assert p.rank is not None
    scores_alone: dict[str, Any] = dict.fromkeys(("logp", "true_logp", "squares"))
    with pytest.raises(WrongError, match="rank must be below the number of classes seen"):
        replace(p, rank=np.array([[0, 1, 3]], np.uint16), **scores_alone).check()


def test_far_answers_have_an_equal_share_at_least() -> None:
    far: Any = random_run(1)[0]
    with pytest.raises(WrongError, match="far_logp must be at least"):
        replace(far, far_logp=far.far_logp - 9).check()


@pytest.mark.parametrize("seed", range(4))
def test_what_runs_store_passes(seed: int) -> None:
    confident_predictions(seed).check()


def every_probabilities(classes: int) -> dict[tuple[int, int, int], set[int]]:
    """By rank, p₁ and p_t in parts: every Σ p² in squared parts."""
    found: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for parts in itertools.product(range(PARTS + 1), repeat=classes):
        if sum(parts) == PARTS:
            ordered = sorted(parts, reverse=True)
            for rank, true in enumerate(ordered):
                found[rank, ordered[0], true].add(sum(part * part for part in parts))
    return found


def passes(classes: int, rank: int, highest: int, true: int, squares: float) -> bool:
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.array([highest, true]) / PARTS), -3.4e38).astype(np.float32)
    place = np.full((1, 1), rank)
    q = np.full((1, 1), squares / PARTS**2, dtype=np.float32)
    seen = np.ones((1, classes), dtype=np.bool_)
    try:
        check_probabilities(seen, place, place >= 0, logs[:1, None], logs[1:, None], q)
    except WrongError:
        return False
    return True


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_all_probabilities_in_12ths_pass(classes: int) -> None:
    kept = every_probabilities(classes).items()
    refused = [key for key, every in kept for q in every if not passes(classes, *key, q)]
    assert refused == []


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_nothing_further_from_them_passes(classes: int) -> None:
    """Between 12ths there are other probabilities, so a margin is left: a part, squared parts."""
    kept = every_probabilities(classes).items()
    low = [key for key, every in kept if passes(classes, *key, min(every) - PARTS)]
    high = [key for key, every in kept if passes(classes, *key, max(every) + PARTS)]
    assert (low, high) == ([], [])


def test_of_a_rank_that_stands_for_many_only_the_highest_is_known() -> None:
    """65,536 classes: the last place is 65535, and 65534 stands for it."""
    p = predictions([[0]], [[1]], [list(range(65_536))])
    tables = {
        "rank": [[65534]],
        "score": [[1.0]],
        "logp": [[np.log(0.5)]],
        "true_logp": [[-3.4e38]],
        "squares": [[0.5]],
    }
    types = {"rank": np.uint16}
    arrays = {k: np.array(v, dtype=types.get(k, np.float32)) for k, v in tables.items()}
    replace(p, **arrays).check()
