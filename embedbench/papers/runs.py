"""The runs behind a paper's tables: planned once each, kept under `out/runs`, read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.callbacks import Notify, StageProgress
from embedbench.errors import unknown
from embedbench.fields import make
from embedbench.reports.rows import LEFT_OUT
from embedbench.runs import grid
from embedbench.runs.cell import Cell
from embedbench.runs.command import start_of_command
from embedbench.runs.registry import protocol_class
from embedbench.runs.settings import parse_settings, plan
from embedbench.runs.work import Workshop
from embedbench.scores import record
from embedbench.scores.run_record import RunRecord
from embedbench.scores.stats import Stat


@dataclass(frozen=True)
class Variant:
    """A learner as a paper uses it.

    Parameters
    ----------
    label : str
        What the paper calls it.
    learner : str
        What we call it.
    fixed : tuple of str
        Settings that make it what the paper means; no `--set` changes them.
    """

    label: str
    learner: str
    fixed: tuple[str, ...] = ()


@dataclass
class Runs:
    """The runs of a reproduction.

    Parameters
    ----------
    out : Path
        Directory of the runs and of files made on the way.
    seeds : sequence of int
        Seeds of every run.
    learners : sequence of str
        Learners to run, by the paper's names. Of others, finished runs are used.
    device : str
        "cpu", "cuda", …
    items : sequence of str
        Further settings, as `embedbench run --set` takes them.
    jobs : int
        Processes.
    known : sequence of str
        Learners of ours that `items` may name.
    failed : list of str
        A sentence on each cell that failed.
    notify : callable
        Called with a sentence for the user.
    workshop : Workshop
        Files and streams that its cells share.
    """

    out: Path
    seeds: Sequence[int]
    learners: Sequence[str] = ()
    device: str = "cpu"
    items: Sequence[str] = ()
    jobs: int = 1
    known: Sequence[str] = ()
    failed: list[str] = field(default_factory=list)
    notify: Notify = field(default=lambda _: None, kw_only=True)
    workshop: Workshop = field(default_factory=Workshop, repr=False)

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
        """Return one cell a seed. The user's settings go over `items`, and `fixed` over both."""
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
        """Return `protocol.sessions` of the user's settings; 0 without."""
        given = parse_settings(self.items, self.known, None).protocol
        return int(make(protocol_class(protocol), given, name="protocol").sessions)

    def run(
        self,
        cells: Sequence[Cell],
        progress: StageProgress = lambda *_: None,
    ) -> None:
        """Run what is not there yet; each failure becomes a sentence of `failed`."""
        outcome = grid.run_grid(
            list(cells),
            self.out / "runs",
            jobs=self.jobs,
            progress=progress,
            workshop=self.workshop,
        )
        self.failed += [f"{c.learner} on {c.protocol}: {why}" for c, why in outcome.failed]

    def records(self, cells: Iterable[Cell]) -> list[RunRecord]:
        """Return the records of finished cells that a mean may include."""
        places = [self.workshop.place(cell, self.out / "runs") for cell in cells]
        finished = [record.load(p) for p in places if (p / "record.json").is_file()]
        return [r for r in finished if not any(f in LEFT_OUT for f in r.flags)]


def wanted(names: Sequence[str], known: Iterable[str], kind: str) -> list[str]:
    """Return the names asked for, or all where none is; an unknown one is refused."""
    every = list(known)
    for name in names:
        if name not in every:
            raise unknown(kind, name, every)
    return list(names) or every


def over(records: Sequence[RunRecord], value: Callable[[RunRecord], float]) -> Stat | None:
    """Return a number over the records; None without records."""
    return Stat.of(value(r) for r in records) if records else None


def metric(name: str) -> Callable[[RunRecord], float]:
    """Return what reads a metric of a record."""
    return lambda r: r.metrics[name]
