"""`run` on the card: the emoji league, permuted MNIST against a bare loop, parallel cells."""

from __future__ import annotations

import threading
import time
from functools import cache, partial
from pathlib import Path

import torch
from run_vs_bare import Plan, loops
from synthetic import mnist_like
from timing import in_turn

from embedbench.engines.engine import Engine
from embedbench.learning.optimisers import NAdam
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.learner_and_protocol_names import ALIASES
from embedbench.scores import record_files
from embedbench.scores.run_record import RunRecord
from embedbench.studies.presets import preset
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings
from embedbench.system.cpu_threads import cores
from embedbench.system.gpu_determinism import repeatable
from gpu_parts.step import Bench, Figure, Step

AIM = 1.15  # times the bare loop's seconds
NEAR = 1.0  # percentage points of final accuracy, card against CPU
AT_ONCE = (1, 2, 4, 8)
STORED = ("er", "derpp", "agem", "gdumb")  # in the league they store 20 exemplars per class
SETTINGS = ("protocol.sessions=11", "protocol.order=random")


def steps() -> list[Step]:
    """The bare loop, the league, then cells in parallel."""
    return [
        Step("runs/permuted/epochs", 30, partial(permuted, False)),
        Step("runs/permuted/validation", 30, partial(permuted, True)),
        Step("runs/emoji", 150, league),
        *(Step(f"runs/cells/{n}", 20 + 3 * n, partial(cells, n)) for n in AT_ONCE),
    ]


def permuted(look: bool, bench: Bench) -> list[Figure]:
    """Permuted MNIST's shape: `run` in memory against a bare loop with the same answers."""
    work = Plan(2, 1, look) if bench.toy else Plan(2, 2, look)
    run, bare = loops(mnist(bench.scratch, bench.toy), work, bench.device)
    with repeatable(bench.device):
        same = float((torch.from_numpy(run().answer) == bare(nadam=NAdam)).double().mean())
        rounds = in_turn((run, bare), 1 if bench.toy else 3)
    ratio = rounds.ratio(0, 1)
    rule = "validation every epoch, best weights kept" if look else "epochs"
    what = (
        f"permuted MNIST's shape, {work.sessions} sessions of {work.epochs} epochs, rule: {rule}; "
        "memory to memory against a bare loop"
    )
    figure = f"{rounds.median(0):.2f} s, {ratio:.2f} times"
    note = (
        f"bare {rounds.median(1):.2f} s; {100 * same:.2f} % of the answers equal, given our "
        f"NAdam; {rounds.disturbed} rounds disturbed"
    )
    values = {"ratio": ratio, "same": same}
    return [Figure(what, figure, f"{AIM} times", ratio <= AIM, note, values)]


@cache
def mnist(scratch: Path, toy: bool) -> Path:
    """A file of random numbers with MNIST's shape."""
    path = scratch / "mnist.h5"
    return mnist_like(path, 600, 100) if toy else mnist_like(path)


def league(bench: Bench) -> list[Figure]:
    """Every learner of the emoji league with its preset, on the card and on the CPU, one seed."""
    file, learners, jobs = "known:emoji-vit", ["mlp", "ncm"], {"cpu": 1, "card": 1}
    settings = [*SETTINGS, "mlp.stop.epochs=1"] if bench.toy else [*SETTINGS]
    if not bench.toy:
        from embedbench.extract import extract

        path = bench.scratch / "emoji.h5"
        if not path.exists():
            extract("demo", path, device=bench.device, notify=lambda sentence: None)
        file = str(path)
        every = list(dict.fromkeys(key.target for key in preset("league")))
        learners = [name for name in every if name not in ("offline", *ALIASES)]
        learners += [name for name in ("ncm", "fecam", "ranpac", "slda") if name not in every]
        settings += [f"{name}.memory.total=1760" for name in STORED if name in learners]
        jobs = {"cpu": cores(), "card": 4}
    study = Study(
        files=((file,),),
        protocols=("incremental-class",),
        learners=tuple(learners),
        preset="league",
        set=parse_settings(settings),
    )
    records: dict[str, dict[str, RunRecord]] = {}
    for side, device in (("cpu", "cpu"), ("card", bench.device)):
        outcome = run_grid(
            resolve(study, device=device),
            bench.scratch / f"league-{side}",
            engine=Engine(f"local:{jobs[side]}"),
        )
        if outcome.failed:
            cell, why = outcome.failed[0]
            raise RuntimeError(f"{len(outcome.failed)} cells failed on {device}, first "
                               f"{cell.learner}: {why}")  # fmt: skip
        records[side] = {r.learner: r for r in map(record_files.load, outcome.run_dirs)}
    return [_beside(name, records["cpu"][name], records["card"][name]) for name in learners]


def _beside(name: str, cpu: RunRecord, card: RunRecord) -> Figure:
    """The figure of one learner of the league."""
    final = [100 * r.metrics["final_accuracy"] for r in (cpu, card)]
    learned = [r.seconds.learn for r in (cpu, card)]
    off = final[1] - final[0]
    what = f"emoji league, {name}: final accuracy on the card against the CPU"
    note = (
        f"learning {learned[1]:.1f} s on the card beside three others, {learned[0]:.1f} s on the "
        "CPU with all cores busy"
    )
    values = {"cpu": final[0], "card": final[1], "seconds": learned}
    figure = f"{final[1]:.2f} %, {off:+.2f} points"
    return Figure(what, figure, f"within {NEAR:.0f} point", abs(off) <= NEAR, note, values)


def cells(n: int, bench: Bench) -> list[Figure]:
    """Wall seconds of `n` parallel cells on one card, with the start of their processes."""
    work = Plan(2, 1, False) if bench.toy else Plan(2, 10, False)
    settings = [f"protocol.sessions={work.sessions}", "mlp.stop.rule=epochs",
                f"mlp.stop.epochs={work.epochs}", "offline.mlp.stop.rule=epochs",
                "offline.mlp.stop.epochs=1"]  # fmt: skip
    study = Study(
        files=((str(mnist(bench.scratch, bench.toy)),),),
        protocols=("permutation",),
        learners=("mlp",),
        seeds=tuple(range(n)),
        set=parse_settings(settings),
    )
    planned = resolve(study, device=bench.device)
    out = bench.scratch / f"cells-{n}"
    references = [run for cell in planned for part in cell.offline_runs(1) for run in part]
    run_grid([*references, *(cell.chance_run() for cell in planned)], out)
    used = _Used(bench)
    began = time.perf_counter()
    outcome = run_grid(planned, out, engine=Engine(f"local:{n}"))
    seconds = time.perf_counter() - began
    if outcome.failed:
        raise RuntimeError(outcome.failed[0][1])
    learned = [record_files.load(place).seconds.learn for place in outcome.run_dirs]
    what = (
        f"{n} cells at once on one card: mlp, permuted MNIST's shape, {work.sessions} sessions "
        f"of {work.epochs} epochs"
    )
    figure = f"{seconds:.1f} s in all, {60 * n / seconds:.1f} cells a minute"
    started = "in this process" if n == 1 else "the start of their processes included"
    note = f"learning {sum(learned) / n:.1f} s a cell; {used.stop()}; {started}"
    return [Figure(what, figure, note=note, values={"seconds": seconds, "learn": learned})]


class _Used:
    """Peak memory of the card, used by any process; sampled ten times per second."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.most, self._go = bench, 0, True
        self._thread = threading.Thread(target=self._look, daemon=True)
        if bench.on_card:
            self._thread.start()

    def _look(self) -> None:
        while self._go:
            free, total = torch.cuda.mem_get_info(self.bench.device)
            self.most = max(self.most, total - free)
            time.sleep(0.1)

    def stop(self) -> str:
        """Stop sampling; return the peak as text."""
        self._go = False
        if not self.bench.on_card:
            return "no card"
        return f"most memory of the card in use {self.most / 2**20:,.0f} MB"
