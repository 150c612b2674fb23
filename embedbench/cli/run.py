"""`embedbench run`."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError

from .options import (
    Checkpoint,
    Device,
    EngineName,
    EngineSet,
    Jobs,
    Json,
    Overwrite,
    Quiet,
    ResourcesOf,
    Threads,
    chosen_device,
    chosen_engine,
    finite,
    note,
)
from .progress import bar, live

if TYPE_CHECKING:
    from embedbench.engines.engine import Engine
    from embedbench.runs.cell import Cell
    from embedbench.runs.outcome import Outcome
    from embedbench.runs.work import Workshop

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Embedding files, in order.")]
Protocol = Annotated[str, typer.Option(help="See: embedbench list protocols.")]
Learner = Annotated[str, typer.Option(help="One or more, with commas.")]
Out = Annotated[Path, typer.Option(metavar="RUNS", help="Directory of the run records.")]
Seed = Annotated[int | None, typer.Option(help="One seed (default 0).", min=0)]
Seeds = Annotated[str | None, typer.Option(help="Several: 0-4 or 0,2,5.")]
Vary = Annotated[
    str | None,
    typer.Option(help="order,init,batches,memory: seeds to vary one at a time, see --by seeds."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="ewc.lam=100, protocol.base=50, …")
]
Order = Annotated[str | None, typer.Option(help="natural, random, size or a file.")]
Trunk = Annotated[str | None, typer.Option(help="mlp, linear; for images resnet32, …")]
Weights = Annotated[str | None, typer.Option(help="Weights of the trunk: FILE, hub or shipped.")]
Augment = Annotated[str | None, typer.Option(help="Augmentation of images: crop-flip or timm.")]
Preset = Annotated[str | None, typer.Option(help="Settings by name: kemker, league.")]
Tune = Annotated[list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01.")]
TuneSessions = Annotated[int, typer.Option(help="Sessions whose validation data decide.", min=1)]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Cells I, I+N, I+2N, … of the list, I from 1.")
]
BudgetMb = Annotated[
    float | None,
    typer.Option(
        help="Take as many exemplars as fit into this many MB.", min=0, max=1e9, callback=finite
    ),
]


def run(
    files: Files,
    protocol: Protocol,
    learner: Learner,
    out: Out,
    seed: Seed = None,
    seeds: Seeds = None,
    vary: Vary = None,
    settings: Settings = None,
    order: Order = None,
    trunk: Trunk = None,
    weights: Weights = None,
    augment: Augment = None,
    preset: Preset = None,
    tune: Tune = None,
    tune_sessions: TuneSessions = 3,
    budget_mb: BudgetMb = None,
    shard: Shard = None,
    jobs: Jobs = None,
    engine: EngineName = None,
    resources: ResourcesOf = None,
    engine_set: EngineSet = None,
    threads: Threads = 1,
    device: Device = "auto",
    checkpoint: Checkpoint = 60.0,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run learners through a stream and store their answers. Run it again to resume."""
    from embedbench.runs.command import start_of_command
    from embedbench.runs.settings import share_of, trunk_items
    from embedbench.runs.work import Workshop

    learners = _names(learner)
    items = [*(settings or []), *([f"protocol.order={order}"] if order else [])]
    items += trunk_items(learners, trunk=trunk, weights=weights, augment=augment)
    who = chosen_engine(engine, resources, engine_set, jobs=jobs, threads=threads)
    where = chosen_device(device, who)
    drawn = _drawn(seed, seeds)
    line = start_of_command(files, protocol, out, preset, threads)
    asked = _Asked(
        files, protocol, learners, drawn, _names(vary or ""), items, preset, where, line, checkpoint
    )
    work = _Work(out, who, threads, quiet, Workshop())
    share_of([], shard)  # refused before anything is tuned
    every = work.choose(asked, tune or [], tune_sessions, budget_mb)
    cells = _mine(every, shard)
    _report(work.carry_out(cells, overwrite), out, budget_mb, as_json)


def _drawn(seed: int | None, seeds: str | None) -> str:
    """The seeds that `--seed` or `--seeds` names."""
    if seed is not None and seeds is not None:
        raise UserError("give --seed or --seeds, not both")
    return str(seed or 0) if seeds is None else seeds


def _mine(every: list[Cell], shard: str | None) -> list[Cell]:
    """The cells of this shard; ends the command if there are none."""
    from embedbench.runs.settings import share_of

    cells = share_of(every, shard)
    if not cells:
        note(f"shard {shard} has none of the {len(every)} cells")
        raise typer.Exit
    return cells


def _names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class _Asked:
    """What the command line asks for, before anything is tuned."""

    files: list[Path]
    protocol: str
    learners: list[str]
    seeds: str
    vary: list[str]
    items: list[str]
    preset: str | None
    device: str
    command: str
    checkpoint: float

    def cells(self, more: list[str]) -> list[Cell]:
        """All cells, with `more` settings."""
        from embedbench.runs.settings import parse_settings, plan
        from embedbench.seeds import parse_seeds

        return plan(
            [str(f) for f in self.files],
            self.protocol,
            self.learners,
            parse_seeds(self.seeds),
            settings=parse_settings([*self.items, *more], self.learners, self.preset),
            device=self.device,
            command=self.command,
            vary=self.vary,
            checkpoint=self.checkpoint,
        )


@dataclass(frozen=True)
class _Work:
    """Where and how the cells are run."""

    out: Path
    engine: Engine
    threads: int
    quiet: bool
    workshop: Workshop

    def choose(
        self, asked: _Asked, tune: list[str], sessions: int, budget_mb: float | None
    ) -> list[Cell]:
        """The cells, with the settings that tuning and the budget choose."""
        from embedbench.runs.budget import budget_items
        from embedbench.runs.tune import chosen_items, search, with_log

        with bar("trials", self.quiet or not tune) as advance:
            logs = search(
                asked.cells([]),
                tune,
                self.out,
                sessions=sessions,
                engine=self.engine,
                threads=self.threads,
                progress=advance,
                tell=note,
                workshop=self.workshop,
            )
        chosen = [item for log in logs for item in chosen_items(log)]
        chosen += budget_items(asked.cells(chosen), budget_mb, self.workshop)
        return [with_log(cell, logs) for cell in asked.cells(chosen)]

    def carry_out(self, cells: list[Cell], overwrite: bool) -> Outcome:
        """Run the cells that are not finished."""
        from embedbench.runs.grid import run_grid

        with live(self.out, self.quiet):
            return run_grid(
                cells,
                self.out,
                engine=self.engine.at_most(len(cells)),
                threads=self.threads,
                overwrite=overwrite,
                tell=note,
                learned=partial(_interim, self.out, self.quiet),
                workshop=self.workshop,
            )


def _interim(out: Path, quiet: bool, places: list[Path]) -> None:
    """Print the scores to stderr while their references are being made."""
    from embedbench.reports.collect import collect
    from embedbench.reports.text import table_text

    if places and sys.stderr.isatty() and not quiet:
        rows = collect(out, places, lambda _: None)
        note(table_text(rows, width=shutil.get_terminal_size().columns))
        note("the references are being made now; the whole table follows")


def _report(outcome: Outcome, out: Path, budget_mb: float | None, as_json: bool) -> None:
    """Print the scores, and what failed; exit with an error if anything did."""
    from embedbench.reports.collect import collect
    from embedbench.reports.text import print_report
    from embedbench.runs.budget import over_budget

    for cell, reason in outcome.failed:
        note(f"failed: {cell.learner} seed {cell.seed}: {reason}")
    for sentence in over_budget(outcome.places, budget_mb):
        note(sentence)
    if outcome.skipped:
        note(f"{outcome.skipped} finished cells were there and are kept")
    if outcome.elsewhere:
        note(f"{outcome.elsewhere} cells were finished by other processes meanwhile")
    failed = [{"learner": c.learner.name, "seed": c.seed, "reason": r} for c, r in outcome.failed]
    rows = collect(out, outcome.places)
    print_report(rows, as_json=as_json, extra={"failed": failed})
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)
