"""How sure a run was: top-5 accuracy, and how good its probabilities are, after each session.

All take predictions of format 1.1 and return (T,) values, one a session, over the test samples of
the sessions so far whose class was seen. None: the file does not hold what the metric needs. NaN: a
score was NaN, or there is no such sample.
"""

import numpy as np

from embedbench.array_types import Array, Bools, Floats

from .predictions import Predictions

BINS = 15  # of equal width, as Guo et al. (2017) have
TOP = 5


def top5_accuracy(p: Predictions) -> Floats | None:
    """Share of test samples whose true class is among the five with the highest scores.

    1/n Σ [rank < 5]; the rank of the true class is counted from 0, among the classes seen. With
    five classes or fewer it is 1. The run's value is that after the last session.

    **Source**: Russakovsky et al. (2015), ILSVRC, "top-5 error".

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> top5_accuracy(answers).round(2)
    array([0.66, 0.59, 0.52])
    """
    return None if p.rank is None else _means(p, np.less(p.rank[p.ends], TOP))


def nll(p: Predictions) -> Floats | None:
    """Negative log-likelihood: mean of minus the log-probability of the true class, in nats.

    -1/n Σ log p_y. Guessing among C classes has log C. The run's value is that after the last
    session.

    **Source**: Guo et al. (2017), §2; Good (1952), logarithmic score.

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> nll(answers) > np.log(40)  # surer than it should be: worse than guessing among 40
    array([ True,  True,  True])
    """
    return None if p.true_logp is None else _means(p, -_at_ends(p, p.true_logp))


def brier_score(p: Predictions) -> Floats | None:
    """Brier score: mean squared distance of the probabilities from the true class.

    1/n Σ_i Σ_c (p_ic - [c = y_i])² = 1/n Σ_i (Σ_c p_ic² - 2 p_iy + 1), from 0 to 2. The run's value
    is that after the last session.

    **Source**: Brier (1950), over all classes; for two classes it is twice what
    `sklearn.metrics.brier_score_loss` has by default.

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> brier_score(answers).round(1)
    array([1.3, 1.5, 1.4])
    """
    if p.squares is None or p.true_logp is None:
        return None
    return _means(p, _at_ends(p, p.squares) - 2 * np.exp(_at_ends(p, p.true_logp)) + 1)


def calibration_error(p: Predictions) -> Floats | None:
    """Expected calibration error: how far confidence and accuracy are apart, in 15 bins.

    Σ_b |B_b|/n · |acc(B_b) - conf(B_b)|; B_b are the samples whose answer has a probability in
    ((b-1)/15, b/15]. It is 0 for a learner that always answers the most frequent class with the
    frequency: read it beside the accuracy. The run's value is that after the last session.

    **Source**: Guo et al. (2017), §2, Eq. 3; Naeini et al. (2015).

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> calibration_error(answers).round(1)
    array([0.6, 0.7, 0.7])
    """
    if p.logp is None:
        return None
    inner = np.linspace(0, 1, BINS + 1)[1:-1]
    errors = []
    for m in p.ends:
        rows = seen_samples(p, m)
        confidence = np.exp(p.logp[m, rows].astype(np.float64))
        which = np.digitize(confidence, inner, right=True)  # NaN is in the last bin, and stays NaN
        sums = [np.bincount(which, v, BINS) for v in (p.answer[m, rows] == p.y[rows], confidence)]
        errors.append(np.abs(sums[0] - sums[1]).sum() / len(which) if len(which) else np.nan)
    return np.array(errors)


def seen_samples(p: Predictions, moment: int) -> Bools:
    """(n,) The test samples of the sessions so far whose class was seen."""
    return np.asarray((p.eval_set <= p.session[moment]) & p.seen[moment, p.y], dtype=np.bool_)


def _at_ends(p: Predictions, values: Array) -> Floats:
    """(T, n) Stored values at the ends of sessions, in float64."""
    return values[p.ends].astype(np.float64)


def _means(p: Predictions, values: Array) -> Floats:
    """(T, n) → (T,) mean over the samples of each session end; NaN where there are none."""
    means = []
    for m, row in zip(p.ends, values, strict=True):
        rows = seen_samples(p, m)
        means.append(row[rows].mean(dtype=np.float64) if rows.any() else np.nan)
    return np.array(means)
