"""The runs behind the tables of Kemker et al. (2018)."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from embedbench.papers import runs
from embedbench.papers.runs import over
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.storage.atomic_write import write_safely

from .data import NAMES, Data
from .sizes import FEL_UNITS

LEARNERS = {
    "mlp": "MLP",
    "ewc": "EWC",
    "pathnet": "PathNet",
    "geppnet": "GeppNet",
    "geppnet-stm": "GeppNet+STM",
    "fel": "FEL",
}
PROTOCOLS = ("permutation", "incremental-class", "multi-modal")
SOM_SIDE = 30  # for Table S6: the original's 90 units per class

Run = tuple[str, str, tuple[str, ...]]  # learner, protocol, names of the data sets


@dataclass
class KemkerRuns(runs.PaperRuns):
    """The runs of a reproduction: each is planned once and saved under `out/runs`.

    Parameters
    ----------
    data : dict
        The available data sets, by the paper's names.
    """

    data: dict[str, Data] = field(kw_only=True)
    learners: Sequence[str] = tuple(LEARNERS)
    known: Sequence[str] = tuple(LEARNERS)

    def table2(self, protocols: Iterable[str] = PROTOCOLS) -> list[Run]:
        """All runs of Table 2 for which there is data."""
        pairs = list(itertools.permutations([n for n in self.data if n != "mnist"], 2))
        return [
            (learner, protocol, names)
            for protocol in protocols
            for learner in self.learners
            for names in (pairs if protocol == "multi-modal" else [(n,) for n in self.data])
            if (learner, protocol) != ("pathnet", "incremental-class")
        ]

    def specs(self, run: Run) -> list[RunSpec]:
        """One spec per seed."""
        learner, protocol, names = run
        items = [f"fel.fel_units={fel_units(names)}"] if learner == "fel" else []
        return self.specs_on(learner, protocol, names, items)

    def inc_specs(self, learner: str, x: int) -> list[RunSpec]:
        """Table S6, Inc-x: all digits except x, then x; a 30 x 30 map."""
        orders = self.out / "orders"
        orders.mkdir(exist_ok=True)
        path = orders / f"inc-{x}.txt"
        if not path.is_file():
            write_safely(path, "".join(f"{c}\n" for c in [*(c for c in range(10) if c != x), x]))
        items = ["protocol.base=9", f"protocol.order={path}", f"{learner}.som.side={SOM_SIDE}"]
        return self.specs_on(learner, "incremental-class", ["mnist"], items)

    def specs_on(
        self,
        learner: str,
        protocol: str,
        names: Sequence[str],
        items: Sequence[str],
        *,
        preset: str | None = "kemker",
    ) -> list[RunSpec]:
        """One spec per seed, on data sets of the paper."""
        files = [self.data[n].file for n in names]
        return self.plan(learner, protocol, files, items, preset=preset)

    def of(self, run: Run) -> list[RunRecord]:
        """The records of a run; none if its data are not available."""
        at_hand = all(name in self.data for name in run[2])
        return self.records(self.specs(run)) if at_hand else []

    def stat(self, run: Run, value: Callable[[RunRecord], float]) -> Stat | None:
        """A number of each of a run's records, over the seeds."""
        return over(self.of(run), value)

    def stands_in(self, names: Iterable[str]) -> bool:
        return any(self.data[n].stands_in for n in names if n in self.data)

    def label(self, names: Sequence[str]) -> str:
        """Names of the data sets, in the order in which they are learned."""
        return " / ".join(self.data[n].label if n in self.data else NAMES[n] for n in names)

    def printed_labels(self) -> dict[str, str]:
        """The paper's names of one or two data sets, for the labels that differ from them."""
        names = [*((n,) for n in NAMES), *itertools.permutations(NAMES, 2)]
        both = {self.label(of): " / ".join(NAMES[n] for n in of) for of in names}
        return {label: printed for label, printed in both.items() if label != printed}


def fel_units(names: Sequence[str]) -> int:
    """Units of the fixed expansion layer (Table S5); 1200 in the multi-modal experiment."""
    return FEL_UNITS[names[0]] if len(names) == 1 else 1200


def seconds(r: RunRecord) -> float:
    return r.seconds.learn + r.seconds.evaluate


def modalities(name: str, protocol: str) -> tuple[str, ...]:
    """Names of the data for a row of Table 2; the row is named after its first modality."""
    others = {"cub": "audioset", "audioset": "cub"}
    return (name, others[name]) if protocol == "multi-modal" else (name,)
