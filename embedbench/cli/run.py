"""The command run: learners on a stream, their answers stored as runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError
from embedbench.studies.study import Study
from embedbench.text.terminal_text import terminal_width

from . import shared_options as shared
from .command_output import note, show_regimes, show_rows, with_tables
from .file_arguments import Expect, fixed_study
from .progress_bar import bar
from .run_options import save_study, study_options
from .runs_status_view import live

if TYPE_CHECKING:
    from embedbench.engines.engine import Engine
    from embedbench.runs.grid_scheduler import Outcome
    from embedbench.runs.run_spec import RunSpec
    from embedbench.runs.stream_cache import StreamCache
    from embedbench.studies.resolve import Grid


@with_tables
@shared.taking(study=study_options)
def run(
    study: Study,
    out: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Directory of the run records.")
    ] = None,
    expect: Expect = None,
    save_config: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="Write this command as a study file, and run nothing."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Runs I, I+N, I+2N, … of the list, I from 1.")
    ] = None,
    checkpoint: shared.Checkpoint = 60.0,
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Run learners through a stream and store their answers. Run it again to resume."""
    if save_config is not None:
        save_study(study, save_config, overwrite)
        return
    if out is None:
        raise UserError("name a directory for the runs: --out RUNS")
    study = fixed_study(study, expect or (), quiet)
    runner = _make_runner(study, out, checkpoint, quiet)
    chosen = {name: runner.choose(each, shard) for name, each in _regimes(study, quiet).items()}
    specs = _mine(list(dict.fromkeys(chain(*chosen.values()))), shard)
    regimes = {
        name: [runner.streams.run_dir(spec, out) for spec in each]
        for name, each in (chosen if len(chosen) > 1 else {}).items()
    }
    _report(runner.run(specs, overwrite), out, study.budget_mb, as_json, regimes)


def _regimes(study: Study, quiet: bool) -> dict[str, Study]:
    """The study of each preset; a line says what each fixes."""
    from embedbench.studies.preset_regimes import split_regimes
    from embedbench.studies.presets import about

    regimes = split_regimes(study)
    for name in filter(None, () if quiet else regimes):
        note(f"preset {name}: {about(name)[0]}")
    return regimes


def _make_runner(study: Study, out: Path, checkpoint: float, quiet: bool) -> _GridRunner:
    """Make the runner of a study from its options."""
    from embedbench.runs.stream_cache import StreamCache

    settings = [f"{name}={value}" for name, value in study.engine_set.items()]
    threads = study.threads or 1
    engine = shared.chosen_engine(study.engine, study.resources, settings, threads)
    device = shared.chosen_device(study.device or "auto", engine)
    if checkpoint > engine.seconds:
        raise UserError(
            f"--checkpoint {checkpoint:g} saves nothing in jobs of {engine.seconds:g} seconds; "
            "make it less, or give the jobs more (--engine-set time)"
        )
    return _GridRunner(out, engine, threads, device, checkpoint, quiet, StreamCache())


def _mine(every: list[RunSpec], shard: str | None) -> list[RunSpec]:
    """The runs of this shard; ends the command if there are none."""
    from embedbench.studies.resolve import take_shard

    specs = take_shard(every, shard)
    if not specs:
        note(f"shard {shard} has none of the {len(every)} runs")
        raise typer.Exit
    return specs


@dataclass(frozen=True)
class _GridRunner:
    """Chooses the runs of a study and makes them, by an engine, in a directory."""

    out: Path
    engine: Engine
    threads: int
    device: str
    checkpoint: float
    quiet: bool
    streams: StreamCache

    def choose(self, study: Study, shard: str | None) -> list[RunSpec]:
        """The runs of a study, with the settings that tuning and the budget choose."""
        from embedbench.studies.exemplars_in_equal_bytes import fit_budget
        from embedbench.studies.resolve import grids, resolve, take_shard

        specs = resolve(study, out=self.out, device=self.device, checkpoint=self.checkpoint)
        take_shard([], shard)  # what is wrong is refused before anything is tuned
        tuned = grids(study, study.tune)
        chosen = []
        for _, stream in groupby(specs, lambda spec: (spec.files, spec.protocol)):
            runs = self._tune(list(stream), tuned, study)
            chosen += fit_budget(runs, study.budget_mb, self.streams)
        return chosen

    def _tune(self, specs: list[RunSpec], grids: Mapping[str, Grid], study: Study) -> list[RunSpec]:
        """The runs of a stream, with the settings that tuning chooses."""
        from embedbench.studies.tuning import search, unused_seeds

        with bar("trials", self.quiet or not grids) as advance:
            return search(
                specs,
                grids,
                self.out,
                sessions=study.tune_sessions or 3,
                seeds=study.tune_seeds or unused_seeds(study.seeds or (0,)),
                points=study.trials,
                engine=self.engine,
                threads=self.threads,
                progress=advance,
                notify=note,
                streams=self.streams,
            )

    def run(self, specs: list[RunSpec], overwrite: bool) -> Outcome:
        """Make the runs that are not finished."""
        from embedbench.runs.grid_scheduler import run_grid

        with live(self.out, self.quiet):
            return run_grid(
                specs,
                self.out,
                engine=self.engine.at_most(len(specs)),
                threads=self.threads,
                overwrite=overwrite,
                notify=note,
                learned=partial(_interim, self.out, self.quiet),
                streams=self.streams,
            )


def _interim(out: Path, quiet: bool, run_dirs: list[Path]) -> None:
    """Print the scores to stderr while their references are being made."""
    from embedbench.reports.tables_from_runs import collect
    from embedbench.reports.terminal_tables import table_text

    if run_dirs and sys.stderr.isatty() and not quiet:
        rows = collect(out, run_dirs, lambda _: None)
        note(table_text(rows, width=terminal_width(sys.stderr)))
        note("now the references for Ω; if interrupted, the same command makes the rest\n")


def _report(
    outcome: Outcome,
    out: Path,
    budget_mb: float | None,
    as_json: bool,
    regimes: Mapping[str, Sequence[Path]],
) -> None:
    """Print the scores, and what failed; exit with an error if anything did."""
    from embedbench.reports.tables_from_runs import collect
    from embedbench.scores.record_files import find
    from embedbench.studies.exemplars_in_equal_bytes import over_budget

    for spec, reason in outcome.failed:
        note(f"failed: {spec.learner} seed {spec.seed}: {reason}")
    over = over_budget(outcome.run_dirs, budget_mb)
    for sentence in over:
        note(sentence)
    if outcome.skipped:
        note(f"{outcome.skipped} finished runs were there and are kept")
    if outcome.elsewhere:
        note(f"{outcome.elsewhere} runs were finished by other processes meanwhile")
    failed = [{"learner": c.learner.name, "seed": c.seed, "reason": r} for c, r in outcome.failed]
    rows = collect(out, outcome.run_dirs)
    if regimes and not as_json:
        finished = {*outcome.run_dirs}
        each = {name: [d for d in dirs if d in finished] for name, dirs in regimes.items()}
        show_regimes(out, each, as_json, "seeds and samples")
        again = f"embedbench report {shlex.quote(str(out))}"
        note(f"each regime's own tables: {again}; this one again: {again} --by preset")
    else:
        show_rows(rows, as_json, {"failed": failed, "over_budget": over})
    learned = [p for p in find(out) if not p.parent.name.startswith("chance-")] if rows else []
    if not {*outcome.run_dirs}.issuperset(learned):
        note(f"{out} has other runs; all side by side: embedbench report {shlex.quote(str(out))}")
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)
