"""The data sets that timm's published weights were trained on, as the tags of their names say."""

from __future__ import annotations

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
