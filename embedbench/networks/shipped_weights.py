"""The weights that the package ships."""

from importlib import resources
from pathlib import Path

from embedbench.errors import UserError

SHIPPED = "tf_efficientnet_lite0"  # the network whose weights are in the package
# Of its weights: their file, and their licence as timm would name it; see assets/NOTICE.md.
SHA256 = "8e654630357a0c7769ee1aef746b2ca013b14d47e6ef4752704dee80172cd03c"
LICENCE = "apache-2.0"


def shipped_weights(name: str) -> Path:
    """The shipped weights; refused for any network but theirs."""
    if name.partition(".")[0] != SHIPPED:
        raise UserError(
            f"the package ships the weights of {SHIPPED} alone, not of {name}; choose that one, or "
            "give a file with --weights FILE"
        )
    return Path(str(resources.files("embedbench") / "assets" / f"{SHIPPED}.fp16.safetensors"))
