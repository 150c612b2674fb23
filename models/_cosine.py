"""A network whose logits are cosines, times a number that is learned with them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ._net import mlp_net


class CosineNet(nn.Module):
    """Logits η cos(φ(x), θ_c): a trunk whose last layer is linear, and one η for all classes.

    **Source**: Hou et al. (2019, LUCIR), Eq. 4; θ_c uniform in ±1/√d, φ without its last ReLU, as
    in their code. Abdelsalam et al. (2021, IIRC), Eq. 3.

    Parameters
    ----------
    units, layers : of the trunk, as in `mlp`; without a layer φ is x
    eta : where η begins
    seed : of the initial weights
    """

    def __init__(
        self, n_inputs: int, units: int, layers: int, n_classes: int, *, eta: float, seed: int
    ) -> None:
        super().__init__()
        width = units if layers else n_inputs
        self.trunk: nn.Module = nn.Identity()
        if layers:
            self.trunk = mlp_net(n_inputs, units, layers - 1, width, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.theta = nn.Parameter(torch.empty(n_classes, width).uniform_(-1, 1) / width**0.5)
        self.eta = nn.Parameter(torch.tensor(eta))

    def features(self, x: Tensor) -> Tensor:
        """φ(x), (n, d)."""
        phi: Tensor = self.trunk(x)
        return phi

    def cosines(self, phi: Tensor) -> Tensor:
        """cos(φ, θ_c), (n, C)."""
        return normalize(phi) @ normalize(self.theta).T  # (n, d) @ (d, C)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of x (n, D), (n, C)."""
        return self.eta * self.cosines(self.features(x))


@torch.inference_mode()
def predict_cosines(net: CosineNet, x: Tensor) -> Tensor:
    """Cosines of x (n, D) in evaluation mode, (n, C): above 0 where a sigmoid is above a half."""
    net.eval()
    return net.cosines(net.features(x))
