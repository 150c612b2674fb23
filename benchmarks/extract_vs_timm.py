"""`embedbench extract` against a plain timm loop, on the same images and the same cores.

The loop is what one would write: float32, contiguous, a DataLoader with two workers, batches of
64, `torch.inference_mode`, the same decoding. Both run in separate processes, in turn, and the best
of the rounds counts. The time is that of all images but the first 64, with which both warm up.

    python benchmarks/extract_vs_timm.py [--images 512] [--rounds 3] [--models NAME …]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from timing import print_head, print_row

MODELS = ("tf_efficientnet_lite0", "resnet50", "vit_small_patch16_224")
SIDES = ("timm", "float32", "bfloat16")


def prepare(folder: Path, models: list[str], images: int) -> None:
    """Write the first images of the shipped zip, and random weights of each model."""
    import timm
    from safetensors.torch import save_file

    with zipfile.ZipFile(str(files("embedbench") / "assets" / "emoji-noto.zip")) as archive:
        for name in archive.namelist()[:images]:
            archive.extract(name, folder / "images")
    for name in models:
        save_file(timm.create_model(name).state_dict(), folder / f"{name}.safetensors")


def plain_loop(folder: Path, name: str, workers: int) -> dict[str, Any]:
    """Time the plain loop."""
    import numpy as np
    import timm
    import torch
    from safetensors.torch import load_file
    from timm.data import create_dataset, create_transform, resolve_data_config

    model = timm.create_model(name, num_classes=0).eval()
    model.load_state_dict(load_file(folder / f"{name}.safetensors"), strict=False)
    transform = create_transform(**resolve_data_config({}, model=model))
    data = create_dataset("", root=str(folder / "images"))
    data.transform = transform
    loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=workers)
    rows, seen = [], []
    with torch.inference_mode():
        for batch, _ in loader:
            rows.append(model(batch))
            seen.append(time.perf_counter())
    seconds = seen[-1] - seen[0]  # as below, of all but the first batch
    names = [str(path) for path in data.filenames()]
    np.savez(folder / f"{name}.npz", names=names, features=torch.cat(rows).numpy())
    return {"rate": (len(data) - 64) / seconds}


def ours(folder: Path, name: str, dtype: str) -> dict[str, Any]:
    """Time the same images through `extract`, from the first batch to the last."""
    import numpy as np

    from embedbench.extract.pipeline import extract

    seen: list[tuple[float, int]] = []
    file = extract(
        str(folder / "images"),
        folder / f"{name}.h5",
        backbone=name,
        weights=folder / f"{name}.safetensors",
        dtype=dtype,
        alpha="drop",  # as the loop does
        overwrite=True,
        notify=lambda message: None,
        progress=lambda done, total: seen.append((time.perf_counter(), done)),
    )
    warm = next(i for i, (_, done) in enumerate(seen) if done >= 64)
    seconds, count = seen[-1][0] - seen[warm][0], seen[-1][1] - seen[warm][1]
    with np.load(folder / f"{name}.npz") as stored:
        row_of = {path: row for row, path in enumerate(stored["names"].tolist())}
        theirs = stored["features"][[row_of[id_] for id_ in file.sample_ids.tolist()]]
    rows = file.read()
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(theirs, axis=1)
    return {"rate": count / seconds, "cosine": float(((rows * theirs).sum(1) / norms).min())}


def measured(side: Callable[..., dict[str, Any]], *how: Any) -> dict[str, Any]:
    """What a side returns, and the most memory that it took."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return {**side(*how), "peak": max(resource.getrusage(k).ru_maxrss for k in kinds) / 1024}


def one(folder: Path, name: str, side: str, workers: int) -> dict[str, Any]:
    """Run one side in a process of its own."""
    what = (plain_loop, folder, name, workers) if side == "timm" else (ours, folder, name, side)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measured, *what).result()


def main() -> None:
    """Compare all models and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--workers", type=int, default=2, help="of the plain loop's DataLoader")
    args = parser.parse_args()
    if args.images <= 64:
        parser.error(f"--images must be over 64, with which both sides warm up; got {args.images}")
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        prepare(folder, args.models, args.images)
        print_head("model", "side", "images/s", "ratio", "cosine", "peak MB")
        for name in args.models:
            runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
            for side in SIDES * args.rounds:
                runs[side].append(one(folder, name, side, args.workers))
            best = {side: max(each, key=lambda run: run["rate"]) for side, each in runs.items()}
            for side, run in best.items():
                rate, ratio = f"{run['rate']:.1f}", run["rate"] / best["timm"]["rate"]
                cosine = f"{run.get('cosine', 1):.6f}"
                print_row(name, side, rate, ratio, cosine, round(run["peak"]))


if __name__ == "__main__":
    main()
