"""Seconds of the closed-form learners, beside those of their matrix arithmetic alone.

    python benchmarks/run_closed_forms.py [FILE] [--learners randumb acil …] [--repeats 5]

Learning, `prepare` and the answers to all test samples are timed, in one pass over the training
samples in batches of --batch, without the runner. The bare side does the matrix products that the
method needs and nothing else, in the same precision, on blocks of the size that suits it best; it
forms no means, no labels and no distances. The sides run in turn, and the best of the repeats
counts, because other work on the machine can only make a side slower. Without FILE the data are
random numbers of CUB-200's shape: 5,994 training and 5,794 test samples, 2,048 features, 200
classes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from embedbench.api import build_stream, make_learner
from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Context
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import Session, StreamSpec
from embedbench.streams.view import View

BLOCK = 256
SIZE = 2000  # random features


class Data(NamedTuple):
    """Training and test samples, and the number of classes."""

    x: Tensor
    y: Tensor
    test: Tensor
    n_classes: int


def cub() -> Data:
    """Random numbers of CUB-200's shape."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(200, 2048, generator=draw)
    y = torch.arange(5994) % 200
    x = centres[y] + torch.randn(5994, 2048, generator=draw)
    return Data(x, y, torch.randn(5794, 2048, generator=draw), 200)


def data_of(path: Path) -> Data:
    """The samples of a file."""
    stream = build_stream(path, "incremental-class", sessions=1)
    (session,), sets = stream.sessions, stream.eval_sets
    test = torch.cat([e.x.tensor() for e in sets])
    return Data(session.x.tensor(), torch.from_numpy(session.y), test, stream.spec.n_classes)


def sums(data: Data) -> None:
    """Class sums; a product with the test samples."""
    total = torch.zeros(data.n_classes, data.x.shape[1], dtype=torch.float64)
    for x, y in blocks(data):
        total.index_add_(0, y, x.double())
    data.test @ total.float().T


def blocks(data: Data) -> zip[tuple[Tensor, Tensor]]:
    """Training samples and labels, block by block."""
    return zip(torch.split(data.x, BLOCK), torch.split(data.y, BLOCK), strict=True)


def second_moments(data: Data, projected: bool, batch: int = BLOCK) -> None:
    """Σ hᵀh in float64, its factor, a solution for every class; scores of the test samples."""
    width = data.x.shape[1]
    projection = torch.randn(width, SIZE) if projected else None

    def features(x: Tensor) -> Tensor:
        return x if projection is None else x @ projection

    size = SIZE if projected else width
    gram = torch.zeros(size, size, dtype=torch.float64)
    for x in torch.split(data.x, batch):
        h = features(x).double()
        gram.addmm_(h.T, h)
    gram.diagonal().add_(1.0)
    right = torch.zeros(size, data.n_classes, dtype=torch.float64)
    weights = torch.cholesky_solve(right, torch.linalg.cholesky(gram)).float()
    for x in torch.split(data.test, 1024):
        features(x) @ weights


def products(data: Data) -> None:
    """All products of test and training samples."""
    for x in torch.split(data.test, 1024):
        x @ data.x.T


def fecam(data: Data) -> None:
    """An SVD of every class; products of the test samples with its rows."""
    for c in range(data.n_classes):
        _, _, rows = torch.linalg.svd(data.x[data.y == c], full_matrices=False)
        data.test @ rows.T


BARE: dict[str, tuple[Callable[[Data], None], dict[str, Any]]] = {
    "ncm": (sums, {}),
    "slda": (lambda d: second_moments(d, False), {}),
    "randumb": (lambda d: second_moments(d, True), {"features": SIZE}),
    "acil": (lambda d: second_moments(d, True), {"projections": SIZE}),
    "ranpac": (lambda d: second_moments(d, True), {"projections": SIZE, "lam": 1e6}),
    "knn": (products, {}),
    "fecam": (fecam, {}),
}


def ours(data: Data, name: str, settings: dict[str, Any], batch: int) -> None:
    """Learn all training samples and answer all test samples."""
    learner = make_learner(name, **settings)
    learner.start(StreamSpec((data.x.shape[1],), data.n_classes), Seeds.of(0), "cpu")
    if learner.tags.online:
        for x, y in zip(torch.split(data.x, batch), torch.split(data.y, batch), strict=True):
            learner.observe(x, y)
    else:
        learner.learn(session(data), Context(validate=lambda _: float("nan")))
    learner.prepare()
    with torch.inference_mode():
        for x in torch.split(data.test, 1024):
            learner.scores(x)


def session(data: Data) -> Session:
    """All training samples as one session."""
    y, rows = data.y.numpy(), np.arange(len(data.y))
    view = View(Table(data.x.numpy()), rows, data.x.shape[1])
    none = view.select(rows[:0])
    return Session(view, y, none, y[:0], rows, np.unique(y))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--learners", nargs="+", choices=BARE, default=list(BARE))
    parser.add_argument("--batch", type=int, default=BLOCK, help="samples given at once")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, batches of {args.batch}\n")
    print("| learner | all, s | bare arithmetic, s | ratio |\n|---|---|---|---|")
    data = data_of(args.file) if args.file else cub()
    for name in args.learners:
        bare, settings = BARE[name]
        sides = partial(ours, data, name, settings, args.batch), partial(bare, data)
        rounds = [[seconds(side) for side in sides] for _ in range(args.repeats)]
        whole, floor = (min(times) for times in zip(*rounds, strict=True))
        print(f"| {name} | {whole:.2f} | {floor:.2f} | {whole / floor:.2f} |", flush=True)


def seconds(side: Callable[[], None]) -> float:
    """How long a side takes."""
    began = time.perf_counter()
    side()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
