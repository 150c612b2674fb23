"""Seconds of Kemker et al.'s learners at CUB-200's size, beside the minutes that they printed.

    python benchmarks/run_kemker.py [--learner geppnet …] [--protocol permutation …]

2048-d, 200 classes, 30 training and 29 test samples a class; two kinds of data, since the novelty
rate decides what a step of the GeppNets costs: "clustered" (noise .3 around class means) and
"random" (noise 10: hardly any class structure). `--preset kemker`; the offline reference is not
part of the time. Evaluation after every session is.
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
from embedbench.learner import Seeds
from embedbench.registry import learner_class, make
from embedbench.reproduce import published
from embedbench.runner import run_stream
from embedbench.settings import parse_settings

LEARNERS = ("mlp", "ewc", "pathnet", "geppnet", "geppnet-stm", "fel")
DATA = {"clustered": 0.3, "random": 10.0}


def timed(path: Path, learner: str, protocol: str) -> tuple[float, float, str]:
    """Seconds, final accuracy and the novelty rate of the later sessions, of one run."""
    settings = parse_settings([], [learner], "kemker")
    chosen: dict[str, Any] = settings.learners.get(learner, {})
    if learner == "fel":
        chosen = {**chosen, "fel_units": 1200}
    stream = build_stream(path, protocol, **settings.protocol)
    began = time.perf_counter()
    predictions, logs = run_stream(
        stream, make(learner_class(learner), chosen, name=learner), Seeds.of(0)
    )
    seconds = time.perf_counter() - began
    novel = [s.log["novelty"] for s in logs[1:] if "novelty" in s.log]
    right = float((predictions.answer[-1] == predictions.y).mean())
    return seconds, right, f"{100 * np.mean(novel):.1f} %" if novel else ""


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learner", nargs="*", default=LEARNERS)
    parser.add_argument("--protocol", nargs="*", default=("permutation", "incremental-class"))
    parser.add_argument("--data", nargs="*", default=tuple(DATA))
    args = parser.parse_args()
    rows = published("kemker2018")["tables"]["4"]
    minutes = {(r["learner"], r["protocol"]): r["minutes"] for r in rows}
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| learner | protocol | data | paper, min | here, s | final accuracy | novelty, later |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.data:
            path = clusters(Path(folder) / f"{kind}.h5", 200, 30, 29, DATA[kind])
            for learner in args.learner:
                for protocol in args.protocol:
                    if (learner, protocol) not in minutes:
                        continue
                    seconds, right, novel = timed(path, learner, protocol)
                    print(
                        f"| {learner} | {protocol} | {kind} | {minutes[learner, protocol]:,.0f} "
                        f"| {seconds:.1f} | {right:.3f} | {novel} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
