"""The runs for a paper's tables: each is planned once, saved under `out/runs`, and read again."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from embedbench.config.make_from_settings import make
from embedbench.engines.engine import HERE, Engine
from embedbench.errors import UserError
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
from embedbench.studies.study import Settings, Study, parse_settings
from embedbench.studies.study_file import flat_table
from embedbench.system.callback_types import Notify, StageProgress

from .reproduction_data import PaperData

Read = Callable[[RunRecord], float]


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
class ReproduceRequest:
    """The request of a user for a paper's tables.

    Parameters
    ----------
    out : Path
        Directory for files that are made, runs and tables.
    learners : sequence of str
        Learners to run, by the paper's names; empty: all. For others, finished runs are used.
    items : sequence of str
        Further settings, in the form of `embedbench run --set`.
    names : sequence of str
        Tables; empty: all except the costly ones.
    data : sequence of str
        Embedding files, in the form that the paper's `find_data` reads; empty: shipped ones.
    progress : callable
        `progress(name, done, total)` is called with the name of a run, the finished runs and all
        runs.
    used : list of Path
        The embedding files of the tables; filled when the runs start.
    """

    out: Path
    seeds: Sequence[int]
    _: KW_ONLY
    learners: Sequence[str] = ()
    items: Sequence[str] = ()
    names: Sequence[str] = ()
    data: Sequence[str] = ()
    engine: Engine = HERE
    threads: int = 1
    device: str = "cpu"
    notify: Notify = lambda _: None
    progress: StageProgress = lambda *_: None
    used: list[Path] = field(default_factory=list)


@dataclass
class PaperRuns:
    """The runs of a reproduction; a paper says which in a class of its own.

    Parameters
    ----------
    data : dict
        The files by the names in tables.
    failed : list of str
        One sentence for each run that failed, and for each run that cannot be trusted.
    streams : StreamCache
        Keeps the files and streams that the runs share.
    """

    asked: ReproduceRequest
    data: dict[str, Any] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    streams: StreamCache = field(default_factory=StreamCache, repr=False)
    _records: dict[RunSpec, RunRecord] = field(default_factory=dict, init=False, repr=False)

    every: ClassVar[Mapping[str, Variant]] = {}  # the paper's learners

    @classmethod
    def find_data(cls, asked: ReproduceRequest, tables: Sequence[str]) -> dict[str, Any]:
        """Return a `PaperData` for each file that tables need, by the names in tables."""
        return {}

    def plan_tables(self, tables: Sequence[str]) -> list[RunSpec]:
        """Return the runs of tables."""
        return []

    @property
    def learners(self) -> Sequence[str]:
        """The requested learners."""
        return self.asked.learners or list(self.every)

    @property
    def given(self) -> Settings:
        """The user's settings."""
        return parse_settings(self.asked.items)

    @property
    def runs_dir(self) -> Path:
        return self.asked.out / "runs"

    @property
    def known(self) -> tuple[str, ...]:
        """Our names of the learners that the user's settings may name."""
        return tuple(dict.fromkeys(v.learner for v in self.every.values()))

    def plan(
        self,
        variant: Variant,
        protocol: str,
        files: Sequence[PaperData],
        *settings: Mapping[str, Any],
        fixed: Mapping[str, Any] = {},
        preset: str | None = None,
    ) -> list[RunSpec]:
        """Return one spec per seed.

        `settings` and `fixed` have the form of a study's `[set]`. Later settings override earlier
        ones, the user's override all of them, and `fixed` and the variant's override the user's.
        """
        given = [setting for table in settings for setting in read_settings(table).items()]
        study = Study(
            files=(tuple(str(data.file) for data in files),),
            protocols=(protocol,),
            learners=(*self.known, variant.learner),
            seeds=tuple(self.asked.seeds),
            preset=preset,
            threads=self.asked.threads,
            set={
                **dict(given),
                **self.given,
                **read_settings(fixed),
                **variant.fixed,
            },
        )
        study = without_others(study, [variant.learner], [protocol])
        return resolve(study, out=self.runs_dir, device=self.asked.device)

    def plan_streams(
        self, streams: Iterable[tuple[Any, ...]], variants: Iterable[str]
    ) -> list[RunSpec]:
        """Return `specs(*stream, variant)` of a paper, seed by seed: a stream is built once."""
        result: list[RunSpec] = []
        for stream in streams:
            lists = (self.specs(*stream, variant) for variant in variants)
            result += itertools.chain(*zip(*filter(None, lists), strict=True))
        return result

    def specs(self, *stream_and_variant: Any) -> list[RunSpec]:
        """Return one spec per seed of a variant on a stream."""
        raise NotImplementedError

    def sessions_asked(self, protocol: str) -> int:
        """Return the user's setting of `protocol.sessions`; 0 if there is none."""
        given = sort_settings(self.given, self.known).protocol
        return int(make(protocol_class(protocol), given, name="protocol").sessions)

    def run(self, specs: Sequence[RunSpec]) -> None:
        """Make the missing runs; each failure becomes a sentence in `failed`."""
        outcome = grid_scheduler.run_grid(
            list(specs),
            self.runs_dir,
            engine=self.asked.engine,
            threads=self.asked.threads,
            progress=self.asked.progress,
            streams=self.streams,
        )
        self.failed += [f"{c.learner} on {c.protocol}: {why}" for c, why in outcome.failed]

    def records(self, specs: Iterable[RunSpec]) -> list[RunRecord]:
        """Return the checked records of finished runs that means may include."""
        checker, result = Checker(self.runs_dir, self._fail), []
        for spec in specs:
            run_dir = self.streams.run_dir(spec, self.runs_dir)
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


def make_stats(records: Sequence[RunRecord], *reads: Read) -> list[Stat]:
    """Return the statistics of numbers over the records, one for each reader; [] without any."""
    return [Stat.of(map(read, records)) for read in reads] if records else []
