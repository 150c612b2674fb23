"""`embedbench reproduce kemker2018`: the tables of Kemker et al. (2018) with ours beside them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.papers import paper
from embedbench.papers.data_kinds import paper_sets
from embedbench.papers.paper import flags_of, make_stats
from embedbench.papers.paper_folders import facts
from embedbench.papers.paper_table import EXACT, PaperTable, Value
from embedbench.reports.results import column_stats
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.storage.atomic_write import write_safely
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import split_rows
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View
from embedbench.studies.resolve import sort_settings
from embedbench.studies.tuning import tune

FACTS = facts("kemker2018")
PRINTED = FACTS["printed"]["tables"]
LEARNERS = paper.read_variants(FACTS["learners"])
NAMES: dict[str, str] = FACTS["data_sets"]
FEL_UNITS: dict[str, int] = FACTS["fel_units"]
CHOICES: dict[str, dict[str, Any]] = FACTS["s1"]
CAPACITIES: dict[str, dict[str, list[int]]] = FACTS["s10"]
PROTOCOLS = ("permutation", "incremental-class", "multi-modal")
OMEGAS = ("omega_base", "omega_new", "omega_all")


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


class KemkerRuns(paper.PaperRuns):
    """The runs of a reproduction; `data` are the available data sets, by the paper's names."""

    every, official, default = LEARNERS, NAMES, f"cub{paper.STAND_IN}="
    sets = paper_sets(FACTS)

    def find_data(self, given: Sequence[str]) -> dict[str, paper.PaperData]:
        """The given data sets ("mnist=mnist.h5", "cub-stand-in=birds.h5", …)."""
        result = super().find_data(given)
        for name, data in result.items():
            if name not in NAMES:
                raise UserError(
                    "--data",
                    expected=f"NAME=FILE or NAME{paper.STAND_IN}=FILE, NAME {' or '.join(NAMES)}",
                    got=str(data.file),
                )
        return {name: result[name] for name in NAMES if name in result}

    @staticmethod
    def modalities(name: str, protocol: str) -> tuple[str, ...]:
        """Names of the data for a row of Table 2; the row is named after its first modality."""
        others = {"cub": "audioset", "audioset": "cub"}
        return (name, others[name]) if protocol == "multi-modal" else (name,)

    def specs(self, *stream_and_variant: Any, **given: Any) -> list[RunSpec]:
        """One spec per seed; FEL has the units of the paper unless there are other settings."""
        protocol, names, learner = stream_and_variant
        if learner == "fel" and not given:
            units = FEL_UNITS[names[0] if len(names) == 1 else "both"]  # Table S5
            given = {"fel": {"fel_units": units}}
        files = [self.data[n] for n in names]
        return self.plan(LEARNERS[learner], protocol, files, given, preset="kemker")

    def of(self, *stream_and_variant: Any) -> list[RunRecord]:
        """The records of a learner; none if the data are not available."""
        at_hand = self.data.keys() >= {*stream_and_variant[1]}
        return super().of(*stream_and_variant) if at_hand else []

    def s1_specs(self, choice: str) -> list[RunSpec]:
        """The runs of one curve of Figure S1."""
        mnist = [self.data["mnist"]]
        return self.plan(LEARNERS["ewc"], "permutation", mnist, CHOICES[choice])

    def inc_specs(self, learner: str, x: int) -> list[RunSpec]:
        """Table S6, Inc-x: all digits except x, then x."""
        path = self.out / "orders" / f"inc-{x}.txt"
        path.parent.mkdir(exist_ok=True)
        if not path.is_file():
            write_safely(path, "".join(f"{c}\n" for c in [*(c for c in range(10) if c != x), x]))
        given = FACTS["s6"]
        settings = {"protocol": given["protocol"] | {"order": str(path)}, learner: given["learner"]}
        return self.specs("incremental-class", ("mnist",), learner, **settings)

    def counts(self, name: str) -> list[int]:
        """The columns of Table 1: numbers of classes, features and samples, of samples a class."""
        file = self.data[name].opened
        n_classes = file.samples.n_leaves
        train = np.bincount(file.labels[file.split == TRAIN], minlength=n_classes)
        test = np.bincount(file.labels[file.split == TEST], minlength=n_classes)
        of_class = [train.min(), train.max(), test.min(), test.max()]
        return [n_classes, file.shape[1], *map(int, [train.sum(), test.sum(), *of_class])]

    def size(self, name: str) -> Size:
        classes, features, train, *_ = self.counts(name)
        return Size(features, classes, train)

    def about_mnist(self, key: str) -> PaperTable:
        """A table without rows that is about MNIST alone; its name says what stands in for it."""
        own = self.is_own("mnist")
        return _table(key, file="" if own else self.tag("mnist"))

    def add(
        self, table: PaperTable, labels: Sequence[str], of: Sequence[str], *numbers: Any, **how: Any
    ) -> None:
        """Append a row of one or two data sets, whose names end its labels; see `add_numbers`."""
        row = ", ".join((*labels, " / ".join(NAMES[name] for name in of)))
        both, other = (*labels, self.label(*of)), not self.is_own(*of)
        table.add_numbers(both, *numbers, row=row, stands_in=other, **how)

    def capacity(self, learner: str, name: str) -> dict[str, str]:
        """Table S10: the capacity chosen on validation data of all classes; none for PathNet."""
        if learner not in CAPACITIES:
            return {}
        (spec, *_) = self.specs("permutation", (name,), learner, protocol={"validation": "train"})
        grid = {key: [str(v) for v in values] for key, values in CAPACITIES[learner].items()}
        how: Any = {"engine": self.engine, "threads": self.threads}
        result = tune(spec, grid, self.runs_dir, sessions=1, streams=self.streams, **how)
        chosen: dict[str, str] = result["chosen"]
        return chosen


def read_omegas(record: RunRecord) -> list[float]:
    return [record.metrics[omega] for omega in OMEGAS]


_table = partial(PaperTable.of_facts, FACTS)


def table1(runs: KemkerRuns) -> PaperTable:
    """Table 1: the data sets."""
    table = _table("1")
    for row in PRINTED["1"]:
        name = row["data"]
        printed = [row[column] for column in table.columns[:4]]
        printed += [*row["train_per_class"], *row["test_per_class"]]
        ours = runs.counts(name) if name in runs.data else ()
        runs.add(table, (), [name], ours, printed, 0, made=EXACT)
    return table


def table2(runs: KemkerRuns) -> PaperTable:
    """Table 2 without its MB column: Ω of every learner, protocol and data set."""
    table = _table("2")
    for row in PRINTED["2"]:
        learner, protocol = row["learner"], row["protocol"]
        names = runs.modalities(row["data"], protocol)
        labels = (protocol, LEARNERS[learner].label)
        records = runs.of(protocol, names, learner)
        ours, printed = make_stats(records, read_omegas), [row[omega] for omega in OMEGAS]
        runs.add(table, labels, names, ours, printed, flags=flags_of(records))
    return table


def table2_sizes(runs: KemkerRuns) -> PaperTable:
    """Table 2's MB column: by the paper's count (no data needed), and the bytes really held."""
    table = _table("2 MB")
    for row in PRINTED["2 MB"]:
        name, learner = row["data"], row["learner"]
        label, units = LEARNERS[learner].label, FEL_UNITS[name]
        size = megabytes(learner, Size.of_paper(name), fel_units=units)
        table.add_numbers((label, NAMES[name]), [size], [row["mb"]], 2, made=EXACT)
        if not runs.is_own(name):
            size = megabytes(learner, runs.size(name), fel_units=units)
            table.add_numbers((label, runs.label(name)), [size], decimals=2)
        records = runs.of("permutation", (name,), learner)
        for held in make_stats(records, lambda r: [r.footprint["total"] / 1e6]):
            table.rows[-1].values[table.columns[-1]] = Value(ours=held, decimals=2)
    return table


def table3(runs: KemkerRuns) -> PaperTable:
    """Table 3: mean Ω_all over the data sets; only if all are available."""
    table = _table("3")
    printed = {(r["learner"], r["protocol"]): r["omega_all"] for r in PRINTED["3"]}
    where, other = ", ".join(map(runs.label, NAMES)), not runs.is_own(*NAMES)
    for learner, variant in LEARNERS.items():
        keys = [(learner, protocol) for protocol in PROTOCOLS]
        ours = (_mean_omega(runs, *key) if key in printed else None for key in keys)
        labels, theirs = (variant.label, where), map(printed.get, keys)
        table.add_numbers(labels, ours, theirs, row=variant.label, stands_in=other)
    return table


def _mean_omega(runs: KemkerRuns, learner: str, protocol: str) -> Stat | None:
    """Mean Ω_all over the data sets; None if runs of one are missing."""
    names = ("cub", "audioset") if protocol == "multi-modal" else tuple(NAMES)
    each = [runs.of(protocol, runs.modalities(name, protocol), learner) for name in names]
    if not all(each):
        return None
    values = (make_stats(records, read_omegas)[-1].values for records in each)
    return column_stats([float(np.mean(v))] for v in zip(*values, strict=False))[0]


def table4(runs: KemkerRuns) -> PaperTable:
    """Table 4: minutes on CUB-200."""
    table = _table("4")
    printed = {(r["learner"], r["protocol"]): r["minutes"] for r in PRINTED["4"]}
    for learner, variant in LEARNERS.items():
        ours: list[Stat | None] = []
        for protocol in table.columns:
            known = (learner, protocol) in printed
            records = runs.of(protocol, ("cub",), learner) if known else []
            ours += make_stats(records, _read_minutes) or [None]
        theirs = [printed.get((learner, protocol)) for protocol in table.columns]
        runs.add(table, [variant.label], ["cub"], ours, theirs, 2)
    return table


def _read_minutes(record: RunRecord) -> list[float]:
    return [(record.seconds.learn + record.seconds.evaluate) / 60]


# --- the supplement ---


def figure_s1(runs: KemkerRuns) -> PaperTable:
    """Figure S1: mean test accuracy over all permutations, after 2, 5 and 10; λ in the end."""
    table = runs.about_mnist("S1")
    for choice in CHOICES:
        records = runs.ask("ewc", runs.s1_specs(choice)) if "mnist" in runs.data else []
        ours, flags = make_stats(records, _read_s1), flags_of(records)
        table.add_numbers([choice], ours, decimals=(1, 1, 1, 0), flags=flags)
    return table


def _read_s1(record: RunRecord) -> list[float]:
    pooled = record.by_score["accuracy"].pooled
    return [*(100 * pooled[k - 1] for k in (2, 5, 10)), float(record.sessions[-1].log["lam"])]


def table_s6(runs: KemkerRuns) -> PaperTable:
    """Table S6: the GeppNets' verification on MNIST, accuracy per sample in percent."""
    table, other = runs.about_mnist("S6"), not runs.is_own("mnist")
    for row in PRINTED["S6"]:
        learner, x = row["learner"], row["class"]
        records = runs.ask(learner, runs.inc_specs(learner, x)) if "mnist" in runs.data else []
        printed = [row[column] for column in table.columns]
        labels = (f"Inc-{x}", LEARNERS[learner].label)
        ours, flags = make_stats(records, _read_s6), flags_of(records)
        table.add_numbers(labels, ours, printed, 1, stands_in=other, flags=flags)
    return table


def _read_s6(record: RunRecord) -> list[float]:
    """Accuracy on base, new and all classes."""
    scores = record.by_score["accuracy"]
    return [100 * v for v in (scores.R[0][0], scores.R[1][1], scores.pooled[1])]


def table_s7(runs: KemkerRuns) -> PaperTable:
    """Table S7: accuracy on all ten digits after a share of training showed only five of them."""
    table, data = runs.about_mnist("S7"), runs.data.get("mnist")
    other = not runs.is_own("mnist")
    for row in PRINTED["S7"]:
        ours = [_drifting_accuracy(data.file, row["share"], runs)] if data else ()
        table.add_numbers([f"{row['share']:.2f}"], ours, [row["accuracy"]], 1, stands_in=other)
    return table


def _drifting_accuracy(file: Path, share: float, runs: KemkerRuns) -> Stat:
    """Accuracy on test digits in percent, over the seeds."""
    from embedbench.runs.stream_runner import run_stream

    values = []
    given = sort_settings(runs.given, ["fel"]).learners.get("fel", {})
    for seed in runs.seeds:
        learner: Any = make(learner_class("fel"), {**FACTS["s7"], **given}, name="fel")
        predictions, _ = run_stream(
            drifting(file, share, seed), learner, Seeds.of(seed), runs.device
        )
        values.append(100 * float(predictions.score_matrix("accuracy").R[-1, -1]))
    return column_stats([value] for value in values)[0]


def drifting(path: Path, share: float, seed: int) -> Stream:
    """A stream with as many draws as training samples, in one session or two.

    The last `share` of the draws is from the upper half of the classes. One eval set has all test
    samples, and all classes are candidates from the start.
    """
    file = EmbeddingFile.open(path)
    split = split_rows(file, "test", 0.0)
    features, digest, _ = load_table(file, "none", split.train)
    n, classes = len(split.train), np.arange(file.samples.n_leaves)
    width, late = features.values.shape[1], round(share * n)
    upper = split.train[file.labels[split.train] >= len(classes) // 2]
    rng = np.random.default_rng(seed)
    draws = [rng.choice(split.train, n - late), rng.choice(upper, late)]

    def view(rows: Ints) -> tuple[View, Ints]:
        return View(features, rows, width), file.labels[rows].astype(np.int64)

    none = view(np.zeros(0, dtype=np.int64))
    sessions = tuple(Session(*view(rows), *none, rows, classes) for rows in draws if len(rows))
    test = EvalSet(*view(split.test), split.test, np.ones(len(classes), dtype=np.bool_))
    return Stream(
        spec=StreamSpec((width,), len(classes)),
        sessions=sessions,
        eval_sets=(test,) * len(sessions),
        recipe=f"drifting {share}",
        features=digest,
        samples=(file.digests["samples"],),
    )


def table_s8(runs: KemkerRuns) -> PaperTable:
    """Table S8: multi-modal accuracies in percent, mean per class."""
    table = _table("S8")
    for row in PRINTED["S8"]:
        learner, names = row["learner"], tuple(row["data"])
        records = runs.of("multi-modal", names, learner)
        ours = make_stats(records, lambda r: [100 * r.R[i][j] for i, j in ((0, 0), (1, 0), (1, 1))])
        printed = (row["initial"][0], *row["final"])
        labels, flags = [LEARNERS[learner].label], flags_of(records)
        runs.add(table, labels, names, ours, printed, 1, flags=flags)
    return table


def table_s9(runs: KemkerRuns) -> PaperTable:
    """Table S9: number of features that are not redundant, and their share in percent."""
    from embedbench.files.feature_redundancy import redundancy

    table = _table("S9")
    for row in PRINTED["S9"]:
        name, ours = row["data"], list[float]()
        if name in runs.data:
            result, _ = redundancy(runs.data[name].opened)
            ours = [result.kept, 100 * result.share]
        printed = [row["kept"], row["percent"]]
        runs.add(table, (), [name], ours, printed, (0, 1), made=EXACT)
    return table


def table_s10(runs: KemkerRuns) -> PaperTable:
    """Table S10: Ω and size; both protocols use the capacity chosen on validation data."""
    table = _table("S10")
    printed = {(r["learner"], r["data"]): r["mb"] for r in PRINTED["S10"] if "mb" in r}
    for row in (r for r in PRINTED["S10"] if "protocol" in r):
        learner, protocol, name = row["learner"], row["protocol"], row["data"]
        stats, size, chosen, flags = list[Stat](), None, "", None
        if name in runs.data and learner in runs.learners:
            capacity = runs.capacity(learner, name)
            given = {learner: capacity} if capacity else {}
            specs = runs.specs(protocol, (name,), learner, **given)
            records = runs.ask(learner, specs)
            stats, flags = make_stats(records, read_omegas), flags_of(records)
            held = {k.removeprefix("som."): int(value) for k, value in capacity.items()}
            held = {"fel_units": FEL_UNITS[name], **held}
            (size,) = column_stats([[megabytes(learner, runs.size(name), **held)]])
            chosen = ", ".join(f"{setting} {value}" for setting, value in capacity.items())
        labels = (protocol, LEARNERS[learner].label, runs.label(name), chosen)
        other = not runs.is_own(name)
        printed_omegas = [row[omega] for omega in OMEGAS]
        table.add_numbers(labels, stats, printed_omegas, stands_in=other, flags=flags)
        in_mb = Value(printed[learner, name], size, 2, other, made=EXACT)
        table.rows[-1].values[table.columns[-1]] = in_mb
    return table


# --- sizes, as the paper counts them ---

MEMORY = 300  # samples of GeppNet+STM's short-term memory


def megabytes(
    learner: str,
    size: Size,
    *,
    units: int = 400,
    side: int = 23,
    fel_units: int = 2000,
) -> float:
    """The size of a learner in MB (10⁶ bytes) as Table 2 counts it.

    **Source**: Kemker et al. (2018), Table 2; the formulas are derived from its printed values.
    EWC counts one extra vector, though the method keeps two (θ* and F). GeppNets store all training
    samples with their labels; their printed CUB-200 sizes are those of ten outputs in place of 200.
    PathNet has the ten heads that its printed sizes imply.

    Parameters
    ----------
    units, side, fel_units : int
        Hidden units a layer, side of the map, units of the expansion layer.
    """
    d = size.features
    c = size.classes
    h = units
    mlp = d * h + h + h * h + h + h * c + c
    geppnet = side**2 * (d + c) + c + size.train * (d + 1)
    count = {
        "mlp": mlp,
        "ewc": 2 * mlp,
        "pathnet": 10 * (80 * d + 80) + 10 * (80 * 80 + 80) + 10 * (80 * c + c),
        "geppnet": geppnet,
        "geppnet-stm": geppnet + MEMORY * (d + 1),
        "fel": d * h + h + h * fel_units + fel_units + fel_units * c + c,
    }[learner]
    return 4 * count / 1e6  # bytes of a float and of a stored label


TABLES = {
    "1": table1,
    "2": table2,
    "2mb": table2_sizes,
    "3": table3,
    "4": table4,
    "s1": figure_s1,
    "s6": table_s6,
    "s7": table_s7,
    "s8": table_s8,
    "s9": table_s9,
    "s10": table_s10,
}


PAPER = paper.Paper(
    FACTS,
    runs=KemkerRuns,
    tables=TABLES,
    unplanned=("1", "2mb", "s7", "s9"),  # S7 is quick and its runs are not saved
)
