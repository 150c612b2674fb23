"""`mlp` and `ewc` against Avalanche's Naive and EWC: same network, optimiser, batches, epochs.

    python benchmarks/run_vs_avalanche.py [mnist.h5] [--parts permuted classes]

It needs an environment that holds both (see benchmarks/README.md). Avalanche runs under its best
conditions: tensors in memory, split (and permuted) before the clock starts, no worker processes, no
loggers, one metric (accuracy per experience), and its fastest evaluation batch.
"""

from __future__ import annotations

import importlib.metadata
import platform
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from floors import EVERY_SAMPLE, Products, bare_products
from timing import in_turn, note, parse_options, print_head, print_row
from torch.utils.data import TensorDataset

from embedbench.api import build_stream, make_learner
from embedbench.config.run_seeds import Seeds
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream
from embedbench.streams.view import View

SEED = 0
LAM = 100.0  # λ/2 Σ F (θ - θ*)² here; in Avalanche λ' Σ F (θ - θ*)², so λ' = λ/2


@dataclass(frozen=True)
class Settings:
    """One learner on both sides: its title in the table, and its settings."""

    title: str
    learner: str
    optimiser: str
    lr: float
    batch: int
    ours: dict[str, Any]  # further settings in embedbench


SETTINGS = {
    "mlp": [Settings("mlp", "mlp", "nadam", 8e-4, 256, {})],
    "ewc": [
        Settings(
            "ewc, true labels of all samples",
            "ewc",
            "adam",
            2e-4,
            250,
            {"lam": LAM, "fisher": "empirical", "fisher_samples": EVERY_SAMPLE},
        ),
        Settings("ewc, our default Fisher", "ewc", "adam", 2e-4, 250, {"lam": LAM}),
    ],
}
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "nadam": torch.optim.NAdam,
    "adam": partial(torch.optim.Adam, fused=True),  # fused as here; by default Avalanche's is not
}


def ours(stream: Stream, settings: Settings, epochs: int) -> Any:
    """Run our side; returns its predictions."""
    learner = make_learner(
        settings.learner,
        optimiser=settings.optimiser,
        lr=settings.lr,
        batch_size=settings.batch,
        stop=asdict(Stop(rule="epochs", epochs=epochs)),
        **settings.ours,
    )
    return run_stream(stream, learner, Seeds.of(SEED))[0]


def scenario(stream: Stream) -> Any:
    """The stream as an Avalanche benchmark: one data set of tensors per experience."""
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute

    def dataset(x: View, y: np.ndarray[Any, Any]) -> Any:
        tensors = TensorDataset(x.tensor(), torch.from_numpy(y))
        targets = DataAttribute(y.tolist(), "targets")
        return AvalancheDataset([tensors], data_attributes=[targets])

    return benchmark_from_datasets(
        train=[dataset(s.x, s.y) for s in stream.sessions],
        test=[dataset(e.x, e.y) for e in stream.eval_sets],
    )


def sets_after(stream: Stream, i: int) -> int:
    """Eval sets that Avalanche answers after session i: all whose classes were seen."""
    return i + 1 if stream.sessions[-1].classes.size else len(stream.eval_sets)


def theirs(stream: Stream, data: Any, settings: Settings, epochs: int, eval_batch: int) -> float:
    """Run Avalanche's side; returns the mean accuracy over the experiences at the end."""
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.training.plugins import EvaluationPlugin
    from avalanche.training.supervised import EWC, Naive

    spec = stream.spec
    net = mlp_net(spec.input_shape[0], 400, 2, spec.n_classes, Seeds.of(SEED).init)
    fresh = partial(OPTIMISERS[settings.optimiser], lr=settings.lr)
    common: dict[str, Any] = {
        "model": net,
        "optimizer": fresh(net.parameters()),
        "criterion": torch.nn.CrossEntropyLoss(),
        "train_mb_size": settings.batch,
        "train_epochs": epochs,
        "eval_mb_size": eval_batch,
        "evaluator": EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
    }
    if settings.learner == "ewc":
        strategy = EWC(**common, ewc_lambda=LAM / 2, mode="separate")
    else:
        strategy = Naive(**common)
    for i, experience in enumerate(data.train_stream):
        strategy.optimizer = fresh(net.parameters())
        strategy.train(experience, num_workers=0)
        result = strategy.eval(data.test_stream[: sets_after(stream, i)], num_workers=0)
    reached = [v for k, v in result.items() if k.startswith("Top1_Acc_Exp")]
    return float(np.mean(reached))


def count(side: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Run a side once: what it returns, and its matrix products alone."""
    with Products() as products:
        result = side()
    return result, bare_products(products)


def measure(title: str, stream: Stream, epochs: int, eval_batch: int, repeats: int) -> None:
    """Print a table of all learners on one stream; Avalanche's side is timed once per learner."""
    print(f"\n**{title}**: {len(stream.sessions)} sessions, {epochs} epochs each\n")
    heads = ("here s", "Avalanche s", "times faster", "best s: here, Avalanche", "floor s")
    print_head("learner", *heads, "best / floor", "mean accuracy", "disturbed")
    data = scenario(stream)
    for learner, variants in SETTINGS.items():
        note(f"{title}, {learner}: warm-up")
        sides: list[Callable[[], Any]] = [partial(ours, stream, v, epochs) for v in variants]
        sides.append(partial(theirs, stream, data, variants[0], epochs, eval_batch))
        answers, products = zip(*map(count, sides), strict=True)
        means = [np.nanmean(a.score_matrix("accuracy").R[-1]) for a in answers[:-1]]
        mean = answers[-1]
        rounds, bare = in_turn(sides, repeats), in_turn(products, repeats)
        last = len(variants)
        for i, variant in enumerate(variants):
            a, b, least = rounds.best(i), rounds.best(last), (bare.best(i), bare.best(last))
            times = rounds.median(i), rounds.median(last), rounds.ratio(last, i)
            over = a / least[0], b / least[1]
            pairs = (f"{x:.2f}, {y:.2f}" for x, y in ((a, b), least, over))
            both, disturbed = f"{means[i]:.3f}, {mean:.3f}", f"{rounds.disturbed} of {repeats}"
            print_row(variant.title, *times, *pairs, both, disturbed)


def main() -> None:
    """Measure and print Markdown tables."""
    parser = parse_options(__doc__ or "", repeats=5, threads=2)
    parser.add_argument("--parts", nargs="+", default=["permuted", "classes"])
    parser.add_argument("--sessions", type=int, default=3, help="sessions of the permuted stream")
    parser.add_argument("--epochs", type=int, nargs=2, default=(2, 10), help="of the two parts")
    parser.add_argument("--eval-batch", type=int, default=1024, help="of Avalanche")
    args = parser.parse_args()
    from synthetic import clusters, mnist_like

    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    other = f"avalanche-lib {importlib.metadata.version('avalanche-lib')}, "
    print(
        f"{other}torch {torch.__version__}, {args.threads} threads, "
        f"{platform.machine()}; {args.repeats} rounds"
    )
    compare = partial(measure, eval_batch=args.eval_batch, repeats=args.repeats)
    with tempfile.TemporaryDirectory() as scratch:
        if "permuted" in args.parts:
            path = Path(args.file) if args.file else mnist_like(Path(scratch) / "mnist.h5")
            stream = build_stream(path, "permutation", seed=SEED, sessions=args.sessions)
            compare("Permuted MNIST", stream, args.epochs[0])
        if "classes" in args.parts:
            path = clusters(Path(scratch) / "classes.h5")
            stream = build_stream(path, "incremental-class", seed=SEED, base=100)
            title = "100 base classes + 50 of one class"
            compare(title, stream, args.epochs[1])


if __name__ == "__main__":
    main()
