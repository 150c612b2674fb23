"""The command run: learners on a stream, their answers stored as runs; and its options.

The options make a study: a study file, and what goes over it. Those of the stream are also of show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.run_seeds import parse_seeds
from embedbench.files.remote.uri import as_written
from embedbench.runs.progress_line import RunsAtWork
from embedbench.storage.atomic_write import write_safely
from embedbench.studies import study_file
from embedbench.studies.study import Key, Study, parse_lists, parse_settings, split_names
from embedbench.system.cpu_threads import MOST_THREADS
from embedbench.text.terminal_text import line
from embedbench.text.undecoded_text import check_text, join_words

from . import shared_options as shared
from .command_output import bar, note, run_tables, show_tables

if TYPE_CHECKING:
    from embedbench.engines.engine import Engine
    from embedbench.runs.grid_scheduler import Outcome


# Options that a study has as they are given.
AS_GIVEN = (
    *("trunk", "weights", "augment", "tune_sessions", "budget_mb"),
    *("threads", "device"),
)


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The options of `embedbench show`."""

    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Embedding files or names, in order."),
    ] = None
    protocol: Annotated[
        str | None,
        typer.Option(help="Or a stream by name, b0-inc10, …; see embedbench list protocols."),
    ] = None
    seeds: Annotated[
        str | None, typer.Option("--seeds", "--seed", help="0-4 or 0,2,5.", show_default="0")
    ] = None
    settings: Annotated[list[str] | None, typer.Option("--set", help="protocol.base=50, …")] = None
    order: Annotated[
        str | None,
        typer.Option(help="natural, random, size, …, see embedbench list orders; or a file."),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(help="Settings by name, see embedbench list presets; or a file .toml."),
    ] = None

    def study(self) -> Study:
        """The study of these options; its learner is the simplest one, for none is run."""
        return self._stream("chance")

    def _stream(self, learner: str) -> Study:
        """The stream and the seeds, and learners in a list with commas."""
        order = {Key("protocol", "order"): self.order} if self.order else {}
        return Study(
            files=(tuple(map(as_written, self.files)),) if self.files else (),
            protocols=(self.protocol,) if self.protocol else (),
            learners=split_names(learner),
            seeds=_seeds(self.seeds),
            preset=self.preset,
            set=parse_settings(self.settings or ()) | order,
        )


@dataclass(frozen=True, kw_only=True)
class StudyOptions(StreamOptions):
    """The options of `embedbench run` that decide its runs."""

    learner: Annotated[
        list[str] | None,
        typer.Option(help="One or more, with commas or repeated."),
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
    tune: Annotated[
        list[str] | None, typer.Option(help="Values to choose from: mlp.lr=0.1,0.01.")
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
    metric: Annotated[
        str | None,
        typer.Option(
            help="The score of the tables, such as class_accuracy.", show_default="accuracy"
        ),
    ] = None
    name: Annotated[list[str] | None, typer.Option(metavar="LEARNER=TEXT", help=shared.NAME)] = None
    budget_mb: Annotated[
        float | None,
        typer.Option(
            help="Take as many exemplars as fit into this many MB.",
            min=0,
            max=1e9,
            callback=shared.finite,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="A study file; options go over what it says."),
    ] = None
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="The study file may name code, installed or beside it."),
    ] = False
    threads: Annotated[
        int | None, typer.Option(help=shared.THREADS, min=1, max=MOST_THREADS, show_default="1")
    ] = None
    device: Annotated[str | None, typer.Option(help=shared.DEVICE, show_default="auto")] = None

    def study(self) -> Study:
        """The study of the study file, and the options over it."""
        from embedbench.reports.row_names import parse_names
        from embedbench.studies.resolve import override

        stream = self._stream(",".join(self.learner or ()))
        flags = replace(
            stream,
            metric=self.metric or stream.metric,
            **{name: getattr(self, name) for name in AS_GIVEN},
            unknown=as_written(self.unknown) if self.unknown else None,
            names=parse_names(self.name or ()),
            tune_seeds=_seeds(self.tune_seeds),
            tune=parse_lists(self.tune or ()),
        )
        if self.config is None:
            return flags
        return override(study_file.read_study(self.config, allow_code=self.allow_code), flags)


def _seeds(text: str | None) -> tuple[int, ...]:
    return () if text is None else tuple(parse_seeds(text))


# --- the command ---


@shared.taking(options=StudyOptions, form=shared.chosen_form)
def run(
    options: StudyOptions,
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory of the run records.")],
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Runs I, I+N, I+2N, … of the list, I from 1.")
    ] = None,
    jobs: shared.Jobs = None,
    engine: shared.EngineName = None,
    resources: shared.ResourcesOf = None,
    engine_set: shared.EngineSet = None,
    checkpoint: shared.Checkpoint = 60.0,
    save_config: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="Write the command as a study file, and run nothing."),
    ] = None,
    overwrite: shared.Overwrite = False,
    form: str = "text",
    quiet: shared.Quiet = False,
) -> None:
    """Run learners through a stream and store their answers. Run it again to resume."""
    if save_config is not None:
        shared.check_free(save_config, overwrite)
        text = study_file.study_text(options.study())
        check_text(text, f"{save_config}")
        write_safely(save_config, text)
        return
    study = shared.fixed_study(options.study(), quiet)
    engine_of = shared.chosen_engine(engine, resources, engine_set, study.threads or 1, jobs)
    outcome = make_runs(
        "run",
        study,
        out,
        engine_of,
        quiet=quiet,
        shard=shard,
        checkpoint=checkpoint,
        overwrite=overwrite,
    )
    if not (outcome.run_dirs or outcome.failed):
        return  # of a shard without runs
    _report(outcome, out, form, study, options.config)


def make_runs(
    what: str, study: Study, out: Path, engine: Engine, *, quiet: bool, **how: Any
) -> Outcome:
    """Make the runs of a study below a bar, and say what failed or was there before.

    Parameters
    ----------
    what : str
        What the bar says is done.
    study : Study
        As `fixed_study` returns it.
    **how : object
        Further arguments of `StudyRuns`.
    """
    from embedbench.studies.study_runs import StudyRuns, describe_outcome

    with bar(what, quiet) as advance:
        at_work = RunsAtWork()
        outcome = StudyRuns(
            study=study,
            out=out,
            engine=engine,
            device=shared.chosen_device(study.device or "auto", engine),
            quiet=quiet,
            trials=advance.coming_stage("trials"),
            progress=advance.coming_stage("runs", at_work),
            planned=at_work.plan,
            failing=advance.fail,
            notify=note,
            **how,
        ).make()
    for sentence in describe_outcome(outcome):
        note(sentence)
    return outcome


def _report(
    outcome: Outcome,
    out: Path,
    form: str,
    study: Study,
    config: Path | None = None,
) -> None:
    """Print the scores, and what failed; exit with an error if anything did.

    A study file with a published table has it beside the runs in `out`.
    """
    from embedbench.reports.row_names import RowNames
    from embedbench.reports.tables_from_runs import collect, with_chance
    from embedbench.reports.toml_report import published_beside
    from embedbench.scores.record_files import find

    failed = [{"learner": c.learner.name, "seed": c.seed, "reason": r} for c, r in outcome.failed]
    metrics = (study.metric,) if study.metric else ()
    names = RowNames(study.names)
    places = with_chance(out, outcome.run_dirs)
    rows = collect(out, places, metrics=metrics, names=names)
    for key in names.unused if rows else ():
        note(f"no row is called {key}")
    data, listed, parts = run_tables(rows, form)
    published = None if config is None else published_beside(config, out, note)
    if published is not None:
        data = {**data, "published": published.data}
        listed = [*listed, *published.rows]
        parts = [*parts, line(""), *published.parts]
    show_tables(form, {**data, "failed": failed}, listed, parts)
    learned = [p for p in find(out) if not p.parent.name.startswith("chance-")] if rows else []
    if not {*outcome.run_dirs}.issuperset(learned):
        side_by_side = join_words(["embedbench", "report", str(out)])
        note(f"{out} has other runs; all side by side: {side_by_side}")
    if failed:
        raise typer.Exit(2 if outcome.bad_input else 1)
