"""Networks of the papers, registered in `timm` for `extract --backbone` and `--trunk`.

Importing this module registers them.
"""

from collections.abc import Mapping
from typing import Any

import timm
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.resnet import BasicBlock, ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from . import published_weights

__all__ = ["timm"]

HUB = "timm/"  # begins the ids of the weights that timm publishes
SMALL = 3, 1, 1  # kernel, stride and padding of the first convolution on small images
SLIM = 20  # filters of the first stage of a slim ResNet-18


def _cfg(size: int, **more: Any) -> dict[str, Any]:
    """timm's configuration of a model for whole images of this size, without published weights."""
    return {
        "input_size": (3, size, size),
        "num_classes": 0,
        "crop_pct": 1.0,
        "interpolation": "bicubic",
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        **more,
    }


_VIT = {"fixed_input_size": True, "first_conv": "patch_embed.proj", "classifier": "head"}
# Size of the images, and settings beside those of the ViT of Tang et al. (2024), Appendix 5.
# `embedbench list backbones` reads the names from these rows.
_FSCIL: dict[str, tuple[int, dict[str, int]]] = {
    "vit_fscil_patch3_36": (36, {"patch_size": 3}),  # for CIFAR-100, enlarged
    "vit_fscil_patch8_96": (96, {"patch_size": 8}),  # for mini-ImageNet
    "vit_fscil_patch16_224": (224, {"patch_size": 16}),  # for CUB-200
    # Ours: as deep, a quarter as wide, and with few patches, so that two cores can train it.
    "vit_fscil_small_patch16_96": (96, {"patch_size": 16, "embed_dim": 64, "num_heads": 4}),
    # Ours: half as deep and a quarter as wide.
    "vit_fscil_tiny_patch8_32": (
        32,
        {"patch_size": 8, "embed_dim": 64, "depth": 6, "num_heads": 4},
    ),
}

default_cfgs = generate_default_cfgs(
    {
        **{name: _cfg(size, **_VIT) for name, (size, _) in _FSCIL.items()},
        "resnet18_small_images": _cfg(32, first_conv="conv1", classifier="fc"),
        "resnet18_slim": _cfg(32, first_conv="conv1", classifier="fc"),
    }
)


def _register(name: str, changed: Mapping[str, int]) -> None:
    """Register a ViT of width 256, 12 blocks of 8 heads, with some of this changed."""
    defaults = {"embed_dim": 256, "depth": 12, "num_heads": 8, **changed}

    def create(pretrained: bool, **settings: Any) -> Any:
        build: Any = build_model_with_cfg
        return build(VisionTransformer, name, pretrained, **{**defaults, **settings})

    create.__name__ = name
    register_model(create)


for _name, (_, _changed) in _FSCIL.items():
    _register(_name, _changed)


def known_weights(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a provenance's backbone, published or shipped, as its `weights`."""
    if backbone.get("weights_sha256") == published_weights.SHA256:
        return {"weights": {"licence": published_weights.LICENCE}}
    name = str(backbone.get("weights_id", ""))
    if backbone.get("library") != "timm" or not name.startswith(HUB):
        return {}
    name = name.removeprefix(HUB)
    cfg: Any = timm.get_pretrained_cfg(name) if timm.is_model_pretrained(name) else None
    licence = getattr(cfg, "license", None)
    known = {"licence": licence, "pretrained_on": pretrained_on(name)}
    weights = {key: value for key, value in known.items() if value and value != "unknown"}
    return {"weights": weights} if weights else {}


@register_model
def resnet18_small_images(pretrained: bool, **settings: Any) -> Any:
    """A ResNet-18 that begins with a 3x3 convolution of stride 1, without pooling.

    Code of online continual learning uses it for CIFAR and Tiny ImageNet.
    """
    build: Any = build_model_with_cfg
    defaults = {"block": BasicBlock, "layers": (2, 2, 2, 2)}
    model = build(ResNet, "resnet18_small_images", pretrained, **{**defaults, **settings})
    first = model.conv1
    model.conv1 = nn.Conv2d(first.in_channels, first.out_channels, *SMALL, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
    return model


@register_model
def resnet18_slim(pretrained: bool, **settings: Any) -> Any:
    """A ResNet-18 of 20, 40, 80 and 160 filters for small images: 1,093,140 parameters.

    Lopez-Paz and Ranzato (2017, GEM), Section 4.1 and code: a 3x3 convolution of stride 1 without
    pooling, shortcuts by 1x1 convolutions where the shape changes, weights as PyTorch draws them.
    The features are the mean over all positions, as in Mammoth; GEM's code takes it over 4x4, which
    is all that is left of 32 pixels.
    """
    build: Any = build_model_with_cfg
    defaults = {"block": BasicBlock, "layers": (2, 2, 2, 2)}
    defaults["channels"] = (SLIM, 2 * SLIM, 4 * SLIM, 8 * SLIM)
    model = build(ResNet, "resnet18_slim", pretrained, **{**defaults, **settings})
    # timm's stem has 64 filters, and the block behind it a shortcut for them
    model.conv1 = nn.Conv2d(model.conv1.in_channels, SLIM, *SMALL, bias=False)
    model.bn1 = nn.BatchNorm2d(SLIM)
    model.maxpool = nn.Identity()
    model.layer1[0] = BasicBlock(SLIM, SLIM)
    model.feature_info[0]["num_chs"] = SLIM
    for info in model.feature_info:
        info["reduction"] = max(1, info["reduction"] // 4)  # of stem and pooling
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
            module.reset_parameters()
    return model


# --- training data of timm's weights, by the tags of their names ---


_TAGS = {
    "in1k": "imagenet-1k",
    "in12k": "imagenet-12k",
    "in21k": "imagenet-21k",
    "in22k": "imagenet-22k",
    "inw21k": "imagenet-w21k",
    "inat21": "inat-2021",
    "dino": "imagenet-1k",
    "mae": "imagenet-1k",
    "fcmae": "imagenet-1k",
    "openai": "openai-wit-400m",
    "laion400m": "laion-400m",
    "laion2b": "laion-2b",
    "laiona": "laion-a",
    "datacomp1b": "datacomp-1b",
    "datacompxl": "datacomp-1b",
    "dfn2b": "dfn-2b",
    "dfn5b": "dfn-5b",
    "webli": "webli",
    "merged2b": "merged-2b",
    "cc12m": "cc-12m",
    "yfcc15m": "yfcc-15m",
    "yfcc100m": "yfcc-100m",
    "ig1b": "instagram-1b",
    "swag": "instagram-3.6b",
    "jft": "jft-300m",
    "lvd142m": "lvd-142m",
    "lvd1689m": "lvd-1689m",
    "sat493m": "sat-493m",
    "sa1b": "sa-1b",
}  # parts of a tag; others say how the weights were trained


def pretrained_on(name: str) -> list[str]:
    """Return the data sets that the tag of a model's name names, in order; empty if it names none.

    >>> pretrained_on("vit_base_patch16_224.augreg_in21k_ft_in1k")
    ['imagenet-21k', 'imagenet-1k']
    """
    tag = name.partition(".")[2]
    return list(dict.fromkeys(_TAGS[part] for part in tag.split("_") if part in _TAGS))
