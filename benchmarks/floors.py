"""Every learner's processor time over its arithmetic: the matrix products that it makes.

    python benchmarks/floors.py [mnist.h5] [--shapes permutations …] [--learners ewc …] [--toy]

A first run counts all products, of training, of EWC's Fisher information and of all answers, by
their shapes and memory layouts, and the steps of PyTorch's optimisers. Then the run, the bare
products, as many of each shape, and the bare steps take turns in this process; nothing else is
counted: no gathering of batches, no activation, no penalty, no factorisation, no compiled kernel.
So the ratio says little of learners without a network. Three shapes: permutations of MNIST's 784
values, two epochs; sessions of one class after 50 base classes, 1,280 features; 50 sessions of two
classes of five samples. Left out are learners that need layers, references, and where a stream does
not give a learner what it needs. A run of more than `LONG` seconds has fewer rounds.
"""

from __future__ import annotations

import copy
import math
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import in_turn, note, parse_options, print_head, print_row
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from embedbench.api import build_stream, make_learner, run
from embedbench.errors import UserError
from embedbench.learning import Learner
from embedbench.runs.learner_and_protocol_names import ALIASES, learner_class, learner_names
from embedbench.streams.stream import Stream

EVERY_SAMPLE, LONG = 10**9, 10.0
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {  # of a learner, beside its defaults
    "ewc": {
        "λ 100": {"lam": 100.0},
        "λ 100, true labels of all samples": {
            "lam": 100.0, "fisher": "empirical", "fisher_samples": EVERY_SAMPLE,
        },
    },
}  # fmt: skip
Operand = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides, type
FACTORS = {  # where the two factors are among the arguments of a product
    "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1,
    "addmm_": 1, "baddbmm_": 1, "addbmm": 1, "addbmm_": 1,
}  # fmt: skip


class Products(TorchDispatchMode):
    """Counts matrix products by their operands, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[Operand, Operand]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = FACTORS.get(func.overloadpacket.__name__)
        if first is not None:
            a, b = args[first : first + 2]
            self.counts[_operand(a), _operand(b)] += 1
        else:  # in inference mode `matmul`, `linear` and `einsum` come here whole
            with self:
                result = func.decompose(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))

    @property
    def flops(self) -> float:
        """Multiplications and additions of all products."""
        return sum(
            2.0 * n * math.prod(a[0]) * (b[0][-1] if len(b[0]) > 1 else 1)
            for (a, b), n in self.counts.items()
        )


def _operand(x: torch.Tensor) -> Operand:
    return tuple(x.shape), tuple(x.stride()), x.dtype


def make_operand(operand: Operand) -> torch.Tensor:
    """A random tensor of this form; one that repeats its memory becomes contiguous."""
    shape, strides, dtype = operand
    if any(size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True)):
        return torch.rand(shape, dtype=dtype)
    return torch.empty_strided(shape, strides, dtype=dtype).uniform_()


def bare_products(products: Products) -> Callable[[], None]:
    """All counted products and nothing else, on random numbers."""
    work = []
    for (a, b), n in products.counts.items():
        x, y = make_operand(a), make_operand(b)
        work.append((x, y, torch.matmul(x, y), n))

    def multiply() -> None:
        with torch.inference_mode():
            for x, y, out, n in work:
                for _ in range(n):
                    torch.matmul(x, y, out=out)

    return multiply


@contextmanager
def counted_steps() -> Iterator[dict[Any, list[Any]]]:
    """By kind and shapes of optimisers: a copy as the first step left it, and the steps made."""
    seen: dict[Any, list[Any]] = {}

    def count(optimiser: Optimizer, *_: Any) -> None:
        if isinstance(optimiser, torch.optim.LBFGS):  # its steps are products, which are counted
            return
        shapes = [p.shape for group in optimiser.param_groups for p in group["params"]]
        kind = type(optimiser), tuple(shapes)
        if kind not in seen:
            seen[kind] = [copy.deepcopy(optimiser), 0]
            for group in seen[kind][0].param_groups:
                for p in group["params"]:  # copies of parameters lack gradients
                    p.grad = torch.rand_like(p)
        seen[kind][1] += 1

    handle = register_optimizer_step_post_hook(count)
    try:
        yield seen
    finally:
        handle.remove()


def measured_learners() -> list[str]:
    """The names of all learners that learn embeddings, session by session."""
    names = [name for name in learner_names() if name not in ALIASES]
    tags = {name: learner_class(name).tags for name in names}
    return [n for n, t in tags.items() if t.learns and not (t.needs_layers or t.offline)]


def make(name: str, epochs: int, settings: dict[str, Any]) -> Learner:
    """A learner that stops after these epochs; without a rule where it has none."""
    try:
        return make_learner(name, stop={"rule": "epochs", "epochs": epochs}, **settings)
    except UserError:
        return make_learner(name, **settings)


def streams(
    folder: Path, mnist: str | None, toy: bool
) -> dict[str, tuple[Callable[[], Stream], int]]:
    """Shape → how its stream is made, and the epochs of a session."""
    from synthetic import clusters, mnist_like

    classes = 20 if toy else 100

    def permutations() -> Stream:
        path = mnist or mnist_like(folder / "mnist.h5", *((600, 100) if toy else (4_000, 600)))
        return build_stream(path, "permutation", sessions=2 if toy else 3)

    def wide(name: str, train: int, test: int, **how: int) -> Stream:
        path = clusters(folder / name, classes, train, test, noise=1.0, width=1280)
        return build_stream(path, "incremental-class", **how)

    return {
        "permutations": (permutations, 2),
        "one class": (partial(wide, "one.h5", 30, 10, base=classes // 2), 10),
        "few samples": (partial(wide, "few.h5", 5, 5, sessions=classes // 2), 10),
    }


def measure(shape: str, stream: Stream, title: str, learner: Learner, repeats: int) -> None:
    """Print the row of a learner: counted once, then timed beside its products."""
    note(f"{shape}: {title}")
    learn, began = partial(run, stream, learner, threads=torch.get_num_threads()), time.monotonic()
    try:
        with counted_steps() as optimisers, Products() as products:
            learn()
    except UserError as error:
        note(f"left out: {error}")
        return

    def step() -> None:
        for optimiser, steps in optimisers.values():
            for _ in range(steps):
                optimiser.step()

    repeats = max(1, min(repeats, int(repeats * LONG / (time.monotonic() - began))))
    rounds = in_turn([learn, bare_products(products), step], repeats, time.process_time)
    rate = products.flops / max(rounds.best(1), 1e-9) / 1e9
    seconds = [rounds.median(side) for side in range(3)]
    ratios = rounds.ratio(0, 1), seconds[0] / (seconds[1] + seconds[2])
    count, disturbed = f"{sum(products.counts.values()):,}", f"{rounds.disturbed} of {repeats}"
    print_row(shape, title, *seconds, *ratios, count, f"{rate:.0f}", disturbed)


def main() -> None:
    """Print one table."""
    parser = parse_options(__doc__ or "", repeats=3, threads=1)
    parser.add_argument("--shapes", nargs="+", help="the beginnings of their names")
    parser.add_argument("--learners", nargs="+", default=measured_learners())
    parser.add_argument("--toy", action="store_true", help="small; the figures mean nothing")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, {platform.machine()}\n")
    heads = ("s", "its products, s", "its optimiser, s", "over products", "over both")
    print_head("shape", "learner", *heads, "products", "GFLOP/s", "disturbed")
    with tempfile.TemporaryDirectory() as folder:
        for shape, (make_stream, epochs) in streams(Path(folder), args.file, args.toy).items():
            if args.shapes and not shape.startswith(tuple(args.shapes)):
                continue
            stream = make_stream()
            for name in args.learners:
                for how, settings in VARIANTS.get(name, {"": {}}).items():
                    learner, title = make(name, epochs, settings), f"{name}, {how}" if how else name
                    measure(shape, stream, title, learner, args.repeats)


if __name__ == "__main__":
    main()
