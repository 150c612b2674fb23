"""An exported stream through Avalanche: its numbers, and the answers for `embedbench runs import`.

    embedbench show FILE --protocol incremental-class --export DIR --features
    python benchmarks/avalanche_answers.py DIR OUT [--methods naive replay ewc] [--head all]
    embedbench runs import OUT/replay.npz --stream DIR --name avalanche-replay \
        --tool avalanche-lib==0.6.0 --out RUNS
    python benchmarks/avalanche_answers.py DIR OUT --beside RUNS

An example to copy: it needs avalanche-lib, PyTorch and NumPy, and nothing of embedbench.
"""

from __future__ import annotations

import argparse
import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset


def read_list(path: Path) -> dict[str, NDArray[np.int64]]:
    """The integer columns of train.csv, val.csv or test.csv, (n,)."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return {k: np.array([int(line[k]) for line in lines]) for k in ("session", "row", "label")}


def benchmark_of(directory: Path, sessions: int) -> Any:
    """The stream as an Avalanche benchmark: one data set of tensors per experience."""
    from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute

    features = np.load(directory / "features.npy", mmap_mode="r")
    streams = {}
    for name in ("train", "test"):
        part, sets = read_list(directory / f"{name}.csv"), []
        for i in range(sessions):
            here = part["session"] == i
            x, y = features[part["row"][here]], part["label"][here]
            data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
            targets = DataAttribute(y.tolist(), "targets")
            sets.append(AvalancheDataset([data], data_attributes=[targets]))
        streams[name] = sets
    return with_classes_timeline(benchmark_from_datasets(**streams))


def strategy_of(method: str, width: int, n_classes: int, args: argparse.Namespace) -> Any:
    """A strategy of Avalanche with its metrics and without loggers."""
    from avalanche.evaluation.metrics import accuracy_metrics, bwt_metrics, forgetting_metrics
    from avalanche.models import IncrementalClassifier
    from avalanche.training import EWC, Naive, Replay
    from avalanche.training.plugins import EvaluationPlugin

    torch.manual_seed(args.seed)
    head = (
        torch.nn.Linear(args.units, n_classes)
        if args.head == "all"
        else IncrementalClassifier(args.units, initial_out_features=n_classes)
    )
    model = torch.nn.Sequential(torch.nn.Linear(width, args.units), torch.nn.ReLU(), head)
    kinds = {
        "naive": (Naive, {}),
        "replay": (Replay, {"mem_size": args.memory}),
        "ewc": (EWC, {"ewc_lambda": args.ewc_lambda}),
    }
    kind, more = kinds[method]
    return kind(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=args.lr),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=args.batch,
        train_epochs=args.epochs,
        eval_mb_size=1024,
        evaluator=EvaluationPlugin(
            accuracy_metrics(experience=True, stream=True),
            forgetting_metrics(experience=True, stream=True),
            bwt_metrics(stream=True),
            loggers=[],
        ),
        **more,
    )


def run(method: str, directory: Path, out: Path, args: argparse.Namespace) -> None:
    """Learn the stream; write OUT/METHOD.npz and Avalanche's numbers, OUT/METHOD.json."""
    stream = json.loads((directory / "stream.json").read_text())
    sessions, n_classes = len(stream["sessions"]), sum(map(len, stream["classes"]))
    benchmark = benchmark_of(directory, sessions)
    strategy = strategy_of(method, *stream["input_shape"], n_classes, args)
    rows = read_list(directory / "test.csv")["row"]
    x = torch.from_numpy(np.load(directory / "features.npy", mmap_mode="r")[rows])

    numbers, answers = [], {"stream": stream["digest"], "rows": rows}
    for i, experience in enumerate(benchmark.train_stream):
        strategy.train(experience, num_workers=0)
        numbers.append(strategy.eval(benchmark.test_stream[: i + 1], num_workers=0))
        strategy.model.eval()
        with torch.no_grad():
            answers[f"scores_after_{i}"] = strategy.model(x).numpy()
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / f"{method}.npz", **answers)
    (out / f"{method}.json").write_text(json.dumps(numbers, indent=1))
    print(f"{method}: Avalanche's accuracy after the last session {accuracy(numbers[-1]):.4f}")


def accuracy(numbers: dict[str, float], experience: int | None = None) -> float:
    """Avalanche's top-1 accuracy of a stream, or of one experience, among the results of `eval`."""
    if experience is None:
        return next(v for k, v in numbers.items() if k.startswith("Top1_Acc_Stream/eval"))
    name = f"Exp{experience:03d}"
    return next(v for k, v in numbers.items() if k.startswith("Top1_Acc_Exp/eval") and name in k)


def beside(method: str, directory: Path, out: Path, runs: Path) -> None:
    """Print Avalanche's numbers beside those of embedbench, from its record.json."""
    numbers = json.loads((out / f"{method}.json").read_text())
    (path,) = runs.glob(f"*/avalanche-{method}-*/seed-*/record.json")
    ours = json.loads(path.read_text())["by_score"]["accuracy"]
    for i, after in enumerate(numbers):
        mine = ours["pooled"][i], unmasked(directory, out / f"{method}.npz", i)
        row(method, f"accuracy after session {i}", accuracy(after), *mine)
    pairs = [(i, j) for i in range(len(numbers)) for j in range(i + 1)]
    worst = max(abs(accuracy(numbers[i], j) - ours["R"][i][j]) for i, j in pairs)
    row(method, "largest difference of an R[i, j]", worst)
    end = {k.partition("/")[0]: v for k, v in numbers[-1].items()}
    row(method, "StreamForgetting; -BWT", end["StreamForgetting"], -ours["metrics"]["bwt"])
    row(method, "–; average forgetting", float("nan"), ours["metrics"]["average_forgetting"])


def unmasked(directory: Path, answers: Path, session: int) -> float:
    """Accuracy on the sessions so far where any class of the stream may be the answer."""
    test = read_list(directory / "test.csv")
    here = test["session"] <= session
    with np.load(answers) as kept:
        best = kept[f"scores_after_{session}"][here].argmax(axis=1)
    return float((best == test["label"][here]).mean())


def row(method: str, what: str, *values: float) -> None:
    """Print one line of the table."""
    cells = ["–" if value != value else f"{value:.6f}" for value in values]
    print("| " + " | ".join([method, what, *cells, *[""] * (3 - len(cells))]) + " |")


def main() -> None:
    """Run Avalanche on an exported stream, or print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stream", type=Path, metavar="DIR")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--methods", nargs="+", default=["naive", "replay", "ewc"])
    parser.add_argument("--head", choices=["all", "seen"], default="all")
    parser.add_argument("--beside", type=Path, metavar="RUNS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--memory", type=int, default=200)
    parser.add_argument("--ewc-lambda", type=float, default=100.0)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if args.beside:
        print(
            "| method | what | Avalanche | embedbench | without the mask |\n|---|---|---|---|---|"
        )
    for method in args.methods:
        if args.beside:
            beside(method, args.stream, args.out, args.beside)
        else:
            run(method, args.stream, args.out, args)


if __name__ == "__main__":
    main()
