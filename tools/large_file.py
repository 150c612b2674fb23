"""Write an embedding file of any size, block by block: normal features around class means.

    python tools/large_file.py large.h5 --samples 2000000 --width 1024

The default is 8 GB. Memory does not grow with the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embedbench.files.hdf5_layout import block_ranges
from embedbench.files.output_path import check_target
from embedbench.files.sample_metadata import TEST, Samples
from embedbench.files.write_file import assemble
from embedbench.storage import safe_hdf5
from embedbench.storage.atomic_write import writing


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a large embedding file.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--mixed", action="store_true", help="classes in no order, not one by one")
    args = parser.parse_args()
    check_target(args.out, overwrite=False)
    labels = np.arange(args.samples) * args.classes // args.samples
    draw = np.random.default_rng(0)
    if args.mixed:
        draw.shuffle(labels)
    split = np.where(draw.random(args.samples) < 0.02, TEST, 0)
    ids = np.array([f"{i:08d}" for i in range(args.samples)])
    classes = tuple(f"class {c}" for c in range(args.classes))
    samples = Samples(ids, labels, split, classes, np.full(args.classes, -1))
    source = {"name": "normal", "revision": "", "licence": "CC0-1.0"}
    provenance = {
        "backbone": {"name": "random numbers", "samples": args.samples},
        "preprocessing": {},
        "arithmetic": {"dtype": args.dtype},
        "source": source,
    }
    blocks = features(labels, args.width, args.classes, np.dtype(args.dtype))
    with writing(args.out) as temporary:
        assemble(temporary, samples, provenance, blocks)
    safe_hdf5.trust(args.out)
    print(f"{args.out}: {args.out.stat().st_size / 1e9:.2f} GB")


def features(
    labels: NDArray[np.int64], width: int, classes: int, dtype: np.dtype[np.floating]
) -> Iterator[dict[str, NDArray[np.floating]]]:
    """Normal noise around a mean for each class, block by block."""
    draw = np.random.default_rng(1)
    means = draw.standard_normal((classes, width), dtype=np.float32) / 8
    for first, end in block_ranges(len(labels)):
        noise = draw.standard_normal((end - first, width), dtype=np.float32)
        yield {"features": (means[labels[first:end]] + noise).astype(dtype)}


if __name__ == "__main__":
    main()
