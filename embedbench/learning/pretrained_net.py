"""Nets that are pretrained: a trunk, its head, and the blocks that the head supervises."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedbench.arrays import digest
from embedbench.errors import UserError
from embedbench.files.sample_list import Samples
from embedbench.networks.weights import HEAD
from embedbench.streams.stream import Session

from .cosine_network import CosineNet
from .image_settings import ImageTraining
from .loss import Objective
from .net_settings import Net
from .trunk import Trunk, image_trunk

AnyNet = Net | CosineNet
SCALE = 12.0  # of the cosines, as in the code of Tang et al. (2024)


def new_net(trunk: str, head: str, shape: Sequence[int], n_classes: int, seed: int) -> AnyNet:
    """A net for images of `shape` (C, H, W) to pretrain; `head` is "linear" or "cosine"."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, width = image_trunk(trunk, shape, ImageTraining())
        if head == "linear":
            return Net(body, nn.Linear(width, n_classes))
    net = CosineNet(width, 0, 0, n_classes, eta=SCALE, seed=seed, trunk=body)
    net.eta.requires_grad_(False)
    return net


def get_trunk(net: AnyNet) -> Trunk:
    """The trunk of such a net."""
    trunk = net.trunk if isinstance(net, CosineNet) else net[0]
    assert isinstance(trunk, Trunk)
    return trunk


def head_logits(net: AnyNet, phi: Tensor) -> Tensor:
    """Logits of features φ (n, d) by the head, (n, C)."""
    if isinstance(net, CosineNet):
        return net.eta * net.cosines(phi)
    logits: Tensor = net.head(phi)
    return logits


def deep_objective(net: AnyNet, blocks: str) -> Objective | None:
    """The cross-entropy of the embedding, plus that of the class token of each of some blocks.

    All go through the trunk's final norm and the one head. `blocks` are named as in `extract
    --layers`, with commas between; None if they are "".
    """
    if not blocks:
        return None
    from embedbench.extract.intermediate_layers import Layers, has_blocks

    body = get_trunk(net).body
    if not has_blocks(body):
        raise UserError(
            "--deep-supervision takes blocks of a vision transformer, and the trunk has none; "
            "leave it out, or choose a trunk such as vit_fscil_tiny_patch8_32"
        )
    layers = Layers(body, blocks.split(","))

    def objective(x: Tensor, y: Tensor) -> Tensor:
        tables = layers.tables(body, x)
        return torch.stack(
            [cross_entropy(head_logits(net, phi), y) for phi in tables.values()]
        ).sum()

    return objective


def taught_digest(samples: Samples, session: Session) -> str:
    """Digest of what a session of one file teaches: ids of samples, each with its class's name."""
    rows = np.asarray(session.ids)
    names = np.asarray(samples.classes)[samples.labels[rows]]
    pairs = sorted(zip(samples.ids[rows].tolist(), names.tolist(), strict=True))
    return digest("taught", *itertools.chain(*pairs))


def kept_head(
    net: AnyNet, samples: Samples, session: Session
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The cosine classifier of a net as a tensor and metadata; both empty for a linear one.

    Its rows are in the order of the base session's classes, which are as in `samples`.
    """
    if not isinstance(net, CosineNet):
        return {}, {}
    about = {
        "kind": "cosine",
        "scale": float(net.eta),
        "classes": [samples.classes[c] for c in np.unique(session.y)],
        "samples": taught_digest(samples, session),
    }
    return {HEAD: net.theta.detach()}, {"head": about}
