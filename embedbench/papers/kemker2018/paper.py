"""`embedbench reproduce kemker2018`: the tables of Kemker et al. (2018) with ours beside them."""

import itertools
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers.paper import Paper, Read, ReproduceRequest, make_stats
from embedbench.papers.paper_table import EXACT, PaperTable, Value
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.scores.make_score_matrices import score_matrices
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import split_rows
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View
from embedbench.studies.resolve import sort_settings
from embedbench.studies.study import parse_settings

from .runs import FACTS, FEL_UNITS, LEARNERS, NAMES, PRINTED, PROTOCOLS, KemkerRuns, Size

OMEGAS = ("omega_base", "omega_new", "omega_all")
READ_OMEGAS: list[Read] = [
    lambda r: r.metrics["omega_base"],
    lambda r: r.metrics["omega_new"],
    lambda r: r.metrics["omega_all"],
]
READ_S1: list[Read] = [  # after 2, 5 and 10 sessions; λ in the end
    lambda r: 100 * r.by_score["accuracy"].pooled[1],
    lambda r: 100 * r.by_score["accuracy"].pooled[4],
    lambda r: 100 * r.by_score["accuracy"].pooled[9],
    lambda r: float(r.sessions[-1].log["lam"]),
]
READ_S6: list[Read] = [  # base, new, overall
    lambda r: 100 * r.by_score["accuracy"].R[0][0],
    lambda r: 100 * r.by_score["accuracy"].R[1][1],
    lambda r: 100 * r.by_score["accuracy"].pooled[1],
]
READ_S8: list[Read] = [  # first, initial; first, final; second
    lambda r: 100 * r.R[0][0],
    lambda r: 100 * r.R[1][0],
    lambda r: 100 * r.R[1][1],
]
THREE = "the paper's three"
FITTED = (("geppnet", ("mnist",)), ("geppnet-stm", ("mnist",)))  # to rows of Table 2

_table = partial(PaperTable.of_facts, FACTS)


def _labelled(key: str, runs: KemkerRuns) -> PaperTable:
    """A table without rows whose labels may be of other data than the paper's."""
    return _table(key, printed=runs.printed_labels())


def table1(runs: KemkerRuns) -> PaperTable:
    """Table 1: the data sets."""
    table = _labelled("1", runs)
    for row in PRINTED["1"]:
        name = row["data"]
        printed = [row[column] for column in table.columns[:4]]
        printed += [*row["train_per_class"], *row["test_per_class"]]
        ours = runs.data[name].counts if name in runs.data else ()
        table.add_numbers([runs.label(name)], ours, printed, 0, made=EXACT)
    return table


def table2(runs: KemkerRuns) -> PaperTable:
    """Table 2 without its MB column: Ω of every learner, protocol and data set."""
    table = _labelled("2", runs)
    for row in PRINTED["2"]:
        learner, protocol = row["learner"], row["protocol"]
        names = runs.modalities(row["data"], protocol)
        labels = (protocol, LEARNERS[learner].label, runs.label(*names))
        ours = make_stats(runs.of((learner, protocol, names)), *READ_OMEGAS)
        fitted = (learner, names) in FITTED
        table.add_numbers(labels, ours, [row[omega] for omega in OMEGAS], fitted=fitted)
    return table


def table2_sizes(runs: KemkerRuns) -> PaperTable:
    """Table 2's MB column: by the paper's count (no data needed), and the bytes really held."""
    table = _table("2 MB")
    for row in PRINTED["2 MB"]:
        name, learner = row["data"], row["learner"]
        data, label = runs.data.get(name), LEARNERS[learner].label
        size = megabytes(learner, Size.of_paper(name), fel_units=FEL_UNITS[name])
        table.add_numbers((label, NAMES[name]), [size], [row["mb"]], 2, made=EXACT)
        if data and data.stands_in:
            size = megabytes(learner, data.size, fel_units=FEL_UNITS[name])
            table.add_numbers((label, data.label), [size], decimals=2)
        records = runs.of((learner, "permutation", (name,)))
        for held in make_stats(records, lambda r: r.footprint["total"] / 1e6):
            table.rows[-1].values[table.columns[-1]] = Value(ours=held, decimals=2)
    return table


def _mean_omegas(runs: KemkerRuns) -> dict[tuple[str, str], tuple[Stat, bool]]:
    """(learner, protocol) → mean Ω_all over the available data sets, and whether all are real."""
    means = {}
    for learner, protocol in itertools.product(LEARNERS, PROTOCOLS):
        names = ("cub", "audioset") if protocol == "multi-modal" else tuple(NAMES)
        each = [runs.of((learner, protocol, runs.modalities(name, protocol))) for name in names]
        known = [make_stats(records, READ_OMEGAS[-1])[0] for records in each if records]
        if known and len(known) == sum(name in runs.data for name in names):
            by_seed = zip(*(stat.values for stat in known), strict=False)
            real = len(known) == len(names) and not runs.stands_in(names)
            means[learner, protocol] = (Stat.of(float(np.mean(v)) for v in by_seed), real)
    return means


def _here(runs: KemkerRuns) -> str:
    return f"here: {', '.join(d.label for d in runs.data.values())}"


def table3(runs: KemkerRuns) -> PaperTable:
    """Table 3: mean Ω_all over the data sets."""
    table, means = _table("3"), _mean_omegas(runs)
    printed = {(r["learner"], r["protocol"]): r["omega_all"] for r in PRINTED["3"]}
    all_real = all(real for _, real in means.values())
    where = THREE if all_real else _here(runs)
    table.printed = {where: THREE}
    for learner, variant in LEARNERS.items():
        values = {}
        for protocol in PROTOCOLS:
            stat, real = means.get((learner, protocol), (None, False))
            wrong = table.misprints.get((variant.label, THREE, protocol), {})
            number = printed.get((learner, protocol))
            values[protocol] = Value(number, stat, 3, stands_in=not real, **wrong)
        table.add((variant.label, where), values)
    if not all_real:
        table.notes += ("the means are over other data than the paper's: no difference",)
    return table


def _minutes(runs: KemkerRuns, learner: str, protocol: str) -> Stat | None:
    def read(record: RunRecord) -> float:
        return (record.seconds.learn + record.seconds.evaluate) / 60

    return next(iter(make_stats(runs.of((learner, protocol, ("cub",))), read)), None)


def table4(runs: KemkerRuns) -> PaperTable:
    """Table 4: minutes on CUB-200."""
    table = _labelled("4", runs)
    printed = {(r["learner"], r["protocol"]): r["minutes"] for r in PRINTED["4"]}
    for learner, variant in LEARNERS.items():
        ours = [_minutes(runs, learner, protocol) for protocol in table.columns]
        theirs = [printed.get((learner, protocol)) for protocol in table.columns]
        table.add_numbers((variant.label, runs.label("cub")), ours, theirs, 2)
    return table


def table5(runs: KemkerRuns) -> PaperTable:
    """Table 5: strengths of the learners, by rules that give the paper's ticks from its numbers."""
    table = _table("5", columns=tuple(QUESTIONS))
    printed = {(r["learner"], r["question"]): r["yes"] for r in PRINTED["5"]}
    omega = {key: stat.mean for key, (stat, _) in _mean_omegas(runs).items()}
    size = {
        (learner, name): megabytes(learner, data.size, fel_units=FEL_UNITS[name])
        for learner in LEARNERS
        for name, data in runs.data.items()
    }
    pairs = itertools.product(LEARNERS, PROTOCOLS[:2])
    minutes = {pair: s.mean for pair in pairs if (s := _minutes(runs, *pair)) is not None}
    complete = all(("mlp", p) in minutes for p in PROTOCOLS[:2])
    ticks = summary(omega, size, minutes) if complete else {}
    stands_in = len(runs.data) < len(NAMES) or runs.stands_in(NAMES)
    table.data = _here(runs) if stands_in and runs.data else ""
    mark = {None: "–", True: "✓", False: "✗"}
    for learner, variant in LEARNERS.items():
        words = {q: (mark[printed[learner, q]], mark[ticks.get((learner, q))]) for q in QUESTIONS}
        values = {q: Value(words=both, stands_in=stands_in) for q, both in words.items()}
        table.add([variant.label], values)
    table.notes += tuple(f"{q}: {rule}" for q, rule in QUESTIONS.items())
    return table


# --- the supplement ---


def figure_s1(runs: KemkerRuns) -> PaperTable:
    """Figure S1: mean test accuracy over all permutations learned so far."""
    table = _table("S1")
    for choice in FACTS["s1"]:
        records = runs.records(runs.s1_specs(choice)) if "mnist" in runs.data else []
        table.add_numbers([choice], make_stats(records, *READ_S1), decimals=(1, 1, 1, 0))
    return table


def table_s6(runs: KemkerRuns) -> PaperTable:
    """Table S6: the GeppNets' verification on MNIST, accuracy per sample in percent."""
    table = _table("S6")
    for row in PRINTED["S6"]:
        learner, x = row["learner"], row["class"]
        records = runs.records(runs.inc_specs(learner, x)) if "mnist" in runs.data else []
        printed = [row[column] for column in table.columns]
        labels = (f"Inc-{x}", LEARNERS[learner].label)
        table.add_numbers(labels, make_stats(records, *READ_S6), printed, 1, fitted=True)
    return table


def table_s7(runs: KemkerRuns) -> PaperTable:
    """Table S7: accuracy on all ten digits after a share of training showed only five of them."""
    table, data = _table("S7"), runs.data.get("mnist")
    for row in PRINTED["S7"]:
        ours = [_drifting_accuracy(data.file, row["share"], runs)] if data else ()
        table.add_numbers([f"{row['share']:.2f}"], ours, [row["accuracy"]], 1, fitted=True)
    return table


def _drifting_accuracy(file: Path, share: float, runs: KemkerRuns) -> Stat:
    """Accuracy on test digits in percent, over the seeds."""
    from embedbench.runs.stream_runner import run_stream

    values = []
    given = sort_settings(parse_settings(runs.asked.items), ["fel"]).learners.get("fel", {})
    for seed in runs.asked.seeds:
        learner: Any = make(learner_class("fel"), {**FACTS["s7"], **given}, name="fel")
        predictions, _ = run_stream(
            drifting(file, share, seed), learner, Seeds.of(seed), runs.asked.device
        )
        values.append(100 * float(score_matrices(predictions)["accuracy"].R[-1, -1]))
    return Stat.of(values)


@cache
def _load_digits(path: Path) -> tuple[Any, ...]:
    """The file, its split, features in memory and their digest."""
    file = EmbeddingFile.open(path)
    split = split_rows(file, "test", 0.0)
    features, digest, _ = load_table(file, "none", split.train)
    return file, split, features, digest


def drifting(path: Path, share: float, seed: int) -> Stream:
    """A stream with as many draws as training samples, in one session or two.

    The last `share` of the draws is from the upper half of the classes. One eval set has all test
    samples, and all classes are candidates from the start.
    """
    file, split, features, digest = _load_digits(path)
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
    table = _labelled("S8", runs)
    for row in PRINTED["S8"]:
        learner, names = row["learner"], tuple(row["data"])
        ours = make_stats(runs.of((learner, "multi-modal", names)), *READ_S8)
        printed = (row["initial"][0], *row["final"])
        table.add_numbers((LEARNERS[learner].label, runs.label(*names)), ours, printed, 1)
    return table


def table_s9(runs: KemkerRuns) -> PaperTable:
    """Table S9: number of features that are not redundant, and their share in percent."""
    from embedbench.files.feature_redundancy import redundancy

    table = _labelled("S9", runs)
    for row in PRINTED["S9"]:
        name, ours = row["data"], list[float]()
        if name in runs.data:
            result, _ = redundancy(runs.data[name].opened)
            ours = [result.kept, 100 * result.share]
        printed = [row["kept"], row["percent"]]
        table.add_numbers([runs.label(name)], ours, printed, (0, 1), made=EXACT)
    return table


def table_s10(runs: KemkerRuns) -> PaperTable:
    """Table S10: Ω and size with the capacity chosen on validation data."""
    table = _labelled("S10", runs)
    *_, counted = table.columns
    printed = {(r["learner"], r["data"]): r["mb"] for r in PRINTED["S10"] if "mb" in r}
    at_hand = runs.s10_rows()
    for row in (r for r in PRINTED["S10"] if "protocol" in r):
        learner, protocol, name = row["learner"], row["protocol"], row["data"]
        stats, size, chosen = list[Stat](), None, ""
        if (learner, protocol, name) in at_hand:
            stats = make_stats(runs.records(runs.s10_specs(learner, protocol, name)), *READ_OMEGAS)
            held = {"fel_units": FEL_UNITS[name]}
            for setting, value in runs.capacity(learner, name).items():
                chosen = f"{setting} {value}"
                table.printed[chosen] = ""
                held[setting.removeprefix("som.")] = int(value)
            size = Stat.of([megabytes(learner, runs.data[name].size, **held)])
        labels = (protocol, LEARNERS[learner].label, runs.label(name), chosen)
        table.add_numbers(labels, stats, [row[omega] for omega in OMEGAS])
        in_mb = Value(printed[learner, name], size, 2, runs.stands_in([name]), made=EXACT)
        table.rows[-1].values[counted] = in_mb
    return table


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

    `omega_all` (means) and `minutes` are by learner and protocol, `size` (MB) by learner and data
    set; a missing Ω_all gets a cross.
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


TABLES = {
    "1": table1,
    "2": table2,
    "2mb": table2_sizes,
    "3": table3,
    "4": table4,
    "5": table5,
    "s1": figure_s1,
    "s6": table_s6,
    "s7": table_s7,
    "s8": table_s8,
    "s9": table_s9,
    "s10": table_s10,
}


def printed_tables() -> list[PaperTable]:
    """Every table as printed: made without data."""
    runs = KemkerRuns(ReproduceRequest(Path(), []))
    return [make(runs) for name, make in TABLES.items() if name != "s1"]


PAPER = Paper(
    FACTS,
    runs=KemkerRuns,
    printed=printed_tables,
    tables=TABLES,
)
