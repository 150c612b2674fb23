"""The runs for a paper's tables: each is planned once, saved under `out/runs`, and read again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from embedbench.config.make_from_settings import make
from embedbench.engines.engine import HERE, Engine
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.reports.result_rows import LEFT_OUT
from embedbench.runs import grid_scheduler
from embedbench.runs.learner_and_protocol_names import protocol_class
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.scores.verified_records import Checker
from embedbench.studies.resolve import resolve, sort_settings, without_others
from embedbench.studies.set_and_tune_options import Settings, parse_settings
from embedbench.studies.study import Study
from embedbench.studies.toml_options import flat_table
from embedbench.system.callback_types import Notify, StageProgress


@dataclass(frozen=True)
class Variant:
    """A learner in the form that a paper uses.

    Parameters
    ----------
    label : str
        The paper's name.
    learner : str
        Our name.
    fixed : dict
        Settings that give the paper's learner; no `--set` changes them.
    """

    label: str
    learner: str
    fixed: Settings = field(default_factory=dict)


def read_settings(table: Any) -> Settings:
    """Return the settings of a table of a `paper.toml`, which has the form of a study's `[set]`."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in flat_table(table, "paper.toml")
    }


def read_variants(learners: Mapping[str, Any]) -> dict[str, Variant]:
    """Return the variants of a table `[learners]` of a `paper.toml`.

    Each has a label, our name of the learner where it differs from the key, and `set`.
    """
    return {
        name: Variant(v["label"], v.get("learner", name), read_settings(v.get("set", {})))
        for name, v in learners.items()
    }


@dataclass
class RunRequest:
    """What is asked of the runs of a reproduction.

    Parameters
    ----------
    out : Path
        Directory for files that are made, runs and tables.
    learners : sequence of str
        Learners to run, by the paper's names. For other learners, finished runs are used.
    items : sequence of str
        Further settings, in the form of `embedbench run --set`.
    """

    out: Path
    seeds: Sequence[int]
    learners: Sequence[str] = ()
    _: KW_ONLY
    items: Sequence[str] = ()
    engine: Engine = HERE
    threads: int = 1
    device: str = "cpu"
    notify: Notify = lambda _: None


@dataclass
class PaperRuns(RunRequest):
    """The runs of a reproduction.

    Parameters
    ----------
    data : dict
        The files, or the paper's data sets, by the names in tables.
    known : sequence of str
        Our names of the learners that `items` may name.
    failed : list of str
        One sentence for each run that failed, and for each run that cannot be trusted.
    streams : StreamCache
        Keeps the files and streams that the runs share.
    """

    _: KW_ONLY
    data: Any = field(default_factory=dict)
    known: Sequence[str] = ()
    failed: list[str] = field(default_factory=list)
    streams: StreamCache = field(default_factory=StreamCache, repr=False)
    _records: dict[RunSpec, RunRecord] = field(default_factory=dict, init=False, repr=False)

    def plan(
        self,
        learner: str,
        protocol: str,
        files: Sequence[Path],
        settings: Settings,
        *,
        fixed: Settings | None = None,
        preset: str | None = None,
    ) -> list[RunSpec]:
        """Return one spec per seed; user settings override `settings`, `fixed` overrides both."""
        study = Study(
            files=(tuple(map(str, files)),),
            protocols=(protocol,),
            learners=(*self.known, learner),
            seeds=tuple(self.seeds),
            preset=preset,
            threads=self.threads,
            set={**settings, **parse_settings(self.items), **(fixed or {})},
        )
        study = without_others(study, [learner], [protocol])
        return resolve(study, out=self.out / "runs", device=self.device)

    def sessions_asked(self, protocol: str) -> int:
        """Return the user's setting of `protocol.sessions`; 0 if there is none."""
        given = sort_settings(parse_settings(self.items), self.known).protocol
        return int(make(protocol_class(protocol), given, name="protocol").sessions)

    def run(
        self,
        specs: Sequence[RunSpec],
        progress: StageProgress = lambda *_: None,
    ) -> None:
        """Make the missing runs; each failure becomes a sentence in `failed`."""
        outcome = grid_scheduler.run_grid(
            list(specs),
            self.out / "runs",
            engine=self.engine,
            threads=self.threads,
            progress=progress,
            streams=self.streams,
        )
        self.failed += [f"{c.learner} on {c.protocol}: {why}" for c, why in outcome.failed]

    def records(self, specs: Iterable[RunSpec]) -> list[RunRecord]:
        """Return the checked records of finished runs that means may include."""
        checker, result = Checker(self.out / "runs", self._fail), []
        for spec in specs:
            run_dir = self.streams.run_dir(spec, self.out / "runs")
            if spec not in self._records and record_files.is_finished(run_dir):
                try:
                    self._records[spec] = checker.record(run_dir)
                except UserError as e:
                    self._fail(f"left out: {e}")
            if spec in self._records:
                result.append(self._records[spec])
        return [r for r in result if not any(f in LEFT_OUT for f in r.flags)]

    def _fail(self, sentence: str) -> None:
        """Note what cannot be used, once."""
        if sentence not in self.failed:
            self.failed.append(sentence)


@cache
def holds_images(path: Path) -> bool:
    """Whether a file holds images and not embeddings."""
    return EmbeddingFile.open(path).kind == PIXELS


def select_names(names: Sequence[str], known: Iterable[str], kind: str) -> list[str]:
    """Return the requested names, or all if none is requested; an unknown name raises an error."""
    every = list(known)
    for name in names:
        if name not in every:
            raise unknown(kind, name, every)
    return list(names) or every


def over(records: Sequence[RunRecord], value: Callable[[RunRecord], float]) -> Stat | None:
    """Return the statistics of a number over the records; None without records."""
    return Stat.of(value(r) for r in records) if records else None


def metric(name: str) -> Callable[[RunRecord], float]:
    """Return a function that reads a metric of a record."""
    return lambda r: r.metrics[name]
