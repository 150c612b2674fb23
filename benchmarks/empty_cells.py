"""What a cell costs beyond its learner: 2,000 cells that learn nothing, through the whole grid.

    python benchmarks/empty_cells.py [--cells 2000] [--engine local:2] [--profile FILE]

The learner answers the same for every sample of a tiny stream; a seed has twenty cells, which
differ by a setting, and a chance run. No offline references. Prints milliseconds a cell by the
clock, those of the driver's processor, and the driver's peak memory; with `--profile` where the
time of this process goes.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import pstats
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from embedbench.engines.engine import Engine
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.learning.footprint import Footprint
from embedbench.learning.learner import Learner, Tags
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec, Spec
from embedbench.studies.resolve import resolve
from embedbench.studies.set_options import parse_settings
from embedbench.studies.study import Study

SETTINGS = 20  # cells of a seed


@dataclass
class Constant(Learner):
    """Answers class `answer % C` always."""

    answer: int = 0
    tags: ClassVar[Tags] = Tags()

    def start(self, spec: Any, seeds: Any, device: str) -> None:
        self.n_classes = spec.n_classes

    def learn(self, session: Any, ctx: Any) -> dict[str, Any]:
        return {}

    def scores(self, x: torch.Tensor, *, session_id: torch.Tensor | None = None) -> torch.Tensor:
        column = torch.arange(self.n_classes) == self.answer % self.n_classes
        return column.float().expand(len(x), -1)

    def footprint(self) -> Footprint:
        return Footprint()


def tiny_file(folder: Path) -> str:
    """Ten classes of four training and two test samples in eight dimensions."""
    labels = np.repeat(np.arange(10), 6)
    samples = Samples(
        ids=np.array([f"s{i:02d}" for i in range(60)]),
        labels=labels,
        split=np.tile(np.repeat([TRAIN, TEST], [4, 2]), 10).astype(np.uint8),
        classes=tuple("abcdefghij"),
        parents=np.full(10, -1),
    )
    x = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    write_file(folder / "tiny.h5", samples, x, {})
    return str(folder / "tiny.h5")


def empty_cells(file: str, number: int) -> list[RunSpec]:
    """So many cells that learn nothing."""
    from empty_cells import Constant as Named  # by a name that workers can import

    name, seeds = "empty_cells:Constant", range(-(-number // SETTINGS))
    items = ["references=0", "protocol.sessions=5"]
    study = Study(
        files=((file,),),
        protocols=("incremental-class",),
        learners=(name,),
        seeds=tuple(seeds),
        set=parse_settings(items),
    )
    made = [
        dataclasses.replace(cell, learner=Spec(name, Named(answer=k)))
        for cell in resolve(study)
        for k in range(SETTINGS)
    ]
    return made[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--profile", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cells = empty_cells(tiny_file(Path(folder)), options.cells)
        profile = cProfile.Profile()
        began, worked = time.perf_counter(), time.process_time()
        if options.profile:
            profile.enable()
        outcome = run_grid(cells, Path(folder, "runs"), engine=Engine.parse(options.engine))
        profile.disable()
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
        made = len(list(Path(folder, "runs").rglob("record.json")))
    if outcome.failed:
        sys.exit(f"failed: {outcome.failed[0][1]}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{made} runs on {options.engine} in {seconds:.1f} s: {1000 * seconds / made:.1f} ms each"
    )
    print(f"the driver: {1000 * worked / made:.1f} ms of a core each, {peak:.0f} MiB at its peak")
    if options.profile:
        profile.dump_stats(options.profile)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
