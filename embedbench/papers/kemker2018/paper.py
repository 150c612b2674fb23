"""`embedbench reproduce kemker2018`: the tables of Kemker et al. (2018) with ours beside them."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.config.make_from_settings import make
from embedbench.config.run_seeds import Seeds
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers.paper import Paper, each
from embedbench.papers.paper_runs import metric, over
from embedbench.papers.paper_table import EXACT, PaperTable, Value, read_misprints
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.scores.make_score_matrices import score_matrices
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import split_rows
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View
from embedbench.studies.resolve import sort_settings
from embedbench.studies.set_and_tune_options import parse_settings

from . import runs as kemker_runs

TEST_S6: dict[str, Callable[[RunRecord], float]] = {
    "base": lambda r: 100 * r.by_score["accuracy"].R[0][0],
    "new": lambda r: 100 * r.by_score["accuracy"].R[1][1],
    "overall": lambda r: 100 * r.by_score["accuracy"].pooled[1],
}
SYMBOLS = {"omega_base": "Ω_base", "omega_new": "Ω_new", "omega_all": "Ω_all"}
THREE = "the paper's three"
FITTED = (("geppnet", ("mnist",)), ("geppnet-stm", ("mnist",)))  # to rows of Table 2
AFTER = (2, 5, 10)  # sessions learned, of Figure S1
PAPER_MB = "MB as the paper counts"

Row = dict[str, Any]


_table = partial(PaperTable.of_facts, kemker_runs.FACTS)
_misprints = partial(read_misprints, kemker_runs.FACTS)


def table1(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table 1: the data sets."""
    table, misprint = _table("1", printed=runs.printed_labels()), _misprints("1")
    for row in kemker_runs.PRINTED["1"]:
        name, data = row["data"], runs.data.get(row["data"])
        numbers = [row[c] for c in table.columns[:4]]
        numbers += [*row["train_per_class"], *row["test_per_class"]]
        mine = [n for of in data.counts.values() for n in of] if data else [None] * 8
        values = {}
        for head, n, own in zip(table.columns, numbers, mine, strict=True):
            ours = None if own is None else Stat.of([own])
            wrong = misprint.get(("", f"{name} {head}"), {})
            values[head] = Value(n, ours, 0, runs.stands_in([name]), made=EXACT, **wrong)
        table.rows.append(((runs.label((name,)),), values))
    return table


def _omegas(row: Row, records: Sequence[RunRecord], **more: Any) -> dict[str, Value]:
    """The three Ω of a printed row, with ours."""
    return {
        symbol: Value(row[omega], over(records, metric(omega)), 3, **more)
        for omega, symbol in SYMBOLS.items()
    }


def table2(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table 2 without its MB column: Ω of every learner, protocol and data set."""
    table, misprint = _table("2", printed=runs.printed_labels()), _misprints("2")
    for row in kemker_runs.PRINTED["2"]:
        learner, protocol = row["learner"], row["protocol"]
        names = kemker_runs.modalities(row["data"], protocol)
        how = {"stands_in": runs.stands_in(names), "fitted": (learner, names) in FITTED}
        values = _omegas(row, runs.of((learner, protocol, names)), **how)
        for omega, symbol in SYMBOLS.items():
            wrong = misprint.get((learner, f"{row['data']} {protocol} {omega}"), {})
            values[symbol] = replace(values[symbol], **wrong)
        table.rows.append(
            ((protocol, kemker_runs.LEARNERS[learner].label, runs.label(names)), values)
        )
    return table


def table2_sizes(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table 2's MB column: by the paper's count (no data needed), and the bytes really held."""
    table, misprint = _table("2 MB"), _misprints("2")
    _, held = table.columns
    for row in kemker_runs.PRINTED["2 MB"]:
        name, learner = row["data"], row["learner"]
        wrong = misprint.get((learner, f"{name} mb"), {})
        size = kemker_runs.megabytes(
            learner, kemker_runs.paper_size(name), fel_units=kemker_runs.FEL_UNITS[name]
        )
        values = {PAPER_MB: Value(row["mb"], Stat.of([size]), 2, made=EXACT, **wrong)}
        table.rows.append(((kemker_runs.LEARNERS[learner].label, kemker_runs.NAMES[name]), values))
        data = runs.data.get(name)
        if data is None:
            continue
        if data.stands_in:
            size = kemker_runs.megabytes(learner, data.size, fel_units=kemker_runs.FEL_UNITS[name])
            values = {PAPER_MB: Value(None, Stat.of([size]), 2)}
            table.rows.append(((kemker_runs.LEARNERS[learner].label, data.label), values))
        mine = runs.stat((learner, "permutation", (name,)), lambda r: r.footprint["total"] / 1e6)
        values[held] = Value(ours=mine, decimals=2)
    return table


def _means(runs: kemker_runs.KemkerRuns) -> dict[tuple[str, str], tuple[Stat | None, bool]]:
    """(learner, protocol) → mean Ω_all over the available data sets, and whether all are real."""
    means = {}
    for learner, protocol in itertools.product(kemker_runs.LEARNERS, kemker_runs.PROTOCOLS):
        names = ("cub", "audioset") if protocol == "multi-modal" else tuple(kemker_runs.NAMES)
        stats = [
            runs.stat((learner, protocol, kemker_runs.modalities(n, protocol)), metric("omega_all"))
            for n in names
        ]
        known = [s for s in stats if s is not None]
        complete = known and len(known) == sum(n in runs.data for n in names)
        by_seed = zip(*(s.values for s in known), strict=False)
        stat = Stat.of(float(np.mean(v)) for v in by_seed) if complete else None
        real = len(known) == len(names) and not runs.stands_in(names)
        means[learner, protocol] = (stat, real)
    return means


def _here(runs: kemker_runs.KemkerRuns) -> str:
    return f"here: {', '.join(d.label for d in runs.data.values())}"


def table3(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table 3: mean Ω_all over the data sets."""
    table = _table("3")
    printed = {(r["learner"], r["protocol"]): r["omega_all"] for r in kemker_runs.PRINTED["3"]}
    means, misprint = _means(runs), _misprints("3")
    all_real = all(real for stat, real in means.values() if stat is not None)
    where = THREE if all_real else _here(runs)
    table.printed = {where: THREE}
    for learner, variant in kemker_runs.LEARNERS.items():
        values = {}
        for p in kemker_runs.PROTOCOLS:
            stat, real = means[learner, p]
            wrong = misprint.get((learner, p), {})
            values[p] = Value(printed.get((learner, p)), stat, 3, not real, **wrong)
        table.rows.append(((variant.label, where), values))
    if not all_real:
        table.notes.append("the means are over other data than the paper's: no difference")
    return table


def _minutes(runs: kemker_runs.KemkerRuns, learner: str, protocol: str) -> Stat | None:
    return runs.stat((learner, protocol, ("cub",)), lambda r: kemker_runs.seconds(r) / 60)


def table4(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table 4: minutes on CUB-200."""
    table = _table("4", printed=runs.printed_labels())
    printed = {(r["learner"], r["protocol"]): r["minutes"] for r in kemker_runs.PRINTED["4"]}
    for learner, variant in kemker_runs.LEARNERS.items():
        values = {
            p: Value(
                printed.get((learner, p)), _minutes(runs, learner, p), 2, runs.stands_in(("cub",))
            )
            for p in kemker_runs.PROTOCOLS[:2]
        }
        table.rows.append(((variant.label, runs.label(("cub",))), values))
    return table


def table5(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table 5: strengths of the learners, by rules that give the paper's ticks from its numbers."""
    table = _table("5", columns=tuple(kemker_runs.QUESTIONS))
    printed = {(r["learner"], r["question"]): r["yes"] for r in kemker_runs.PRINTED["5"]}
    omega = {k: s.mean for k, (s, _) in _means(runs).items() if s is not None}
    size = {
        (learner, d.name): kemker_runs.megabytes(
            learner, d.size, fel_units=kemker_runs.FEL_UNITS[d.name]
        )
        for learner in kemker_runs.LEARNERS
        for d in runs.data.values()
    }
    pairs = itertools.product(kemker_runs.LEARNERS, kemker_runs.PROTOCOLS[:2])
    minutes = {pair: s.mean for pair in pairs if (s := _minutes(runs, *pair)) is not None}
    complete = all(("mlp", p) in minutes for p in kemker_runs.PROTOCOLS[:2])
    ticks = kemker_runs.summary(omega, size, minutes) if complete else {}
    stands_in = len(runs.data) < len(kemker_runs.NAMES) or runs.stands_in(kemker_runs.NAMES)
    table.data = _here(runs) if stands_in and runs.data else ""
    mark = {None: "–", True: "✓", False: "✗"}
    for learner, variant in kemker_runs.LEARNERS.items():
        values = {
            q: Value(
                words=(mark[printed[learner, q]], mark[ticks.get((learner, q))]),
                stands_in=stands_in,
            )
            for q in kemker_runs.QUESTIONS
        }
        table.rows.append(((variant.label,), values))
    table.notes += [f"{q}: {rule}" for q, rule in kemker_runs.QUESTIONS.items()]
    return table


# --- the supplement ---


def figure_s1(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Figure S1: mean test accuracy over all permutations learned so far."""
    table = _table("S1")
    *heads, last = table.columns
    for choice in kemker_runs.CHOICES:
        records = runs.records(runs.s1_specs(choice)) if "mnist" in runs.data else []
        values = {head: Value(decimals=1) for head in heads}
        if records:
            pooled = np.array([r.by_score["accuracy"].pooled for r in records])  # (n, T)
            at = zip(heads, AFTER, strict=True)
            values = {head: Value(None, Stat.of(100 * pooled[:, n - 1]), 1) for head, n in at}
            lams = (float(r.sessions[-1].log["lam"]) for r in records)
            values[last] = Value(None, Stat.of(lams), 0)
        table.rows.append(((choice,), values))
    return table


def table_s6(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table S6: the GeppNets' verification on MNIST, accuracy per sample in percent."""
    table = _table("S6")
    for row in kemker_runs.PRINTED["S6"]:
        records: list[RunRecord] = []
        if "mnist" in runs.data:
            records = runs.records(runs.inc_specs(row["learner"], row["class"]))
        values = {
            c: Value(row[c], over(records, read), 1, fitted=True) for c, read in TEST_S6.items()
        }
        table.rows.append(
            ((f"Inc-{row['class']}", kemker_runs.LEARNERS[row["learner"]].label), values)
        )
    return table


def table_s7(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table S7: accuracy on all ten digits after a share of training showed only five of them."""
    table = _table("S7")
    data = runs.data.get("mnist")
    for row in kemker_runs.PRINTED["S7"]:
        ours = _drifting_accuracy(data.file, row["share"], runs) if data else None
        value = Value(row["accuracy"], ours, 1, fitted=True)
        table.rows.append(((f"{row['share']:.2f}",), {"accuracy": value}))
    return table


def _drifting_accuracy(file: Path, share: float, runs: kemker_runs.KemkerRuns) -> Stat:
    """Accuracy on test digits in percent, over the seeds."""
    from embedbench.runs.stream_runner import run_stream

    values = []
    given = sort_settings(parse_settings(runs.items), ["fel"]).learners.get("fel", {})
    for seed in runs.seeds:
        learner: Any = make(learner_class("fel"), {**kemker_runs.FACTS["s7"], **given}, name="fel")
        predictions, _ = run_stream(
            drifting(file, share, seed), learner, Seeds.of(seed), runs.device
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


def table_s8(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table S8: multi-modal accuracies in percent, mean per class."""
    table = _table("S8", printed=runs.printed_labels())
    for row in kemker_runs.PRINTED["S8"]:
        names = tuple(row["data"])
        records = runs.of((row["learner"], "multi-modal", names))
        numbers = (row["initial"][0], *row["final"])
        cells = zip(table.columns, numbers, ((0, 0), (1, 0), (1, 1)), strict=True)
        values = {c: Value(v, _entry(records, *at), 1, runs.stands_in(names)) for c, v, at in cells}
        table.rows.append(((kemker_runs.LEARNERS[row["learner"]].label, runs.label(names)), values))
    return table


def _entry(records: Sequence[RunRecord], i: int, j: int) -> Stat | None:
    return over(records, lambda r: 100 * r.R[i][j])


def table_s9(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table S9: number of features that are not redundant, and their share in percent."""
    from embedbench.files.feature_redundancy import redundancy

    table = _table("S9", printed=runs.printed_labels())
    for row in kemker_runs.PRINTED["S9"]:
        data, kept, share = runs.data.get(row["data"]), None, None
        if data:
            result, _ = redundancy(EmbeddingFile.open(data.file))
            kept, share = Stat.of([result.kept]), Stat.of([100 * result.share])
        stands_in = runs.stands_in((row["data"],))
        values = {
            "features": Value(row["kept"], kept, 0, stands_in, made=EXACT),
            "percent": Value(row["percent"], share, 1, stands_in, made=EXACT),
        }
        table.rows.append(((runs.label((row["data"],)),), values))
    return table


def table_s10(runs: kemker_runs.KemkerRuns) -> PaperTable:
    """Table S10: Ω and size with the capacity chosen on validation data."""
    table = _table("S10", printed=runs.printed_labels())
    printed = {(r["learner"], r["data"]): r["mb"] for r in kemker_runs.PRINTED["S10"] if "mb" in r}
    at_hand = runs.s10_rows()
    for row in (r for r in kemker_runs.PRINTED["S10"] if "protocol" in r):
        learner, protocol, name = row["learner"], row["protocol"], row["data"]
        records, ours, chosen = [], None, ""
        if (learner, protocol, name) in at_hand:
            records = runs.records(runs.s10_specs(learner, protocol, name))
            held = {"fel_units": kemker_runs.fel_units((name,))}
            for setting, value in runs.capacity(learner, name).items():
                chosen = f"{setting} {value}"
                table.printed[chosen] = ""
                held[setting.removeprefix("som.")] = int(value)
            ours = Stat.of([kemker_runs.megabytes(learner, runs.data[name].size, **held)])
        stands_in = runs.stands_in((name,))
        values = _omegas(row, records, stands_in=stands_in)
        values[PAPER_MB] = Value(printed[learner, name], ours, 2, stands_in, made=EXACT)
        labels = (protocol, kemker_runs.LEARNERS[learner].label, runs.label((name,)), chosen)
        table.rows.append((labels, values))
    return table


def printed_tables() -> list[PaperTable]:
    """Every table as printed: made without data."""
    runs = kemker_runs.KemkerRuns(Path(), [], data={})
    usual = [name for name in PAPER.tables if name != "s1"]
    return [table for name in usual for table in PAPER.tables[name](runs)]


PAPER = Paper(
    kemker_runs.FACTS,
    runs=kemker_runs.runs_on,
    specs=kemker_runs.plan_runs,
    learners=lambda: kemker_runs.LEARNERS,
    printed=printed_tables,
    tables={
        "1": each(table1),
        "2": each(table2),
        "2mb": each(table2_sizes),
        "3": each(table3),
        "4": each(table4),
        "5": each(table5),
        "s1": each(figure_s1),
        "s6": each(table_s6),
        "s7": each(table_s7),
        "s8": each(table_s8),
        "s9": each(table_s9),
        "s10": each(table_s10),
    },
)
