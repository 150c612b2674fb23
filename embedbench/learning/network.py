"""The networks of gradient learners: a trunk and a head, linear or of cosines; their answers."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from embedbench.config.setting_ranges import check_size
from embedbench.streams.stream import StreamSpec

from .image_training import image_training
from .trunk import FLAT, image_trunk

PART = 1024  # images per forward pass without gradients


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


class CosineNet(nn.Module):
    """Logits η cos(φ(x), θ_c): a trunk with features φ (n, d), and one η for all classes.

    **Source**: Hou et al. (2019, LUCIR), Eq. 4. As in their code, θ_c is uniform in ±1/√d, and φ
    has no ReLU after its last layer. Abdelsalam et al. (2021, IIRC), Eq. 3.
    """

    def __init__(self, trunk: nn.Module, d: int, n_classes: int, *, eta: float, seed: int) -> None:
        super().__init__()
        self.trunk = trunk
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.theta = nn.Parameter(torch.empty(n_classes, d).uniform_(-1, 1) / d**0.5)
        self.eta = nn.Parameter(torch.tensor(eta))

    def features(self, x: Tensor) -> Tensor:
        """φ(x), (n, d)."""
        phi: Tensor = self.trunk(x.flatten(1) if isinstance(self.trunk, Net) else x)
        return phi

    def cosines(self, phi: Tensor) -> Tensor:
        """cos(φ, θ_c), (n, C)."""
        theta = nn.functional.normalize(self.theta)
        return nn.functional.normalize(phi) @ theta.T  # (n, d) @ (d, C)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        return self.eta * self.cosines(self.features(x))


@torch.inference_mode()
def predict_cosines(net: CosineNet, x: Tensor) -> Tensor:
    """Cosines of x in evaluation mode, (n, C): above 0 where the sigmoid is above one half."""
    net.eval()
    return in_parts(lambda part: net.cosines(net.features(part)), x)


def cosine_mlp(
    n_inputs: int, units: int, layers: int, n_classes: int, *, eta: float, seed: int
) -> CosineNet:
    """A cosine head on an MLP whose last layer is linear; with 0 `layers` φ is x."""
    d = units if layers else n_inputs
    trunk = mlp_net(n_inputs, units, layers - 1, d, seed) if layers else nn.Flatten()
    return CosineNet(trunk, d, n_classes, eta=eta, seed=seed)


def cosine_net(learner: Any, spec: StreamSpec, seed: int, *, eta: float) -> CosineNet:
    """A net with a cosine head, with a learner's `trunk`, `units` and `layers`."""
    if learner.trunk in FLAT:
        layers = learner.layers if learner.trunk == "mlp" else 0
        n_inputs = math.prod(spec.input_shape)
        return cosine_mlp(n_inputs, learner.units, layers, spec.n_classes, eta=eta, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        images = image_training(learner)
        trunk, d = image_trunk(learner.trunk, spec.input_shape, images, relu=False)
    return CosineNet(trunk, d, spec.n_classes, eta=eta, seed=seed)
