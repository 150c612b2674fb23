"""The weights that the package ships, and the backbone that they are the default of."""

import os
from pathlib import Path

from embedbench.errors import UserError
from embedbench.networks.shipped_weights import SHIPPED, shipped_weights

HF = "hf:"  # begins the names of models of transformers
IN_PACKAGE = "shipped"  # the word for weights that lie in the package


def choose_backbone(
    source: str, backbone: str | None, weights: str | os.PathLike[str] | None
) -> tuple[str, Path | None]:
    """Return the name of the backbone and the file of its weights; for `demo` the shipped ones."""
    if source == "demo" and backbone in (None, SHIPPED) and weights is None:
        backbone, weights = SHIPPED, IN_PACKAGE
    if backbone is None:
        raise UserError(
            "--backbone is missing: a model of timm such as resnet50, 'pixels' for flat values, "
            "'none' for a pixel file, for sounds 'log-mel', hf:NAME, or package.module:Class."
        )
    if str(weights) == IN_PACKAGE:
        return backbone, shipped_weights(backbone)
    return backbone, Path(weights) if weights else None


def absolute_backbone(name: str) -> str:
    """Return a backbone as a process in another directory names it.

    >>> absolute_backbone("resnet50"), absolute_backbone("hf:facebook/dinov2-small")
    ('resnet50', 'hf:facebook/dinov2-small')
    """
    place = name.removeprefix(HF)
    return HF + os.path.abspath(place) if place != name and os.path.isdir(place) else name


def absolute_weights(weights: str) -> str:
    """Return a file of weights as a process in another directory names it."""
    return weights if weights == IN_PACKAGE else os.path.abspath(weights)
