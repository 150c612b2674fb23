"""Minutes of one IIRC-CIFAR configuration for ER, and the floor of its arithmetic.

    python benchmarks/run_iirc.py [--learner er] [--epochs 140] [--sessions 22]

50,000 training and 10,000 test samples of random 512-d features under CIFAR-100's labels, preset
`iirc` (280 epochs in the first session, 140 later). The floor is the forward and backward passes of
every step at the rate of a large float32 matrix product, measured first. Peak memory is that of the
process after every fifth session.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from run_kemker import rate

from embedbench.api import build_stream
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.studies.resolve import sort_settings


def cifar_like(path: Path, width: int = 512) -> Path:
    """CIFAR-100's labels over random features."""
    draw = np.random.default_rng(0)
    listed = resources.files("embedbench") / "assets" / "iirc" / "incremental-cifar.json"
    labels = np.concatenate([np.repeat(np.arange(100), n) for n in (500, 100)])
    x = draw.standard_normal((60_000, width), dtype=np.float32)
    x += draw.standard_normal((100, width), dtype=np.float32)[labels]
    samples = Samples(
        ids=np.array([str(i) for i in range(len(labels))]),
        labels=labels.astype(np.int64),
        split=np.repeat([TRAIN, TEST], [50_000, 10_000]).astype(np.uint8),
        classes=tuple(sorted(json.loads(listed.read_text("utf-8"))["parents"])),
        parents=np.full(100, -1),
    )
    return write_file(path, samples, x, {"backbone": {"name": "random"}}).path


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learner", default="er")
    parser.add_argument("--epochs", type=int, default=140)
    parser.add_argument("--sessions", type=int, default=22)
    args = parser.parse_args()
    speed = rate()
    chosen = sort_settings({}, [args.learner], "iirc").of(args.learner)
    chosen |= {"stop.epochs": args.epochs, "stop.first_epochs": 2 * args.epochs}
    peaks: list[str] = []

    def progress(line: str) -> None:
        peaks.append(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f}")

    with tempfile.TemporaryDirectory() as folder:
        path = cifar_like(Path(folder) / "cifar.h5")
        stream = build_stream(path, "iirc", hierarchy="iirc-cifar", configuration=0)
        stream = replace(stream, sessions=stream.sessions[: args.sessions])
        learner = make(learner_class(args.learner), chosen, name=args.learner)
        began = time.perf_counter()
        _, logs = run_stream(stream, learner, Seeds.of(0), progress=progress)
        seconds = time.perf_counter() - began
    steps = sum(log.log["steps"] for log in logs)
    d, hidden, c = stream.spec.input_shape[0], learner.units, stream.spec.n_classes
    width = d * hidden + hidden**2 + hidden * c
    floor = 6.0 * width * steps * learner.batch_size / speed
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {speed / 1e9:.0f} GFLOP/s"
    )
    print(f"{len(logs)} sessions, {steps:,} steps: {seconds / 60:.1f} min, floor {floor / 60:.1f}")
    print(f"peak MB every fifth session: {', '.join(peaks[::5])}")


if __name__ == "__main__":
    main()
