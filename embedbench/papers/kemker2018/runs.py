"""The data sets, runs and model sizes of Kemker et al. (2018)."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError, unknown
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.papers.paper import ReproduceRequest
from embedbench.papers.paper_folders import read_paper
from embedbench.papers.paper_runs import PaperRuns, over, read_settings, read_variants
from embedbench.papers.reproduction_data import emoji
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.storage.atomic_write import write_safely
from embedbench.studies.set_and_tune_options import Settings
from embedbench.studies.tuning import tune

FACTS = read_paper(Path(__file__).with_name("paper.toml"))
PRINTED = FACTS["printed"]["tables"]
LEARNERS = read_variants(FACTS["learners"])
NAMES: dict[str, str] = FACTS["data_sets"]
FEL_UNITS: dict[str, int] = FACTS["fel_units"]
CHOICES = {label: read_settings(given) for label, given in FACTS["s1"].items()}
CAPACITIES: dict[str, dict[str, list[int]]] = FACTS["s10"]
PROTOCOLS = ("permutation", "incremental-class", "multi-modal")
STAND_IN = "-stand-in"

Run = tuple[str, str, tuple[str, ...]]  # learner, protocol, names of the data sets


# --- data ---


@dataclass(frozen=True)
class Size:
    """The numbers of a data set that decide the sizes of the paper's models."""

    features: int
    classes: int
    train: int


@dataclass(frozen=True)
class Data:
    """One of the paper's data sets, or a file that replaces it.

    Parameters
    ----------
    stands_in : bool
        Whether other data replace it; they are never averaged under the paper's name.
    """

    name: str
    file: Path
    stands_in: bool = False

    @property
    def label(self) -> str:
        return f"{self.file.stem} for {NAMES[self.name]}" if self.stands_in else NAMES[self.name]

    @cached_property
    def counts(self) -> dict[str, list[int]]:
        """The numbers of Table 1: single numbers as a list of one, ranges as [least, most]."""
        file = EmbeddingFile.open(self.file)
        n = {
            split: np.bincount(file.labels[file.split == code], minlength=file.samples.n_leaves)
            for split, code in (("train", TRAIN), ("test", TEST))
        }
        counts = {"classes": [file.samples.n_leaves], "features": [file.shape[1]]}
        counts |= {split: [int(of.sum())] for split, of in n.items()}
        return counts | {f"{k}_per_class": [int(of.min()), int(of.max())] for k, of in n.items()}

    @cached_property
    def size(self) -> Size:
        """Number of features, classes and training samples."""
        return Size(*(self.counts[k][0] for k in ("features", "classes", "train")))


def paper_size(name: str) -> Size:
    """The sizes in Table 1; MNIST has 60,000 training samples, as its other numbers imply."""
    row = next(r for r in PRINTED["1"] if r["data"] == name)
    return Size(row["features"], row["classes"], 60_000 if name == "mnist" else row["train"])


def find_data(
    given: Sequence[str],
    out: Path,
    notify: Callable[[str], None] = lambda _: None,
    *,
    names: Sequence[str] = tuple(NAMES),
) -> dict[str, Data]:
    """The available data sets of the paper, by name.

    Those that are not in `given` ("mnist=mnist.h5", "cub-stand-in=birds.h5", …) are searched:
    NAME.h5 in the working directory; for MNIST also its four IDX files, there or in ./mnist, which
    are imported. For CUB-200 the shipped emoji are extracted as a stand-in.

    Raises
    ------
    UserError
        A name or file is unknown, or a file does not match the data set of its name.
    """
    result = {}
    for item in given:
        key, equals, path = item.partition("=")
        name = key.removesuffix(STAND_IN)
        if not equals or not path:
            raise UserError(f"--data takes NAME=FILE, such as mnist=mnist.h5; got {item!r}")
        if name not in NAMES:
            raise unknown("data set", key, [*NAMES, *(n + STAND_IN for n in NAMES)])
        result[name] = _check(Data(name, Path(path), key.endswith(STAND_IN)))
    for name in names:
        if name not in result and Path(f"{name}.h5").is_file():
            result[name] = _check(Data(name, Path(f"{name}.h5")))
    if "mnist" in names and "mnist" not in result:
        made = _import_mnist(out, notify)
        result |= {"mnist": _check(Data("mnist", made))} if made else {}
    if "cub" in names and "cub" not in result:
        why = "no file of CUB-200: the shipped emoji stand in for it"
        result["cub"] = Data("cub", emoji(out, notify, why), stands_in=True)
    return {name: result[name] for name in NAMES if name in result}


def _check(data: Data) -> Data:
    """Refuse a file that has the name of a data set of the paper but is different data."""
    got, want = data.size, paper_size(data.name)  # opening also raises an error for a bad file
    if not data.stands_in and (got.features, got.classes) != (want.features, want.classes):
        raise UserError(
            f"{data.file} has {got.features} features and {got.classes} classes, and "
            f"{NAMES[data.name]} has {want.features} and {want.classes}; if it shall stand in for "
            f"it, give --data {data.name}{STAND_IN}={data.file}"
        )
    return data


def _import_mnist(out: Path, notify: Callable[[str], None]) -> Path | None:
    from embedbench.files.formats.mnist_idx import is_idx
    from embedbench.files.import_features import import_file

    made = out / "mnist.h5"
    source = next((p for p in (Path(), Path("mnist")) if p.is_dir() and is_idx(p)), None)
    if not made.is_file() and source is not None:
        notify(f"importing MNIST from {source.resolve().name}")
        import_file(source, made)
    return made if made.is_file() else None


# --- runs ---


@dataclass
class KemkerRuns(PaperRuns):
    """The runs of a reproduction; `data` are the available data sets, by the paper's names."""

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
        settings = {"fel": {"fel_units": fel_units(names)}} if learner == "fel" else {}
        return self.specs_on(learner, protocol, names, read_settings(settings))

    def s1_specs(self, choice: str) -> list[RunSpec]:
        """The runs of one curve of Figure S1."""
        return self.specs_on("ewc", "permutation", ["mnist"], CHOICES[choice], preset=None)

    def inc_specs(self, learner: str, x: int) -> list[RunSpec]:
        """Table S6, Inc-x: all digits except x, then x."""
        orders = self.out / "orders"
        orders.mkdir(exist_ok=True)
        path = orders / f"inc-{x}.txt"
        if not path.is_file():
            write_safely(path, "".join(f"{c}\n" for c in [*(c for c in range(10) if c != x), x]))
        settings = read_settings({**FACTS["s6"], "protocol.order": str(path)})
        settings = {k: v for k, v in settings.items() if k.head in ("protocol", learner)}
        return self.specs_on(learner, "incremental-class", ["mnist"], settings)

    def specs_on(
        self,
        learner: str,
        protocol: str,
        names: Sequence[str],
        settings: Settings,
        *,
        preset: str | None = "kemker",
    ) -> list[RunSpec]:
        """One spec per seed, on data sets of the paper."""
        files = [self.data[n].file for n in names]
        return self.plan(learner, protocol, files, settings, preset=preset)

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

    def capacity(self, learner: str, name: str) -> dict[str, str]:
        """Table S10: the capacity chosen on validation data of all classes; none for PathNet."""
        if learner not in CAPACITIES:
            return {}
        (spec, *_) = self.specs_on(
            learner, "permutation", [name], read_settings({"protocol": {"validation": "train"}})
        )
        grid = {key: [str(v) for v in values] for key, values in CAPACITIES[learner].items()}
        how: Any = {"engine": self.engine, "threads": self.threads, "streams": self.streams}
        chosen: dict[str, str] = tune(spec, grid, self.out / "runs", sessions=1, **how)["chosen"]
        return chosen

    def s10_specs(self, learner: str, protocol: str, name: str) -> list[RunSpec]:
        """The runs of a row; both protocols use the capacity chosen for the data set."""
        if not (chosen := self.capacity(learner, name)):
            return self.specs((learner, protocol, (name,)))
        return self.specs_on(learner, protocol, [name], read_settings({learner: chosen}))

    def s10_rows(self) -> list[tuple[str, str, str]]:
        """(learner, protocol, data) of the rows of Table S10 for which there is data."""
        return [
            (row["learner"], row["protocol"], row["data"])
            for row in PRINTED["S10"]
            if "protocol" in row and row["data"] in self.data and row["learner"] in self.learners
        ]


def fel_units(names: Sequence[str]) -> int:
    """Units of the fixed expansion layer (Table S5)."""
    return FEL_UNITS[names[0] if len(names) == 1 else "both"]


def modalities(name: str, protocol: str) -> tuple[str, ...]:
    """Names of the data for a row of Table 2; the row is named after its first modality."""
    others = {"cub": "audioset", "audioset": "cub"}
    return (name, others[name]) if protocol == "multi-modal" else (name,)


def seconds(r: RunRecord) -> float:
    return r.seconds.learn + r.seconds.evaluate


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> KemkerRuns:
    """Return the runs on those of the needed data sets that are available."""
    needed = ["mnist"] if {"s1", "s6", "s7"} >= set(tables) else list(NAMES)
    data = find_data(asked.data, asked.out, asked.notify, names=needed)
    for name in needed:
        if name not in data:
            asked.notify(f"no file of {NAMES[name]}: its rows stay empty (--data {name}=FILE)")
    return asked.runs(KemkerRuns, data=data)


def plan_runs(runs: KemkerRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables, each once."""
    return list(dict.fromkeys(spec for table in tables for spec in _specs(runs, table)))


def _specs(runs: KemkerRuns, table: str) -> list[RunSpec]:
    """The runs that a table needs."""
    if table in ("1", "2mb", "s7", "s9"):  # S7 is quick and its runs are not saved
        return []
    if table == "s10":
        return [spec for row in runs.s10_rows() for spec in runs.s10_specs(*row)]
    if table == "s1":
        needed = "mnist" in runs.data and "ewc" in runs.learners
        return [c for choice in CHOICES if needed for c in runs.s1_specs(choice)]
    if table == "s6":
        both = [name for name in ("geppnet", "geppnet-stm") if name in runs.learners]
        pairs = itertools.product(both, range(10))
        return [c for p in pairs for c in runs.inc_specs(*p)] if "mnist" in runs.data else []
    protocols = {"4": PROTOCOLS[:2], "s8": PROTOCOLS[2:]}
    return [c for run in runs.table2(protocols.get(table, PROTOCOLS)) for c in runs.specs(run)]


# --- sizes, as the paper counts them, and Table 5's summary by explicit rules ---

# The questions of Table 5, each with a rule that gives the paper's ticks from its numbers
QUESTIONS = {
    "incremental-class": "mean Ω_all on incremental class at least 0.9 of the best learner's",
    "similar data": "mean Ω_all on permutation at least 0.9 of the best learner's",
    "dissimilar data": "mean Ω_all on multi-modal at least 0.9 of the best learner's",
    "memory efficient": "at most 2.1 times the MLP on every data set, and fixed in size",
    "trains quickly": "at most 5 times the MLP's time in every protocol",
}
GROWING = ("pathnet", "geppnet", "geppnet-stm")  # one head per session, or all training data
MEMORY = 300  # samples of GeppNet+STM's short-term memory


def megabytes(
    learner: str,
    size: Size,
    *,
    units: int = 400,
    side: int = 23,
    fel_units: int = 2000,
    outputs: int | None = None,
) -> float:
    """The size of a learner in MB (10⁶ bytes) as Table 2 counts it.

    **Source**: Kemker et al. (2018), Table 2; the formulas are derived from its printed values.
    EWC counts one extra vector, though the method keeps two (θ* and F). GeppNets store all training
    samples with their labels. PathNet has the ten heads that its printed sizes imply.

    Parameters
    ----------
    units, side, fel_units : int
        Hidden units a layer, side of the map, units of the expansion layer.
    outputs : int or None
        Outputs of the readout; None: the number of classes. 10 gives the printed CUB-200 sizes of
        the GeppNets.
    """
    d, c, h = size.features, size.classes, units
    mlp = d * h + h + h * h + h + h * c + c
    out = c if outputs is None else outputs
    geppnet = side**2 * (d + out) + out + size.train * (d + 1)
    count = {
        "mlp": mlp,
        "ewc": 2 * mlp,
        "pathnet": 10 * (80 * d + 80) + 10 * (80 * 80 + 80) + 10 * (80 * c + c),
        "geppnet": geppnet,
        "geppnet-stm": geppnet + MEMORY * (d + 1),
        "fel": d * h + h + h * fel_units + fel_units + fel_units * c + c,
    }[learner]
    return 4 * count / 1e6  # bytes of a float and of a stored label


def summary(
    omega_all: Mapping[tuple[str, str], float],
    size: Mapping[tuple[str, str], float],
    minutes: Mapping[tuple[str, str], float],
) -> dict[tuple[str, str], bool]:
    """Table 5: (learner, question) → tick, by the rules of `QUESTIONS`.

    Parameters
    ----------
    omega_all : mapping
        (learner, protocol) → mean Ω_all; a missing pair gets a cross.
    size : mapping
        (learner, data set) → MB.
    minutes : mapping
        (learner, protocol) → training time.
    """
    ticks = {}
    learners = dict.fromkeys(learner for learner, _ in size)
    for question, protocol in zip(QUESTIONS, ("incremental-class", *PROTOCOLS[::2]), strict=False):
        best = max((v for (_, p), v in omega_all.items() if p == protocol), default=float("nan"))
        for learner in learners:
            ticks[learner, question] = omega_all.get((learner, protocol), -1.0) >= 0.9 * best
    for learner in learners:
        sizes = [(v, size["mlp", d]) for (name, d), v in size.items() if name == learner]
        fits = all(mine <= 2.1 * mlp for mine, mlp in sizes)
        ticks[learner, "memory efficient"] = fits and learner not in GROWING
        times = [(v, minutes["mlp", p]) for (name, p), v in minutes.items() if name == learner]
        ticks[learner, "trains quickly"] = all(mine <= 5 * mlp for mine, mlp in times)
    return ticks
