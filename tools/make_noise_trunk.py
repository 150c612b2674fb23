"""Features of faces100 from a trunk whose layers are aligned and that was trained with input noise.

    python tools/make_noise_trunk.py faces100.npz noise-0.npz --seed 0
    embedbench import noise-0.npz --backbone-name "residual MLP, noise, seed 0" --out noise-0.h5

The question of Tang et al. (2024), Section 4.2 and Tables 4, 5 and A8: what FR gains depends on the
trunk. Fixed before FR was scored on it: grey values are standardised by the mean and deviation of
the base session (training images of the first 60 classes, the only ones that the trunk sees); a
linear layer to 256, six residual blocks x + W2 · gelu(W1 · norm(x)) with 512 hidden units, each
followed, for its output alone, by a norm; one cosine classifier (times 12) for the norms of blocks
3 to 6, losses added, so that the layers have one space; Gaussian noise of deviation .5 on each
input of each step; AdamW, rate 1e-3 falling by a cosine to 0, weight decay .05, batches of 256,
20 epochs. Outputs of blocks 3 to 5 are layers, that of block 6 the embedding.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BASE, WIDTH, HIDDEN, BLOCKS, TAKEN = 60, 256, 512, 6, (3, 4, 5, 6)
NOISE, EPOCHS, BATCH, RATE, DECAY, SCALE = 0.5, 20, 256, 1e-3, 0.05, 12.0


class Trunk(nn.Module):
    """A linear layer and residual blocks; gives the norms of the taken blocks."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH),
                nn.Linear(WIDTH, HIDDEN),
                nn.GELU(),
                nn.Linear(HIDDEN, WIDTH),
            )
            for _ in range(BLOCKS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in TAKEN)

    def forward(self, x: Tensor) -> list[Tensor]:
        outputs, x = [], self.first(x)  # (n, 1024) -> (n, 256)
        for block in self.blocks:
            x = x + block(x)
            outputs.append(x)
        return [norm(outputs[k - 1]) for norm, k in zip(self.norms, TAKEN, strict=True)]


def train(x: Tensor, y: Tensor, seed: int) -> Trunk:
    """Train a trunk on the base session: x (n, inputs) standardised, y (n,)."""
    torch.manual_seed(seed)
    trunk, head = Trunk(x.shape[1]), nn.Parameter(torch.randn(BASE, WIDTH))
    steps = EPOCHS * (len(x) // BATCH)
    parameters = [*trunk.parameters(), head]
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH):
            noisy = x[rows] + NOISE * torch.randn(len(rows), x.shape[1])
            weights = functional.normalize(head, dim=1)
            losses = [
                functional.cross_entropy(
                    SCALE * functional.normalize(z, dim=1) @ weights.T, y[rows]
                )
                for z in trunk(noisy)
            ]
            optimiser.zero_grad()
            torch.stack(losses).sum().backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss of the last block {losses[-1].item():.3f}", flush=True)
    return trunk.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faces", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    faces = np.load(args.faces)
    labels, split = faces["labels"], faces["split"]
    x = torch.from_numpy(faces["features"].reshape(len(labels), -1)).float()
    base = torch.from_numpy((split == 0) & (labels < BASE))
    x = (x - x[base].mean()) / x[base].std()
    trunk = train(x[base], torch.from_numpy(labels.astype(np.int64))[base], args.seed)
    with torch.no_grad():
        parts = [trunk(rows) for rows in x.split(4096)]
    tables = [torch.cat(of_block).numpy() for of_block in zip(*parts, strict=True)]
    layers = {f"layer/block-{k}": t for k, t in zip(TAKEN[:-1], tables[:-1], strict=True)}
    np.savez(
        args.out,
        features=tables[-1],
        labels=labels,
        split=split,
        class_names=faces["class_names"],
        groups=faces["groups"],
        **layers,
    )


if __name__ == "__main__":
    main()
