"""MobileNetV2 as Google published it, as a backbone: padding as in TensorFlow, 1,001 classes.

**Source**: the weights are those of google-coral/test_data (Apache-2.0, ImageNet), under timm's
names of parameters. **Departs**: images are resized to 224 pixels by Pillow, bicubic.
"""

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import load_file

from embedbench.api import Backbone
from embedbench.extract.timm_backbone import fold_batchnorm

SIZE = 224


class MobileNetV2(Backbone):
    """Square images to 1,280 numbers, before the classifier."""

    def __init__(self, weights):
        net = timm.create_model(
            "mobilenetv2_100", pad_type="same", bn_eps=1e-3, num_classes=1001, pretrained=False
        )
        net.load_state_dict({name: value.float() for name, value in load_file(weights).items()})
        net.reset_classifier(0)
        folded = fold_batchnorm(net.eval(), torch.randn(2, 3, SIZE, SIZE))  # a third less time
        self.net = folded.to(memory_format=torch.channels_last)
        self.backbone = {"name": "mobilenetv2_100", "layer": "final embedding", "pooling": "avg"}
        self.preprocessing = {"size": SIZE, "interpolation": "bicubic", "values": "(x - 128) / 128"}

    def prepare(self, content):
        return np.asarray(content.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC))

    @torch.inference_mode()
    def forward(self, batch):
        x = torch.from_numpy(batch).permute(0, 3, 1, 2).float()
        return {"features": self.net((x - 128) / 128)}
