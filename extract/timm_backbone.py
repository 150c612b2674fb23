"""Backbones from timm's registry."""

import copy
import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from timm.data.config import resolve_data_config
from timm.data.transforms_factory import create_transform
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.nn.utils.fusion import fuse_conv_bn_eval

from embedbench import plugins
from embedbench.array_types import Bytes
from embedbench.errors import UserError, unknown
from embedbench.networks.paper_networks import timm
from embedbench.networks.published_weights import hub_weights
from embedbench.networks.weights import load_weights, read_metadata
from embedbench.storage.regular_files import explain_errors
from embedbench.text.undecoded_text import as_text

from .backbone import OURS, Network
from .source import Content, open_image


class TimmBackbone(Network):
    """A timm model without its classifier; the parameters are those of `pipeline.extract`.

    Without weights they are those that timm publishes; without a size it is the one at which the
    weights were pretrained, or the model's own.
    """

    def __init__(
        self,
        name: str,
        *,
        weights: Path | None,
        layers: Sequence[str],
        dtype: str,
        size: int | None,
        device: torch.device,
    ) -> None:
        self.dtype, self.device = dtype, device
        # weights that we pretrained name their preprocessing
        preprocessing = read_metadata(weights).get("shown", {}) if weights else {}
        size = size or preprocessing.get("input_size", [None])[-1]
        channels = preprocessing.get("input_size", [3])[0]  # 1: pretrained on grey images
        model = create_model(name, size, channels)
        cfg = dict(model.pretrained_cfg)
        path, weights_id = (weights, as_text(weights.name)) if weights else hub_weights(name, cfg)
        digest = load_weights(model, path, cfg, channels=channels)
        args = {"input_size": (channels, size, size)} if size else {}
        resolve: Callable[..., dict[str, Any]] = resolve_data_config
        config = resolve(args, pretrained_cfg={**cfg, **preprocessing})
        mode = "L" if channels == 1 else "RGB"
        transform = create_transform(**config, use_prefetcher=True)  # bytes, no arithmetic
        self.inputs = TimmInputs(transform, mode)
        example = torch.randn(2, *config["input_size"], generator=torch.Generator().manual_seed(0))
        self.taken = Layers(model, layers)
        self.model = fold_batchnorm(model, example).to(device).to(memory_format=torch.channels_last)
        mean = torch.tensor(config["mean"], device=device)
        std = torch.tensor(config["std"], device=device)
        self.scale = (1 / (255 * std)).view(1, -1, 1, 1)
        self.shift = (-mean / std).view(1, -1, 1, 1)
        pool = getattr(model, "global_pool", None)  # timm's short name: avg, token, …
        self.backbone = {
            "name": cfg.get("architecture") or name,
            "library": "timm",
            "library_version": timm.__version__,
            "weights_id": weights_id,
            "weights_sha256": digest,
            "layer": "final embedding, before the classifier",
            "pooling": str(getattr(pool, "pool_type", pool) or "the model's own"),
            "layers": self.taken.described(),
        }
        self.preprocessing = {
            "library": "timm.data.create_transform",
            "color": f"Pillow convert({mode!r}): alpha is dropped",
            **{key: list(v) if isinstance(v, tuple) else v for key, v in config.items()},
        }

    def prepare(self, content: Content) -> Bytes:
        """Return the image, resized and cropped by the model's configuration."""
        return self.inputs(content)

    def preparer(self) -> "TimmInputs":
        """Return what prepares an image."""
        return self.inputs

    def tables(self, batch: Bytes) -> dict[str, torch.Tensor]:
        """Return the embeddings of images (n, H, W, C)."""
        with torch.inference_mode(), self.arithmetic():
            images = self.on_device(torch.from_numpy(batch))
            images = images.permute(0, 3, 1, 2)  # channels_last in memory already
            x = images.float() * self.scale + self.shift
            return self.taken.tables(self.model, x)


@dataclass(frozen=True)
class TimmInputs:
    """Images as bytes, resized and cropped by a model's configuration.

    Parameters
    ----------
    transform : callable
        Of timm: from an image to (C, H, W) bytes.
    mode : str
        Of the images: `L` or `RGB`.
    """

    transform: Callable[[Any], torch.Tensor]
    mode: str

    def __call__(self, content: Content) -> Bytes:
        """Return an image as (H, W, C)."""
        pixels = self.transform(open_image(content).convert(self.mode))
        return pixels.permute(1, 2, 0).numpy()


def create_model(name: str, size: int | None, channels: int = 3) -> Any:
    """Return a timm model without classifier, in eval mode, before its weights are loaded."""
    known = timm.list_models() + timm.list_pretrained()
    if name not in known and not name.startswith(("hf-hub:", "hf_hub:", "local-dir:")):
        raise unknown("backbone", name, [*OURS, *plugins.entry_points_by_name("backbones"), *known])
    build: Callable[..., Any] = timm.create_model
    options: dict[str, Any] = {"num_classes": 0, "pretrained": False}
    if channels != 3:
        options["in_chans"] = channels
    with explain_errors(f"{name} cannot be built" + (f" at --size {size}" if size else "")):
        model = build(name, **options)
        if size and model.pretrained_cfg.get("fixed_input_size"):
            model = build(name, **options, img_size=size)
    return model.eval()


# --- BatchNorm folded into the convolution before it ---


def fold_batchnorm(model: nn.Module, example: torch.Tensor) -> nn.Module:
    """Fold every BatchNorm that directly follows a convolution, and return the model.

    The model is in eval mode, on the CPU, in float32. One forward pass of `example` (n, 3, H, W)
    shows which norm follows which convolution, so this works for any model. Its output is compared
    with that of the folded model; if it changes, the original model is returned.
    """
    if not any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        return model
    pairs, before = _watch(model, example)
    lighter = copy.deepcopy(model)
    for conv_name, norm_name in pairs:
        conv = lighter.get_submodule(conv_name)
        norm = lighter.get_submodule(norm_name)
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        # timm's BatchNormAct2d carries dropout and activation; a plain one carries neither
        rest = [getattr(norm, part) for part in ("drop", "act") if hasattr(norm, part)]
        lighter.set_submodule(conv_name, fuse_conv_bn_eval(conv, norm))
        lighter.set_submodule(norm_name, nn.Sequential(*rest) if rest else nn.Identity())
    try:
        with torch.inference_mode():
            after = lighter(example)
    except (AttributeError, TypeError):  # the model's code uses attributes of its norms
        return model
    same = torch.allclose(before, after, rtol=1e-3, atol=1e-4 * float(before.abs().max()))
    return lighter if same else model


def _watch(model: nn.Module, example: torch.Tensor) -> tuple[list[tuple[str, str]], torch.Tensor]:
    """Return the (convolution, norm) pairs by name, and the output of the pass."""
    names = {module: name for name, module in model.named_modules()}
    made_by: dict[int, nn.Module] = {}
    kept: list[torch.Tensor] = []  # holds outputs, so that no two of them share an id
    calls: Counter[nn.Module] = Counter()
    pairs: list[tuple[nn.Module, nn.Module]] = []

    def before(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        calls[module] += 1
        is_norm = isinstance(module, nn.BatchNorm2d) and module.track_running_stats
        if is_norm and id(inputs[0]) in made_by:
            pairs.append((made_by[id(inputs[0])], module))

    def after(module: nn.Module, _: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if type(module) is nn.Conv2d and module in names:
            made_by[id(output)] = module
            kept.append(output)

    hooks = register_module_forward_pre_hook(before), register_module_forward_hook(after)
    with hooks[0], hooks[1], torch.inference_mode():
        output = model(example)
    once = [(a, b) for a, b in pairs if calls[a] == calls[b] == 1 and b in names]
    return [(names[a], names[b]) for a, b in once], output


# --- intermediate layers: which are taken, their names, how they are pooled ---


class Layers:
    """The intermediate embeddings of a model of timm.

    The last layer may equal the final embedding: it does if the embedding is the class token of a
    ViT's last block, or the mean over positions of a ResNet's last stage. It does not if patches
    are averaged, or if a convolution or a norm follows the pooling. Therefore `lastN` always
    includes the last layer. `wanted` are names such as `block-8` or `stage-3`, numbers from 0,
    `lastN`, or `all`.
    """

    def __init__(self, model: Any, wanted: Sequence[str]) -> None:
        self.numbers: list[int] = []
        if not wanted:
            return
        self.blocks = has_blocks(model)
        self.token = self.blocks and getattr(model, "cls_token", None) is not None
        self.kind = "block" if self.blocks else "stage"
        count = len(model.feature_info) if hasattr(model, "forward_intermediates") else 0
        self.numbers = parse_layers(wanted, self.kind, count)
        self.options = {"norm": True, "return_prefix_tokens": True} if self.blocks else {}

    def described(self) -> dict[str, str]:
        """Return name -> description, for the provenance."""
        if not self.numbers:
            return {}
        what = "feature map, mean over positions"
        if self.blocks:
            rows = "class token" if self.token else "mean over patches"
            what = f"{rows} after the final norm"
        return {f"{self.kind}-{i}": what for i in self.numbers}

    def tables(self, model: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the final embedding and the layers of a batch in one forward pass."""
        if not self.numbers:
            return {"features": model(x)}
        last, maps = model.forward_intermediates(x, indices=self.numbers, **self.options)
        out = {"features": model.forward_head(last)}
        for i, taken in zip(self.numbers, maps, strict=True):
            patches, prefix = taken if self.blocks else (taken, None)
            rows = prefix[:, 0] if self.token and prefix is not None else patches.mean((2, 3))
            out[f"layers/{self.kind}-{i}"] = rows
        return out


def has_blocks(model: Any) -> bool:
    """Whether a model is a transformer of timm, whose layers are blocks of tokens."""
    given = getattr(model, "forward_intermediates", None)
    return given is not None and "return_prefix_tokens" in inspect.signature(given).parameters


def _is_number(text: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", text) is not None


def parse_layers(wanted: Sequence[str], kind: str, count: int) -> list[int]:
    """Return the layer numbers of a list of names, numbers, `lastN` and `all`."""
    chosen: set[int] = set()
    if wanted and count < 1:
        raise UserError("this backbone gives no intermediate layers", "drop --layers")
    for word in wanted:
        text = word.strip()
        number = text.removeprefix(f"{kind}-")
        if text == "all":
            chosen.update(range(count))
        elif text.startswith("last") and _is_number(text[4:]) and 0 < int(text[4:]) <= count:
            chosen.update(range(count - int(text[4:]), count))
        elif _is_number(number) and int(number) < count:
            chosen.add(int(number))
        else:
            raise UserError(
                f"unknown layer {text!r}",
                f"this backbone has {kind}-0 to {kind}-{count - 1}, by number, 'last4' or 'all'",
            )
    return sorted(chosen)
