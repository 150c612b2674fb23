"""The command run: learners on a stream, their answers stored as runs; and its options.

The options make a study: a study file, and what goes over it. Those of the stream are also of show.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.config.run_seeds import parse_seeds
from embedbench.engines.engine_tasks import pairs
from embedbench.errors import UserError, unknown
from embedbench.files.remote.uri import as_written
from embedbench.storage.atomic_write import write_safely
from embedbench.studies import study_file
from embedbench.studies.study import Key, Study, parse_lists, parse_settings, split_names
from embedbench.system.cpu_threads import MOST_THREADS

from . import shared_options as shared
from .command_output import bar, note, regime_tables, run_tables, show_tables

if TYPE_CHECKING:
    from embedbench.engines.engine import Engine
    from embedbench.runs import grid_scheduler, run_spec, stream_cache


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The options of `embedbench show`."""

    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Embedding files or names, in order."),
    ] = None
    protocol: Annotated[
        str | None,
        typer.Option(
            help="See: embedbench list protocols.",
            autocompletion=shared.complete_names("protocols"),
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="One seed (default 0).", min=0)] = None
    seeds: Annotated[str | None, typer.Option(help="Several: 0-4 or 0,2,5.")] = None
    settings: Annotated[list[str] | None, typer.Option("--set", help="protocol.base=50, …")] = None
    order: Annotated[str | None, typer.Option(help="natural, random, size or a file.")] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="Settings by name, see embedbench list presets; a file .toml; or several, commas.",
            autocompletion=shared.complete_names("presets"),
        ),
    ] = None

    def study(self) -> Study:
        """The study of these options; its learner is the simplest one, for none is run."""
        return self._stream("chance")

    def _stream(self, learner: str | None) -> Study:
        """The stream and the seeds, and learners in a list with commas."""
        protocols, named = _named_stream(self.protocol)
        if self.seed is not None and self.seeds is not None:
            raise UserError("give --seed or --seeds, not both")
        seeds = self.seeds if self.seed is None else str(self.seed)
        return Study(
            files=_streams(self.files, learner or ""),
            protocols=protocols,
            learners=split_names(learner),
            seeds=_seeds(seeds),
            orders=(self.order,) if self.order else (),
            preset=self.preset,
            set={**named, **parse_settings(self.settings or ())},
        )


@dataclass(frozen=True, kw_only=True)
class StudyOptions(StreamOptions):
    """The options of `embedbench run` that decide its runs."""

    settings: Annotated[
        list[str] | None, typer.Option("--set", help="ewc.lam=100, protocol.base=50, …")
    ] = None
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="One or more, with commas or repeated.",
            autocompletion=shared.complete_names("learners"),
        ),
    ] = None
    vary: Annotated[
        str | None,
        typer.Option(
            help="order,init,batches,memory: seeds to vary one at a time, see --by seeds."
        ),
    ] = None
    trunk: Annotated[str | None, typer.Option(help="mlp, linear; for images resnet32, …")] = None
    weights: Annotated[
        str | None, typer.Option(help="Weights of the trunk: FILE, hub or shipped.")
    ] = None
    augment: Annotated[
        str | None, typer.Option(help="Augmentation of images: crop-flip or timm.")
    ] = None
    unknown: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A file of other classes, which no session teaches: are they seen as unknown?",
        ),
    ] = None
    omega_reference: Annotated[
        str | None,
        typer.Option(
            help="The learner behind α_ideal, on all data: mlp, linear or slda.",
            show_default="mlp",
        ),
    ] = None
    tune: Annotated[
        list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01 or 1e-4..1.")
    ] = None
    tune_sessions: Annotated[
        int | None,
        typer.Option(help="Sessions whose validation data decide.", min=1, show_default="3"),
    ] = None
    tune_seeds: Annotated[
        str | None,
        typer.Option(
            help="Seeds and orders of the trials.", show_default="three unused from 100 on"
        ),
    ] = None
    trials: Annotated[
        int | None,
        typer.Option(help="Points of a range to tune, ewc.lam=1..1e6: a power of two."),
    ] = None
    budget_mb: Annotated[
        float | None,
        typer.Option(
            help="Take as many exemplars as fit into this many MB.",
            min=0,
            max=1e9,
            callback=shared.finite,
        ),
    ] = None
    budget_passes: Annotated[
        float | None,
        typer.Option(
            help="Samples presented for each new one, of --preset equal-passes.",
            min=0.01,
            max=1e5,
            callback=shared.finite,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="A study file; options go over what it says."),
    ] = None
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="The study file may name installed code.")
    ] = False
    jobs: shared.Jobs = None
    engine: shared.EngineName = None
    resources: shared.ResourcesOf = None
    engine_set: shared.EngineSet = None
    threads: Annotated[
        int | None, typer.Option(help=shared.THREADS, min=1, max=MOST_THREADS, show_default="1")
    ] = None
    device: Annotated[str | None, typer.Option(help=shared.DEVICE, show_default="auto")] = None

    def study(self) -> Study:
        """The study of the study file, and the options over it."""
        from embedbench.studies.resolve import override

        learners = ",".join(self.learner) if self.learner else None
        if self.learner and not split_names(learners):
            raise UserError("--learner names no learner; give one or more, with commas")
        if self.allow_code and self.config is None:
            raise UserError("--allow-code is for a study file; add --config STUDY, or leave it out")
        flags = replace(
            self._stream(learners),
            vary=split_names(self.vary),
            trunk=self.trunk,
            weights=self.weights,
            augment=self.augment,
            unknown=as_written(self.unknown) if self.unknown else None,
            omega_reference=self.omega_reference,
            tune_sessions=self.tune_sessions,
            tune_seeds=_seeds(self.tune_seeds),
            trials=self.trials,
            budget_mb=self.budget_mb,
            budget_passes=self.budget_passes,
            engine=shared.engine_name(self.engine, self.jobs),
            resources=self.resources,
            threads=self.threads,
            device=self.device,
            tune=parse_lists(self.tune or ()),
            engine_set=pairs("--engine-set", self.engine_set or ()),
        )
        if self.config is None:
            return flags
        return override(study_file.read_study(self.config, allow_code=self.allow_code), flags)


def save_study(study: Study, path: Path, overwrite: bool) -> None:
    """Write a study file, after all of the study's runs are planned."""
    from embedbench.studies.resolve import resolve

    shared.check_free(path, overwrite)
    resolve(study)
    write_safely(path, study_file.study_text(study))


def _streams(files: list[str] | None, learner: str) -> tuple[tuple[str, ...], ...]:
    """The one stream of the FILE arguments; none without any.

    `--learner ncm slda`, which makes a file of the second name, is refused.
    """
    from embedbench.runs.learner_and_protocol_names import learner_names

    if not files:
        return ()
    names = [f for f in files if learner and not Path(f).exists() and f in learner_names()]
    if names:
        listed = ",".join([learner, *names])
        raise UserError(f"--learner takes names with commas between them: --learner {listed}")
    return (tuple(as_written(f) for f in files),)


def _named_stream(protocol: str | None) -> tuple[tuple[str, ...], dict[Key, str]]:
    """The protocol and settings that `--protocol` gives: of a protocol, or a stream of the zoo."""
    from embedbench.zoo.zoo_entries import read_zoo

    if not protocol:
        return (), {}
    if not re.fullmatch(r"b\d+-inc\d+[\w-]*", protocol):
        return (protocol,), {}
    if protocol not in (streams := read_zoo().streams):
        raise unknown("stream of the zoo", protocol, streams)
    named = streams[protocol]
    return (named.protocol,), {Key("protocol", k): v for k, v in named.set.items()}


def _seeds(text: str | None) -> tuple[int, ...]:
    return () if text is None else tuple(parse_seeds(text))


# --- the command ---


@shared.taking(options=StudyOptions, form=shared.chosen_form)
def run(
    options: StudyOptions,
    out: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Directory of the run records.")
    ] = None,
    expect: shared.Expect = None,
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
    study = shared.fixed_study(study, expect or (), quiet)
    from embedbench.runs import grid_scheduler, stream_cache
    from embedbench.studies.resolve import take_shard

    engine, streams = _chosen_engine(study), stream_cache.StreamCache()
    take_shard([], shard)  # what is wrong is refused before anything is tuned
    regimes = _choose_runs(study, out, engine, checkpoint, quiet, streams)
    every = list(dict.fromkeys(chain(*regimes.values())))
    specs = take_shard(every, shard)
    if not specs:
        note(f"shard {shard} has none of the {len(every)} runs")
        return
    with bar("runs", quiet) as advance:
        outcome = grid_scheduler.run_grid(
            specs,
            out,
            engine=engine.at_most(len(specs)),
            threads=study.threads or 1,
            overwrite=overwrite,
            progress=advance,
            notify=note,
            streams=streams,
        )
    directories = {
        name: [streams.run_dir(spec, out) for spec in each] for name, each in regimes.items()
    }
    _report(outcome, out, study.budget_mb, form, directories)


def _chosen_engine(study: Study) -> Engine:
    settings = [f"{name}={value}" for name, value in study.engine_set.items()]
    return shared.chosen_engine(study.engine, study.resources, settings, study.threads or 1)


def _choose_runs(
    study: Study,
    out: Path,
    engine: Engine,
    checkpoint: float,
    quiet: bool,
    streams: stream_cache.StreamCache,
) -> dict[str, list[run_spec.RunSpec]]:
    """The runs under each preset, with the settings that tuning and the budget choose."""
    from embedbench.studies import exemplars_in_equal_bytes, presets, resolve, tuning

    device = shared.chosen_device(study.device or "auto", engine)
    chosen: dict[str, list[run_spec.RunSpec]] = {}
    for name, each in presets.split_regimes(study).items():
        if name and not quiet:
            note(f"preset {name}: {presets.about(name)[0]}")
        specs = resolve.resolve(each, out=out, device=device, checkpoint=checkpoint)
        tuned, chosen[name] = resolve.grids(each, each.tune), []
        for _, stream in groupby(specs, lambda spec: (spec.files, spec.protocol)):
            with bar("trials", quiet or not tuned) as advance:
                runs = tuning.search(
                    list(stream),
                    tuned,
                    out,
                    sessions=each.tune_sessions or 3,
                    seeds=each.tune_seeds or tuning.unused_seeds(each.seeds or (0,)),
                    points=each.trials,
                    engine=engine,
                    threads=study.threads or 1,
                    progress=advance,
                    notify=note,
                    streams=streams,
                )
            chosen[name] += exemplars_in_equal_bytes.fit_budget(runs, each.budget_mb, streams)
    return chosen


def _report(
    outcome: grid_scheduler.Outcome,
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
