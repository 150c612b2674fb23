"""The options of run and show that make a study: a study file, and the options over it."""

import re
from pathlib import Path
from typing import Annotated

import typer

from embedbench.engines.task_resources import pairs
from embedbench.errors import UserError, unknown
from embedbench.files.remote.uri import as_written
from embedbench.studies.set_and_tune_options import Key, parse_lists, parse_settings
from embedbench.studies.study import Study
from embedbench.system.cpu_threads import MOST_THREADS

from . import shared_options as shared
from . import shell_completion

Files = Annotated[
    list[str] | None, typer.Argument(metavar="FILE", help="Embedding files or names, in order.")
]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="See: embedbench list protocols.", autocompletion=shell_completion.of("protocols")
    ),
]
Learner = Annotated[
    list[str] | None,
    typer.Option(
        help="One or more, with commas or repeated.", autocompletion=shell_completion.of("learners")
    ),
]
Seed = Annotated[int | None, typer.Option(help="One seed (default 0).", min=0)]
Seeds = Annotated[str | None, typer.Option(help="Several: 0-4 or 0,2,5.")]
Vary = Annotated[
    str | None,
    typer.Option(help="order,init,batches,memory: seeds to vary one at a time, see --by seeds."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="ewc.lam=100, protocol.base=50, …")
]
StreamSettings = Annotated[list[str] | None, typer.Option("--set", help="protocol.base=50, …")]
Order = Annotated[str | None, typer.Option(help="natural, random, size or a file.")]
Trunk = Annotated[str | None, typer.Option(help="mlp, linear; for images resnet32, …")]
Weights = Annotated[str | None, typer.Option(help="Weights of the trunk: FILE, hub or shipped.")]
Augment = Annotated[str | None, typer.Option(help="Augmentation of images: crop-flip or timm.")]
OmegaReference = Annotated[
    str | None,
    typer.Option(
        help="The learner behind α_ideal, on all data: mlp, linear or slda.", show_default="mlp"
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Settings by name, see embedbench list presets; a file .toml; or several, commas.",
        autocompletion=shell_completion.of("presets"),
    ),
]
AnswersKept = Annotated[
    str | None,
    typer.Option(help="full keeps how sure a learner was, plain does not.", show_default="full"),
]
Unknown = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A file of other classes, which no session teaches: are they seen as unknown?",
    ),
]
Tune = Annotated[
    list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01 or 1e-4..1.")
]
TuneSessions = Annotated[
    int | None,
    typer.Option(help="Sessions whose validation data decide.", min=1, show_default="3"),
]
TuneSeeds = Annotated[
    str | None,
    typer.Option(help="Seeds and orders of the trials.", show_default="three unused from 100 on"),
]
Trials = Annotated[
    int | None, typer.Option(help="Points of a range to tune, ewc.lam=1..1e6: a power of two.")
]
BudgetMb = Annotated[
    float | None,
    typer.Option(
        help="Take as many exemplars as fit into this many MB.",
        min=0,
        max=1e9,
        callback=shared.finite,
    ),
]
BudgetPasses = Annotated[
    float | None,
    typer.Option(
        help="Samples presented for each new one, of --preset equal-passes.",
        min=0.01,
        max=1e5,
        callback=shared.finite,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="STUDY", help="A study file; options go over what it says."),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="The study file may name installed code.")
]
Threads = Annotated[
    int | None, typer.Option(help=shared.THREADS, min=1, max=MOST_THREADS, show_default="1")
]
Device = Annotated[str | None, typer.Option(help=shared.DEVICE, show_default="auto")]


def study_options(
    files: Files = None,
    protocol: Protocol = None,
    learner: Learner = None,
    seed: Seed = None,
    seeds: Seeds = None,
    vary: Vary = None,
    settings: Settings = None,
    order: Order = None,
    trunk: Trunk = None,
    weights: Weights = None,
    augment: Augment = None,
    answers: AnswersKept = None,
    unknown: Unknown = None,
    omega_reference: OmegaReference = None,
    preset: Preset = None,
    tune: Tune = None,
    tune_sessions: TuneSessions = None,
    tune_seeds: TuneSeeds = None,
    trials: Trials = None,
    budget_mb: BudgetMb = None,
    budget_passes: BudgetPasses = None,
    config: Config = None,
    allow_code: AllowCode = False,
    jobs: shared.Jobs = None,
    engine: shared.EngineName = None,
    resources: shared.ResourcesOf = None,
    engine_set: shared.EngineSet = None,
    threads: Threads = None,
    device: Device = None,
) -> Study:
    """The study of a command line: what `--config` says, and the options over it."""
    protocols, named = _named_stream(protocol)
    flags = Study(
        files=_streams(files, learner),
        protocols=protocols,
        learners=_learners(learner),
        seeds=_seeds(seed, seeds),
        orders=_at_most_one(order),
        vary=_names(vary or ""),
        preset=preset,
        trunk=trunk,
        weights=weights,
        augment=augment,
        answers=answers,
        unknown=as_written(unknown) if unknown else None,
        omega_reference=omega_reference,
        tune_sessions=tune_sessions,
        tune_seeds=_seeds(None, tune_seeds),
        trials=trials,
        budget_mb=budget_mb,
        budget_passes=budget_passes,
        engine=shared.engine_name(engine, jobs),
        resources=resources,
        threads=threads,
        device=device,
        set={**named, **parse_settings(settings or ())},
        tune=parse_lists(tune or ()),
        engine_set=pairs("--engine-set", engine_set or ()),
    )
    return _checked(_base(config, allow_code).under(flags))


def stream_options(
    files: Files = None,
    protocol: Protocol = None,
    seed: Seed = None,
    seeds: Seeds = None,
    settings: StreamSettings = None,
    order: Order = None,
    preset: Preset = None,
) -> Study:
    """The study of `embedbench show`: its learner is the simplest one, for none is run."""
    protocols, named = _named_stream(protocol)
    return _checked(
        Study(
            files=_streams(files, None),
            protocols=protocols,
            learners=("chance",),
            seeds=_seeds(seed, seeds),
            orders=_at_most_one(order),
            preset=preset,
            set={**named, **parse_settings(settings or ())},
        )
    )


def save_study(study: Study, path: Path, overwrite: bool) -> None:
    """Write a study file, after all of the study's runs are planned."""
    from embedbench.storage.atomic_write import write_safely
    from embedbench.studies.resolve import resolve, without_names_left_out
    from embedbench.studies.study_file import study_text

    shared.check_free(path, overwrite)
    resolve(study)
    write_safely(path, study_text(without_names_left_out(study)))


def _base(config: Path | None, allow_code: bool) -> Study:
    """The study of the study file; an empty one without a file."""
    from embedbench.studies.study_file import read_study

    if config is not None:
        return read_study(config, allow_code=allow_code)
    if allow_code:
        raise UserError("--allow-code is for a study file; add --config STUDY, or leave it out")
    return Study()


def _checked(study: Study) -> Study:
    """The study, unless it lacks a file, a protocol or a learner."""
    from embedbench.studies.resolve import check_study

    check_study(study)
    return study


def _streams(files: list[str] | None, learner: list[str] | None) -> tuple[tuple[str, ...], ...]:
    """The one stream of the FILE arguments; none without any.

    `--learner ncm slda`, which makes a file of the second name, is refused.
    """
    from embedbench.runs.learner_and_protocol_names import learner_names
    from embedbench.zoo.zoo_entries import ZOO, find_file

    if not files:
        return ()
    names = [f for f in files if learner and not Path(f).exists() and f in learner_names()]
    if names:
        listed = ",".join([*(learner or ()), *names])
        raise UserError(f"--learner takes names with commas between them: --learner {listed}")
    return (tuple(as_written(find_file(f) if f.startswith(ZOO) else f) for f in files),)


def _named_stream(protocol: str | None) -> tuple[tuple[str, ...], dict[Key, str]]:
    """The protocol and settings that `--protocol` gives: of a protocol, or a stream of the zoo."""
    from embedbench.zoo.zoo_entries import read_zoo

    if protocol is None or not re.fullmatch(r"b\d+-inc\d+[\w-]*", protocol):
        return _at_most_one(protocol), {}
    if protocol not in (streams := read_zoo().streams):
        raise unknown("stream of the zoo", protocol, streams)
    named = streams[protocol]
    return (named.protocol,), {Key("protocol", k): v for k, v in named.set.items()}


def _learners(learner: list[str] | None) -> tuple[str, ...]:
    """The names that `--learner` gives; none without it."""
    names = _names(",".join(learner or ()))
    if learner and not names:
        raise UserError("--learner names no learner; give one or more, with commas")
    return names


def _seeds(seed: int | None, seeds: str | None) -> tuple[int, ...]:
    """The seeds that one of two options gives; none if neither is given."""
    from embedbench.config.run_seeds import parse_seeds

    if seed is not None and seeds is not None:
        raise UserError("give --seed or --seeds, not both")
    text = seeds if seed is None else str(seed)
    return () if text is None else tuple(parse_seeds(text))


def _at_most_one(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
