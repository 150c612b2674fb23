"""The options of run and show that make a study: a study file, and the options over it."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from embedbench.config.run_seeds import parse_seeds
from embedbench.engines.engine_tasks import pairs
from embedbench.errors import UserError, unknown
from embedbench.files.remote.uri import as_written
from embedbench.studies.study import Key, Study, parse_lists, parse_settings
from embedbench.system.cpu_threads import MOST_THREADS

from . import shared_options
from . import shared_options as shared


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
            autocompletion=shared_options.complete_names("protocols"),
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
            autocompletion=shared_options.complete_names("presets"),
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
            learners=_names(learner),
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
            autocompletion=shared_options.complete_names("learners"),
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
    answers: Annotated[
        str | None,
        typer.Option(
            help="full keeps how sure a learner was, plain does not.", show_default="full"
        ),
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
        from embedbench.studies.study_file import read_study

        learners = ",".join(self.learner) if self.learner else None
        if self.learner and not _names(learners):
            raise UserError("--learner names no learner; give one or more, with commas")
        if self.allow_code and self.config is None:
            raise UserError("--allow-code is for a study file; add --config STUDY, or leave it out")
        flags = replace(
            self._stream(learners),
            vary=_names(self.vary),
            trunk=self.trunk,
            weights=self.weights,
            augment=self.augment,
            answers=self.answers,
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
        return override(read_study(self.config, allow_code=self.allow_code), flags)


def save_study(study: Study, path: Path, overwrite: bool) -> None:
    """Write a study file, after all of the study's runs are planned."""
    from embedbench.storage.atomic_write import write_safely
    from embedbench.studies.resolve import resolve
    from embedbench.studies.study_file import study_text

    shared.check_free(path, overwrite)
    resolve(study)
    write_safely(path, study_text(study))


def _streams(files: list[str] | None, learner: str) -> tuple[tuple[str, ...], ...]:
    """The one stream of the FILE arguments; none without any.

    `--learner ncm slda`, which makes a file of the second name, is refused.
    """
    from embedbench.runs.learner_and_protocol_names import learner_names
    from embedbench.zoo.zoo_entries import ZOO, find_file

    if not files:
        return ()
    names = [f for f in files if learner and not Path(f).exists() and f in learner_names()]
    if names:
        listed = ",".join([learner, *names])
        raise UserError(f"--learner takes names with commas between them: --learner {listed}")
    return (tuple(as_written(find_file(f) if f.startswith(ZOO) else f) for f in files),)


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


def _names(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
