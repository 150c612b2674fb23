"""Accuracy of each layer of an embedding file on base validation samples, by prototypes.

    python benchmarks/layer_prototypes.py FILE --base 60 --way 5 [--scale none] [--embedding final]

Samples are classified by cosine to the class means of the base session: means of the layer itself,
and means of the final embedding. FR's relations use such cosines of intermediate features. Order
seed 0; no test data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.nn.functional import normalize

from embedbench.files.file import EmbeddingFile
from embedbench.protocols.fscil import FSCIL
from embedbench.seeds import Seeds


def main() -> None:
    """Print one line per layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--base", type=int, required=True)
    parser.add_argument("--way", type=int, required=True)
    parser.add_argument("--scale", default="none")
    parser.add_argument("--embedding", default="final")
    args = parser.parse_args()
    protocol = FSCIL(
        base=args.base, way=args.way, order="size", scale=args.scale, embedding=args.embedding
    )
    stream = protocol.build([EmbeddingFile.open(args.file)], seed=Seeds.of(0).order)
    session = stream.sessions[0]
    x, val_x = session.x.tensor(), session.val_x.tensor()
    y, val_y = torch.from_numpy(session.y), torch.from_numpy(session.val_y)
    classes = y.unique()
    own_end = min([first for first, _ in stream.spec.layers.values()], default=x.shape[1])
    final = slice(0, own_end)

    def right(columns: slice, prototypes: slice) -> float:
        means = torch.stack([x[y == c, prototypes].mean(0) for c in classes])
        cosines = normalize(val_x[:, columns]) @ normalize(means).T
        return float((classes[cosines.argmax(1)] == val_y).float().mean())

    print(f"final: {right(final, final):.3f}")
    for name, (first, end) in stream.spec.layers.items():
        layer = slice(first, end)
        print(f"{name}: own {right(layer, layer):.3f}, to the final {right(layer, final):.3f}")


if __name__ == "__main__":
    main()
