"""Training on images: an epoch of ResNet-32 against a bare loop, and FR's paper schedule."""

from __future__ import annotations

import math
import statistics
import time
from contextlib import nullcontext
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from synthetic import cifar_images, cifar_layers
from torch.nn.functional import cross_entropy

from embedbench.api import build_stream, make_learner
from embedbench.config.run_seeds import Seeds, generator
from embedbench.learning.image_augmentation import Views
from embedbench.learning.learner import Context
from embedbench.learning.network import trunk_and_head
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.training_loop import train
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.run_record import SessionCosts
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of, table_of
from embedbench.system.gpu_determinism import repeatable
from gpu_parts.step import Bench, Figure, Step

AIM = 1.15  # times the bare loop's seconds
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bf16": {"amp": "bf16"},
    "channels-last": {"channels_last": True},
    "bf16-channels-last": {"amp": "bf16", "channels_last": True},
    "compile": {"compile": True},
    "all": {"amp": "bf16", "channels_last": True, "compile": True},
}
SEED, BATCH, LR, DECAY = 0, 128, 0.1, 2e-4
EPOCHS = 100  # of FR's paper schedule
FEW = {"epoch_samples": 2, "batch_classes": 4, "batch_samples": 4, "hidden": 8, "epochs": 1}


def steps() -> list[Step]:
    """The plain variant first, then FR, then the variants that could be faster."""
    made = {
        name: Step(f"images/resnet32/{name}", 100 if "compile" in chosen else 30,
                   partial(epoch, name))
        for name, chosen in VARIANTS.items()
    }  # fmt: skip
    plain = made.pop("plain")
    return [plain, Step("images/fr", 30, paper_schedule), *made.values()]


def epoch(variant: str, bench: Bench) -> list[Figure]:
    """Seconds per epoch of our loop and of a bare loop, with the same arithmetic.

    The bare loop is also timed with PyTorch's defaults, which do not repeat their bits.
    """
    stream = stream_of(bench.scratch, bench.toy)
    epochs = 2 if bench.toy else 3
    images = {"augment": "crop-flip", **VARIANTS[variant]}
    clocks, losses = {}, {}
    for name, side in {"ours": ours, "bare": bare, "defaults": bare}.items():
        with nullcontext() if name == "defaults" else repeatable(bench.device):
            clocks[name] = Clock(bench)
            losses[name] = side(stream, images, epochs, bench.device, bench.toy, clocks[name])
    seconds = {name: clock.epoch for name, clock in clocks.items()}
    ratio = seconds["ours"] / seconds["bare"]
    note = (
        f"bare {seconds['bare']:.2f} s, with PyTorch's defaults (TF32, any algorithm) "
        f"{seconds['defaults']:.2f} s; first epoch {clocks['ours'].first:.1f} s, bare "
        f"{clocks['bare'].first:.1f} s; last loss {losses['ours']:.4f}, bare "
        f"{losses['bare']:.4f}"
    )
    what = (
        f"ResNet-32, {variant}: an epoch of {len(stream.sessions[0].x):,} images of 32 x 32, "
        f"batches of {BATCH}, crop and flip, against a bare loop"
    )
    figure = f"{seconds['ours']:.2f} s, {ratio:.2f} times"
    values = {**seconds, "ratio": ratio}
    return [Figure(what, figure, f"{AIM} times", ratio <= AIM, note, values)]


class Clock:
    """Seconds of every epoch, measured when the card has finished."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.ends = bench, [time.perf_counter()]

    def tick(self) -> None:
        """Note the end of an epoch."""
        self.bench.wait()
        self.ends.append(time.perf_counter())

    @property
    def first(self) -> float:
        """Seconds of the first epoch, which warms up or compiles."""
        return self.ends[1] - self.ends[0]

    @property
    def epoch(self) -> float:
        """Median seconds of the epochs after the first."""
        return statistics.median(b - a for a, b in pairwise(self.ends[1:]))


def learner_of(images: dict[str, Any], epochs: int, toy: bool) -> Any:
    """A learner that trains for `epochs` epochs."""
    return make_learner(
        "mlp",
        trunk="resnet8" if toy else "resnet32",
        batch_size=BATCH,
        lr=LR,
        weight_decay=DECAY,
        optimiser="sgd",
        stop={"rule": "epochs", "epochs": epochs},
        images=images,
    )


def ours(
    stream: Stream, images: dict[str, Any], epochs: int, device: str, toy: bool, clock: Clock
) -> float:
    """Run our training loop; return the last epoch's mean loss."""
    learner, session = learner_of(images, epochs, toy), stream.sessions[0]
    learner.start(stream.spec, Seeds.of(SEED), device)
    an_epoch, done = -(-len(session.x) // BATCH), 0

    def stepped() -> None:
        nonlocal done
        done += 1
        if done % an_epoch == 0:
            clock.tick()

    table_of(session.x).tensor(device)  # moved there once, before the clock starts
    context = Context(validate=lambda _: math.nan)
    clock.ends = [time.perf_counter()]
    return float(train(learner, session, context, stepped=stepped)["train_loss"])


def bare(
    stream: Stream, images: dict[str, Any], epochs: int, device: str, toy: bool, clock: Clock
) -> float:
    """A loop as one would write it: bytes on the card, the same net, batches and optimiser."""
    learner, session, seeds = learner_of(images, epochs, toy), stream.sessions[0], Seeds.of(SEED)
    net = trunk_and_head(learner, stream.spec, seeds.init).to(device)
    optimiser = make_optimiser("sgd", net, lr=LR, weight_decay=DECAY)
    assert stream.spec.scaling is not None
    factor, offset = (torch.tensor(v, device=device)[:, None, None] for v in stream.spec.scaling)
    pixels = torch.from_numpy(table_of(session.x).values[rows_of(session.x)]).to(device)
    y = torch.from_numpy(session.y).to(device)
    draw, views = (generator(seeds.batches, *counters) for counters in ((0,), (0, 1)))
    net.train()
    clock.ends = [time.perf_counter()]
    for _ in range(epochs):
        total = torch.zeros((), device=device)
        order = torch.randperm(len(pixels), generator=draw).to(device)
        for index in torch.split(order, BATCH):
            x = pixels[index].permute(0, 3, 1, 2).float().contiguous() * factor + offset
            loss = cross_entropy(net(Views("crop-flip", views)(x)), y[index])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimiser.step()
            total += loss.detach() * len(index)
        clock.tick()
    return float(total) / len(pixels)


@cache
def stream_of(scratch: Path, toy: bool) -> Stream:
    """A stream of CIFAR-100's shape, all classes in one session."""
    sizes = (4, 40, 4) if toy else (100, 200, 10)
    path = cifar_images(scratch / "cifar.h5", *sizes)
    return build_stream(path, "incremental-class", base=sizes[0] // 2).merged()


def paper_schedule(bench: Bench) -> list[Figure]:
    """FR at the size of the paper's CIFAR-100: a few of the 100 epochs of the paper's schedule."""
    file = cifar_layers(bench.scratch / "fr.h5", *((6, 1) if bench.toy else ()))
    if not bench.toy:
        learn_fr(file, {"epochs": 1, "epoch_samples": 60}, bench.device)  # warms up
    settings = FEW if bench.toy else {"epochs": 3}
    logs = learn_fr(file, settings, bench.device)
    times = EPOCHS / settings["epochs"]
    each = [log.learn_seconds * times for log in logs]
    steps = sum(log.log["steps"] for log in logs) * times
    what = (
        f"FR, the paper's schedule at CIFAR-100's size, {len(logs)} sessions, {steps:,.0f} "
        "steps (scaled from a few epochs)"
    )
    figure = f"{sum(each) / 60:.1f} min, {sum(each) / len(each):,.0f} s a session"
    listed = ", ".join(f"{s:,.0f}" for s in each)
    note = f"seconds of each session: {listed}"
    return [Figure(what, figure, note=note, values={"seconds": each})]


def learn_fr(file: Path, settings: dict[str, int], device: str) -> list[SessionCosts]:
    """The logs of FR with these settings after nine sessions."""
    stream = build_stream(file, "fscil", base=60, way=5)
    _, logs = run_stream(stream, make_learner("fr", **settings), Seeds.of(SEED), device)
    return logs
