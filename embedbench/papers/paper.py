"""A paper that can be reproduced: its tables, and the runs that they need."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from embedbench.errors import unknown

from .paper_runs import PaperRuns, ReproduceRequest
from .paper_table import PaperTable

KIND = "learner of the paper"  # named in errors
Measured = Callable[[Any], PaperTable | list[PaperTable]]  # from the paper's runs


@dataclass(frozen=True)
class Paper:
    """A paper: `PAPER` in the `paper.py` of its folder in `embedbench/papers`.

    Parameters
    ----------
    facts : mapping
        Its `paper.toml`: name, aliases, citation, stem, learners, plan, printed tables.
    runs : type
        Its runs.
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
    runs: type[PaperRuns]
    exact: Mapping[str, Callable[[], PaperTable]] = field(default_factory=dict)
    tables: Mapping[str, Measured] = field(default_factory=dict)
    costly: Mapping[str, Measured] = field(default_factory=dict)
    printed: Callable[[], list[PaperTable]] = list

    @property
    def name(self) -> str:
        """First author and year."""
        return str(self.facts["name"])

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
        asked = replace(asked, learners=select_names(asked.learners, self.runs.every, KIND))
        asked.out.mkdir(parents=True, exist_ok=True)
        made: dict[str, PaperTable | list[PaperTable]] = {
            name: self.exact[name]() for name in names if name in self.exact
        }
        failed: list[str] = []
        if measured := [name for name in names if name not in self.exact]:
            runs = self.runs(asked, self.runs.find_data(asked, measured))
            asked.used.extend(data.file for data in runs.data.values())
            specs = runs.plan_tables(measured)
            asked.notify(f"{len(specs)} runs; those that are finished are kept")
            runs.run(specs)
            made |= {name: {**self.tables, **self.costly}[name](runs) for name in measured}
            failed = runs.failed
        lists = (made[name] for name in names)
        return [t for of in lists for t in ([of] if isinstance(of, PaperTable) else of)], failed


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
