"""Folding BatchNorm into the convolution before it: the same function with less memory traffic."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def fold_batchnorm(model: nn.Module, example: torch.Tensor) -> nn.Module:
    """Fold every BatchNorm that directly follows a convolution, and return the model.

    One forward pass shows which norm follows which convolution, so this works for any model. The
    output of that pass is compared with that of the folded model; if it changes, the original model
    is returned.

    Parameters
    ----------
    model : Module
        A model in eval mode, on the CPU, in float32.
    example : Tensor
        (n, 3, H, W) input for the two passes.
    """
    if not any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        return model
    pairs, before = _watch(model, example)
    lighter = copy.deepcopy(model)
    for conv_name, norm_name in pairs:
        conv, norm = lighter.get_submodule(conv_name), lighter.get_submodule(norm_name)
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
    made_by: dict[int, str] = {}
    kept: list[torch.Tensor] = []  # holds outputs, so that no two of them share an id
    calls: dict[str, int] = {}
    pairs: list[tuple[str, str]] = []

    def seen(name: str) -> None:
        calls[name] = calls.get(name, 0) + 1

    hooks = []
    for name, module in model.named_modules():
        if type(module) is nn.Conv2d:

            def after_conv(
                _: nn.Module, __: tuple[torch.Tensor, ...], output: torch.Tensor, name: str = name
            ) -> None:
                seen(name)
                made_by[id(output)] = name
                kept.append(output)

            hooks.append(module.register_forward_hook(after_conv))
        elif isinstance(module, nn.BatchNorm2d) and module.track_running_stats:

            def before_norm(
                _: nn.Module, inputs: tuple[torch.Tensor, ...], name: str = name
            ) -> None:
                seen(name)
                if id(inputs[0]) in made_by:
                    pairs.append((made_by[id(inputs[0])], name))

            hooks.append(module.register_forward_pre_hook(before_norm))
    with torch.inference_mode():
        output = model(example)
    for hook in hooks:
        hook.remove()
    once = [pair for pair in pairs if calls[pair[0]] == calls[pair[1]] == 1]
    return once, output
