"""Variants of FR by the weights of its losses: the paper's, the code's, and single ones."""

from dataclasses import replace

from embedbench.papers.runs import Variant
from embedbench.studies.presets import preset

# The paper's losses as weights of our FR: β_cos weighs two losses, β_IR pairs of two kinds.
BETAS = {"β_cos": ("w_cos", "w_novel"), "β_CR": ("w_class",), "β_IR": ("w_same", "w_different")}


def make_variant(label: str, fixed: dict[str, float]) -> Variant:
    """A variant of FR with these weights of its losses."""
    return Variant(label, "fr", tuple(f"fr.{w}={v:g}" for w, v in fixed.items()))


def of_betas(values: dict[str, float]) -> dict[str, float]:
    """Weights of FR's losses from the paper's β."""
    return {w: v for beta, v in values.items() for w in BETAS[beta]}


# Weights of the losses: the paper's for CIFAR-100, which are FR's defaults, and where others are
# taken, by data set, the presets that have them. A stand-in has those of CIFAR-100; the paper
# prints none for CUB-200.
DEFAULTS = {"w_cos": 0.1, "w_novel": 0.1, "w_class": 0.5, "w_same": 1.0, "w_different": 1.0}
WEIGHTS = {
    "paper": {"mini-imagenet": "fr-mini-imagenet"},
    "code": {
        "cifar100": "fr-code",
        "mini-imagenet": "fr-code-mini-imagenet",
        "cub200": "fr-code-cub200",
    },
}
# Losses that a row leaves out, and the ensemble of the rows that have all.
ROWS: dict[str, tuple[str, dict[str, float], str]] = {
    "cos": ("L_cos + L_NovCE", of_betas({"β_CR": 0, "β_IR": 0}), ""),
    "cr": ("L_cos + L_NovCE + L_CR", of_betas({"β_IR": 0}), ""),
    "softmax": ("all losses, mean of softmaxes", {}, "softmax"),
    "cosine": ("all losses, mean of cosines", {}, "cosine"),
}


def weights(whose: str, official: str | None = None) -> dict[str, float]:
    """Weights of the losses for a data set.

    Parameters
    ----------
    whose : str
        "paper" or "code".
    official : str or None
        Name of the published lists; None for a stand-in.

    >>> weights("code", "cub200")["w_novel"]
    0.5
    """
    name = WEIGHTS[whose].get(official or "cifar100")
    given = {key.name: value for key, value in preset(name).items()}
    return DEFAULTS | {k: float(v) for k, v in given.items() if k in DEFAULTS}


def of_losses(official: str | None = None) -> dict[str, Variant]:
    """FR with each loss added, and with both ensembles, by the paper's weights and the code's.

    >>> list(of_losses())[:3]
    ['fr-paper-cos', 'fr-paper-cr', 'fr-paper-softmax']
    """
    result = {}
    for whose in WEIGHTS:
        for row, (what, left_out, ensemble) in ROWS.items():
            label = f"FR, {what}; the {whose}'s weights"
            variant = make_variant(label, weights(whose, official) | left_out)
            chosen = (f"fr.ensemble={ensemble}",) if ensemble else ()
            result[f"fr-{whose}-{row}"] = replace(variant, fixed=(*variant.fixed, *chosen))
    return result
