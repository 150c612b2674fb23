"""A network whose logits are cosines, times a number η that is learned with them."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from embedbench.streams.stream import StreamSpec

from .net_settings import Net, image_training, in_parts, mlp_net
from .trunk import FLAT, image_trunk


class CosineNet(nn.Module):
    """Logits η cos(φ(x), θ_c): a trunk whose last layer is linear, and one η for all classes.

    **Source**: Hou et al. (2019, LUCIR), Eq. 4. As in their code, θ_c is uniform in ±1/√d, and φ
    has no ReLU after its last layer. Abdelsalam et al. (2021, IIRC), Eq. 3.

    Parameters
    ----------
    units, layers : int
        Size of the trunk, as in `mlp`; with 0 layers φ is x.
    eta : float
        Initial value of η.
    seed : int
        Seed of the initial weights.
    trunk : nn.Module or None
        A trunk for images instead, with features (n, n_inputs); `layers` is 0.
    """

    def __init__(
        self,
        n_inputs: int,
        units: int,
        layers: int,
        n_classes: int,
        *,
        eta: float,
        seed: int,
        trunk: nn.Module | None = None,
    ) -> None:
        super().__init__()
        width = units if layers else n_inputs
        self.trunk = nn.Flatten() if trunk is None else trunk  # flattens images
        if layers:
            self.trunk = mlp_net(n_inputs, units, layers - 1, width, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.theta = nn.Parameter(torch.empty(n_classes, width).uniform_(-1, 1) / width**0.5)
        self.eta = nn.Parameter(torch.tensor(eta))

    def features(self, x: Tensor) -> Tensor:
        """φ(x), (n, d)."""
        phi: Tensor = self.trunk(x.flatten(1) if isinstance(self.trunk, Net) else x)
        return phi

    def cosines(self, phi: Tensor) -> Tensor:
        """cos(φ, θ_c), (n, C)."""
        return (
            nn.functional.normalize(phi) @ nn.functional.normalize(self.theta).T
        )  # (n, d) @ (d, C)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        return self.eta * self.cosines(self.features(x))


@torch.inference_mode()
def predict_cosines(net: CosineNet, x: Tensor) -> Tensor:
    """Cosines of x in evaluation mode, (n, C): above 0 where the sigmoid is above one half."""
    net.eval()
    return in_parts(lambda part: net.cosines(net.features(part)), x)


def cosine_net(learner: Any, spec: StreamSpec, seed: int, *, eta: float) -> CosineNet:
    """A net with a cosine head, with a learner's `trunk`, `units` and `layers`."""
    if learner.trunk in FLAT:
        layers = learner.layers if learner.trunk == "mlp" else 0
        n_inputs = math.prod(spec.input_shape)
        return CosineNet(n_inputs, learner.units, layers, spec.n_classes, eta=eta, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk, width = image_trunk(
            learner.trunk, spec.input_shape, image_training(learner), relu=False
        )
    return CosineNet(width, 0, 0, spec.n_classes, eta=eta, seed=seed, trunk=trunk)
