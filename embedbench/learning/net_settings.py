"""The network of gradient learners, their optimiser, and their shared settings."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.declared_settings import check_size
from embedbench.config.seeds import Seeds
from embedbench.errors import UserError
from embedbench.networks.weights import file_sha256
from embedbench.streams.stream import StreamSpec

from .augmentation import Views
from .image_settings import PLAINLY, ImageTraining
from .optimisers import fresh_optimiser
from .trunk import FLAT, check_trunk, image_trunk, weights_file

PART = 1024  # images per forward pass without gradients
VIEWS = 1  # number of the random stream for image augmentation
PLAIN = Views("none", torch.Generator())


class Net(nn.Sequential):
    """A trunk, and as the last module a linear head for all classes."""

    def features(self, x: Tensor) -> Tensor:
        """φ(x), the input of the head, (n, d)."""
        phi: Tensor = self[:-1](x)
        return phi

    @property
    def head(self) -> nn.Linear:
        """The layer from φ (n, d) to logits (n, C)."""
        head = self[-1]
        assert isinstance(head, nn.Linear)
        return head


def new_net(
    learner: Any, spec: StreamSpec, seeds: Seeds, device: str
) -> tuple[Net, torch.optim.Optimizer]:
    """A learner's net at the start of a stream, and its optimiser, from the shared settings."""
    net = trunk_and_head(learner, spec, seeds.init).to(device)
    return net, fresh_optimiser(learner, net)


def trunk_and_head(learner: Any, spec: StreamSpec, seed: int) -> Net:
    """A net with a learner's `trunk` and, if that is "mlp", its `units` and `layers`."""
    if learner.trunk in FLAT:
        layers = learner.layers if learner.trunk == "mlp" else 0
        net = mlp_net(math.prod(spec.input_shape), learner.units, layers, spec.n_classes, seed)
        return net if len(spec.input_shape) == 1 else Net(nn.Flatten(), *net)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk, width = image_trunk(learner.trunk, spec.input_shape, image_training(learner))
        return Net(trunk, nn.Linear(width, spec.n_classes))


@torch.inference_mode()
def predict(net: nn.Module, x: Tensor) -> Tensor:
    """Logits of x (n, D) or (n, C, H, W) in evaluation mode, (n, C)."""
    net.eval()
    return in_parts(net, x)


@torch.no_grad()
def eval_features(net: Any, x: Tensor) -> Tensor:
    """φ(x) of a net that has `features`, in evaluation mode, (n, d)."""
    net.eval()
    return in_parts(net.features, x)


def in_parts(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f(x), one row per sample; images go in parts, because many activations fill the memory."""
    if x.ndim == 2:
        return f(x)
    return torch.cat([f(part) for part in torch.split(x, PART)])


def mlp_net(n_inputs: int, units: int, layers: int, n_outputs: int, seed: int) -> Net:
    """An MLP: `layers` hidden layers of `units` ReLUs, a linear head, PyTorch's initialisation."""
    widths = [n_inputs, *[units] * layers, n_outputs]
    check_size("the network", sum(a * b for a, b in pairwise(widths)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts: list[nn.Module] = []
        for a, b in pairwise(widths[:-1]):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return Net(*parts, nn.Linear(widths[-2], widths[-1]))


def augmented_views(learner: Any, counter: int, draw: np.random.Generator | None = None) -> Views:
    """The augmentation of a learner's images in the `counter`-th session or online step.

    If `draw` is given, it draws a number that gives each training within a session different views;
    it is used only if the augmentation is random.
    """
    images = image_training(learner)
    if images.augment == "none":
        return PLAIN
    more = [] if draw is None else [int(draw.integers(2**32))]
    return Views(images.augment, generator(learner.seeds.batches, counter, VIEWS, *more))


def generator(seed: int, *counters: int) -> torch.Generator:
    """A random generator from `seed` and `counters`; a resumed run gets the same one."""
    state = np.random.SeedSequence([seed, *counters]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def image_training(learner: Any) -> ImageTraining:
    """How a learner's trunk is trained; the defaults if it has no such setting."""
    images = getattr(learner, "images", PLAINLY)
    assert isinstance(images, ImageTraining)
    return images


def settle_trunk(learner: Any) -> None:
    """Refuse an unknown trunk, or image settings that do not fit; fill in its weights' digest."""
    name, images = learner.name, image_training(learner)
    check_trunk(f"{name}.trunk", learner.trunk)
    if images == PLAINLY:
        return
    if learner.trunk in FLAT:
        raise UserError(
            f"{name}.images is for trunks of images, and {name}.trunk is {learner.trunk!r}; leave "
            "it out, or choose one with --trunk resnet32"
        )
    if not images.weights:
        return
    digest = file_sha256(weights_file(learner.trunk, images.weights))
    if images.sha256 not in ("", digest):
        raise UserError(
            f"{images.weights} has the SHA-256 {digest[:12]}…, and {name}.images.sha256 says "
            f"{images.sha256[:12]}…; give the original file, or leave sha256 out"
        )
    learner.images = replace(images, sha256=digest)
