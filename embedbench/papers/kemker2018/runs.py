"""The data sets and runs of Kemker et al. (2018)."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedbench.errors import UserError, unknown
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.papers import paper
from embedbench.papers.paper_folders import facts
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.run_record import RunRecord
from embedbench.storage.atomic_write import write_safely
from embedbench.studies.tuning import tune

FACTS = facts("kemker2018")
PRINTED = FACTS["printed"]["tables"]
LEARNERS = paper.read_variants(FACTS["learners"])
NAMES: dict[str, str] = FACTS["data_sets"]
FEL_UNITS: dict[str, int] = FACTS["fel_units"]
CHOICES: dict[str, dict[str, Any]] = FACTS["s1"]
CAPACITIES: dict[str, dict[str, list[int]]] = FACTS["s10"]
PROTOCOLS = ("permutation", "incremental-class", "multi-modal")
STAND_IN = "-stand-in"

Run = tuple[str, str, tuple[str, ...]]  # learner, protocol, names of the data sets


# --- data ---


class Size(NamedTuple):
    """The numbers of a data set that decide the sizes of the paper's models."""

    features: int
    classes: int
    train: int

    @classmethod
    def of_paper(cls, name: str) -> "Size":
        """The sizes in Table 1; MNIST has 60,000 training samples, as its other numbers imply."""
        row = next(r for r in PRINTED["1"] if r["data"] == name)
        return cls(row["features"], row["classes"], 60_000 if name == "mnist" else row["train"])


@dataclass(frozen=True)
class KemkerData(paper.PaperData):
    """One of the paper's data sets, or other data that stand in under its official name."""

    official: str = ""
    stands_in: bool = False

    @property
    def label(self) -> str:
        name = NAMES[self.official]
        return f"{self.file.stem} for {name}" if self.stands_in else name

    @cached_property
    def counts(self) -> list[int]:
        """The columns of Table 1: numbers of classes, features and samples, of samples a class."""
        file, n_classes = self.opened, self.opened.samples.n_leaves
        train, test = (
            np.bincount(file.labels[file.split == code], minlength=n_classes)
            for code in (TRAIN, TEST)
        )
        ranges = (of_class for n in (train, test) for of_class in (n.min(), n.max()))
        return [n_classes, file.shape[1], *map(int, (train.sum(), test.sum(), *ranges))]

    @property
    def size(self) -> Size:
        classes, features, train, *_ = self.counts
        return Size(features, classes, train)


def _check(data: KemkerData) -> None:
    """Refuse a file that has the name of a data set of the paper but is different data."""
    got, want = data.size, Size.of_paper(data.official)  # opening raises an error for a bad file
    if not data.stands_in and got[:2] != want[:2]:
        raise UserError(
            f"{data.file} has {got.features} features and {got.classes} classes, and "
            f"{data.label} has {want.features} and {want.classes}; if it shall stand in for "
            f"it, give --data {data.official}{STAND_IN}={data.file}"
        )


# --- runs ---


class KemkerRuns(paper.PaperRuns):
    """The runs of a reproduction; `data` are the available data sets, by the paper's names."""

    data: dict[str, KemkerData]
    every = LEARNERS

    @classmethod
    def find_data(
        cls, asked: paper.ReproduceRequest, tables: Sequence[str]
    ) -> dict[str, KemkerData]:
        """The given data sets ("mnist=mnist.h5", "cub-stand-in=birds.h5", …), by the paper's names.

        Without CUB-200 the shipped emoji stand in, unless tables are about MNIST alone.
        """
        result: dict[str, KemkerData] = {}
        for item in asked.data:
            key, equals, path = item.partition("=")
            name = key.removesuffix(STAND_IN)
            if not equals or not path:
                raise UserError(f"--data takes NAME=FILE, such as mnist=mnist.h5; got {item!r}")
            if name not in NAMES:
                raise unknown("data set", key, [*NAMES, *(n + STAND_IN for n in NAMES)])
            result[name] = KemkerData(Path(path), name, key.endswith(STAND_IN))
            _check(result[name])
        needed = ["mnist"] if {"s1", "s6", "s7"} >= set(tables) else list(NAMES)
        if "cub" in needed and "cub" not in result:
            why = "no file of CUB-200: the shipped emoji stand in for it"
            result["cub"] = KemkerData(
                paper.emoji(asked.out, asked.notify, why), "cub", stands_in=True
            )
        for name in needed:
            if name not in result:
                asked.notify(f"no file of {NAMES[name]}: its rows stay empty (--data {name}=FILE)")
        return {name: result[name] for name in NAMES if name in result}

    def plan_tables(self, tables: Sequence[str]) -> list[RunSpec]:
        """The runs of tables, each once."""
        return list(dict.fromkeys(spec for table in tables for spec in self._table_specs(table)))

    def _table_specs(self, table: str) -> list[RunSpec]:
        mnist = "mnist" in self.data
        if table in ("1", "2mb", "s7", "s9"):  # S7 is quick and its runs are not saved
            return []
        if table == "s10":
            return [spec for row in self.s10_rows() for spec in self.s10_specs(*row)]
        if table == "s1":
            choices = CHOICES if mnist and "ewc" in self.learners else ()
            return [spec for choice in choices for spec in self.s1_specs(choice)]
        if table == "s6":
            both = [name for name in ("geppnet", "geppnet-stm") if name in self.learners and mnist]
            return [s for n, x in itertools.product(both, range(10)) for s in self.inc_specs(n, x)]
        protocols = {"4": PROTOCOLS[:2], "s8": PROTOCOLS[2:]}.get(table, PROTOCOLS)
        return [spec for run in self.table2(protocols) for spec in self.specs(run)]

    @staticmethod
    def modalities(name: str, protocol: str) -> tuple[str, ...]:
        """Names of the data for a row of Table 2; the row is named after its first modality."""
        others = {"cub": "audioset", "audioset": "cub"}
        return (name, others[name]) if protocol == "multi-modal" else (name,)

    def table2(self, protocols: Iterable[str] = PROTOCOLS) -> list[Run]:
        """All runs of Table 2 for which there is data."""
        runs = [
            (row["learner"], row["protocol"], self.modalities(row["data"], row["protocol"]))
            for row in PRINTED["2"]
        ]
        return [
            run
            for run in runs
            if run[0] in self.learners and run[1] in protocols and self.data.keys() >= {*run[2]}
        ]

    def specs(self, run: Run, *settings: Mapping[str, Any]) -> list[RunSpec]:
        """One spec per seed; FEL has the units of the paper unless there are other settings."""
        learner, protocol, names = run
        if learner == "fel" and not settings:
            units = FEL_UNITS[names[0] if len(names) == 1 else "both"]  # Table S5
            settings = ({"fel": {"fel_units": units}},)
        files = [self.data[n] for n in names]
        return self.plan(LEARNERS[learner], protocol, files, *settings, preset="kemker")

    def s1_specs(self, choice: str) -> list[RunSpec]:
        """The runs of one curve of Figure S1."""
        mnist = [self.data["mnist"]]
        return self.plan(LEARNERS["ewc"], "permutation", mnist, CHOICES[choice])

    def inc_specs(self, learner: str, x: int) -> list[RunSpec]:
        """Table S6, Inc-x: all digits except x, then x."""
        orders = self.asked.out / "orders"
        orders.mkdir(exist_ok=True)
        path = orders / f"inc-{x}.txt"
        if not path.is_file():
            write_safely(path, "".join(f"{c}\n" for c in [*(c for c in range(10) if c != x), x]))
        given = FACTS["s6"]
        settings = {"protocol": given["protocol"] | {"order": str(path)}, learner: given["learner"]}
        return self.specs((learner, "incremental-class", ("mnist",)), settings)

    def of(self, run: Run) -> list[RunRecord]:
        """The records of a run; none if its data are not available."""
        return self.records(self.specs(run)) if self.data.keys() >= {*run[2]} else []

    def stands_in(self, names: Iterable[str]) -> bool:
        return any(self.data[n].stands_in for n in names if n in self.data)

    def label(self, *names: str) -> str:
        """Names of the data sets, in the order in which they are learned."""
        return " / ".join(self.data[n].label if n in self.data else NAMES[n] for n in names)

    def printed_labels(self) -> dict[str, str]:
        """The paper's names of one or two data sets, for the labels that differ from them."""
        names = [*((n,) for n in NAMES), *itertools.permutations(NAMES, 2)]
        both = {self.label(*of): " / ".join(NAMES[n] for n in of) for of in names}
        return {label: printed for label, printed in both.items() if label != printed}

    def capacity(self, learner: str, name: str) -> dict[str, str]:
        """Table S10: the capacity chosen on validation data of all classes; none for PathNet."""
        if learner not in CAPACITIES:
            return {}
        run = (learner, "permutation", (name,))
        (spec, *_) = self.specs(run, {"protocol": {"validation": "train"}})
        grid = {key: [str(v) for v in values] for key, values in CAPACITIES[learner].items()}
        how: Any = {"engine": self.asked.engine, "threads": self.asked.threads}
        result = tune(spec, grid, self.runs_dir, sessions=1, streams=self.streams, **how)
        chosen: dict[str, str] = result["chosen"]
        return chosen

    def s10_specs(self, learner: str, protocol: str, name: str) -> list[RunSpec]:
        """The runs of a row; both protocols use the capacity chosen for the data set."""
        chosen = self.capacity(learner, name)
        return self.specs((learner, protocol, (name,)), *([{learner: chosen}] if chosen else []))

    def s10_rows(self) -> list[tuple[str, str, str]]:
        """(learner, protocol, data) of the rows of Table S10 for which there is data."""
        return [
            (row["learner"], row["protocol"], row["data"])
            for row in PRINTED["S10"]
            if "protocol" in row and row["data"] in self.data and row["learner"] in self.learners
        ]
