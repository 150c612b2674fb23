"""Does a run know what it does not know? Test samples of classes that come later are unknown.

At every moment a run has answered all test samples, those of later classes too. A signal of format
1.1 says how sure each answer was; where it is low, the sample would be rejected. The metrics take
predictions and the name of a signal, and return (T,) values, one a session. None: the file does not
hold the signal. NaN: nothing is unknown, as after the last session, or the signal is NaN somewhere.
The run's value is the mean over the sessions in which something is unknown.

With `far` the unknown samples are those of `run --unknown`, whose classes no session teaches. They
are unknown after every session; these metrics are called `far_…`.
"""

from collections.abc import Callable

import numpy as np

from embedbench.array_types import Bools, Floats

from .predictions import Predictions, Singles
from .top5_and_calibration import seen_samples

SIGNALS = {
    "score": "the score of the answer",
    "softmax": "the probability of the answer",
    "energy": "logsumexp of the scores of the classes seen",
}
ACCEPTED = 95  # percent of the samples of seen classes


def unknown_auroc(p: Predictions, signal: str, *, far: bool = False) -> Floats | None:
    """AUROC of seen against unknown, or far, samples: how often a seen one has the higher signal.

    The share of pairs of a test sample of a seen class and an unknown one in which the first has
    the higher signal; equal signals count half. .5 is guessing, under .5 the signal points the
    wrong way. Wrong answers to seen classes count like right ones.

    **Source**: Hendrycks and Gimpel (2017), §2; §3.1, where all test samples count as seen, too,
    and unknown ones are of other data sets.

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> unknown_auroc(answers, "score").round(2)  # nothing is unknown at the end
    array([0.47, 0.5 ,  nan])
    >>> unknown_auroc(answers, "score", far=True) is None  # a run without --unknown
    True
    """
    return _by_session(p, signal, _auroc, far)


def unknown_fpr95(p: Predictions, signal: str, *, far: bool = False) -> Floats | None:
    """FPR95: share of unknown, or far, samples that are accepted where 95 % of the seen ones are.

    The threshold is the highest signal at which at least 95 % of the test samples of seen classes
    are accepted; accepted are signals at or above it. Lower is better, .95 is guessing.

    **Source**: Liang et al. (2018), ODIN, "FPR at 95 % TPR".

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> unknown_fpr95(answers, "score").round(2)  # nothing is unknown at the end
    array([0.9 , 0.95,  nan])
    """
    return _by_session(p, signal, _fpr95, far)


def oscr(p: Predictions, signal: str, *, far: bool = False) -> Floats | None:
    """OSCR: area under the correct classification rate against the FPR of unknown, or far, samples.

    CCR(θ) is the share of seen samples that are answered rightly with a signal of at least θ,
    FPR(θ), the false positive rate, the share of unknown ones that are accepted. The area is the
    share of pairs in which the seen sample is answered rightly and has the higher signal (equal:
    half): at most the accuracy and at most the AUROC.

    **Source**: Dhamija et al. (2018), whose curve this is the area of.
    **Departs**: they draw the curve by softmax over a logarithmic FPR, and take no area. The area
    over the plain FPR by trapezia is what later papers call OSCR (Vaze et al. 2022 and their code).

    Examples
    --------
    >>> from embedbench import build_stream, run
    >>> answers = run(build_stream("known:emoji-vit", "incremental-class", sessions=3), "slda")
    >>> oscr(answers, "score").round(2)  # nothing is unknown at the end
    array([0.18, 0.15,  nan])
    """
    return _by_session(p, signal, _oscr, far)


def signal_values(signal: str, score: Singles | None, logp: Singles | None) -> Floats | None:
    """(M, n) A signal of answers, in float64; None where what it needs is not there.

    `softmax` is the log-probability: it has the order of the probability, and no ties near 1.
    """
    if signal == "softmax":
        return None if logp is None else logp.astype(np.float64)
    if score is None:
        return None
    if signal == "score":
        return score.astype(np.float64)
    return None if logp is None else score.astype(np.float64) - logp


def _auroc(seen: Floats, right: Bools, unknown: Floats) -> float:
    """The share of pairs in which `seen` is higher; equal values count half."""
    order = np.sort(unknown)
    below = np.searchsorted(order, seen, "left")
    upto = np.searchsorted(order, seen, "right")
    return float((below + upto).sum(dtype=np.float64) / 2 / len(seen) / len(unknown))


def _fpr95(seen: Floats, right: Bools, unknown: Floats) -> float:
    """The share of `unknown` at or above the highest threshold that accepts 95 % of `seen`."""
    accepted = -(-ACCEPTED * len(seen) // 100)  # rounded up
    threshold = np.sort(seen)[len(seen) - accepted]
    return float((unknown >= threshold).mean())


def _oscr(seen: Floats, right: Bools, unknown: Floats) -> float:
    return _auroc(seen[right], right, unknown) * float(right.mean()) if right.any() else 0.0


def _by_session(
    p: Predictions, signal: str, compute: Callable[[Floats, Bools, Floats], float], far: bool
) -> Floats | None:
    """(T,) `compute(seen, right, unknown)` after each session.

    It gets the signals of the test samples of the sessions so far whose class was seen, whether
    their answers are right, and the signals of all samples whose class was not, or of far samples;
    there are some of both.
    """
    values = signal_values(signal, p.score, p.logp)
    others = signal_values(signal, p.far_score, p.far_logp) if far else values
    if values is None or others is None:
        return None
    result = []
    for m in p.ends:
        seen = seen_samples(p, m)
        right = p.answer[m, seen] == p.y[seen]
        parts = values[m, seen], others[m] if far else others[m, ~p.seen[m, p.y]]
        defined = all(len(part) and not np.isnan(part).any() for part in parts)
        result.append(compute(parts[0], right, parts[1]) if defined else np.nan)
    return np.array(result)
