"""A paper that can be reproduced: its files, its runs and its tables.

Every run is planned once, saved under `out/runs`, and read again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from embedbench.config.make_from_settings import make
from embedbench.engines.engine import HERE, Engine
from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.hdf5_layout import PIXELS
from embedbench.reports.result_rows import LEFT_OUT
from embedbench.reports.results import column_stats
from embedbench.runs import grid_scheduler
from embedbench.runs.learner_and_protocol_names import protocol_class
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.scores.verified_records import Checker
from embedbench.streams.class_order import cifar100_labels
from embedbench.studies.resolve import resolve, sort_settings, without_others
from embedbench.studies.study import Settings, Study, parse_settings
from embedbench.studies.study_file import flat_table
from embedbench.system.callback_types import Notify, StageProgress

from .data_kinds import OTHER, THEIRS, PaperSet, label_data
from .paper_table import PaperTable, sort_flags

Read = Callable[[RunRecord], Iterable[float]]
Measured = Callable[[Any], PaperTable | list[PaperTable]]  # from the paper's runs


# --- files ---

STAND_IN = "-stand-in"
SHIPPED = Path(__file__).parents[1] / "assets" / "emoji-vit.h5"  # 600 emoji, with layers of a ViT


@dataclass(frozen=True)
class PaperData:
    """One of a paper's data sets by its official name, or a stand-in, which has none.

    `of` is the data set as the paper has it; None: the file is taken for all of it, through the
    paper's backbone.
    """

    file: Path
    official: str | None = None
    of: PaperSet | None = field(default=None, compare=False)

    @cached_property
    def opened(self) -> EmbeddingFile:
        """The file; its metadata are read once."""
        return EmbeddingFile.open(self.file)

    @property
    def stands_in(self) -> bool:
        return self.official is None

    @cached_property
    def kind(self) -> str:
        """One of `DATA_KINDS`: the paper's own data, a part, another backbone, or other data."""
        if self.official is None:
            return OTHER
        return THEIRS if self.of is None else self.of.kind(self.opened)

    @property
    def is_own(self) -> bool:
        """Whether it is the paper's data set, whole and through the paper's backbone."""
        return self.kind == THEIRS

    @property
    def all_classes(self) -> str | None:
        """The official name if the file has all classes: published lists and orders are for it."""
        has_all = self.of is None or self.official is None or self.of.has_all_classes(self.opened)
        return self.official if has_all else None

    @property
    def holds_images(self) -> bool:
        """Whether the file holds images and not embeddings."""
        return self.opened.kind == PIXELS


def find_files(given: Sequence[str], official: Collection[str] = ()) -> dict[str, PaperData]:
    """Embedding files of a paper's data sets, and of other data that replaces them, by name.

    Parameters
    ----------
    given : sequence of str
        NAME=FILE for one of the official data sets; NAME-stand-in=FILE for a stand-in under its
        name; FILE for a stand-in, which goes by its stem.
    """
    result: dict[str, PaperData] = {}
    for item in given:
        head, equals, named = item.partition("=")
        name = head.removesuffix(STAND_IN)
        if equals and name in official:
            data = PaperData(Path(named), name if name == head else None)
        elif (name := Path(item).stem) in official or (equals and not Path(item).exists()):
            raise UserError(
                "--data",
                expected=f"FILE, a stand-in, or NAME=FILE or NAME{STAND_IN}=FILE; the paper's "
                f"names are {', '.join(official) or 'none'}",
                got=item,
            )
        else:
            data = PaperData(Path(item))
        EmbeddingFile.open(data.file)  # raises an error for a bad file
        if result.setdefault(name, data) != data:
            raise UserError(
                f"{result[name].file} and {data.file} have one name, by which tables call them",
                "rename a file",
            )
    return result


# --- learners and runs ---


@dataclass(frozen=True)
class Variant:
    """A learner in the form that a paper uses: by the paper's name, and by ours.

    No `--set` changes the fixed settings.
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
class PaperRuns:
    """The request of a user for a paper's tables, and its runs; a paper says which in a subclass.

    Parameters
    ----------
    out : Path
        Directory for files that are made, runs and tables.
    data : dict
        The files by the names in tables.
    learners : sequence of str
        Learners to run, by the paper's names; empty: all. For others, finished runs are used.
    items : sequence of str
        Further settings, in the form of `embedbench run --set`.
    progress : callable
        `progress(name, done, total)` is called with the name of a run, the finished runs and all
        runs.
    watch : callable
        `watch(names)` is called with the names of the runs that are to be made, by directory.
    failed : list of str
        A sentence for each run that failed, and for each run that cannot be trusted.
    planned : dict or None
        What tables ask for while they are planned.
    """

    out: Path
    seeds: Sequence[int]
    data: dict[str, PaperData] = field(default_factory=dict)
    _: KW_ONLY
    learners: Sequence[str] = ()
    items: Sequence[str] = ()
    engine: Engine = HERE
    threads: int = 1
    device: str = "cpu"
    notify: Notify = lambda _: None
    progress: StageProgress = lambda *_: None
    watch: Callable[[Mapping[Path, str]], None] = lambda _: None
    failed: list[str] = field(default_factory=list)
    streams: StreamCache = field(default_factory=StreamCache)
    planned: dict[Any, RunSpec] | None = field(default=None, init=False)
    _records: dict[RunSpec, RunRecord] = field(default_factory=dict, init=False)

    every: ClassVar[Mapping[str, Variant]] = {}  # the paper's learners
    official: ClassVar[Mapping[str, str]] = {}  # its names of its data sets, by ours
    replaces: ClassVar[str] = ""  # the one that a file without a name stands in for
    default: ClassVar[str] = ""  # what `--data` has before the shipped file
    sets: ClassVar[Mapping[str, PaperSet]] = {}  # its data sets as it has them, by our names

    def __post_init__(self) -> None:
        self.learners = select_names(self.learners, self.every, "learner of the paper")

    def find_data(self, given: Sequence[str]) -> dict[str, PaperData]:
        """Return the user's files by the names in tables; the shipped emoji stand in for none."""
        if not given:
            self.notify(f"no --data: {SHIPPED.name} is taken, 600 emoji with the layers of a ViT")
        files = find_files(given or [f"{self.default}{SHIPPED}"], self.official)
        found = {
            name: replace(data, of=self.sets.get(data.official or ""))
            for name, data in files.items()
        }
        for name, data in found.items():
            self._check_named(name, data)
        return found

    def _check_named(self, name: str, data: PaperData) -> None:
        """Refuse a file that cannot be the data set that it is called; say if it is not all of it.

        Of CIFAR-100 alone the names of the classes are known in every form.
        """
        remedy = f"give it as a stand-in: --data {name}{STAND_IN}={data.file}"
        try:
            kind = data.kind
        except UserError as e:
            raise UserError(str(e), remedy) from None
        shared = data.of.shared if data.of else ""
        if data.all_classes and shared == "cifar100" and cifar100_labels(data.opened) is None:
            raise UserError(
                f"{name}= takes CIFAR-100's 100 classes, and {data.file} has others: see --plan",
                remedy,
            )
        if kind not in (THEIRS, OTHER):
            self.notify(f"{name}: {data.file.name} is {kind}; no difference to it is computed")

    def label(self, *names: str) -> str:
        """The paper's names of data; "CUB-200, another backbone (birds)" where it is not its own.

        Other data are "emoji for CUB-200", or "emoji, a stand-in".
        """
        labels = []
        for name in names:
            paper = self.official.get(name) or self.official.get(self.replaces, "")
            data = self.data.get(name)
            if data is not None and data.stands_in:
                paper = data.file.stem + (f" for {paper}" if paper else ", a stand-in")
            elif data is not None:
                paper = label_data(paper, data.kind, data.file)
            labels.append(paper)
        return " / ".join(labels)

    def tag(self, name: str) -> str:
        """What the name of a table of one file ends with: which file it is, and what it is.

        That is our name of the paper's own data; of other data that of the file.
        """
        data = self.data[name]
        if data.stands_in:
            return data.file.stem
        return name if data.is_own else self.label(name)

    def is_own(self, *names: str) -> bool:
        """Whether all of the given data are the paper's own."""
        return all(self.data[name].is_own for name in names if name in self.data)

    @property
    def given(self) -> Settings:
        """The user's settings."""
        return parse_settings(self.items)

    @property
    def runs_dir(self) -> Path:
        return self.out / "runs"

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
            seeds=tuple(self.seeds),
            preset=preset,
            threads=self.threads,
            set={
                **dict(given),
                **self.given,
                **read_settings(fixed),
                **variant.fixed,
            },
        )
        study = without_others(study, [variant.learner])
        return resolve(study, out=self.runs_dir, device=self.device)

    def specs(self, *stream_and_variant: Any) -> list[RunSpec]:
        """Return one spec per seed of a variant on a stream."""
        raise NotImplementedError

    def sessions_asked(self, protocol: str) -> int:
        """Return the user's setting of `protocol.sessions`; 0 if there is none."""
        given = sort_settings(self.given, self.known).protocol
        sessions = make(protocol_class(protocol), given, name="protocol").sessions
        if isinstance(sessions, str):
            raise UserError(
                "protocol.sessions",
                expected="a number of sessions in a paper's table",
                got=sessions,
            )
        return int(sessions)

    def run(self, specs: Sequence[RunSpec]) -> None:
        """Make the missing runs; each failure becomes a sentence in `failed`."""
        outcome = grid_scheduler.run_grid(
            list(specs),
            self.runs_dir,
            engine=self.engine,
            threads=self.threads,
            progress=self.progress,
            planned=self.watch,
            streams=self.streams,
        )
        self.failed += [f"{c.learner} on {c.protocol}: {why}" for c, why in outcome.failed]

    def of(self, *stream_and_variant: Any) -> list[RunRecord]:
        """Return the runs of a variant on a stream, one per seed, as `ask` does."""
        return self.ask(stream_and_variant[-1], self.specs(*stream_and_variant))

    def ask(self, variant: str, specs: Sequence[RunSpec]) -> list[RunRecord]:
        """Return the finished runs of a variant; while tables are planned, note what to run."""
        if self.planned is None:
            return self.records(specs)
        if variant in self.learners or variant not in self.every:
            keys = ((s.files, s.protocol, s.learner, s.seed) for s in specs)
            self.planned |= dict(zip(keys, specs, strict=True))
        return []

    def plan_tables(self, tables: Iterable[Measured]) -> list[RunSpec]:
        """Return the runs that tables ask for, each once, seed by seed: a stream is built once."""
        self.planned = {}
        for make_table in tables:
            make_table(self)
        specs, self.planned = [*self.planned.values()], None
        places = {(s.files, s.protocol): k for k, s in reversed([*enumerate(specs)])}
        return sorted(specs, key=lambda s: (places[s.files, s.protocol], s.seed))

    def records(self, specs: Iterable[RunSpec]) -> list[RunRecord]:
        """Return the checked records of finished runs that means may include."""
        checker, result = Checker(self.runs_dir, self._fail), []
        for spec in specs:
            run_dir = make_task(spec, self.runs_dir, self.streams).run_dir
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


def make_stats(records: Sequence[RunRecord], read: Read) -> list[Stat]:
    """Return the statistics over the records of each number that `read` gives; [] without any."""
    return column_stats(map(read, records))


def flags_of(records: Iterable[RunRecord]) -> tuple[str, ...] | None:
    """The flags that any of the records has, in the order of reports; None without any record."""
    runs = list(records)
    if not runs:
        return None
    return sort_flags(flag for run in runs for flag in run.flags)


# --- the paper ---


@dataclass(frozen=True)
class Paper:
    """A paper: `PAPER` in the `paper.py` of its folder in `embedbench/papers`.

    `facts` is its `paper.toml`. Of its tables, by name, the exact ones need no runs, and the costly
    ones need many and are made only on request. The unplanned ones show finished runs, or make
    their own.
    """

    facts: Mapping[str, Any]
    runs: type[PaperRuns]
    exact: Mapping[str, Callable[[], PaperTable]] = field(default_factory=dict)
    tables: Mapping[str, Measured] = field(default_factory=dict)
    costly: Mapping[str, Measured] = field(default_factory=dict)
    unplanned: Collection[str] = ()

    @property
    def name(self) -> str:
        """First author and year."""
        return str(self.facts["name"])

    @property
    def stem(self) -> str:
        """The default directory and the saved files are named for it."""
        return str(self.facts["stem"])

    def reproduce(
        self, runs: PaperRuns, tables: Sequence[str] = (), data: Sequence[str] = ()
    ) -> list[PaperTable]:
        """Run what is missing and make the tables; finished runs are kept and reused.

        Without `tables` these are all but the costly ones; `data` are as in `find_files`, and
        without any the shipped emoji.
        """
        usual = [*self.exact, *self.tables]
        asked = [name.lower() for name in tables] or usual
        names = select_names(asked, [*usual, *self.costly], "table")
        trained = {**self.tables, **self.costly}  # what needs runs
        makers = {name: make for name, make in trained.items() if name in names}
        runs.out.mkdir(parents=True, exist_ok=True)
        if makers:
            runs.data = runs.find_data(data)
            planned = [make for name, make in makers.items() if name not in self.unplanned]
            specs = runs.plan_tables(planned)
            runs.notify(f"{len(specs)} runs; those that are finished are kept")
            runs.run(specs)
        result: list[PaperTable] = []
        for name in names:
            made = makers[name](runs) if name in makers else self.exact[name]()
            result += [made] if isinstance(made, PaperTable) else made
        return result


def select_names(names: Sequence[str], known: Iterable[str], kind: str) -> list[str]:
    """Return the requested names, or all if none is requested; an unknown name raises an error."""
    every = list(known)
    for name in names:
        if name not in every:
            raise unknown(kind, name, every)
    return list(names) or every


def per_file(make: Callable[[Any, str], PaperTable]) -> Callable[[Any], list[PaperTable]]:
    """Return a maker of one table for each file of the runs, by its name."""
    return lambda runs: [make(runs, name) for name in runs.data]
