"""What any probabilities over C classes satisfy: tables of confidence that do not are refused.

A file keeps three numbers of the K ≤ C probabilities over the candidates: p₁ of the answer, which
is the highest; p_t of the true class; and q = Σ p². With the rank r of the true class (r
candidates come before it, so theirs are at least p_t and the others' at most p_t) these follow:

- 1/C ≤ p₁ ≤ 1 and p_t ≤ p₁; p_t = p₁ where r = 0; r < C;
- p₁ + r·p_t ≤ 1, and 1 ≤ r·p₁ + (C - r)·p_t: the others can bring the sum to 1;
- q lies between the flattest and the steepest probabilities with these p₁, p_t and r.

Where the true class has no rank, the last two hold with p₁ alone, as where r = 0.
"""

import numpy as np

from embedbench.array_types import Array, Bools, Floats

from .array_file import demand

# Tables are float32: a stored log-probability is off by 6e-8 of itself at most. Learners' logits
# may be float32 logarithms of probabilities, which keep the order to 8e-6.
TOLERANCE = 2e-5


def check_logarithms(values: Array, name: str) -> None:
    """Refuse log-probabilities that are infinite or above 0; NaN is where none is due."""
    demand(not (values > 0).any(), f"{name} must be at most 0")
    demand(not np.isinf(values).any(), f"{name} must be finite")


def check_least(seen: Bools, logp: Array, name: str) -> None:
    """Refuse an answer with less than an equal share of the classes seen, (M, C); NaN passes."""
    share = -np.log(np.maximum(seen.sum(axis=1), 1))[:, None]  # (M, 1)
    demand(
        not (logp < share - TOLERANCE).any(),
        f"{name} must be at least that of an equal share of the classes seen",
    )


def check_probabilities(
    seen: Bools, rank: Array, exact: Bools, logp: Array, true_logp: Array, squares: Array
) -> None:
    """Refuse (M, n) tables that no probabilities over the classes seen, (M, C), can have given.

    `logp` and `squares` are NaN where there is no answer, `true_logp` where the class has no rank.
    `exact` says where `rank` is a place, and not a word for many places or for none.
    """
    check_least(seen, logp, "logp")
    demand(not (true_logp > logp + TOLERANCE).any(), "true_logp must be at most logp")
    apart = (rank == 0) & (np.abs(true_logp - logp) > TOLERANCE)
    demand(not apart.any(), "true_logp must be logp where the answer is right")
    fits = (squares > 0) & (squares <= 1) | np.isnan(squares)
    demand(fits.all(), "squares must lie between 0 and 1")
    for m, known in enumerate(seen):
        answered = ~np.isnan(logp[m])
        ranked = answered & exact[m]
        chance = np.exp(logp[m, answered].astype(np.float64))
        # without a rank nothing is known of another class: as if the answer were right
        place = np.where(ranked, rank[m], 0)[answered].astype(np.float64)
        true = np.exp(np.where(ranked, true_logp[m], logp[m])[answered].astype(np.float64))
        _check_sums(int(known.sum()), place, chance, true, squares[m, answered])


def _check_sums(classes: int, rank: Floats, chance: Floats, true: Floats, squares: Array) -> None:
    """Refuse what no `classes` probabilities give; `chance` is p₁, `true` p_t, all (k,)."""
    demand(
        not (chance + rank * true > 1 + TOLERANCE).any(),
        "true_logp is too high for logp and rank: the probabilities would exceed 1",
    )
    demand(
        not (rank * chance + (classes - rank) * true < 1 - TOLERANCE).any(),
        "true_logp is too low for logp and rank: the probabilities would not reach 1",
    )
    known = rank > 0  # a true class beside the answer
    upper = np.where(known, rank - 1, 0)  # classes from p_t to p₁
    lower = np.where(known, classes - 1 - rank, classes - 1)  # from 0 to p_t, which may be p₁
    left = np.maximum(1 - chance - np.where(known, true, 0), 0)  # their sum
    fixed = chance**2 + np.where(known, true**2, 0)

    among_upper = np.maximum(upper * true, left - lower * true)
    flat = fixed + _evenly(among_upper, upper) + _evenly(left - among_upper, lower)

    # as many as possible as high as possible
    spare = np.maximum(left - upper * true, 0)
    step = chance - true
    raised, over = _fill(spare, step, upper)
    steep = fixed + raised * chance**2 + np.maximum(upper - raised, 0) * true**2
    partly = raised < upper
    steep += np.where(partly, (true + over) ** 2 - true**2, 0)
    rest = np.where(partly, 0, over)
    whole, last = _fill(rest, true, lower)
    steep += whole * true**2 + last**2

    demand(
        not (squares < flat * (1 - TOLERANCE)).any(),
        "squares is less than any probabilities with this logp, true_logp and rank have",
    )
    demand(
        not (squares > steep * (1 + TOLERANCE) + TOLERANCE).any(),
        "squares is more than any probabilities with this logp, true_logp and rank have",
    )


def _evenly(total: Floats, count: Floats) -> Floats:
    """(k,) Σ p² of `count` equal probabilities with a sum."""
    result: Floats = np.maximum(total, 0) ** 2 / np.maximum(count, 1)
    return result


def _fill(total: Floats, each: Floats, most: Floats) -> tuple[Floats, Floats]:
    """(k,) How many portions of `each` a total fills, at most `most`, and what is left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.where(each > 0, np.floor(total / each), np.inf)
    filled = np.minimum(whole, most)
    return filled, np.maximum(total - filled * each, 0)
