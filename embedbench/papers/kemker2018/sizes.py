"""Model sizes as Kemker et al. (2018) count them, and Table 5's summary by explicit rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from .data import Size

BYTES = 4  # bytes of a float and of a stored label
MEMORY = 300  # samples of GeppNet+STM's short-term memory
FEL_UNITS = {"mnist": 2000, "cub": 1200, "audioset": 2000}

# The questions of Table 5, each with a rule that gives the paper's ticks from its numbers
QUESTIONS = {
    "incremental-class": "mean Ω_all on incremental class at least 0.9 of the best learner's",
    "similar data": "mean Ω_all on permutation at least 0.9 of the best learner's",
    "dissimilar data": "mean Ω_all on multi-modal at least 0.9 of the best learner's",
    "memory efficient": "at most 2.1 times the MLP on every data set, and fixed in size",
    "trains quickly": "at most 5 times the MLP's time in every protocol",
}
ASKED = {
    "incremental-class": "incremental-class",
    "similar data": "permutation",
    "dissimilar data": "multi-modal",
}
GROWING = ("pathnet", "geppnet", "geppnet-stm")  # one head per session, or all training data


@dataclass(frozen=True)
class PaperCapacity:
    """Settings that decide a learner's size besides the data; the defaults are those of Table 2.

    Parameters
    ----------
    units : int
        Hidden units per layer.
    side : int
        Side of the map, in units.
    fel_units : int
        Units of the expansion layer.
    """

    units: int = 400
    side: int = 23
    fel_units: int = 2000


def megabytes(
    learner: str,
    size: Size,
    capacity: PaperCapacity,
    *,
    sessions: int = 10,
    outputs: int | None = None,
) -> float:
    """The size of a learner in MB (10⁶ bytes) as Table 2 counts it.

    **Source**: Kemker et al. (2018), Table 2; the formulas are derived from its printed values.
    EWC counts one extra vector, though the method keeps two (θ* and F). GeppNets store all training
    samples with their labels.

    Parameters
    ----------
    sessions : int
        Number of PathNet's heads; the printed sizes imply 10.
    outputs : int or None
        Outputs of the readout; None: the number of classes. 10 gives the printed CUB-200 sizes of
        the GeppNets.
    """
    d, c, h = size.features, size.classes, capacity.units
    units, expanded = capacity.side**2, capacity.fel_units
    mlp = d * h + h + h * h + h + h * c + c
    out = c if outputs is None else outputs
    geppnet = units * d + units * out + out + size.train * (d + 1)
    count = {
        "mlp": mlp,
        "ewc": 2 * mlp,
        "pathnet": 10 * (80 * d + 80) + 10 * (80 * 80 + 80) + sessions * (80 * c + c),
        "geppnet": geppnet,
        "geppnet-stm": geppnet + MEMORY * (d + 1),
        "fel": d * h + h + h * expanded + expanded + expanded * c + c,
    }[learner]
    return BYTES * count / 1e6


def summary(
    omega_all: Mapping[tuple[str, str], float],
    size: Mapping[tuple[str, str], float],
    minutes: Mapping[tuple[str, str], float],
) -> dict[tuple[str, str], bool]:
    """Table 5: (learner, question) → tick, by the rules of `QUESTIONS`.

    Parameters
    ----------
    omega_all : mapping
        (learner, protocol) → mean Ω_all; a missing pair gets a cross.
    size : mapping
        (learner, data set) → MB.
    minutes : mapping
        (learner, protocol) → training time.
    """
    learners = dict.fromkeys(learner for learner, _ in size)
    ticks = {}
    for question, protocol in ASKED.items():
        best = max((v for (_, p), v in omega_all.items() if p == protocol), default=float("nan"))
        for learner in learners:
            ticks[learner, question] = omega_all.get((learner, protocol), -1.0) >= 0.9 * best
    for learner in learners:
        sizes = [(v, size["mlp", d]) for (name, d), v in size.items() if name == learner]
        fits = all(mine <= 2.1 * mlp for mine, mlp in sizes)
        ticks[learner, "memory efficient"] = fits and learner not in GROWING
        times = [(v, minutes["mlp", p]) for (name, p), v in minutes.items() if name == learner]
        ticks[learner, "trains quickly"] = all(mine <= 5 * mlp for mine, mlp in times)
    return ticks
