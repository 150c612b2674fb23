"""The frozen convolutions of van de Ven, Tuytelaars and Tolias (2022), as a backbone.

Five 3 x 3 convolutions of 16 to 256 channels, trained on CIFAR-10; the last has neither batch norm
nor ReLU. **Source**: their code, `models/conv/nets.py`, and its weights `C3-5x16-bn-e100`.
"""

import numpy as np
import torch
from torch import nn

from embedbench.api import Backbone

MEAN, STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2761)  # of CIFAR-100, `data/available.py`
WIDTHS = (3, 16, 32, 64, 128, 256)


class ConvE(Backbone):
    """Images of 32 x 32 pixels to 1,024 numbers."""

    def __init__(self, weights):
        state = torch.load(weights, weights_only=True, map_location="cpu")["state"]
        self.net = nn.Sequential()
        for k in range(1, 6):
            stride = 1 if k == 1 else 2
            self.net.append(nn.Conv2d(WIDTHS[k - 1], WIDTHS[k], 3, stride, padding=1))
            self.net[-1].load_state_dict(_part(state, f"convLayer{k}.conv."))
            if k < 5:
                self.net.append(nn.BatchNorm2d(WIDTHS[k]))
                self.net[-1].load_state_dict(_part(state, f"convLayer{k}.bn."))
                self.net.append(nn.ReLU())
        self.net.eval()
        self.backbone = {"name": "convE", "layer": "convLayer5", "pooling": "flattened"}
        self.preprocessing = {"mean": MEAN, "std": STD}

    def prepare(self, content):
        return np.asarray(content.convert("RGB"))

    def forward(self, batch):
        x = torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255
        x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
        return {"features": self.net(x).flatten(1)}


def _part(state, head):
    return {name[len(head) :]: value for name, value in state.items() if name.startswith(head)}
