"""Metrics: one public function each, from a score matrix (and references) to one number.

All take `(scores, reference)` and return a fraction; an undefined value is NaN, never a silent 0. T
sessions are counted from 0; R = scores.R; α_i = scores.pooled after session i. `--help`,
`embedbench list metrics` and the reports read the first line and the Source of each docstring.
"""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Floats

from .score_matrix import ScoreMatrix, mean_or_nan

FEW = 20  # training samples: a class with fewer is a few-shot class


@dataclass(frozen=True)
class Reference:
    """The scores of reference runs on the same data, which metrics compare with.

    Parameters
    ----------
    ideal : float or array of float
        α_ideal, the score of the offline learner trained on all data at once (NaN if not measured).
        Or (E,): for each eval set, the score of an offline learner trained on that session's data
        alone.
    chance : array of float or None
        (E,) b_j, the score of the chance learner on eval set j just before session j; or None.
    normalise_new : bool
        Whether the protocol's Ω_new is divided by α_ideal in the `kemker_table` preset.
    so_far : array of float or None
        (T,) the score, after each session, of an offline learner trained on all data so far, on the
        test data so far; None where it was not measured.
    preset : str
        "kemker_table" (what the tables of the paper imply) or "kemker_eq" (Eq. 2-4 as printed).
    """

    ideal: float | Floats = float("nan")
    chance: Floats | None = None
    normalise_new: bool = False
    so_far: Floats | None = None
    preset: str = "kemker_table"


Metric = Callable[[ScoreMatrix, Reference], float]


def omega_base(scores: ScoreMatrix, reference: Reference) -> float:
    """Ω_base: mean over later sessions of the score on session 0, as a share of α_ideal.

    Ω_base = 1/(T-1) Σ_{i=1..T-1} R[i, 0] / α_ideal. If every session has its own α_ideal, session
    0's is used. Never clipped: it is above 1 where the base set alone is easier than all the data.

    **Source**: Kemker et al. (2018), Eq. 2.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(omega_base(scores, Reference(ideal=0.9)), 3)  # (0.6 + 0.3) / 2 / 0.9
    0.5
    """
    return mean_or_nan(scores.R[1:, 0] / _ideals(scores, reference)[0])


def omega_new(scores: ScoreMatrix, reference: Reference) -> float:
    """Ω_new: mean over later sessions of the score on each session right after it was learned.

    Ω_new = 1/(T-1) Σ_{i=1..T-1} R[i, i], divided by α_ideal on permutation streams in the
    `kemker_table` preset.

    **Source**: Kemker et al. (2018), Eq. 3. **Departs**: Eq. 3 has no division, but Table 2's
    permutation columns exceed the offline accuracy without it; `kemker_eq` follows the equation.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(omega_new(scores, Reference(ideal=0.9)), 3)  # (0.8 + 0.7) / 2
    0.75
    """
    divide = reference.normalise_new and reference.preset == "kemker_table"
    new = np.diagonal(scores.R)[1:]
    new = new / _ideals(scores, reference)[1 : len(new) + 1] if divide else new
    return mean_or_nan(new[scores.tested[1 : len(new) + 1]])


def omega_all(scores: ScoreMatrix, reference: Reference) -> float:
    """Ω_all: mean over later sessions of the score on all sessions so far, as a share of α_ideal.

    Ω_all = 1/(T-1) Σ_{i=1..T-1} α_i / α_ideal, α_i pooled over the test data of sessions 0…i. If
    every session has its own α_ideal (multi-modal streams), the share after session i is 1/(i+1)
    Σ_{j≤i} R[i, j] / α_ideal,j. It rewards not learning: read it beside Ω_new.

    **Source**: Kemker et al. (2018), Eq. 4. **Departs**: Eq. 4 has one α_ideal; the multi-modal
    columns of Table 2 are the mean of two shares, one per modality.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(omega_all(scores, Reference(ideal=0.9)), 3)  # (0.7 + 0.5) / 2 / 0.9
    0.667
    """
    ideals = _ideals(scores, reference)
    if np.ndim(reference.ideal) == 0:
        return mean_or_nan(scores.pooled[scores.ends][1:] / ideals[0])
    shares = scores.R / ideals  # (T, E)
    return mean_or_nan(np.array([mean_or_nan(shares[i, : i + 1]) for i in range(1, len(shares))]))


def omega_streaming(scores: ScoreMatrix, reference: Reference) -> float:
    """Ω_all of streaming learning: mean of the score as a share of the offline learner's so far.

    1/T Σ_i α_i / α_offline,i over all sessions, the first included. α_offline,i is the score of a
    learner trained offline on all data that came until then, on the same test data. NaN on streams
    that do not measure it.

    **Source**: Hayes et al. (2019), ExStream; Hayes and Kanan (2020), Deep SLDA; the code of
    Stream-51 (Roady et al. 2020). They call it Ω_all. `omega_all` differs: it divides by the last
    α_offline alone and leaves the first session out.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(omega_streaming(scores, Reference(so_far=np.array([1, 0.8, 1]))), 3)
    0.758
    """
    if reference.so_far is None:
        return float("nan")
    ideal = np.where(reference.so_far > 0, reference.so_far, np.nan)
    return mean_or_nan(scores.pooled[scores.ends] / ideal)


def final_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Score over the test data of all sessions, after the last one.

    α_{T-1}. **Source**: in common use; e.g. Masana et al. (2020), "accuracy after the last task".

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(final_accuracy(scores, Reference()), 3)  # (0.3 + 0.5 + 0.7) / 3
    0.5
    """
    return float(scores.pooled[-1])


def average_incremental_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Mean over all sessions of the score on all test data seen so far.

    1/T Σ_{i=0..T-1} α_i, session 0 included. **Source**: Rebuffi et al. (2017), iCaRL, §4.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(average_incremental_accuracy(scores, Reference()), 3)  # of .9, .7 and .5
    0.7
    """
    return mean_or_nan(scores.pooled[scores.ends])


def average_anytime_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Mean over the training samples of the score on all test data seen so far, at any moment.

    Σ_m (n_m - n_{m-1}) α_m / n_M over all evaluation moments m = 1..M. α_m is pooled over the test
    data of the sessions so far, n_m is the number of training samples seen, n_0 = 0. It is the area
    under accuracy against samples, where each stretch between two moments has the score at its end.
    If all stretches are equally long, it is the mean over moments. If the moments are the ends of
    equally long sessions, it is `average_incremental_accuracy`.

    **Source**: Koh et al. (2022), CLIB, A_AUC = Σ_i f(i Δn) Δn. **Departs**: divided by n_M, as in
    their code, which takes the mean. Moments need not be evenly spaced, because the end of a
    session is a moment too; they leave it out. A session's classes are tested from its start, not
    from the first sample of each class.

    Examples
    --------
    >>> values, session = [[0.9, 0], [0.5, 0.1], [0.6, 0.8]], [0, 1, 1]
    >>> scores = ScoreMatrix.from_matrix(values, session)
    >>> round(average_anytime_accuracy(scores, Reference()), 3)  # of .9, .3 and .7
    0.633
    """
    stretches = np.diff(scores.samples_seen, prepend=0)
    return float(np.average(scores.pooled, weights=stretches)) if stretches.any() else float("nan")


def average_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """AA: unweighted mean over eval sets of the score after the last session.

    AA_K = 1/K Σ_{j≤K} R[K, j]. **Source**: Michel et al. (2023), Eq. 1.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(average_accuracy(scores, Reference()), 3)  # (0.3 + 0.5 + 0.7) / 3
    0.5
    """
    return mean_or_nan(scores.R[-1][scores.tested])


def average_forgetting(scores: ScoreMatrix, reference: Reference) -> float:
    """AF: mean over old sessions of the drop from the best earlier score to the last one.

    AF_K = 1/(K-1) Σ_{j<K} (max_{j≤l<K} R[l, j] - R[K, j]). The maximum does not include the
    last session, so AF may be negative. **Source**: Michel et al. (2023), §3; Chaudhry et al.
    (2018), whose maximum may start before j is learned.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(average_forgetting(scores, Reference()), 3)  # (0.6 + 0.3) / 2
    0.45
    """
    R = scores.R
    last = len(R) - 1
    drops = [np.max(R[j:last, j]) - R[last, j] for j in range(last) if scores.tested[j]]
    return mean_or_nan(np.array(drops))


def learning_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Mean over sessions of the score on each session right after it was learned.

    1/T Σ_i R[i, i], session 0 included. **Source**: Riemer et al. (2019), MER, §5.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(learning_accuracy(scores, Reference()), 3)  # (0.9 + 0.8 + 0.7) / 3
    0.8
    """
    return mean_or_nan(np.diagonal(scores.R)[scores.tested])


def bwt(scores: ScoreMatrix, reference: Reference) -> float:
    """BWT: mean over old sessions of the final score minus the score right after learning.

    1/(T-1) Σ_{j<T-1} (R[T-1, j] - R[j, j]). **Source**: Lopez-Paz and Ranzato (2017), GEM, Eq. 3.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(bwt(scores, Reference()), 3)  # (-0.6 - 0.3) / 2
    -0.45
    """
    return mean_or_nan((scores.R[-1] - np.diagonal(scores.R))[:-1][scores.tested[:-1]])


def fwt(scores: ScoreMatrix, reference: Reference) -> float:
    """FWT: mean over later sessions of the score just before learning minus chance.

    1/(T-1) Σ_{j≥1} (R[j-1, j] - b_j); NaN where answers of future classes are masked
    (class-incremental streams). **Source**: Lopez-Paz and Ranzato (2017), GEM, Eq. 4. **Departs**:
    b_j is the score of the chance learner at the same moment; in the paper it is that of a network
    at random initialisation.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0.3], [0.6, 0.8]])
    >>> round(fwt(scores, Reference(chance=np.array([np.nan, 0.1]))), 3)  # 0.3 - 0.1
    0.2
    """
    if reference.chance is None:
        return float("nan")
    before = np.diagonal(scores.R, offset=1)
    gain = before - reference.chance[1 : len(before) + 1]
    return mean_or_nan(gain[scores.tested[1 : len(gain) + 1]])


def worst_class_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Lowest recall of a class after the last session.

    min_c a_c, a_c the share of right answers to the test samples of class c; classes without test
    samples are left out. NaN for label sets.

    **Source**: Sagawa et al. (2020), group DRO, "worst-group accuracy", with classes as groups.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> worst_class_accuracy(scores, Reference())
    0.3
    """
    return float(np.fmin.reduce(scores.per_class[-1], initial=np.nan))


def per_class_forgetting(scores: ScoreMatrix, reference: Reference) -> float:
    """Mean over old classes of the drop from the best earlier recall to the last one.

    1/|C| Σ_c (max_{l<T-1} a_{l,c} - a_{T-1,c}), a_{l,c} the recall of class c after session l; C
    are the classes that were seen before the last session. NaN for label sets.

    **Source**: Chaudhry et al. (2018), forgetting, with classes in place of tasks. Equal
    to `average_forgetting` of `class_accuracy` where each session has one class.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(per_class_forgetting(scores, Reference()), 3)  # here a class is a session
    0.45
    """
    recalls = scores.per_class[scores.ends]  # (T, C)
    recalls = recalls[:, ~np.isnan(recalls[:-1]).all(axis=0)]
    return mean_or_nan(np.fmax.reduce(recalls[:-1], initial=-np.inf) - recalls[-1])


def few_shot_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Mean recall, after the last session, of the classes with fewer than 20 training samples.

    NaN where no class is so small, and where the sizes are not known: for label sets, and in
    records that were made before they were kept. On few-shot streams with fewer than 20 shots it is
    the accuracy of the novel classes, each class weighted equally.

    **Source**: Liu et al. (2019), OLTR, §4, "few-shot classes (classes under 20 training samples)".
    **Departs**: the recalls are averaged over classes, whose test samples may differ in number.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(few_shot_accuracy(scores, Reference()), 3)  # each class has ten
    0.5
    """
    last = scores.per_class[-1]
    return mean_or_nan(last[(scores.class_sizes < FEW) & ~np.isnan(last)])


def all_metrics() -> dict[str, Metric]:
    """Every public function of this module, in the order of the file."""
    module = sys.modules[__name__]
    return {
        name: f
        for name, f in vars(module).items()
        if inspect.isfunction(f)
        and f.__module__ == __name__
        and not name.startswith("_")
        and name not in ("all_metrics", "compute")
    }


def compute(scores: ScoreMatrix, reference: Reference) -> dict[str, float]:
    """All metrics of one score matrix, by name."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return {name: float(f(scores, reference)) for name, f in all_metrics().items()}


def _ideals(scores: ScoreMatrix, reference: Reference) -> Floats:
    """(E,) α_ideal of each eval set; NaN where it was not measured or is 0."""
    ideal = np.asarray(reference.ideal, dtype=np.float64)
    return np.broadcast_to(np.where(ideal > 0, ideal, np.nan), scores.n_samples.shape)
