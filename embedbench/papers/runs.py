"""The runs behind a paper's tables: planned once each, kept under `out/runs`, read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.errors import unknown
from embedbench.fields import make
from embedbench.reports.rows import LEFT_OUT
from embedbench.runs import grid
from embedbench.runs.cell import Cell
from embedbench.runs.registry import protocol_class
from embedbench.runs.settings import parse_settings, plan, start_of_command
from embedbench.scores import record
from embedbench.scores.record import Record
from embedbench.scores.stats import Stat, number


@dataclass(frozen=True)
class Variant:
    """A learner as a paper uses it.

    Parameters
    ----------
    label : what the paper calls it
    learner : what we call it
    fixed : settings that make it what the paper means, and no `--set` changes
    """

    label: str
    learner: str
    fixed: tuple[str, ...] = ()


@dataclass
class Runs:
    """The runs of a reproduction.

    Parameters
    ----------
    seeds : of every run
    learners : the ones to run, by the paper's names; of others finished runs are shown
    device : "cpu", "cuda", …
    items : further settings, as `embedbench run --set` takes them
    jobs : processes
    known : learners of ours that `items` may name
    failed : sentences on cells that failed
    """

    out: Path
    seeds: Sequence[int]
    learners: Sequence[str] = ()
    device: str = "cpu"
    items: Sequence[str] = ()
    jobs: int = 1
    known: Sequence[str] = ()
    failed: list[str] = field(default_factory=list)

    def plan(
        self,
        learner: str,
        protocol: str,
        files: Sequence[Path],
        items: Sequence[str],
        *,
        fixed: Sequence[str] = (),
        preset: str | None = None,
    ) -> list[Cell]:
        """One cell a seed; the user's settings come after `items` and before what is `fixed`."""
        names = [str(f) for f in files]
        return plan(
            names,
            protocol,
            [learner],
            self.seeds,
            settings=parse_settings([*items, *self.items, *fixed], self.known, preset),
            device=self.device,
            command=start_of_command(names, protocol, self.out / "runs", preset),
            among=self.known,
        )

    def sessions_asked(self, protocol: str) -> int:
        """`protocol.sessions` among the user's settings; 0 without."""
        given = parse_settings(self.items, self.known, None).protocol
        return int(make(protocol_class(protocol), given, name="protocol").sessions)

    def run(
        self,
        cells: Sequence[Cell],
        progress: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        """Run what is not there yet; failures are kept as sentences."""
        outcome = grid.run_grid(list(cells), self.out / "runs", jobs=self.jobs, progress=progress)
        self.failed += [f"{c.learner} on {c.protocol}: {why}" for c, why in outcome.failed]

    def records(self, cells: Iterable[Cell]) -> list[Record]:
        """The finished ones that a mean may include."""
        places = [cell.place(self.out / "runs") for cell in cells]
        found = [record.load(p).to_json() for p in places if (p / "record.json").is_file()]
        return [r for r in found if not any(f in LEFT_OUT for f in r["flags"])]


def wanted(names: Sequence[str], known: Iterable[str], kind: str) -> list[str]:
    """The names asked for, all where none is; an unknown one is refused."""
    every = list(known)
    for name in names:
        if name not in every:
            raise unknown(kind, name, every)
    return list(names) or every


def over(records: Sequence[Record], value: Callable[[Record], float]) -> Stat | None:
    """A number of each record; None where there is none."""
    return Stat.of(value(r) for r in records) if records else None


def metric(name: str) -> Callable[[Record], float]:
    """Read a metric of a record."""
    return lambda r: number(r["metrics"][name])
