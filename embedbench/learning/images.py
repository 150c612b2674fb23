"""How a trunk for images is trained: settings that all learners with a trunk share."""

from __future__ import annotations

from dataclasses import dataclass

from embedbench.errors import UserError, unknown

from .augment import AUGMENTS

AMPS = ("none", "bf16")
WHOLE = -1  # frozen stages: all


@dataclass(frozen=True)
class ImageTraining:
    """Where a trunk for images begins, what of it is trained, on what, and in what arithmetic.

    **Source**: "bf16": Kalamkar et al. (2019), bfloat16 without scaling of the loss; the rest in
    `augment` and in timm.

    **Departs**: bfloat16 is the trunk's in training alone: its features, the head and the loss are
    float32. So is all that is computed in evaluation mode: answers, exemplars' features, a
    teacher's targets. So answers do not depend on how a batch is cut. float16 is left out: it needs
    the loss scaled. A frozen stage is in evaluation mode as a whole, dropout too.

    Parameters
    ----------
    weights : str
        "" from scratch; "hub" those that timm publishes; or a file of the trunk's, as .safetensors
        or .pth. All but a classifier must fit; for images of other than the file's 3 channels the
        first convolution is adapted as timm does.
    sha256 : str
        Of the file of weights. Filled in if it is not given, so that it is in the record and part
        of the run's place. A file with another digest is refused.
    frozen : int
        Stages, from the input on, that are not trained: no gradient, statistics of BatchNorm as
        they are. The stem counts with the first stage; stages are those of `RESNETS`, of a model of
        timm its coarse groups of layers. -1: the whole trunk.
    augment : str
        "none", "crop-flip" or "timm", see `augment`: of each batch that is trained on. What is
        kept, answered or validated is not augmented.
    amp : str
        "none" or "bf16", the arithmetic of the trunk in training.
    channels_last : bool
        Images lie in memory pixel by pixel, in training.
    compile : bool
        torch.compile of the trunk, in training.
    """

    weights: str = ""
    sha256: str = ""
    frozen: int = 0
    augment: str = "none"
    amp: str = "none"
    channels_last: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        for setting, value, known in (
            ("images.augment", self.augment, tuple(AUGMENTS)),
            ("images.amp", self.amp, AMPS),
        ):
            if value not in known:
                raise unknown(setting, value, known)
        if self.frozen < WHOLE:
            raise UserError(f"images.frozen must be at least 0, or -1 for all, got {self.frozen}")
        if self.sha256 and not self.weights:
            raise UserError(
                "images.sha256 is that of images.weights, and there are none; give a file"
            )


PLAINLY = ImageTraining()
