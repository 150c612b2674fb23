"""Trunks: the networks below the head, built by name, with their weights and frozen stages."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from embedbench.errors import UserError, unknown
from embedbench.networks.published_weights import hub_weights, shipped_weights
from embedbench.networks.weights import load_weights

from .image_training import ImageTraining

FLAT = ("mlp", "linear")  # take vectors, or flattened images
RESNETS = {"resnet8": 1, "resnet20": 3, "resnet32": 5}  # blocks per stage
STAGES = (16, 32, 64)  # channels of each stage


def check_trunk(setting: str, name: str) -> None:
    if name in FLAT or name in RESNETS:
        return
    from embedbench.networks.paper_networks import timm

    known = timm.list_models()
    if name.removeprefix("timm:").partition(".")[0] not in known:
        raise unknown(setting, name, [*FLAT, *RESNETS, *known])


def weights_file(name: str, weights: str) -> Path:
    """The file of a trunk's weights: a path, "shipped", or "hub", downloaded once."""
    if weights == "shipped":
        return shipped_weights(name.removeprefix("timm:"))
    if weights != "hub":
        return Path(weights)
    return hub_weights(name, _config(name))[0]


def image_trunk(
    name: str, shape: Sequence[int], images: ImageTraining, *, relu: bool = True
) -> tuple[nn.Module, int]:
    """A trunk for images (C, H, W) and its feature width; random weights use the global state.

    `name` is one of `RESNETS`, of which `relu=False` removes the last ReLU; or a model of timm,
    with or without "timm:" before it.
    """
    if len(shape) != 3:
        raise UserError(
            f"trunk {name!r} takes images, and this stream shows vectors of width {shape[0]}: run "
            "it on a pixel file (embedbench extract SOURCE --backbone none --size 32 --out FILE), "
            "or with --trunk mlp"
        )
    if name in RESNETS:
        body: nn.Module = ResNet(shape[0], RESNETS[name], relu=relu)
        width = STAGES[-1]
    else:
        body, width = _timm(name, shape)
    if images.weights:
        file = weights_file(name, images.weights)
        digest = load_weights(body, file, _config(name), channels=shape[0])
        if images.sha256 not in ("", digest):
            raise UserError(f"{file} has changed since the command began", "start it again")
    if images.frozen:
        freeze(name, body, images.frozen)
    if images.compile:
        body.compile()
    return Trunk(body, bf16=images.amp == "bf16", channels_last=images.channels_last), width


def _config(name: str) -> dict[str, Any]:
    """timm's configuration of a model's weights, or its counterpart for `RESNETS`."""
    if name in RESNETS:
        return {"architecture": name, "classifier": "head", "first_conv": "conv"}
    from embedbench.networks.paper_networks import timm

    name = name.removeprefix("timm:")
    config: Any = timm.get_pretrained_cfg(name)
    return {"architecture": name} if config is None else dict(config.to_dict())


def _timm(name: str, shape: Sequence[int]) -> tuple[nn.Module, int]:
    """A timm model without its classifier, for images of this shape, and its feature width."""
    from embedbench.networks.paper_networks import timm

    channels, *size = shape
    options: dict[str, Any] = {"pretrained": False, "num_classes": 0, "in_chans": channels}
    if _config(name).get("fixed_input_size"):
        options["img_size"] = tuple(size)
    build: Callable[..., nn.Module] = timm.create_model
    try:
        body = build(name.removeprefix("timm:"), **options)
        with torch.no_grad():
            width = int(body.eval()(torch.zeros(2, *shape)).shape[1])
    except Exception as error:  # models raise errors of any type
        raise UserError(
            f"trunk {name!r} cannot be built for images of shape {tuple(shape)} "
            f"({type(error).__name__}: {error})",
            "choose another, or images of another size",
        ) from error
    return body.train(), width


def freeze(name: str, body: nn.Module, stages: int) -> None:
    """Freeze the first `stages` stages of a trunk, or all of it with -1."""
    if stages < 0:
        body.requires_grad_(False)
        return
    groups = list_stages(body)
    if stages > len(groups):
        raise UserError(
            "images.frozen",
            expected=f"-1 or at most {len(groups)}, the stages that are known of trunk {name!r}",
            got=stages,
        )
    parameters = dict(body.named_parameters())
    for group in groups[:stages]:
        for key in group:
            parameters[key].requires_grad_(False)


def list_stages(body: nn.Module) -> list[list[str]]:
    """Names of the parameters of each stage, from the input on.

    The stem belongs to the first stage. Empty for a model that does not name its stages.
    """
    if isinstance(body, ResNet):
        n = len(body.blocks) // len(STAGES)
        place = {f"blocks.{i}.": i // n for i in range(len(body.blocks))}
        groups: list[list[str]] = [[] for _ in STAGES]
        for key, _ in body.named_parameters():
            groups[next((k for start, k in place.items() if key.startswith(start)), 0)].append(key)
        return groups
    if not hasattr(body, "group_matcher"):
        return []
    from timm.models import group_parameters

    matcher: Any = body.group_matcher
    numbered: dict[int, list[str]] = group_parameters(body, matcher(coarse=True))
    stem, *rest = (numbered[k] for k in sorted(numbered))
    return [stem + rest[0], *rest[1:]] if rest else [stem]


class Trunk(nn.Module):
    """An image network without its classifier: x (n, C, H, W) to features (n, width).

    A batch of one sample has no statistics for BatchNorm; it uses the running ones and does not
    change them. Modules without any trained parameter are always in evaluation mode. If the body is
    compiled, the compiled version is used only in training. With `bf16` the arithmetic in training
    is bfloat16, and features are float32; with `channels_last` the weights, and in training the
    images, lie in memory pixel by pixel.
    """

    def __init__(self, body: nn.Module, *, bf16: bool = False, channels_last: bool = False) -> None:
        super().__init__()
        self.body, self.bf16, self.channels_last = body, bf16, channels_last
        if channels_last:
            body.to(memory_format=torch.channels_last)
        self.still = _untrained(body)
        self.train(body.training)

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for frozen stages; with False, evaluation mode."""
        super().train(mode)
        for module in self.still:
            module.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Features of x, (n, width)."""
        if not self.training:
            return self._plainly(x)
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            if len(x) > 1:
                phi = self._stepping(x)
            else:
                self.body.eval()
                phi = self._plainly(x)
                self.train()
        return phi.to(x.dtype)

    def _plainly(self, x: Tensor) -> Tensor:
        phi: Tensor = self.body.forward(x)  # `forward` is never the compiled version
        return phi

    def _stepping(self, x: Tensor) -> Tensor:
        try:
            phi: Tensor = self.body(x)
        except RuntimeError as error:
            from torch._dynamo.exc import TorchDynamoException

            if not isinstance(error, TorchDynamoException):
                raise
            said = " ".join(str(error).strip().partition("\n\n")[0].split())  # then it advises
            raise UserError(
                f"torch.compile cannot compile the trunk here ({said})",
                "it needs a C++ compiler on a CPU, Triton on a GPU: install it, or leave "
                "images.compile out",
            ) from error
        return phi


def _untrained(module: nn.Module) -> tuple[nn.Module, ...]:
    """The outermost modules that have parameters but no trained one."""
    parameters = list(module.parameters())
    if parameters and not any(p.requires_grad for p in parameters):
        return (module,)
    return tuple(m for child in module.children() for m in _untrained(child))


# --- residual networks for images of 28 to 64 pixels ---


class ResNet(nn.Module):
    """Residual network for small images, of 6n + 2 layers with the head.

    **Source**: He et al. (2016), Section 4.2: a 3x3 convolution to 16 channels, three stages of n
    blocks of 16, 32 and 64 channels, the second and third begin with stride 2, global average
    pooling; shortcuts without parameters (option A); weights as in He et al. (2015), by the number
    of outputs. Without the last ReLU: Hou et al. (2019, LUCIR), for cosine heads.

    **Departs**: n = 1 (resnet8) is not in the paper. A shortcut fills missing channels with zeros,
    after its existing ones; their place makes no difference.

    Parameters
    ----------
    channels : int
        Channels of the images.
    blocks : int
        n, the number of blocks per stage.
    """

    def __init__(self, channels: int, blocks: int, *, relu: bool = True) -> None:
        super().__init__()
        self.conv = _conv(channels, STAGES[0], 1)
        self.norm = nn.BatchNorm2d(STAGES[0])
        widths = [STAGES[0], *(width for width in STAGES for _ in range(blocks))]
        last = len(widths) - 2
        self.blocks = nn.Sequential(
            *(
                _Block(a, b, 1 if a == b else 2, relu=relu or i < last)
                for i, (a, b) in enumerate(pairwise(widths))
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Features of x (n, C, H, W), (n, 64)."""
        out: Tensor = self.blocks(torch.relu(self.norm(self.conv(x))))
        return out.mean((2, 3))


class _Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, *, relu: bool) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, width, stride)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 1)
        self.norm2 = nn.BatchNorm2d(width)
        self.stride = stride
        self.more = width - inputs
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        short = nn.functional.pad(
            x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more)
        )
        return torch.relu(h + short) if self.relu else h + short


def _conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
