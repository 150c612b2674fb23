"""Minutes of a whole run of FR at the size of the paper's CIFAR-100, and of its arithmetic.

    python benchmarks/run_fr.py [--device cuda] [--paper]

Nine sessions (60 classes of 500 samples, then 8 × 5 classes of 5), the final embedding and three
layers of 256 random columns, preset `fr-short`: Adam and some 150 steps a session of 64 drawn
samples. `--paper` uses the paper's schedule instead (SGD, 100 epochs of 600 samples a class in
batches of 1,024: 41,400 steps); `--epochs` of its 100 epochs are run, and the time is scaled. The
floor is the time of the modules' products, forward and backward, at the rate of a large float32
product (CPU only).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedbench.api import build_stream
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.runs.cost_meter import SessionLog
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.studies.resolve import sort_settings

WIDTH, LAYERS, EPOCHS = 256, 3, 100


def cifar_like(path: Path, train: int = 500, test: int = 100) -> Path:
    """100 classes of 500 training and 100 test samples around class means, in every table."""
    draw = np.random.default_rng(0)
    labels = np.concatenate([np.repeat(np.arange(100), n) for n in (train, test)])
    n = len(labels)
    samples = Samples(
        ids=np.array([str(i) for i in range(n)]),
        labels=labels.astype(np.int64),
        split=np.repeat([TRAIN, TEST], [100 * train, 100 * test]).astype(np.uint8),
        classes=tuple(f"c{i}" for i in range(100)),
        parents=np.full(100, -1),
    )
    tables = [
        draw.standard_normal((n, WIDTH), dtype=np.float32)
        + draw.standard_normal((100, WIDTH), dtype=np.float32)[labels]
        for _ in range(1 + LAYERS)
    ]
    layers = {f"block-{7 + k}": x for k, x in enumerate(tables[1:])}
    return write_file(
        path, samples, tables[0], {"backbone": {"name": "random"}}, layers=layers
    ).path


def taught(file: Path, settings: dict[str, Any], device: str) -> tuple[Any, list[SessionLog]]:
    """Run FR with these settings through nine sessions; return the learner and the logs."""
    stream = build_stream(file, "fscil", base=60, way=5)
    learner = make(learner_class("fr"), settings, name="fr")
    _, logs = run_stream(stream, learner, Seeds.of(0), device=device)
    return learner, logs


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    preset = None if args.paper else "fr-short"
    chosen = sort_settings({}, ["fr"], preset).of("fr")
    if args.paper:
        chosen["epochs"] = args.epochs
    with tempfile.TemporaryDirectory() as folder:
        file = cifar_like(Path(folder) / "cifar.h5")
        learner, logs = taught(file, chosen, args.device)
    times = EPOCHS / args.epochs if args.paper else 1
    steps = sum(log.log["steps"] for log in logs) * times
    each = [round(log.learn_seconds * times, 1) for log in logs]
    drawn = learner.batch_classes * learner.batch_samples
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {args.device}")
    print(f"{len(logs)} sessions, {steps:,.0f} steps of {drawn} draws: {sum(each) / 60:.1f} min")
    print(f"seconds a session: {each}")
    if args.device == "cpu":
        from run_kemker import rate  # needs rich, which a machine with a card may lack

        floor = 6.0 * LAYERS * 10 * WIDTH**2 * drawn * steps / rate()
        print(f"floor of the products: {floor / 60:.1f} min")


if __name__ == "__main__":
    main()
