"""Seconds of the streaming learners, beside those of their matrix arithmetic alone.

    python benchmarks/run_streaming.py [FILE] [--sessions 10] [--repeats 3] [--learners exstream …]

Only learning is timed, not answers. The bare side does the same sums on one resident matrix, in
shuffled batches of the same size and in the same precision: class sums (ncm); the scatter matrix
and one Cholesky factorisation per session (slda); projection, HᵀH, HᵀY and one factorisation per
session (ranpac, with λ fixed); as many steps of the network on rows of one resident table, while no
buffer is kept (exstream). The sides run in turn, and the best of the repeats counts. Without
FILE the data are clusters of CUB-200's shape.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from synthetic import clusters
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedbench.api import build_stream, make_learner
from embedbench.config.run_seeds import Seeds
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream

Sessions = list[tuple[Tensor, Tensor]]


def bare_ncm(sessions: Sessions, n_classes: int, batch: int) -> None:
    """Sums and counts of the classes."""
    sums = torch.zeros(n_classes, sessions[0][0].shape[1], dtype=torch.float64)
    counts = torch.zeros(n_classes, dtype=torch.int64)
    for x, y in sessions:
        for index in torch.randperm(len(x)).split(batch):
            sums.index_add_(0, y[index], x[index].double())
            counts += torch.bincount(y[index], minlength=n_classes)


def bare_slda(sessions: Sessions, n_classes: int, batch: int) -> None:
    """Σ += dᵀd for every batch; a factorisation and its solution per session."""
    width = sessions[0][0].shape[1]
    scatter = torch.zeros(width, width, dtype=torch.float64)
    means = torch.zeros(n_classes, width, dtype=torch.float64)
    for x, _ in sessions:
        for index in torch.randperm(len(x)).split(batch):
            away = x[index].double()
            scatter.addmm_(away.T, away)
        sigma = scatter / len(x)
        sigma.diagonal().add_(0.1)
        torch.cholesky_solve(means.T, torch.linalg.cholesky(sigma))


def bare_ranpac(sessions: Sessions, n_classes: int, batch: int) -> None:
    """Projection, moments, factorisation."""
    width, size = sessions[0][0].shape[1], 2000
    projection = torch.randn(width, size)
    gram = torch.zeros(size, size, dtype=torch.float64)
    targets = torch.zeros(size, n_classes, dtype=torch.float64)
    for x, y in sessions:
        h = torch.relu(x @ projection).double()
        gram.addmm_(h.T, h)
        targets.index_add_(1, y, h.T)
        ridge = gram.clone()
        ridge.diagonal().add_(1e6)
        torch.cholesky_solve(targets, torch.linalg.cholesky(ridge))


def bare_exstream(sessions: Sessions, n_classes: int, batch: int) -> None:
    """Steps of Adam on 100 rows, 100 rows per new sample or one pass over 16 rows a class."""
    width, size, units = sessions[0][0].shape[1], 16, 350
    table, classes = torch.randn(n_classes * size, width), torch.arange(n_classes * size) // size
    layers = [nn.Linear(width, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(units, n_classes))
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    counts = torch.zeros(n_classes, dtype=torch.int64)
    for _, y in sessions:
        for index in torch.randperm(len(y)).split(batch):
            counts += torch.bincount(y[index], minlength=n_classes)
            rows = torch.randperm(int(counts.clamp(max=size).sum()))[: 100 * len(index)]
            for chosen in rows.split(100):
                loss = cross_entropy(net(table[chosen]), classes[chosen])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()


BARE: dict[str, tuple[Callable[[Sessions, int, int], None], dict[str, Any]]] = {
    "ncm": (bare_ncm, {}),
    "slda": (bare_slda, {}),
    "ranpac": (bare_ranpac, {"lam": 1e6}),
    "exstream": (bare_exstream, {}),
}


def learning(stream: Stream, name: str, settings: dict[str, Any]) -> float:
    """Seconds that the learner takes to learn the stream."""
    _, logs = run_stream(stream, make_learner(name, **settings), Seeds.of(0))
    return sum(log.learn_seconds for log in logs)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--learners", nargs="+", choices=BARE, default=list(BARE))
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| learner | learning, s | bare arithmetic, s | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or clusters(Path(folder) / "clusters.h5", 200)
        stream = build_stream(path, "incremental-class", sessions=args.sessions)
        sessions = [(s.x.tensor(), torch.from_numpy(s.y)) for s in stream.sessions]
        for name in args.learners:
            bare, settings = BARE[name]
            ours, theirs = [], []
            for _ in range(args.repeats):
                ours.append(learning(stream, name, settings))
                began = time.perf_counter()
                bare(sessions, stream.spec.n_classes, stream.observe_batch)
                theirs.append(time.perf_counter() - began)
            ratio = min(ours) / min(theirs)
            print(f"| {name} | {min(ours):.2f} | {min(theirs):.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
