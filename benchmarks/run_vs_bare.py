"""`run` against a bare PyTorch loop that does the same arithmetic on permuted MNIST.

    python benchmarks/run_vs_bare.py [mnist.h5]

The bare loop is what one writes for one experiment: permuted copies of the data, one `for` loop,
no protocol, no records. It starts with the same weights and gets the same batches. With the
optimiser of `run` it must therefore give the same answers; the share of equal answers is printed.

There are two comparisons, each under two stopping rules. "Memory to memory": from data in memory to
answers in memory. "File to files": `run` also verifies checksums, writes predictions.h5, scores it
and writes record.json; the bare loop reads the same file with h5py and saves its answers as npy.
"""

from __future__ import annotations

import copy
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from floors import Products, bare_products
from timing import in_turn, note, parse_options, print_head, print_row
from torch import Tensor
from torch.nn.functional import cross_entropy

from embedbench.api import build_stream, make_learner
from embedbench.config.run_seeds import Seeds, generator
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import NAdam
from embedbench.learning.stopping import Stop
from embedbench.runs.run_one import execute
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of, table_of
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings

LR, BATCH = 8e-4, 256
SEED = 0


@dataclass(frozen=True)
class Plan:
    """What both sides do: sessions of the stream, and epochs a session."""

    sessions: int
    epochs: int
    look: bool  # measure the validation loss after every epoch, and restore the best weights

    @property
    def stop(self) -> Stop:
        """The stopping rule that does exactly this."""
        if not self.look:
            return Stop(rule="epochs", epochs=self.epochs)
        return Stop(rule="patience", epochs=self.epochs, patience=self.epochs, min_steps=0)


@dataclass(frozen=True)
class Data:
    """The stream's data for a bare loop: (n, D) float32 and (n,) int64."""

    train: tuple[Tensor, Tensor]
    val: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    permutations: list[Tensor | None]

    @classmethod
    def of(cls, stream: Stream, table: Tensor, device: str = "cpu") -> Data:
        """Copy the parts of the protocol's split to a device."""
        first, test = stream.sessions[0], stream.eval_sets[0]
        parts = ((first.x, first.y), (first.val_x, first.val_y), (test.x, test.y))
        columns = [s.x.columns for s in stream.sessions]
        train, val, held = (
            (table[rows_of(x)].to(device), torch.from_numpy(y).to(device)) for x, y in parts
        )
        moved = [None if c is None else torch.from_numpy(c).to(device) for c in columns]
        return cls(train, val, held, moved)


def bare(
    data: Data, plan: Plan, nadam: Callable[..., torch.optim.Optimizer] = torch.optim.NAdam
) -> Tensor:
    """The bare loop; returns the answers after every session, (T, T · n_test)."""
    device = data.train[0].device
    net = mlp_net(data.train[0].shape[1], 400, 2, 10, Seeds.of(SEED).init).to(device)
    (x_train, y), (x_val, y_val), (x_test, _) = data.train, data.val, data.test
    tests = [x_test if p is None else x_test[:, p] for p in data.permutations]
    answers = []
    for t, p in enumerate(data.permutations):
        x = x_train if p is None else x_train[:, p]
        xv = x_val if p is None else x_val[:, p]
        optimiser = nadam(net.parameters(), lr=LR)
        draw = generator(Seeds.of(SEED).batches, t)  # only so that the batches are the same
        best, kept = float("inf"), None
        for _ in range(plan.epochs):
            net.train()
            for i in torch.split(torch.randperm(len(x), generator=draw).to(device), BATCH):
                optimiser.zero_grad()
                loss = cross_entropy(net(x[i]), y[i])
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                optimiser.step()
            if plan.look:
                net.eval()
                with torch.inference_mode():
                    value = float(cross_entropy(net(xv), y_val))
                if value <= best:
                    best, kept = value, copy.deepcopy(net.state_dict())
        if kept is not None:
            net.load_state_dict(kept)
        net.eval()
        with torch.inference_mode():
            answers.append(
                torch.cat([net(b).argmax(1) for x in tests for b in torch.split(x, 1024)])
            )
    return torch.stack(answers).cpu()


def loops(
    path: Path, plan: Plan, device: str = "cpu"
) -> tuple[Callable[[], Any], Callable[..., Tensor]]:
    """From data in memory to answers in memory, on a device: our side and the bare loop."""
    stream = build_stream(path, "permutation", seed=SEED, sessions=plan.sessions)
    data = Data.of(stream, table_of(stream.sessions[0].x).tensor("cpu"), device)
    learner = make_learner("mlp", stop=asdict(plan.stop))

    def ours() -> Any:
        return run_stream(stream, learner, Seeds.of(SEED), device)[0]

    return ours, partial(bare, data, plan)


def cells(path: Path, plan: Plan, out: Path) -> tuple[Callable[[], Any], Callable[[], None]]:
    """From file to files: our side and the bare loop."""
    stream = build_stream(path, "permutation", seed=SEED, sessions=plan.sessions)

    def ours() -> None:
        # a new path, so that no stored run is reused
        link = Path(tempfile.mkdtemp(dir=out)) / "mnist.h5"
        link.symlink_to(path.resolve())
        settings = parse_settings([f"protocol.sessions={plan.sessions}", "references=0"])
        what = {"protocols": ("permutation",), "learners": ("mlp",), "seeds": (SEED,)}
        (spec,) = resolve(Study(files=((str(link),),), set=settings, **what))
        spec = spec.with_settings(stop=asdict(plan.stop))
        runs = link.with_suffix(".runs")
        execute(make_task(spec, runs, StreamCache(), torch.get_num_threads()))

    def theirs() -> None:
        with h5py.File(path) as f:
            table = torch.from_numpy(f["features"][:].astype(np.float32, copy=False))
        np.save(out / "answers.npy", bare(Data.of(stream, table), plan).numpy())

    return ours, theirs


def main() -> None:
    """Measure and print a Markdown table."""
    parser = parse_options(__doc__, repeats=5, threads=2)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    from synthetic import mnist_like

    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        path = Path(args.file) if args.file else mnist_like(out / "mnist.h5")
        print(
            f"torch {torch.__version__}, {args.threads} threads, {platform.machine()}; "
            f"{args.sessions} sessions, {args.epochs} epochs each, {args.repeats} rounds\n"
        )
        heads = ("`run` s", "bare s", "ratio", "best `run`, bare s", "floor s", "same answers")
        print_head("from … to", "rule", *heads, "disturbed")
        for look in (False, True):
            plan = Plan(args.sessions, args.epochs, look)
            rule = "epochs" if not look else "validation every epoch, best weights kept"
            a, b = loops(path, plan)
            note("warm-up, and do both sides answer alike?")
            with Products() as products:
                answers = b(nadam=NAdam)
            same = float((torch.from_numpy(a().answer) == answers).double().mean())
            least = in_turn([bare_products(products)], args.repeats).best(0)
            for name, sides in (
                ("memory to memory", (a, b)),
                ("file to files", cells(path, plan, out)),
            ):
                rounds = in_turn(sides, args.repeats)
                times = rounds.median(0), rounds.median(1), rounds.ratio(0, 1)
                both = f"{rounds.best(0):.2f}, {rounds.best(1):.2f}"
                disturbed = f"{rounds.disturbed} of {args.repeats}"
                print_row(name, rule, *times, both, least, f"{100 * same:.2f} %", disturbed)


if __name__ == "__main__":
    main()
