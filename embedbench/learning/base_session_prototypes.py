"""The setting `classifier`: how the prototypes of the base session are made, maybe from a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from embedbench.config.setting_ranges import above, at_least, check_settings
from embedbench.errors import UserError, unknown
from embedbench.networks.weights import file_sha256

SHA256 = "sha256:"  # how the text of a file's content begins


class KnownFile(str):
    """A file as a setting: the text "sha256:…", and the path where the file is here.

    Records, recipes and the places of runs keep the text, so that a path identifies nothing.
    """

    path: Path | None

    def __new__(cls, text: str, path: Path | None = None) -> Self:
        made = super().__new__(cls, text)
        made.path = path
        return made

    @property
    def sha256(self) -> str:
        """The digest alone."""
        return self.removeprefix(SHA256)

    def checked(self) -> Path:
        """The path, if the file is there and has not changed."""
        if self.path is None:
            raise UserError(f"classifier.base is {self[:19]}…", "give the path of the file instead")
        if file_sha256(self.path) != self.sha256:
            raise UserError(f"{self.path} has changed since the command began", "start it again")
        return self.path


@dataclass(frozen=True)
class Classifier:
    """The prototypes of the classes of the first session.

    Parameters
    ----------
    base : str
        "means": the class means, scaled to length 1. "trained": the weights of a cosine classifier,
        trained with Adam on the first session, starting from these means. Or the .safetensors file
        of a trunk that `pretrain --head cosine` made on this base session: the weights of its
        classifier, scaled to length 1. It is kept as "sha256:…", the digest of the file.
    epochs, batch_size : int
        Epochs and batch size of this training.
    lr : float
        Learning rate.
    scale : float
        Factor of the cosines before the softmax of the training.
    """

    base: str = "means"
    epochs: Annotated[int, at_least(1, 100_000)] = 20
    batch_size: Annotated[int, at_least(1)] = 256
    lr: Annotated[float, above(0)] = 1e-3
    scale: Annotated[float, above(0)] = 16.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", _base(self.base))
        check_settings(self, "classifier")


def _base(value: str) -> str:
    """A value of `classifier.base`; a file by its content."""
    if value in ("means", "trained") or isinstance(value, KnownFile):
        return value
    if value.startswith(SHA256):
        return KnownFile(value)
    if value.endswith(".safetensors"):
        return KnownFile(f"{SHA256}{file_sha256(Path(value))}", Path(value))
    raise unknown("classifier.base", value, ("means", "trained", "FILE.safetensors"))
