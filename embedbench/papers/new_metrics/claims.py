"""The claims of Michel et al. (2023), which prints curves and no numbers of them."""

from collections.abc import Iterator

from embedbench.papers.claim_table import ClaimTable
from embedbench.papers.claims import PaperClaims
from embedbench.reports.contrasts import Contrast, Number

LEARNERS = ("ER", "GDumb", "Finetune")
LONG = 20  # sessions: with as many a stream is like Tiny ImageNet's 100, else like CIFAR's 10
FIGURES = {"AA": "Figure 3", "RAA": "Figure 3", "AF": "Figure 4", "RAF": "Figure 4"}

CLAIMS = PaperClaims(
    "michel2023",
    theirs=("CIFAR-100", "Tiny ImageNet"),
    unit="%",
)


def streams(t: ClaimTable) -> list[str]:
    """The numbers of sessions that were run."""
    return t.labels("sessions K", table="Figure 3")


def at(t: ClaimTable, sessions: str, learner: str, metric: str, moment: str) -> Number:
    """A metric at a moment of a stream."""
    labels = {"table": FIGURES[metric], "metric": metric, "sessions K": sessions}
    return t(moment, labels, learner=learner)


def rise(t: ClaimTable, sessions: str, learner: str, metric: str, since: str = "at K/4") -> Number:
    """How much a metric rises until the end of a stream."""
    first = at(t, sessions, learner, metric, since)
    return at(t, sessions, learner, metric, "at K") - first


@CLAIMS.claim("N1", "Tables 1, 2", threshold="printed", of_print=True)
def random_classifier(t: ClaimTable) -> Iterator[Contrast]:
    """A random classifier has the accuracy and the forgetting of Tables 1 and 2.

    34 numbers, computed in exact fractions, equal the printed digits (two as corrected misprints).
    """
    yield from t.digits("T1", "T2", "T3", "T4", "T5", "AA", table="1")
    yield from t.digits("T1", "T2", "T3", "T4", "AF", table="2")


@CLAIMS.claim("N2", "Section 4.1; Figure 2")
def coefficients_grow_to_one(t: ClaimTable) -> Iterator[Contrast]:
    """γ and β grow to 1, so that RAA_K = AA_K and RAF_K = AF_K.

    γ and β rise from the start to K/2 to K = 20 and 100, and end at 1; RAA less AA and RAF less AF
    at K = 0, each learner.
    """
    for sessions in t.labels("sessions K", table="Figure 2"):
        row = {"table": "Figure 2", "sessions K": sessions}
        for letter, start in (("γ", "γ_1"), ("β", "β_2")):
            first, middle, last = (
                t(column, row).exact for column in (start, f"{letter}_K/2", f"{letter}_K")
            )
            yield (middle - first).above(0)
            yield (last - middle).above(0)
            yield from last.within(1e-9, of=1.0)
    for sessions in streams(t):
        for learner in LEARNERS:
            for plain in ("AA", "AF"):
                rescaled = at(t, sessions, learner, f"R{plain}", "at K")
                gap = rescaled - at(t, sessions, learner, plain, "at K")
                yield from gap.exact.within(1e-9)


@CLAIMS.claim("N3", "Section 5.3, Training regimes with RAA; Figure 3")
def accuracy_falls(t: ClaimTable) -> Iterator[Contrast]:
    """For all methods AA decreases during training.

    Each learner and stream: AA at K less AA at K/4 < 0.
    """
    for sessions in streams(t):
        for learner in LEARNERS:
            yield rise(t, sessions, learner, "AA").below(0)


@CLAIMS.claim(
    "N4", "Section 5.3, Training regimes with RAA; Figure 3", threshold="ours, after a look"
)
def finetune_learns_nothing(t: ClaimTable) -> Iterator[Contrast]:
    """Finetune's RAA is almost constant and near zero.

    Finetune, each stream: RAA at K less RAA at K/4 within ±2; RAA at K < 10.
    """
    for sessions in streams(t):
        yield from rise(t, sessions, "Finetune", "RAA").within(2)
        yield at(t, sessions, "Finetune", "RAA", "at K").below(10)


@CLAIMS.claim(
    "N5", "Section 5.3, Training regimes with RAA; Figure 3", threshold="ours, after a look"
)
def plateaus_on_long_streams(t: ClaimTable) -> Iterator[Contrast]:
    """On Tiny ImageNet RAA reaches a plateau, GDumb's around task 25 and ER's around task 65.

    Streams of 20 sessions and more, RAA: GDumb gains < 2 in the last half, ER < 2 in the last
    quarter; GDumb's gain in the last half less ER's < 0.
    """
    for sessions in streams(t):
        if int(sessions) >= LONG:
            half = {name: rise(t, sessions, name, "RAA", "at K/2") for name in ("GDumb", "ER")}
            yield half["GDumb"].below(2)
            yield rise(t, sessions, "ER", "RAA", "at 3K/4").below(2)
            yield (half["GDumb"] - half["ER"]).below(0)


@CLAIMS.claim(
    "N6", "Section 5.3, Training regimes with RAA; Figure 3", threshold="ours, after a look"
)
def no_plateau_on_short_streams(t: ClaimTable) -> Iterator[Contrast]:
    """On CIFAR-100 ER shows no plateau.

    Streams of fewer than 20 sessions, ER: RAA at K less RAA at 3K/4 > 1.
    """
    for sessions in streams(t):
        if int(sessions) < LONG:
            yield rise(t, sessions, "ER", "RAA", "at 3K/4").above(1)


@CLAIMS.claim(
    "N7", "Section 5.3, Increasing forgetting with RAF; Figure 4",
    threshold="ours, after a look",
)  # fmt: skip
def forgetting_is_constant(t: ClaimTable) -> Iterator[Contrast]:
    """For all methods AF is rather constant or slightly increasing.

    Each learner and stream: AF at K less AF at K/4 within ±10.
    """
    for sessions in streams(t):
        for learner in LEARNERS:
            yield from rise(t, sessions, learner, "AF").within(10)


@CLAIMS.claim("N8", "Section 5.3, Increasing forgetting with RAF; Figure 4")
def rescaled_forgetting_rises(t: ClaimTable) -> Iterator[Contrast]:
    """RAF rises strongly for Finetune and ER, and less for GDumb.

    Each stream, RAF from K/4 to K: rise of ER and of Finetune > 0; rise of GDumb less that of each
    < 0.
    """
    for sessions in streams(t):
        gdumb = rise(t, sessions, "GDumb", "RAF")
        for other in ("ER", "Finetune"):
            yield rise(t, sessions, other, "RAF").above(0)
            yield (gdumb - rise(t, sessions, other, "RAF")).below(0)
