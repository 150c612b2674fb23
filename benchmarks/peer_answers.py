"""An exported stream through the code of Avalanche, PILOT, RanPAC's authors or Mammoth.

    embedbench show FILE --protocol incremental-class --export DIR --features
    python benchmarks/peer_answers.py DIR OUT --method pilot-simplecil --checkout LAMDA-PILOT
    embedbench runs import OUT/pilot-simplecil.npz --stream DIR --name pilot-simplecil \
        --tool LAMDA-PILOT==2647455 --out RUNS
    python benchmarks/peer_answers.py DIR OUT --method pilot-simplecil --beside RUNS --ours ncm

OUT/METHOD.npz has the scores of all test samples after every session, OUT/METHOD.json the
tool's own accuracies. The features stand in the place of the tool's backbone. An example to copy:
it needs PyTorch, NumPy and the tool, and nothing of embedbench.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

Step = tuple[Tensor, float]  # scores (n, k) of all test samples, and the tool's own accuracy

# --- The stream ---


@dataclass
class Exported:
    """An exported stream; the classes are numbered in the order in which they are learned."""

    digest: str
    ends: list[int]  # classes seen after each session
    order: NDArray[np.int64]  # (C,) label of each class
    train: list[tuple[Tensor, Tensor]]  # x (n, D) and y (n,) of each session
    test: list[tuple[Tensor, Tensor]]  # and of each eval set
    rows: NDArray[np.int64]  # (n,) row of each test sample
    seeds: dict[str, int]  # of our runs on this stream, for what is drawn the same

    @property
    def width(self) -> int:
        """D."""
        return self.train[0][0].shape[1]

    @property
    def x(self) -> Tensor:
        """All test samples, (n, D), those of later sessions too."""
        return torch.cat([x for x, _ in self.test])


def read_stream(directory: Path) -> Exported:
    """Read what `embedbench show … --export DIR --features` wrote."""
    stream = json.loads((directory / "stream.json").read_text(encoding="utf-8"))
    features = np.load(directory / "features.npy", mmap_mode="r")
    introduced = [s["introduces"] for s in stream["sessions"]]
    order = np.concatenate(introduced)
    place = np.argsort(order)  # label to number

    def parts(name: str) -> tuple[list[tuple[Tensor, Tensor]], NDArray[np.int64]]:
        with (directory / name).open(newline="", encoding="utf-8") as file:
            lines = [
                [int(line[k]) for k in ("session", "row", "label")] for line in csv.DictReader(file)
            ]
        session, rows, labels = np.array(lines).T
        x = torch.from_numpy(features[rows]).to(torch.get_default_dtype())
        y = torch.from_numpy(place[labels])
        here = [torch.from_numpy(session == i) for i in range(len(introduced))]
        return [(x[h], y[h]) for h in here], rows

    (train, _), (test, rows) = parts("train.csv"), parts("test.csv")
    ends = np.cumsum([len(labels) for labels in introduced]).tolist()
    return Exported(stream["digest"], ends, order, train, test, rows, stream["seeds"])


def drawn_like_ours(seed: int, counter: int) -> torch.Generator:
    """The generator from which our `ranpac` draws its projection (0) and its splits (session)."""
    state = np.random.SeedSequence([seed, counter]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def mlp_like_ours(stream: Exported, units: int) -> nn.Sequential:
    """Two hidden layers of ReLUs with the initial weights of our `er` on this stream."""
    torch.manual_seed(stream.seeds["init"])
    widths, parts = [stream.width, units, units], []
    for a, b in pairwise(widths):
        parts += [nn.Linear(a, b), nn.ReLU()]
    net = nn.Sequential(*parts, nn.Linear(units, len(stream.order)))
    with torch.no_grad():  # our head has the classes in the order of their labels
        net[-1].weight.copy_(net[-1].weight[stream.order].clone())
        net[-1].bias.copy_(net[-1].bias[stream.order].clone())
    return net


# --- A tool from a checkout ---


class Absent(type):
    """A module that is not needed: whatever is asked of it is an empty class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(name, (), {})


def use_checkout(path: Path, *unneeded: str) -> None:
    """Import from a checkout, with empty modules in the places of those that it does not need."""
    sys.path.insert(0, str(path))
    for name in unneeded:
        sys.modules[name] = Absent(name, (), {"__path__": []})  # type: ignore[assignment]  # stands in for a module


class Identity(nn.Identity):
    """The backbone: features are what it is given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out_dim = width


# --- PILOT, and RanPAC's authors, whose code is of the same build ---


class Rows(Dataset[Any]):
    """Samples in the form of PILOT's data sets."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y, self.labels = x, y, y.numpy()

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[int, Tensor, Tensor]:
        return i, self.x[i], self.y[i]


class Manager:
    """The stream in the place of PILOT's `DataManager`, in our `ranpac`'s order of samples."""

    def __init__(self, stream: Exported) -> None:
        self.stream, self.asked = stream, -1

    def get_task_size(self, task: int) -> int:
        """Classes that session `task` introduces."""
        self.asked = task
        return self.stream.ends[task] - ([0, *self.stream.ends][task])

    def get_total_classnum(self) -> int:
        """All classes."""
        return len(self.stream.order)

    def get_dataset(self, indices: Any, source: str, mode: str) -> Rows:
        """The present session's training samples, or the test samples of all sessions so far."""
        if source == "test":
            parts = self.stream.test[: self.asked + 1]
            return Rows(torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]))
        x, y = self.stream.train[self.asked]
        mixed = drawn_like_ours(self.stream.seeds["batches"], self.asked)
        order = torch.randperm(len(y), generator=mixed)
        return Rows(x[order], y[order])


def in_order(data: Rows, batch_size: int, shuffle: bool, num_workers: int) -> Any:
    """A loader that leaves the samples in the order that `Manager` gave them."""
    return DataLoader(data, batch_size=batch_size)


def stay_on_the_processor() -> None:
    """Let code that names the card run without one."""
    to = torch.Tensor.to

    def stay(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if kwargs.get("device") == "cuda" else to(tensor, *args, **kwargs)

    # replaced on purpose: the peers' code names the card
    torch.Tensor.to = stay  # type: ignore[assignment,method-assign]  # as said above
    for kind in (torch.Tensor, nn.Module):
        kind.cuda = lambda self: self  # type: ignore[assignment]  # as said above


def through_pilot(stream: Exported, args: argparse.Namespace) -> Iterator[Step]:
    """SimpleCIL and RanPAC of PILOT, and RanPAC's authors' code."""
    authors = args.method == "ranpac-authors"
    layers = "timm.models.layers"
    use_checkout(args.checkout, "timm", "timm.models", layers, f"{layers}.weight_init")
    inc_net = importlib.import_module("inc_net" if authors else "utils.inc_net")
    name = "RanPAC" if authors else f"models.{args.method.removeprefix('pilot-').split('-')[0]}"
    module: Any = importlib.import_module(name)
    vars(inc_net)["get_convnet" if authors else "get_backbone"] = lambda *_: Identity(stream.width)
    if not args.own_draws:
        module.DataLoader = in_order
    module.num_workers = 0
    if authors:
        stay_on_the_processor()
    learner = module.Learner(pilot_settings(stream, args, authors))
    learner._init_train = lambda *_: None  # there is no backbone to train
    learner.is_dil = learner.dil_init = False  # in the authors' code `trainer.py` sets them
    manager = Manager(stream)
    drawn = torch.randn(
        (stream.width, args.projections),
        generator=drawn_like_ours(stream.seeds["init"], 0),
        dtype=torch.float32,
    )
    randn = torch.randn
    for _ in stream.ends:
        if not args.own_draws:  # their only call is that for W_rand
            torch.randn = lambda *_: drawn.to(stream.x.dtype)  # type: ignore[assignment]  # injected
        learner.incremental_train(manager)
        torch.randn = randn  # type: ignore[assignment]  # put back
        own = learner.eval_task()[0]
        learner.after_task()
        net = learner._network.eval()
        with torch.no_grad():
            if args.method == "pilot-ranpac-linear":
                scores = torch.relu(stream.x @ net.W_rand) @ net.fc.weight.T
            else:
                scores = net(stream.x)["logits"]
        yield scores, float(own if authors else own["top1"]) / 100


def pilot_settings(stream: Exported, args: argparse.Namespace, authors: bool) -> dict[str, Any]:
    """The settings that the tool reads from its JSON; nothing is tuned, no backbone is trained."""
    return {
        "model_name": "ncm" if authors else "",
        "convnet_type": "vit",
        "backbone_type": "vit",
        "memory_size": 0,
        "device": [torch.device("cpu")],
        "init_cls": stream.ends[0],
        "increment": max(1, stream.ends[1] - stream.ends[0]),
        "nb_classes": len(stream.order),
        "batch_size": 48,
        "init_lr": 0.01,
        "weight_decay": 0.0005,
        "min_lr": 0,
        "optimizer": "sgd",
        "tuned_epoch": 0,
        "use_RP": True,
        "M": args.projections,
    }


# --- Mammoth ---

KORNIA = ("", ".augmentation", ".augmentation.container", ".augmentation.container.params")


def through_mammoth(stream: Exported, args: argparse.Namespace) -> Iterator[Step]:
    """Mammoth's ER, one pass in batches of ten, with our initial weights and order of samples."""
    use_checkout(args.checkout, "datasets", "kornia.constants", *(f"kornia{m}" for m in KORNIA))
    here = Path.cwd()
    model = importlib.import_module("models.er")
    evaluate = importlib.import_module("utils.evaluate").evaluate
    os.chdir(here)  # the import went into the checkout
    starts = [0, *stream.ends]
    dataset: Any = SimpleNamespace(
        N_CLASSES=len(stream.order),
        N_TASKS=len(stream.ends),
        N_CLASSES_PER_TASK=np.diff(starts).tolist(),
        SETTING="class-il",
        test_loaders=[],
        get_loss=lambda: nn.functional.cross_entropy,
    )
    dataset.get_offsets = lambda task=None: (
        starts[len(dataset.test_loaders) - 1 if task is None else task],
        starts[len(dataset.test_loaders) if task is None else task + 1],
    )
    settings = SimpleNamespace(
        lr=args.lr, optimizer="sgd", optim_wd=0.0, optim_mom=0.0, optim_nesterov=False,
        buffer_size=args.memory, minibatch_size=args.minibatch, label_perc=1, nowand=1,
        non_verbose=True, debug_mode=False, eval_future=False,
    )  # fmt: skip
    net = mlp_like_ours(stream, args.units)
    np.random.seed(args.seed)  # noqa: NPY002  (Mammoth's buffer draws from it)
    er = model.Er(net, nn.functional.cross_entropy, settings, None, dataset)
    er.to("cpu")
    for i, (x, y) in enumerate(stream.train):
        dataset.test_loaders.append(DataLoader(TensorDataset(*stream.test[i]), batch_size=1024))
        er.meta_begin_task(dataset)
        er.net.train()
        order = np.random.default_rng([stream.seeds["batches"], i]).permutation(len(y))
        for rows in torch.from_numpy(order).split(10):
            er.meta_observe(x[rows], y[rows], x[rows])
        er.meta_end_task(dataset)
        accuracies, _ = evaluate(er, dataset)
        sizes = [len(y) for _, y in stream.test[: i + 1]]
        er.net.eval()
        with torch.no_grad():
            yield er(stream.x)[:, : stream.ends[i]], np.average(accuracies, weights=sizes) / 100


# --- Avalanche ---


def through_avalanche(stream: Exported, args: argparse.Namespace) -> Iterator[Step]:
    """Naive, Replay or EWC of Avalanche, which is a package and needs no checkout."""
    from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.models import IncrementalClassifier
    from avalanche.training import EWC, Naive, Replay
    from avalanche.training.plugins import EvaluationPlugin

    def experience(x: Tensor, y: Tensor) -> Any:
        return AvalancheDataset(
            [TensorDataset(x, y)], data_attributes=[DataAttribute(y.tolist(), "targets")]
        )

    parts = {"train": stream.train, "test": stream.test}
    benchmark = with_classes_timeline(
        benchmark_from_datasets(**{k: [experience(*p) for p in v] for k, v in parts.items()})
    )
    net = mlp_like_ours(stream, args.units)
    if args.head == "seen":
        net[-1] = IncrementalClassifier(args.units, initial_out_features=len(stream.order))
    kind, more = {
        "naive": (Naive, {}),
        "replay": (Replay, {"mem_size": args.memory}),
        "ewc": (EWC, {"ewc_lambda": args.ewc_lambda}),
    }[args.method.removeprefix("avalanche-")]
    torch.manual_seed(args.seed)
    strategy = kind(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=args.lr),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=args.minibatch,
        train_epochs=args.epochs,
        eval_mb_size=1024,
        evaluator=EvaluationPlugin(accuracy_metrics(stream=True), loggers=[]),
        **more,
    )
    for i, session in enumerate(benchmark.train_stream):
        strategy.train(session, num_workers=0)
        numbers = strategy.eval(benchmark.test_stream[: i + 1], num_workers=0)
        net.eval()
        with torch.no_grad():
            scores = net(stream.x)
        yield scores, next(v for k, v in numbers.items() if k.startswith("Top1_Acc_Stream/eval"))


# --- What all have in common ---

TOOLS = {
    "avalanche": through_avalanche,
    "mammoth": through_mammoth,
    "pilot": through_pilot,
    "ranpac": through_pilot,
}
METHODS = (
    *(f"avalanche-{m}" for m in ("naive", "replay", "ewc")),
    "mammoth-er",
    *(f"pilot-{m}" for m in ("simplecil", "ranpac", "ranpac-linear")),
    "ranpac-authors",
)


def run(args: argparse.Namespace) -> None:
    """Learn the stream; write the scores, and the tool's own accuracies."""
    stream = read_stream(args.stream)
    answers: dict[str, Any] = {"stream": stream.digest, "rows": stream.rows}
    accuracies = []
    torch.manual_seed(args.seed)
    for i, (scores, accuracy) in enumerate(TOOLS[args.method.split("-")[0]](stream, args)):
        whole = np.full((len(scores), len(stream.order)), -np.inf)
        whole[:, stream.order[: scores.shape[1]]] = scores.numpy()
        answers[f"scores_after_{i}"] = whole
        accuracies.append(float(accuracy))
    args.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(args.out / f"{args.method}.npz", **answers)
    (args.out / f"{args.method}.json").write_text(json.dumps(accuracies))
    print(f"{args.method}: its own accuracy after the last session {accuracies[-1]:.4f}")


def print_beside(args: argparse.Namespace) -> None:
    """After each session: the tool's accuracy, ours of its answers, and who answers the same."""
    import h5py

    theirs = json.loads((args.out / f"{args.method}.json").read_text())
    digest = json.loads((args.stream / "stream.json").read_text())["digests"]["train"]
    found: dict[str, Any] = {}
    for record in args.beside.glob("*/*/seed-*/record.json"):
        read = json.loads(record.read_text())
        if read["digests"]["train"] == digest:
            found[read["learner"]] = read, record.with_name("predictions.h5")
    both = [found[name] for name in (args.name or args.method, args.ours) if name]
    answers = []
    for _, path in both:
        with h5py.File(path) as file:
            answers.append(file["answer"][:])
    ours = [args.ours, "same answers"] if args.ours else []
    columns = ["after session", f"{args.method}: its own", "from its scores", *ours]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    pooled = [record["by_score"]["accuracy"]["pooled"] for record, _ in both]
    same = [(answers[0] == answers[1]).mean(axis=1)] if args.ours else []
    for i, values in enumerate(zip(theirs, *pooled, *same, strict=True)):
        print("| " + " | ".join([str(i), *(f"{v:.4f}" for v in values)]) + " |")


def main() -> None:
    """Run a tool on an exported stream, or print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stream", type=Path, metavar="DIR")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--checkout", type=Path, help="the tool's work tree")
    parser.add_argument("--beside", type=Path, metavar="RUNS")
    parser.add_argument("--ours", metavar="LEARNER", help="with --beside: whose answers")
    parser.add_argument("--name", help="with --beside: the imported run, if not METHOD")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--float64", action="store_true", help="compute in float64")
    parser.add_argument("--own-draws", action="store_true", help="RanPAC: the tool draws itself")
    parser.add_argument("--projections", type=int, default=1000, help="RanPAC")
    parser.add_argument("--units", type=int, default=400, help="networks")
    parser.add_argument("--lr", type=float, default=0.05, help="networks")
    parser.add_argument("--minibatch", type=int, default=64, help="networks")
    parser.add_argument("--memory", type=int, default=200, help="replay")
    parser.add_argument("--epochs", type=int, default=10, help="Avalanche")
    parser.add_argument("--head", choices=["all", "seen"], default="all", help="Avalanche")
    parser.add_argument("--ewc-lambda", type=float, default=100.0, help="Avalanche")
    args = parser.parse_args()
    args.stream, args.out = args.stream.resolve(), args.out.resolve()
    if args.checkout:
        args.checkout = args.checkout.resolve()
    torch.set_num_threads(1)
    if args.float64:
        torch.set_default_dtype(torch.float64)
    if args.beside:
        print_beside(args)
    else:
        run(args)


if __name__ == "__main__":
    main()
