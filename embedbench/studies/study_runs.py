"""The runs of a study, from its settings to their records: for `embedbench run` and `run_all`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from embedbench.engines.engine import Engine
from embedbench.runs.grid_scheduler import Outcome, run_grid, silent
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.run_flags import most_held
from embedbench.system.callback_types import Notify, StageProgress

from . import exemplars_in_equal_bytes, presets, resolve, tuning
from .study import Study


@dataclass(frozen=True, kw_only=True)
class StudyRuns:
    """A study, and how its runs are made; what is not described here is that of `run_grid`.

    Parameters
    ----------
    study : Study
        Its names mean one content only, see `resolve.pin_files`.
    device : str
        The device of every run.
    written_as : str or None
        The `--out` of the commands in the records; None: `out`.
    shard : str or None
        The runs of one shard, see `resolve.take_shard`; None: all.
    quiet : bool
        Whether nothing is said of the preset.
    trials, progress : callable
        Progress of the trials of a search, and of the runs.
    """

    study: Study
    out: Path
    engine: Engine
    device: str
    written_as: str | None = None
    shard: str | None = None
    checkpoint: float = RunSpec.checkpoint
    overwrite: bool = False
    quiet: bool = False
    trials: StageProgress = lambda *_: None
    progress: StageProgress = lambda *_: None
    planned: Callable[[Mapping[Path, str]], None] = lambda _: None
    failing: Notify = silent
    notify: Notify = silent
    streams: StreamCache = field(default_factory=StreamCache)

    def make(self) -> Outcome:
        """Choose what tuning and the budget choose, make the runs, name those over the budget."""
        resolve.take_shard([], self.shard)  # what is wrong is refused before anything is tuned
        failed: dict[RunSpec, Exception] = {}  # before they began, while they were tuned
        every = self._choose(failed)
        specs = resolve.take_shard(every, self.shard)
        if not specs:
            self.notify(f"shard {self.shard} has none of the {len(every)} runs")
            return Outcome()
        outcome = run_grid(
            [spec for spec in specs if spec not in failed],
            self.out,
            engine=self.engine.at_most(len(specs)),
            threads=self.study.threads or 1,
            overwrite=self.overwrite,
            progress=self.progress,
            planned=self.planned,
            failing=self.failing,
            notify=self.notify,
            streams=self.streams,
        )
        for spec in specs:
            if spec in failed:
                outcome.fail(spec, failed[spec])
        if self.study.budget_mb is not None:
            for sentence in runs_over_budget(self.study.budget_mb, outcome.run_dirs):
                self.notify(sentence)
        return outcome

    def _choose(self, failed: dict[RunSpec, Exception]) -> list[RunSpec]:
        """The runs, with the settings that tuning and the budget choose.

        Those whose learner fails at that get into `failed`.
        """
        study = self.study
        out = self.out
        specs = resolve.resolve(
            study, out=self.written_as or out, device=self.device, checkpoint=self.checkpoint
        )
        if study.preset and not self.quiet:
            self.notify(f"preset {study.preset}: {presets.about(study.preset)[0]}")
        for name in dict.fromkeys(resolve.references_without_validation(specs)):
            self.notify(
                f"the reference {name} stops by its training loss, because "
                f"protocol.validation=none; --set {name}.mlp.stop.rule=epochs and "
                f"{name}.mlp.stop.epochs fix its epochs"
            )
        grids = resolve.grids(study, study.tune)
        chosen: list[RunSpec] = []
        for _, stream in groupby(specs, lambda spec: (spec.files, spec.protocol)):
            runs = tuning.search(
                list(stream),
                grids,
                out,
                sessions=study.tune_sessions or 3,
                seeds=study.tune_seeds or tuning.unused_seeds(study.seeds or (0,)),
                engine=self.engine,
                threads=study.threads or 1,
                progress=self.trials,
                notify=self.notify,
                streams=self.streams,
                failed=failed,
            )
            chosen += exemplars_in_equal_bytes.fit_budget(
                runs, study.budget_mb, self.streams, failed=failed
            )
        return [replace(spec, budget_mb=study.budget_mb) for spec in chosen]


def describe_outcome(outcome: Outcome) -> list[str]:
    """Sentences on runs that failed, or were there before."""
    sentences = []
    for spec, reason in outcome.failed:
        sentences.append(f"failed: {spec.learner} seed {spec.seed}: {reason}")
    if outcome.skipped:
        sentences.append(f"{outcome.skipped} finished runs were there and are kept")
    if outcome.elsewhere:
        sentences.append(f"{outcome.elsewhere} runs were finished by other processes meanwhile")
    return sentences


def runs_over_budget(budget_mb: float, run_dirs: Sequence[Path]) -> list[str]:
    """Sentences on runs that hold more than the budget; finished without it, they have no flag."""
    sentences = []
    for run_dir in run_dirs:
        record = record_files.load(run_dir)
        held = most_held(record)
        if held > budget_mb:
            sentences.append(
                f"{record.learner} seed {record.seed} held {held:.3g} MB, more than --budget-mb "
                f"{budget_mb:g}"
            )
    return sentences
