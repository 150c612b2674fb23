"""A paper that can be reproduced: its tables, and the runs that they need."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from embedbench.runs.run_spec import RunSpec
from embedbench.system.callback_types import StageProgress

from .paper_runs import PaperRuns, RunRequest, select_names
from .paper_table import PaperTable

KIND = "learner of the paper"  # named in errors
RunsT = TypeVar("RunsT", bound=PaperRuns)
Measured = Callable[[RunsT], list[PaperTable]]


@dataclass
class ReproduceRequest(RunRequest):
    """The request of a user for a paper's tables.

    Parameters
    ----------
    names : sequence of str
        Tables; empty: all except the costly ones. So with learners.
    data : sequence of str
        Embedding files, in the form that `data.py` or the paper's `find_data` reads; empty: shipped
        ones.
    progress : callable
        `progress(name, done, total)` is called with the name of a run, the finished runs and all
        runs.
    used : list of Path
        Filled by `runs`: the embedding files of the tables.
    """

    _: KW_ONLY
    names: Sequence[str] = ()
    data: Sequence[str] = ()
    progress: StageProgress = lambda *_: None
    used: list[Path] = field(default_factory=list)

    def runs(self, kind: Callable[..., RunsT], data: Mapping[str, Any] | None = None) -> RunsT:
        """Return the requested runs, as an object of a paper's class `kind`, on its data."""
        files = data or {}
        self.used.extend(getattr(file, "file", file) for file in files.values())
        given = {f.name: getattr(self, f.name) for f in fields(RunRequest)}
        return kind(**given, data=files)


@dataclass(frozen=True)
class Paper(Generic[RunsT]):
    """A paper: `PAPER` in the `paper.py` of its folder in `embedbench/papers`.

    Parameters
    ----------
    facts : mapping
        Its `paper.toml`: name, aliases, citation, stem, learners, plan, printed tables.
    runs : callable
        Makes the runs on the requested data, from a `ReproduceRequest` and names of tables.
    specs : callable
        The runs that the tables need, from the runs and the names of the tables.
    learners : callable
        Names of the learners that may be requested.
    exact : mapping
        Tables that need no runs, by name.
    tables : mapping
        Tables that need runs, by name.
    costly : mapping
        Tables that need many runs, by name; made only on request.
    printed : callable
        Every table that the paper prints, without data and without runs.
    """

    facts: Mapping[str, Any]
    runs: Callable[[ReproduceRequest, Sequence[str]], RunsT]
    specs: Callable[[RunsT, Sequence[str]], Sequence[RunSpec]]
    learners: Callable[[], Iterable[str]]
    exact: Mapping[str, Callable[[], PaperTable]] = field(default_factory=dict)
    tables: Mapping[str, Measured[RunsT]] = field(default_factory=dict)
    costly: Mapping[str, Measured[RunsT]] = field(default_factory=dict)
    printed: Callable[[], list[PaperTable]] = list

    @property
    def name(self) -> str:
        """First author and year."""
        return str(self.facts["name"])

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names on the command line."""
        return tuple(self.facts.get("aliases", ()))

    @property
    def citation(self) -> str:
        """Authors, year and title: the heading of the page."""
        return str(self.facts["citation"])

    @property
    def stem(self) -> str:
        """The default directory and the saved files are named for it."""
        return str(self.facts["stem"])

    def runs_behind(self, table: str) -> int:
        """Return how many runs are behind a printed value of a table; 1 if the paper says none."""
        given = self.facts.get("runs_behind", {})
        return int(given.get(table, given.get("every", 1)))

    def reproduce(self, asked: ReproduceRequest) -> tuple[list[PaperTable], list[str]]:
        """Run what is missing and make the tables.

        Finished runs are kept and reused.

        Raises
        ------
        UserError
            A table, learner, file or setting is unknown.
        """
        usual = [*self.exact, *self.tables]
        names = select_names(
            [n.lower() for n in asked.names] or usual, [*usual, *self.costly], "table"
        )
        asked = replace(asked, learners=select_names(asked.learners, self.learners(), KIND))
        asked.out.mkdir(parents=True, exist_ok=True)
        made = {name: [self.exact[name]()] for name in names if name in self.exact}
        failed: list[str] = []
        if measured := [name for name in names if name not in self.exact]:
            runs = self.runs(asked, measured)
            specs = self.specs(runs, measured)
            asked.notify(f"{len(specs)} runs; those that are finished are kept")
            runs.run(specs, asked.progress)
            makers = {**self.tables, **self.costly}
            made |= {name: makers[name](runs) for name in measured}
            failed = runs.failed
        return [table for name in names for table in made[name]], failed


def each(*makers: Callable[[RunsT], PaperTable]) -> Measured[RunsT]:
    """Return a maker of several tables, from makers of one table each."""
    return lambda runs: [make(runs) for make in makers]


def per_file(make: Callable[[RunsT, str], PaperTable]) -> Measured[RunsT]:
    """Return a maker of one table for each file of the runs, by its name."""
    return lambda runs: [make(runs, name) for name in runs.data]
