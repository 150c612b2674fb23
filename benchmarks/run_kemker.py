"""Seconds of Kemker et al.'s learners at CUB-200's size, beside the paper's minutes.

    python benchmarks/run_kemker.py [--learner geppnet …] [--protocol permutation …]

2048-d, 200 classes, 30 training and 29 test samples a class. There are two kinds of data, because
the novelty rate determines the cost of a GeppNet's step: "clustered" (noise .3 around class means)
and "random" (noise 10: hardly any class structure). `--preset kemker`. The time includes evaluation
after every session, but not the offline reference. The floor is the time of the arithmetic alone at
the rate of a large matrix product, measured first: forward and backward of every step, the
distances of every draw to every unit, and the answers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from synthetic import clusters

from embedbench.api import build_stream
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.papers.published import load_published
from embedbench.runs.cost_meter import SessionLog
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream
from embedbench.studies.resolve import sort_settings

LEARNERS = ("mlp", "ewc", "pathnet", "geppnet", "geppnet-stm", "fel")
DATA = {"clustered": 0.3, "random": 10.0}


def rate(n: int = 2048, repeats: int = 10) -> float:
    """Floating-point operations per second of a float32 matrix product, best of `repeats`."""
    a, best = torch.ones(n, n), 1e9
    for _ in range(repeats):
        began = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best


def operations(learner: Any, stream: Stream, logs: list[SessionLog]) -> float:
    """The least number of multiplications and additions of the run."""
    d, c = stream.spec.input_shape[0], stream.spec.n_classes
    answered = len(logs) * sum(len(e.y) for e in stream.eval_sets)
    if hasattr(learner, "som"):
        draws = learner.som.iterations + (len(logs) - 1) * learner.rehearsal.iterations
        return 2.0 * (draws + answered) * learner.som.side**2 * d
    if hasattr(learner, "modules"):  # two contestants see each batch
        width = learner.active * learner.units * (d + learner.units) + learner.units * c
        taught = 2 * learner.batch_size * sum(s.log["steps"] for s in logs)
        return 2.0 * width * (3 * taught + answered)
    hidden = learner.units
    width = d * hidden + (hidden**2 + hidden * c)
    if hasattr(learner, "fel_units"):
        width = d * hidden + (hidden + c) * learner.fel_units
    taught = sum(s.log["epochs"] * len(x.x) for s, x in zip(logs, stream.sessions, strict=True))
    return 2.0 * width * (3 * taught + answered)


def timed(path: Path, learner: str, protocol: str, speed: float) -> tuple[float, float, float, str]:
    """One run: seconds, their floor, final accuracy and the novelty of later sessions."""
    settings = sort_settings({}, [learner], "kemker")
    chosen: dict[str, Any] = settings.of(learner)
    if learner == "fel":
        chosen = {**chosen, "fel_units": 1200}
    stream = build_stream(path, protocol, **settings.protocol)
    began = time.perf_counter()
    made = make(learner_class(learner), chosen, name=learner)
    predictions, logs = run_stream(stream, made, Seeds.of(0))
    seconds = time.perf_counter() - began
    novel = [s.log["novelty"] for s in logs[1:] if "novelty" in s.log]
    right = float((predictions.answer[-1] == predictions.y).mean())
    floor = operations(made, stream, logs) / speed
    return seconds, floor, right, f"{100 * np.mean(novel):.1f} %" if novel else ""


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learner", nargs="*", default=LEARNERS)
    parser.add_argument("--protocol", nargs="*", default=("permutation", "incremental-class"))
    parser.add_argument("--data", nargs="*", default=tuple(DATA))
    args = parser.parse_args()
    rows = load_published("kemker2018")["tables"]["4"]
    minutes = {(r["learner"], r["protocol"]): r["minutes"] for r in rows}
    speed = rate()
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {threads} threads, {speed / 1e9:.0f} GFLOP/s\n")
    heads = ("learner", "protocol", "data", "paper, min", "here, s", "floor, s", "final accuracy")
    print(f"| {' | '.join(heads)} | novelty, later |")
    print("|" + "---|" * (len(heads) + 1))
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.data:
            path = clusters(Path(folder) / f"{kind}.h5", 200, 30, 29, DATA[kind])
            for learner in args.learner:
                for protocol in args.protocol:
                    if (learner, protocol) not in minutes:
                        continue
                    seconds, floor, right, novel = timed(path, learner, protocol, speed)
                    print(
                        f"| {learner} | {protocol} | {kind} | {minutes[learner, protocol]:,.0f} "
                        f"| {seconds:.1f} | {floor:.1f} | {right:.3f} | {novel} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
