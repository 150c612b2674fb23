"""Intermediate layers of a backbone: which are taken, their names, and how they are pooled."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import torch

from embedbench.errors import UserError


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
        if not hasattr(model, "forward_intermediates"):
            raise UserError(f"{type(model).__name__} gives no intermediate layers; drop --layers.")
        self.blocks = has_blocks(model)
        self.token = self.blocks and getattr(model, "cls_token", None) is not None
        self.kind = "block" if self.blocks else "stage"
        self.numbers = parse_layers(wanted, self.kind, len(model.feature_info))
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
                f"unknown layer {text!r}; this backbone has {kind}-0 to {kind}-{count - 1} "
                f"(or their numbers, 'last4', 'all')."
            )
    return sorted(chosen)
