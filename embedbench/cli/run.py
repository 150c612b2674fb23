"""`embedbench run`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError
from embedbench.text.terminal import terminal_width

from . import completion
from .file_arguments import Expect, fixed_study
from .progress import bar, live
from .shared_options import (
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
from .table_options import show_rows, with_tables

if TYPE_CHECKING:
    from embedbench.engines.engine import Engine
    from embedbench.runs.grid_result import Outcome
    from embedbench.runs.prepared_run import StreamCache
    from embedbench.runs.run_spec import RunSpec
    from embedbench.studies.study import Study
    from embedbench.studies.study_runs import StudyPart

Files = Annotated[
    list[str] | None, typer.Argument(metavar="FILE", help="Embedding files or names, in order.")
]
Protocol = Annotated[
    str | None,
    typer.Option(help="See: embedbench list protocols.", autocompletion=completion.of("protocols")),
]
Learner = Annotated[
    list[str] | None,
    typer.Option(
        help="One or more, with commas or repeated.", autocompletion=completion.of("learners")
    ),
]
Out = Annotated[Path | None, typer.Option(metavar="RUNS", help="Directory of the run records.")]
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
Preset = Annotated[
    str | None,
    typer.Option(
        help="Settings by name, see embedbench list presets; or a file .toml.",
        autocompletion=completion.of("presets"),
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="STUDY", help="A study file; options go over what it says."),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="The study file may name installed code.")
]
SaveConfig = Annotated[
    Path | None,
    typer.Option(metavar="STUDY", help="Write this command as a study file, and run nothing."),
]
Tune = Annotated[list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01.")]
TuneSessions = Annotated[int, typer.Option(help="Sessions whose validation data decide.", min=1)]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Runs I, I+N, I+2N, … of the list, I from 1.")
]
BudgetMb = Annotated[
    float | None,
    typer.Option(
        help="Take as many exemplars as fit into this many MB.", min=0, max=1e9, callback=finite
    ),
]


@with_tables
def run(
    ctx: typer.Context,
    files: Files = None,
    protocol: Protocol = None,
    learner: Learner = None,
    out: Out = None,
    expect: Expect = None,
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
    config: Config = None,
    allow_code: AllowCode = False,
    save_config: SaveConfig = None,
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
    from .run_options import parse_study, save

    study = parse_study(ctx)
    if save_config is not None:
        save(study, save_config, overwrite)
        return
    if out is None:
        raise UserError("name a directory for the runs: --out RUNS")
    study = fixed_study(study, expect or (), quiet)
    work = _work(study, out, jobs, checkpoint, quiet)
    cells = _mine(work.all_cells(study, shard), shard)
    _report(work.carry_out(cells, overwrite), out, study.budget_mb, as_json)


def _work(study: Study, out: Path, jobs: int | None, checkpoint: float, quiet: bool) -> _Work:
    """Where and how the cells of a study are run."""
    from embedbench.runs.prepared_run import StreamCache

    pairs = [f"{name}={value}" for name, value in study.engine_set.items()]
    threads = study.threads or 1
    engine = chosen_engine(study.engine, study.resources, pairs, jobs=jobs, threads=threads)
    device = chosen_device(study.device or "auto", engine)
    if checkpoint > engine.seconds:
        raise UserError(
            f"--checkpoint {checkpoint:g} saves nothing in jobs of {engine.seconds:g} seconds; "
            "make it less, or give the jobs more (--engine-set time)"
        )
    return _Work(out, engine, threads, device, checkpoint, quiet, StreamCache())


def _mine(every: list[RunSpec], shard: str | None) -> list[RunSpec]:
    """The cells of this shard; ends the command if there are none."""
    from embedbench.studies.study import take_shard

    cells = take_shard(every, shard)
    if not cells:
        note(f"shard {shard} has none of the {len(every)} runs")
        raise typer.Exit
    return cells


@dataclass(frozen=True)
class _Work:
    """Where and how the cells are run."""

    out: Path
    engine: Engine
    threads: int
    device: str
    checkpoint: float
    quiet: bool
    workshop: StreamCache

    def all_cells(self, study: Study, shard: str | None) -> list[RunSpec]:
        """The cells of a study; what tuning chooses is in their settings."""
        from embedbench.studies.study import take_shard
        from embedbench.studies.study_runs import parts

        every = parts(study)
        for part in every:
            self._cells(part, [])  # what is wrong is refused before anything is tuned
        take_shard([], shard)
        return [cell for part in every for cell in self._choose(part)]

    def _cells(self, part: StudyPart, more: list[str]) -> list[RunSpec]:
        return part.cells(more, out=self.out, device=self.device, checkpoint=self.checkpoint)

    def _choose(self, part: StudyPart) -> list[RunSpec]:
        """The cells of a stream, with the settings that tuning and the budget choose."""
        from embedbench.studies.memory_budget import budget_items
        from embedbench.studies.tuned_settings import chosen_items, with_log
        from embedbench.studies.tuning import search

        tune = part.tune
        with bar("trials", self.quiet or not tune) as advance:
            logs = search(
                self._cells(part, []),
                tune,
                self.out,
                sessions=part.study.tune_sessions or 3,
                engine=self.engine,
                threads=self.threads,
                progress=advance,
                notify=note,
                workshop=self.workshop,
            )
        chosen = [item for log in logs for item in chosen_items(log)]
        budget = part.study.budget_mb
        chosen += budget_items(self._cells(part, chosen), budget, self.workshop)
        return [with_log(cell, logs) for cell in self._cells(part, chosen)]

    def carry_out(self, cells: list[RunSpec], overwrite: bool) -> Outcome:
        """Run the cells that are not finished."""
        from embedbench.runs.grid_scheduler import run_grid

        with live(self.out, self.quiet):
            return run_grid(
                cells,
                self.out,
                engine=self.engine.at_most(len(cells)),
                threads=self.threads,
                overwrite=overwrite,
                notify=note,
                learned=partial(_interim, self.out, self.quiet),
                workshop=self.workshop,
            )


def _interim(out: Path, quiet: bool, places: list[Path]) -> None:
    """Print the scores to stderr while their references are being made."""
    from embedbench.reports.result_tables import collect
    from embedbench.reports.terminal_tables import table_text

    if places and sys.stderr.isatty() and not quiet:
        rows = collect(out, places, lambda _: None)
        note(table_text(rows, width=terminal_width(sys.stderr)))
        note("now the references for Ω; if interrupted, the same command makes the rest\n")


def _report(outcome: Outcome, out: Path, budget_mb: float | None, as_json: bool) -> None:
    """Print the scores, and what failed; exit with an error if anything did."""
    from embedbench.reports.result_tables import collect
    from embedbench.scores.record_files import find
    from embedbench.studies.memory_budget import over_budget

    for cell, reason in outcome.failed:
        note(f"failed: {cell.learner} seed {cell.seed}: {reason}")
    over = over_budget(outcome.places, budget_mb)
    for sentence in over:
        note(sentence)
    if outcome.skipped:
        note(f"{outcome.skipped} finished runs were there and are kept")
    if outcome.elsewhere:
        note(f"{outcome.elsewhere} runs were finished by other processes meanwhile")
    failed = [{"learner": c.learner.name, "seed": c.seed, "reason": r} for c, r in outcome.failed]
    rows = collect(out, outcome.places)
    show_rows(rows, as_json, {"failed": failed, "over_budget": over})
    learned = [p for p in find(out) if not p.parent.name.startswith("chance-")] if rows else []
    if not {*outcome.places}.issuperset(learned):
        note(f"{out} has other runs; all side by side: embedbench report {shlex.quote(str(out))}")
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)
