"""Opening backbones by name, and choosing the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from PIL import Image

from embedbench.errors import UserError

from .backbone import OURS, Backbone
from .bundled_backbone import HF
from .plugin_backbones import backbone_class, outside_backbone
from .source import Source
from .timm_backbone import TimmBackbone
from .torchvision_decoder import PILLOW, decoder_recipe

LARGEST = 10_000  # pixels, seconds or tokens


def check_kind(name: str, source: Source) -> None:
    """Raise UserError if a backbone of images is given sounds, or the other way round."""
    if name.startswith(HF):
        return  # these take what their processors take
    cls = backbone_class(name)
    takes = cls.takes if cls else "sounds" if name == "log-mel" else "images"
    if source.holds != takes:
        instead = {
            "sounds": "log-mel, or hf: and a model of transformers",
            "texts": "hf: and a model of transformers",
        }.get(source.holds, "pixels, or a model of timm")
        raise UserError(
            f"{source.name} holds {source.holds}, and {name} takes {takes}; give --backbone "
            f"{instead}."
        )


def open_backbone(
    name: str,
    first: Callable[[], Image.Image],
    *,
    weights: Path | None,
    layers: Sequence[str],
    dtype: str,
    size: int | None,
    device: torch.device,
    decoder: str = PILLOW,
    holds: str = "images",
) -> Backbone:
    """Return a backbone by its name: `pixels`, `none`, `log-mel`, any model of timm.

    Or `hf:NAME`, a model of transformers for what the source holds; or one from outside: the entry
    point of a package, or `package.module:Class`.
    """
    if (name == "log-mel" or holds != "images") and decoder != PILLOW:
        raise UserError(f"--decoder {decoder} is for images; leave it out for {holds}.")
    if size is not None and not 1 <= size <= LARGEST:
        raise UserError(f"--size must be 1 to {LARGEST:,} pixels, seconds or tokens, not {size}.")
    if name.startswith(HF):
        from .hf_backbone import HfBackbone

        if weights:
            raise UserError("a model of transformers has its weights with it; drop --weights.")
        model: Backbone = HfBackbone(
            name.removeprefix(HF), holds, layers=layers, dtype=dtype, size=size, device=device
        )
    else:
        model = _open(name, first, weights, layers, dtype, size, device)
    model.decoder = decoder
    model.preprocessing |= decoder_recipe(decoder, model.device)
    return model


def _open(
    name: str,
    first: Callable[[], Image.Image],
    weights: Path | None,
    layers: Sequence[str],
    dtype: str,
    size: int | None,
    device: torch.device,
) -> Backbone:
    if (cls := backbone_class(name)) is not None:
        half = dtype if dtype != "float32" else ""
        return outside_backbone(
            name, cls, device, weights=weights, layers=tuple(layers), dtype=half, size=size
        )
    if name not in OURS:
        return TimmBackbone(
            name, weights=weights, layers=layers, dtype=dtype, size=size, device=device
        )
    if weights or layers or dtype != "float32":
        raise UserError(f"{OURS[name]}: no --weights, --layers or --dtype goes with it.")
    if name == "log-mel":
        from .log_mel import LogMel

        return LogMel(size or LogMel.SECONDS)
    from .pixel_backbone import Images, Pixels

    return (Pixels if name == "pixels" else Images)(first(), size)


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a CUDA card if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()  # "meta" holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UserError(
            f"device {name!r} is not available here; choose --device cpu, or leave it to auto."
        ) from error
    return device
