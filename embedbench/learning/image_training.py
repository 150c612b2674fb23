"""How a network for images is trained: its settings, and the augmented views of each batch."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch

from embedbench.config.run_seeds import generator
from embedbench.config.setting_ranges import at_least, check_settings
from embedbench.errors import UserError

from .image_augmentation import AugmentName, Views

VIEWS = 1  # number of the random stream for image augmentation
PLAIN = Views("none", torch.Generator())


@dataclass(frozen=True)
class ImageTraining:
    """Training of a trunk for images: initial weights, frozen stages, augmentation, arithmetic.

    **Source**: "bf16": Kalamkar et al. (2019), bfloat16 without scaling of the loss; for the rest
    see `Views` and timm.

    **Departs**: bfloat16 is used only by the trunk and only in training. Features, head and loss
    are float32. In evaluation mode everything is float32: answers, features of exemplars, targets
    of a teacher. So answers do not depend on how a batch is cut. float16 is left out, because it
    needs the loss scaled. A frozen stage is in evaluation mode as a whole, with its dropout.

    Parameters
    ----------
    weights : str
        "": random initial weights; "hub": those that timm publishes; "shipped": those in the
        package, of tf_efficientnet_lite0; or a file with weights of the trunk, .safetensors or
        .pth. Everything except a classifier must fit. If images have other than the file's 3
        channels, the first convolution is adapted as timm does.
    sha256 : str
        SHA-256 of the file of weights. If it is not given it is filled in, so that it is in the
        record and part of the run's place. A file with another digest is refused.
    frozen : int
        Number of stages, counted from the input, that are not trained: they get no gradient, and
        the statistics of their BatchNorm do not change. The stem belongs to the first stage. Stages
        are those of `RESNETS`; for a timm model, its coarse groups of layers. -1: the whole trunk.
    augment : str
        "none", "crop-flip" or "timm", see `Views`. Only batches to train on are augmented, not
        what is stored, answered or validated.
    amp : str
        "none" or "bf16": arithmetic of the trunk in training.
    channels_last : bool
        Whether images lie in memory pixel by pixel, in training.
    compile : bool
        Whether torch.compile compiles the trunk, for training.
    """

    weights: str = ""
    sha256: str = ""
    frozen: Annotated[int, at_least(-1)] = 0
    augment: AugmentName = "none"
    amp: Literal["none", "bf16"] = "none"
    channels_last: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        check_settings(self, "images")
        if self.sha256 and not self.weights:
            raise UserError(
                "images.sha256 is the digest of a file, and images.weights names none",
                "give a file",
            )


PLAINLY = ImageTraining()


def augmented_views(learner: Any, counter: int, draw: np.random.Generator | None = None) -> Views:
    """The augmentation of a learner's images in the `counter`-th session or online step.

    If `draw` is given, it draws a number that gives each training within a session different views;
    it is used only if the augmentation is random.
    """
    images = image_training(learner)
    if images.augment == "none":
        return PLAIN
    more = [] if draw is None else [int(draw.integers(2**32))]
    return Views(images.augment, generator(learner.seeds.batches, counter, VIEWS, *more))


def image_training(learner: Any) -> ImageTraining:
    """The training of a learner's trunk; the defaults if it has no such setting."""
    images = getattr(learner, "images", PLAINLY)
    assert isinstance(images, ImageTraining)
    return images
