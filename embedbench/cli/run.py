"""The command run: learners on a stream, their answers stored as runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.errors import UserError

from . import shared_options as shared
from .command_output import bar, note, regime_tables, run_tables, show_tables
from .run_options import StudyOptions, save_study
from .runs_commands import live
from .shared_options import Expect, chosen_form, fixed_study

if TYPE_CHECKING:
    from embedbench.engines.engine import Engine
    from embedbench.runs.grid_scheduler import Outcome
    from embedbench.runs.run_spec import RunSpec
    from embedbench.runs.stream_cache import StreamCache
    from embedbench.studies.study import Study


@shared.taking(options=StudyOptions, form=chosen_form)
def run(
    options: StudyOptions,
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
    form: str = "text",
    quiet: shared.Quiet = False,
) -> None:
    """Run learners through a stream and store their answers. Run it again to resume."""
    study = options.study()
    if save_config is not None:
        save_study(study, save_config, overwrite)
        return
    if out is None:
        raise UserError("name a directory for the runs: --out RUNS")
    study = fixed_study(study, expect or (), quiet)
    from embedbench.runs.grid_scheduler import run_grid
    from embedbench.runs.stream_cache import StreamCache
    from embedbench.studies.resolve import take_shard

    engine, streams = _chosen_engine(study, checkpoint), StreamCache()
    take_shard([], shard)  # what is wrong is refused before anything is tuned
    regimes = _choose_runs(study, out, engine, checkpoint, quiet, streams)
    every = list(dict.fromkeys(chain(*regimes.values())))
    specs = take_shard(every, shard)
    if not specs:
        note(f"shard {shard} has none of the {len(every)} runs")
        return
    with live(out, quiet):
        outcome = run_grid(
            specs,
            out,
            engine=engine.at_most(len(specs)),
            threads=study.threads or 1,
            overwrite=overwrite,
            notify=note,
            streams=streams,
        )
    directories = {
        name: [streams.run_dir(spec, out) for spec in each] for name, each in regimes.items()
    }
    _report(outcome, out, study.budget_mb, form, directories)


def _chosen_engine(study: Study, checkpoint: float) -> Engine:
    settings = [f"{name}={value}" for name, value in study.engine_set.items()]
    engine = shared.chosen_engine(study.engine, study.resources, settings, study.threads or 1)
    if checkpoint > engine.seconds:
        raise UserError(
            f"--checkpoint {checkpoint:g} saves nothing in jobs of {engine.seconds:g} seconds; "
            "make it less, or give the jobs more (--engine-set time)"
        )
    return engine


def _choose_runs(
    study: Study, out: Path, engine: Engine, checkpoint: float, quiet: bool, streams: StreamCache
) -> dict[str, list[RunSpec]]:
    """The runs under each preset, with the settings that tuning and the budget choose."""
    from embedbench.studies.exemplars_in_equal_bytes import fit_budget
    from embedbench.studies.presets import about, split_regimes
    from embedbench.studies.resolve import grids, resolve
    from embedbench.studies.tuning import search, unused_seeds

    device = shared.chosen_device(study.device or "auto", engine)
    chosen: dict[str, list[RunSpec]] = {}
    for name, each in split_regimes(study).items():
        if name and not quiet:
            note(f"preset {name}: {about(name)[0]}")
        specs = resolve(each, out=out, device=device, checkpoint=checkpoint)
        tuned, chosen[name] = grids(each, each.tune), []
        for _, stream in groupby(specs, lambda spec: (spec.files, spec.protocol)):
            with bar("trials", quiet or not tuned) as advance:
                runs = search(
                    list(stream),
                    tuned,
                    out,
                    sessions=each.tune_sessions or 3,
                    seeds=each.tune_seeds or unused_seeds(each.seeds or (0,)),
                    points=each.trials,
                    engine=engine,
                    threads=study.threads or 1,
                    progress=advance,
                    notify=note,
                    streams=streams,
                )
            chosen[name] += fit_budget(runs, each.budget_mb, streams)
    return chosen


def _report(
    outcome: Outcome,
    out: Path,
    budget_mb: float | None,
    form: str,
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
    again = f"embedbench report {shlex.quote(str(out))}"
    if len(regimes) > 1 and form != "json":
        finished = {*outcome.run_dirs}
        each = {name: [d for d in dirs if d in finished] for name, dirs in regimes.items()}
        show_tables(form, *regime_tables(out, each, "seeds and samples"))
        note(f"each regime's own tables: {again}; this one again: {again} --by preset")
    else:
        data, listed, parts = run_tables(rows, form)
        show_tables(form, {**data, "failed": failed, "over_budget": over}, listed, parts)
    learned = [p for p in find(out) if not p.parent.name.startswith("chance-")] if rows else []
    if not {*outcome.run_dirs}.issuperset(learned):
        note(f"{out} has other runs; all side by side: {again}")
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)
