"""Decoding beside a card, without one: images a second that processes, threads and timm decode.

A backbone of no cost stands in for the card, so that decoding is all there is to wait for. Sides,
in turn, at the same number of workers:

- single cores: as many processes as workers, each of which decodes its share by itself and hands
  nothing over; the sum of their rates is what the cores can do;
- processes: as `extract` decodes beside a card;
- threads: as it does for little work, and for backbones from outside;
- loader: the same decoding in a `torch.utils.data.DataLoader`;
- timm: timm's data set and transform in a `DataLoader`, as one would write it.

    python benchmarks/decoding.py [--workers 1 2] [--rounds 3] [--kinds jpeg png webp]

Workers are warm, and a pass over all images counts. Printed are medians over the rounds: images a
second; their ratios to those of single cores and of timm in the same round; and milliseconds of
processors an image, of all processes of a side, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from timing import note, print_head, print_row
from torch.utils.data import DataLoader, Dataset

from embedbench.array_types import Array
from embedbench.extract.backbone import Backbone
from embedbench.extract.decoded_batch import DecodedUnit
from embedbench.extract.decoding_processes import DecodingProcesses, Opening
from embedbench.extract.extraction_work import compute_batches, decode_unit
from embedbench.extract.open_source import open_source
from embedbench.extract.pixel_policy import DEFAULT
from embedbench.extract.source import Content, Source
from embedbench.extract.timm_backbone import TimmInputs
from embedbench.system.cpu_threads import limit_threads

KINDS = {"jpeg": (500, 375, 2048), "png": (32, 32, 8192), "webp": (500, 375, 1024)}
BATCH, UNIT = 128, 32
SIDES = ("single cores", "processes", "threads", "loader", "timm")


class StandIn(Backbone):
    """A backbone whose forward pass costs nothing; its device is no CPU, as a card is none."""

    device = torch.device("meta")

    def __init__(self) -> None:
        from timm.data import create_transform

        self.backbone = {"name": "stand-in"}
        self.preprocessing = {}
        self.inputs = TimmInputs(create_transform(224, use_prefetcher=True), "RGB")

    def prepare(self, content: Content) -> Array:
        """Return an image of 224 pixels a side."""
        return self.inputs(content)

    def preparer(self) -> Callable[[Content], Array]:
        """Return the same without the backbone."""
        return self.inputs

    def forward(self, batch: Array) -> dict[str, torch.Tensor]:
        """Return zeros."""
        return {"features": torch.zeros(len(batch), 1)}


def write_images(folder: Path, kind: str, few: bool) -> int:
    """Write images of a kind in two classes, and return how many; each picture is there often."""
    wide, high, count = KINDS[kind]
    count = 64 if few else count
    draw = np.random.default_rng(0)
    for c in ("a", "b"):
        (folder / c).mkdir(parents=True)
    different = count // 16
    for i in range(count):
        path = folder / "ab"[i % 2] / f"{i:05d}.{kind}"
        if i >= different:
            path.hardlink_to(folder / "ab"[i % different % 2] / f"{i % different:05d}.{kind}")
            continue
        coarse = draw.integers(0, 256, (max(2, high // 12), max(2, wide // 12), 3), np.uint8)
        smooth = Image.fromarray(coarse).resize((wide, high), Image.Resampling.BICUBIC)
        noisy = np.asarray(smooth, np.float32) + draw.normal(0, 8, (high, wide, 3))
        Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(path, quality=90)
    return count


# --- the sides: each returns a function that goes over all images and returns images a second ---

Pass = Callable[[], float]


@dataclass
class Units(Dataset[DecodedUnit]):
    """Units of a source for a `DataLoader`."""

    source: Source
    backbone: StandIn

    def __len__(self) -> int:
        return len(self.source.ids) // UNIT

    def __getitem__(self, i: int) -> tuple[Any, torch.Tensor]:
        rows = range(i * UNIT, (i + 1) * UNIT)
        unit = decode_unit(self.source, rows, self.backbone, DEFAULT)
        assert unit.ready is not None
        return unit.samples, torch.from_numpy(unit.ready)


def share(folder: str, worker: int, workers: int) -> float:
    """In a process: images a second of one core alone."""
    source, backbone = open_source(folder), StandIn()
    units = range(worker, len(source.ids) // UNIT, workers)
    with limit_threads(1):
        began = time.perf_counter()
        for i in units:
            decode_unit(source, range(i * UNIT, (i + 1) * UNIT), backbone, DEFAULT)
        return len(units) * UNIT / (time.perf_counter() - began)


def single_cores(folder: str, workers: int, stack: ExitStack) -> Pass:
    """As many processes as workers, each with its share."""
    pools = [
        stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), os.setsid))
        for _ in range(workers)
    ]

    def go() -> float:
        rates = [pool.submit(share, folder, i, workers) for i, pool in enumerate(pools)]
        return sum(rate.result() for rate in rates)

    return go


def ours(folder: str, workers: int, stack: ExitStack, *, processes: bool) -> Pass:
    """As `extract` decodes beside a card."""
    source, backbone = open_source(folder), StandIn()
    batches = [range(i, i + BATCH) for i in range(0, len(source.ids), BATCH)]
    others = None
    if processes:
        opening = Opening(
            open_source=partial(open_source, folder),
            directory="/",
            samples=source.digest,
            policy=DEFAULT,
            backbone=backbone.backbone,
            prepare=backbone.inputs,
            threads=1,
        )
        others = DecodingProcesses(workers, opening)
        stack.callback(others.end)
        others.begin()
        others.wait()

    def go() -> float:
        began = time.perf_counter()
        for _ in compute_batches(source, batches, backbone, workers, processes=others):
            pass
        return len(source.ids) / (time.perf_counter() - began)

    return go


def own_session(_: int) -> None:
    """Make a worker the first of a session: Linux shares the cores among sessions."""
    os.setsid()


def loader(folder: str, workers: int) -> Pass:
    """Our decoding in a `DataLoader`: units, joined to batches as `extract` joins them."""
    source = open_source(folder)

    def batches(units: Iterator[Any]) -> None:
        waiting = []
        for _, ready in units:
            waiting.append(ready)
            if len(waiting) == BATCH // UNIT:
                torch.cat(waiting)
                waiting = []

    made: DataLoader[Any] = DataLoader(
        Units(source, StandIn()),
        batch_size=None,
        num_workers=workers,
        persistent_workers=True,
        worker_init_fn=own_session,
        prefetch_factor=4,
    )

    def go() -> float:
        began = time.perf_counter()
        batches(iter(made))
        return len(source.ids) / (time.perf_counter() - began)

    return go


def timm_loop(folder: str, workers: int) -> Pass:
    """What one would write."""
    from timm.data import add_img_extensions, create_dataset, create_transform

    add_img_extensions(".webp")  # which it does not look for by itself
    data = create_dataset("", root=folder)
    data.transform = create_transform(224)
    made: DataLoader[Any] = DataLoader(
        data,
        BATCH,
        num_workers=workers,
        persistent_workers=True,
        worker_init_fn=own_session,
    )

    def go() -> float:
        began = time.perf_counter()
        for _ in made:
            pass
        return len(data) / (time.perf_counter() - began)

    return go


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--few", action="store_true", help="to try the script itself")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print_head("images", "workers", "side", "images/s", "of single cores", "of timm", "ms")
    with tempfile.TemporaryDirectory() as scratch:
        for kind in args.kinds:
            folder = str(Path(scratch) / kind)
            write_images(Path(folder), kind, args.few)
            for workers in args.workers:
                compare(folder, kind, workers, args.rounds)


def compare(folder: str, kind: str, workers: int, rounds: int) -> None:
    """Print the rows of a kind of images at a number of workers."""
    with ExitStack() as stack:
        passes = {
            "timm": timm_loop(folder, workers),  # they fork before there are threads
            "loader": loader(folder, workers),
            "single cores": single_cores(folder, workers, stack),
            "processes": ours(folder, workers, stack, processes=True),
            "threads": ours(folder, workers, stack, processes=False),
        }
        for go in passes.values():
            go()
        rates: dict[str, list[float]] = {side: [] for side in SIDES}
        costs: dict[str, list[float]] = {side: [] for side in SIDES}
        count = len(open_source(folder).ids)
        for i in range(rounds):
            for side in SIDES if i % 2 == 0 else reversed(SIDES):
                before = busy_seconds()
                rates[side].append(passes[side]())
                costs[side].append(1000 * (busy_seconds() - before) / count)
            note(f"{kind}, {workers}: " + ", ".join(f"{s} {rates[s][-1]:.0f}" for s in SIDES))

    def ratio(side: str, other: str) -> float:
        pairs = zip(rates[side], rates[other], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    for side in SIDES:
        rate, cost = round(statistics.median(rates[side])), statistics.median(costs[side])
        ratios = ratio(side, "single cores"), ratio(side, "timm")
        print_row(kind, workers, side, rate, *ratios, cost)


def busy_seconds() -> float:
    """Seconds of processors that this process and its children have taken."""
    total = time.process_time()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


if __name__ == "__main__":
    main()
