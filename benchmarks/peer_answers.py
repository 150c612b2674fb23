"""An exported stream through other people's code.

It is that of Avalanche, PILOT, RanPAC's authors, Mammoth, or van de Ven et al. (2022).

    embedbench show FILE --protocol incremental-class --export DIR --features
    python benchmarks/peer_answers.py DIR OUT --method pilot-simplecil --checkout LAMDA-PILOT
    embedbench runs import OUT/pilot-simplecil.npz --stream DIR --name pilot-simplecil \
        --tool LAMDA-PILOT==2647455 --out RUNS
    python benchmarks/peer_answers.py DIR OUT --method pilot-simplecil --beside RUNS --ours ncm

OUT/METHOD.npz has the scores of all test samples after every session, OUT/METHOD.json the
tool's own accuracies. The features stand in the place of the tool's backbone. Initial weights,
order of samples and what is drawn from a memory are those of our learners, so that whatever still
differs is the method; with --own-draws the tool draws. An example to copy: it needs PyTorch, NumPy
and the tool, and nothing of embedbench.
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
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

Step = tuple[Tensor, float]  # scores (n, k) of all test samples, and the tool's own accuracy

# --- The stream ---


@dataclass
class Exported:
    """An exported stream; classes are numbered as they are learned (or by label)."""

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


def read_stream(directory: Path, by_label: bool = False) -> Exported:
    """Read what `embedbench show … --export DIR --features` wrote.

    With `by_label` the classes are numbered by their labels, as in our networks, so that sums over
    classes are rounded alike.
    """
    stream = json.loads((directory / "stream.json").read_text(encoding="utf-8"))
    features = np.load(directory / "features.npy", mmap_mode="r")
    introduced = [s["introduces"] for s in stream["sessions"]]
    order = np.concatenate(introduced)
    if by_label:
        order = np.sort(order)
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
    """The generator of our learners with this seed, in session `counter`.

    Our `ranpac` draws its projection from that of 0, and its splits from that of the session; a
    training on whole sessions draws the order of the samples from it, epoch after epoch.
    """
    state = np.random.SeedSequence([seed, counter]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def mlp_like_ours(stream: Exported, units: int) -> nn.Sequential:
    """Two hidden layers of ReLUs with the initial weights of our learners on this stream."""
    torch.manual_seed(stream.seeds["init"])
    single = {"dtype": torch.float32}  # in float64 other numbers would be drawn
    widths, parts = [stream.width, units, units], []
    for a, b in pairwise(widths):
        parts += [nn.Linear(a, b, **single), nn.ReLU()]
    net = nn.Sequential(*parts, nn.Linear(units, len(stream.order), **single))
    with torch.no_grad():  # our head has the classes in the order of their labels
        net[-1].weight.copy_(net[-1].weight[stream.order].clone())
        net[-1].bias.copy_(net[-1].bias[stream.order].clone())
    return net.to(torch.get_default_dtype())


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

KORNIA = (
    "",
    ".augmentation",
    ".augmentation.container",
    ".augmentation.container.params",
)


class DrawsOfMemory:
    """What our `er` and `derpp` draw online, in the place of `np.random` in Mammoth's buffer."""

    def __init__(self, seeds: dict[str, int]) -> None:
        self.seeds, self.step, self.offered = seeds, 0, 0

    def begin(self, n: int) -> None:
        """Draw for the step on the next batch, which has n samples."""
        self.chosen = np.random.default_rng([self.seeds["batches"], self.step])
        numbers = np.arange(self.offered, self.offered + n)
        kept = np.random.default_rng([self.seeds["memory"], self.offered])
        self.places = dict(zip(numbers, kept.integers(0, numbers + 1), strict=True))
        self.step += 1
        self.offered += n

    def choice(self, held: int, size: int, replace: bool) -> NDArray[np.int64]:
        """The stored samples that a step replays."""
        return self.chosen.choice(held, size, replace=replace, shuffle=False)

    def randint(self, low: int, high: int) -> int:
        """The place in the reservoir of sample number `high` - 1, which may be beyond its end."""
        return int(self.places[high - 1])


def through_mammoth(stream: Exported, args: argparse.Namespace) -> Iterator[Step]:
    """Mammoth's ER or DER++, one pass in batches of ten."""
    use_checkout(args.checkout, "datasets", "kornia.constants", *(f"kornia{m}" for m in KORNIA))
    here = Path.cwd()
    name = args.method.removeprefix("mammoth-")
    module: Any = importlib.import_module(f"models.{name}")
    evaluate = importlib.import_module("utils.evaluate").evaluate
    os.chdir(here)  # the import went into the checkout
    draws = DrawsOfMemory(stream.seeds)
    if not args.own_draws:
        vars(importlib.import_module("utils.buffer"))["np"] = SimpleNamespace(random=draws)
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
        non_verbose=True, debug_mode=False, eval_future=False, alpha=args.alpha, beta=args.beta,
    )  # fmt: skip
    net = mlp_like_ours(stream, args.units)
    np.random.seed(args.seed)  # noqa: NPY002  (with --own-draws Mammoth's buffer draws from it)
    kind = {"er": "Er", "derpp": "Derpp"}[name]
    model = getattr(module, kind)(net, nn.functional.cross_entropy, settings, None, dataset)
    model.to("cpu")
    for i, (x, y) in enumerate(stream.train):
        dataset.test_loaders.append(DataLoader(TensorDataset(*stream.test[i]), batch_size=1024))
        model.meta_begin_task(dataset)
        model.net.train()
        order = np.random.default_rng([stream.seeds["batches"], i]).permutation(len(y))
        for rows in torch.from_numpy(order).split(10):
            draws.begin(len(rows))
            model.meta_observe(x[rows], y[rows], x[rows])
        model.meta_end_task(dataset)
        accuracies, _ = evaluate(model, dataset)
        sizes = [len(y) for _, y in stream.test[: i + 1]]
        model.net.eval()
        with torch.no_grad():
            scores = model(stream.x)
        own = np.average(accuracies, weights=sizes) / 100
        yield (
            scores,
            np.nan if args.by_label else own,
        )  # theirs is among the first classes


# --- Avalanche ---


def shuffle_like_ours(generator: torch.Generator) -> None:
    """Let every loader that shuffles draw the order of its samples from `generator`."""

    def order(sampler: RandomSampler) -> Iterator[int]:
        return iter(torch.randperm(len(sampler), generator=generator).tolist())

    # replaced on purpose: Avalanche makes its loaders and samplers itself
    RandomSampler.__iter__ = order  # type: ignore[method-assign]  # as said above


def through_avalanche(stream: Exported, args: argparse.Namespace) -> Iterator[Step]:
    """Naive, Replay or EWC of Avalanche, which is a package and needs no checkout."""
    from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.models import IncrementalClassifier
    from avalanche.training import EWC, Naive, Replay
    from avalanche.training.plugins import EvaluationPlugin, EWCPlugin

    def experience(x: Tensor, y: Tensor) -> Any:
        return AvalancheDataset(
            [TensorDataset(x, y)],
            data_attributes=[DataAttribute(y.tolist(), "targets")],
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
        optimizer=torch.optim.Adam(net.parameters(), lr=args.lr, fused=True),  # as ours
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=args.minibatch,
        train_epochs=args.epochs,
        eval_mb_size=1024,
        evaluator=EvaluationPlugin(accuracy_metrics(stream=True), loggers=[]),
        **more,
    )
    for plugin in strategy.plugins:
        if isinstance(plugin, EWCPlugin) and args.fisher_batch:
            plugin.compute_importances = in_batches(plugin.compute_importances, args.fisher_batch)
    for i, session in enumerate(benchmark.train_stream):
        if not args.own_draws and args.method != "avalanche-replay":
            shuffle_like_ours(drawn_like_ours(stream.seeds["batches"], i))
        strategy.train(session, num_workers=0)
        numbers = strategy.eval(benchmark.test_stream[: i + 1], num_workers=0)
        net.eval()
        with torch.no_grad():
            scores = net(stream.x)
        yield (
            scores,
            next(v for k, v in numbers.items() if k.startswith("Top1_Acc_Stream/eval")),
        )


def in_batches(importances: Any, size: int) -> Any:
    """Avalanche's estimate of the Fisher information, from batches of another size."""

    def estimate(
        model: Any,
        criterion: Any,
        optimiser: Any,
        data: Any,
        device: Any,
        _: int,
        **more: Any,
    ) -> Any:
        return importances(model, criterion, optimiser, data, device, size, **more)

    return estimate


# --- van de Ven, Tuytelaars and Tolias ---

VAN_DE_VEN: dict[str, list[str]] = {  # options of their main.py
    "none": [],
    "ewc": ["--ewc", "--fisher-labels=true"],
    "si": ["--si"],
    "lwf": ["--lwf"],
    "er": ["--replay=buffer"],
    "agem": ["--agem"],
}


class MemoryOfOurs:
    """What our `er` and `agem` with a "random" memory draw, for van de Ven's memory sets.

    Ours go through the classes by label, theirs by the order in which they are learned.
    """

    def __init__(self, stream: Exported, per_class: int) -> None:
        self.stream, self.per_class, self.classes = stream, per_class, 0
        self.ranked: dict[int, NDArray[np.int64]] = {}  # the chosen samples of each class

    def choice(self, n: int, size: int, replace: bool) -> NDArray[np.int64]:
        """The samples that the memory keeps of the next class, which has n."""
        session = int(np.searchsorted(self.stream.ends, self.classes, side="right"))
        starts = [0, *self.stream.ends]
        if self.classes == starts[session]:
            seen = sum(len(y) for _, y in self.stream.train[:session])
            draw = np.random.default_rng([self.stream.seeds["memory"], seen])
            learned = self.stream.train[session][1]
            for label in sorted(self.stream.order[starts[session] : starts[session + 1]]):
                number = int(np.flatnonzero(self.stream.order == label)[0])
                self.ranked[number] = draw.permutation(int((learned == number).sum()))
        self.classes += 1
        return self.ranked[self.classes - 1][:size]

    def steps(self, session: int, n: int, size: int) -> list[list[int]]:
        """The stored samples that each of n steps of a session replays."""
        draw = np.random.default_rng([self.stream.seeds["batches"], session])
        by_label = np.argsort(self.stream.order[: self.classes])  # the classes in our order
        held = self.classes * self.per_class
        drawn = []
        for _ in range(n):
            chosen = draw.choice(held, min(size, held), replace=False, shuffle=False)
            place, rank = np.divmod(chosen, self.per_class)
            drawn.append((by_label[place] * self.per_class + rank).tolist())
        return drawn


def through_van_de_ven(stream: Exported, args: argparse.Namespace) -> Iterator[Step]:
    """Their main.py, whose images have one pixel and D channels, and no convolutions."""
    use_checkout(args.checkout, "visdom")
    main: Any = importlib.import_module("main")
    test_acc: Any = importlib.import_module("eval.evaluate").test_acc
    train, test = (
        [TensorDataset(x[:, :, None, None], y) for x, y in parts]
        for parts in (stream.train, stream.test)
    )
    config = {
        "size": 1,
        "channels": stream.width,
        "classes": len(stream.order),
        "output_units": len(stream.order),
        "classes_per_context": stream.ends[0],
        "normalize": False,
    }
    initialise, learn = main.define.init_params, main.train_cl
    steps: list[Step] = []

    def initialise_like_ours(model: nn.Module, settings: Any, **more: Any) -> None:
        initialise(model, settings, **more)
        ours = mlp_like_ours(stream, args.units)
        with torch.no_grad():
            for p, q in zip(model.parameters(), ours.parameters(), strict=True):
                p.copy_(q)

    def answer(model: Any, _: int, context: int) -> None:
        """What is called after each session, the `context`-th."""
        so_far = test[:context]
        own = [test_acc(model, part, test_size=None, verbose=False) for part in so_far]
        model.eval()
        with torch.no_grad():
            scores = model.classify(stream.x[:, :, None, None])
        model.train()
        accuracy = np.average(own, weights=[len(part) for part in so_far])
        steps.append((scores, float(accuracy)))

    def learn_and_answer(*given: Any, context_cbs: list[Any], **settings: Any) -> None:
        learn(*given, context_cbs=[*context_cbs, answer], **settings)

    main.get_context_set = lambda **_: ((train, test), config)
    main.define.init_params = initialise_like_ours
    main.train_cl = learn_and_answer
    if not args.own_draws:
        draw_like_ours(stream, args, train)
    args.out.mkdir(parents=True, exist_ok=True)
    sys.argv = [
        "main.py",
        *("--experiment=CIFAR100", "--scenario=class", f"--contexts={len(train)}"),
        *(
            "--depth=0",
            "--no-norm",
            "--no-gpus",
            "--no-save",
            f"--results-dir={args.out}",
        ),
        *(f"--iters={args.iters}", f"--batch={args.minibatch}", f"--lr={args.lr}"),
        *(
            f"--fc-units={args.units}",
            f"--budget={args.per_class}",
            f"--seed={args.seed}",
        ),
        f"--fisher-n={args.fisher_samples - 1}",  # they stop one sample later
        f"--active-classes={args.active_classes}",
        *VAN_DE_VEN[args.method.removeprefix("van-de-ven-")],
    ]
    main.run(main.handle_inputs())
    yield from steps


def draw_like_ours(stream: Exported, args: argparse.Namespace, train: list[TensorDataset]) -> None:
    """Let van de Ven's code take batches, memory sets and samples of the Fisher as ours does."""
    memory = MemoryOfOurs(stream, args.per_class)
    orders = [drawn_like_ours(stream.seeds["batches"], i) for i in range(len(train))]

    def batches(data: Any, batch_size: int, **_: Any) -> Any:
        """A session's samples in our order of this epoch, or what the steps of a session replay."""
        if data in train:
            order = torch.randperm(len(data), generator=orders[train.index(data)])
            return DataLoader(data, batch_size, sampler=order.tolist(), drop_last=True)
        session = int(np.searchsorted(stream.ends, memory.classes)) + 1
        drawn = memory.steps(session, args.iters, batch_size)
        return DataLoader(data, batch_sampler=drawn)

    def samples_of_fisher(data: Any, batch_size: int, **_: Any) -> Any:
        drawn = drawn_like_ours(stream.seeds["memory"], train.index(data))
        order = torch.randperm(len(data), generator=drawn)
        return DataLoader(data, batch_size, sampler=order.tolist())

    modules = (
        "train.train_task_based",
        "models.cl.continual_learner",
        "models.cl.memory_buffer",
    )
    training, regularised, stored = (vars(importlib.import_module(name)) for name in modules)
    training["get_data_loader"] = batches
    regularised["get_data_loader"] = samples_of_fisher
    stored["np"] = SimpleNamespace(random=memory, array=np.array)


# --- What all have in common ---

TOOLS = {
    "avalanche": through_avalanche,
    "mammoth": through_mammoth,
    "pilot": through_pilot,
    "ranpac": through_pilot,
    "van": through_van_de_ven,
}
METHODS = (
    *(f"avalanche-{m}" for m in ("naive", "replay", "ewc")),
    "mammoth-er",
    "mammoth-derpp",
    *(f"pilot-{m}" for m in ("simplecil", "ranpac", "ranpac-linear")),
    "ranpac-authors",
    *(f"van-de-ven-{m}" for m in VAN_DE_VEN),
)


def run(args: argparse.Namespace) -> None:
    """Learn the stream; write the scores, and the tool's own accuracies."""
    stream = read_stream(args.stream, args.by_label)
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
    parser.add_argument("--own-draws", action="store_true", help="the tool draws, not we for it")
    parser.add_argument(
        "--by-label",
        action="store_true",
        help="Mammoth, Avalanche: number classes by label",
    )
    parser.add_argument("--projections", type=int, default=1000, help="RanPAC")
    parser.add_argument("--units", type=int, default=400, help="networks")
    parser.add_argument("--lr", type=float, default=0.05, help="networks")
    parser.add_argument("--minibatch", type=int, default=64, help="networks")
    parser.add_argument("--memory", type=int, default=200, help="replay")
    parser.add_argument("--epochs", type=int, default=10, help="Avalanche")
    parser.add_argument("--head", choices=["all", "seen"], default="all", help="Avalanche")
    parser.add_argument("--ewc-lambda", type=float, default=100.0, help="Avalanche")
    parser.add_argument("--fisher-batch", type=int, default=0, help="Avalanche; 0: as it trains")
    parser.add_argument("--alpha", type=float, default=0.2, help="DER++")
    parser.add_argument("--beta", type=float, default=1.0, help="DER++")
    parser.add_argument("--iters", type=int, default=200, help="van de Ven: steps a session")
    parser.add_argument("--per-class", type=int, default=100, help="van de Ven: replay")
    parser.add_argument("--fisher-samples", type=int, default=1000, help="van de Ven: EWC")
    parser.add_argument("--active-classes", default="all", help="van de Ven: all, or all-so-far")
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
