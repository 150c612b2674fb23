"""Kemker et al. (2018): each table of the paper with our values beside it."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from embedbench.arrays import Floats
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.papers.published import EXACT, PaperTable, Value, load_published
from embedbench.papers.runs import metric, over
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .data import NAMES, paper_size
from .runs import LEARNERS, PROTOCOLS, KemkerRuns, modalities, seconds
from .sizes import FEL_UNITS, QUESTIONS, PaperCapacity, megabytes, summary

SYMBOLS = {"omega_base": "Ω_base", "omega_new": "Ω_new", "omega_all": "Ω_all"}
THREE = "the paper's three"
FITTED = (("geppnet", ("mnist",)), ("geppnet-stm", ("mnist",)))  # to rows of Table 2
NO_PATHNET = "the session id at test would give the class away, so the paper leaves it out"


def table1(runs: KemkerRuns) -> PaperTable:
    """Table 1: the data sets."""
    columns = ("classes", "features", "train", "test")
    ranges = ("train_per_class", "test_per_class")
    heads = [*columns, *(f"{r.replace('_', ' ')}, {end}" for r in ranges for end in ("min", "max"))]
    table = PaperTable("1", "Dataset specifications", ("data",), heads, unit="samples")
    misprint = _misprints("1")
    for row in load_published("kemker2018")["tables"]["1"]:
        data = runs.data.get(row["data"])
        ours = data.counts if data else {}
        numbers = [row[c] for c in columns] + [n for r in ranges for n in row[r]]
        mine = [n for c in (*columns, *ranges) for n in ours.get(c, [])]
        values = {
            head: Value(
                n,
                Stat.of([mine[i]]) if mine else None,
                0,
                bool(data and data.stands_in),
                made=EXACT,
            )
            for i, (head, n) in enumerate(zip(heads, numbers, strict=True))
        }
        values["train"] = replace(
            values["train"], **misprint.get((None, f"{row['data']} train"), {})
        )
        table.rows.append(((runs.label((row["data"],)),), values))
    table.printed = runs.printed_labels()
    return table


def table2(runs: KemkerRuns) -> PaperTable:
    """Table 2 without its MB column: Ω of every learner, protocol and data set."""
    heads = ("protocol", "learner", "data")
    table = PaperTable("2", "Ω of every learner and data set", heads, [*SYMBOLS.values()])
    table.method, table.printed = "learner", runs.printed_labels()
    misprint = _misprints("2")
    for row in load_published("kemker2018")["tables"]["2"]:
        names = modalities(row["data"], row["protocol"])
        run = (row["learner"], row["protocol"], names)
        values, records = {}, runs.of(run)
        for omega, symbol in SYMBOLS.items():
            wrong = misprint.get((row["learner"], f"{row['data']} {row['protocol']} {omega}"), {})
            ours = over(records, metric(omega))
            fitted = (row["learner"], names) in FITTED
            values[symbol] = Value(
                row[omega], ours, 3, runs.stands_in(names), fitted=fitted, **wrong
            )
        labels = (row["protocol"], LEARNERS[row["learner"]], runs.label(names))
        table.rows.append((labels, values))
    table.notes.append("GeppNet's constants were fitted to its rows on MNIST")
    table.notes.append(f"PathNet on incremental-class is N/A: {NO_PATHNET}")
    return table


def table2_sizes(runs: KemkerRuns) -> PaperTable:
    """Table 2's MB column: by the paper's count (no data needed), and the bytes really held."""
    paper, held = "MB as the paper counts", "MB held here"
    table = PaperTable("2 MB", "Model sizes", ("learner", "data"), (paper, held), unit="MB")
    misprint = _misprints("2")
    for row in load_published("kemker2018")["tables"]["2 MB"]:
        name, learner = row["data"], row["learner"]
        wrong = misprint.get((learner, f"{name} mb"), {})
        capacity = PaperCapacity(fel_units=FEL_UNITS[name])
        size = megabytes(learner, paper_size(name), capacity)
        values = {paper: Value(row["mb"], Stat.of([size]), 2, made=EXACT, **wrong)}
        table.rows.append(((LEARNERS[learner], NAMES[name]), values))
        data = runs.data.get(name)
        if data is None:
            continue
        if data.stands_in:
            size = megabytes(learner, data.size, capacity)
            values = {paper: Value(None, Stat.of([size]), 2)}
            table.rows.append(((LEARNERS[learner], data.label), values))
        values[held] = Value(ours=runs.stat((learner, "permutation", (name,)), _held), decimals=2)
    table.notes.append(
        "held: after the last permutation session; EWC keeps both θ* and F, PathNet the path of "
        "every session"
    )
    return table


def _held(r: RunRecord) -> float:
    return r.footprint["total"] / 1e6


def _means(runs: KemkerRuns) -> dict[tuple[str, str], tuple[Stat | None, bool]]:
    """(learner, protocol) → mean Ω_all over the available data sets, and whether all are real."""
    means = {}
    for learner, protocol in itertools.product(LEARNERS, PROTOCOLS):
        names = ("cub", "audioset") if protocol == "multi-modal" else tuple(NAMES)
        stats = [
            runs.stat((learner, protocol, modalities(n, protocol)), metric("omega_all"))
            for n in names
        ]
        known = [s for s in stats if s is not None]
        complete = known and len(known) == sum(n in runs.data for n in names)
        each = zip(*(s.values for s in known), strict=False)  # seed by seed
        stat = Stat.of(float(np.mean(v)) for v in each) if complete else None
        real = len(known) == len(names) and not runs.stands_in(names)
        means[learner, protocol] = (stat, real)
    return means


def table3(runs: KemkerRuns) -> PaperTable:
    """Table 3: mean Ω_all over the data sets."""
    table = PaperTable("3", "Mean Ω_all over the data sets", ("learner", "data"), PROTOCOLS)
    rows = load_published("kemker2018")["tables"]["3"]
    printed = {(r["learner"], r["protocol"]): r["omega_all"] for r in rows}
    means = _means(runs)
    all_real = all(real for stat, real in means.values() if stat is not None)
    where = THREE if all_real else f"here: {', '.join(_labels(runs))}"
    table.method, table.printed = "learner", {where: THREE}
    misprint = _misprints("3")
    for learner, name in LEARNERS.items():
        values = {}
        for p in PROTOCOLS:
            stat, real = means[learner, p]
            wrong = misprint.get((learner, p), {})
            values[p] = Value(printed.get((learner, p)), stat, 3, not real, **wrong)
        table.rows.append(((name, where), values))
    if not all_real:
        table.notes.append(
            "the means are over other data than the paper's: no difference is formed"
        )
    return table


def _labels(runs: KemkerRuns) -> list[str]:
    return [d.label for d in runs.data.values()]


def table4(runs: KemkerRuns) -> PaperTable:
    """Table 4: minutes on CUB-200."""
    title = "Time, minutes (ours: training and evaluation)"
    table = PaperTable("4", title, ("learner", "data"), PROTOCOLS[:2], unit="minutes")
    table.method, table.printed = "learner", runs.printed_labels()
    rows = load_published("kemker2018")["tables"]["4"]
    printed = {(r["learner"], r["protocol"]): r["minutes"] for r in rows}
    for learner, name in LEARNERS.items():
        values = {}
        for p in PROTOCOLS[:2]:
            took = runs.stat((learner, p, ("cub",)), seconds)
            minutes = None if took is None else Stat.of(s / 60 for s in took.values)
            values[p] = Value(printed.get((learner, p)), minutes, 2, runs.stands_in(("cub",)))
        table.rows.append(((name, runs.label(("cub",))), values))
    return table


def table5(runs: KemkerRuns) -> PaperTable:
    """Table 5: strengths of the learners, by rules that give the paper's ticks from its numbers."""
    table = PaperTable("5", "Summary", ("learner",), tuple(QUESTIONS))
    printed = {
        (r["learner"], r["question"]): r["yes"] for r in load_published("kemker2018")["tables"]["5"]
    }
    omega = {k: s.mean for k, (s, _) in _means(runs).items() if s is not None}
    size = {
        (learner, d.name): megabytes(learner, d.size, PaperCapacity(fel_units=FEL_UNITS[d.name]))
        for learner in LEARNERS
        for d in runs.data.values()
    }
    minutes = {
        (learner, p): s.mean
        for learner in LEARNERS
        for p in PROTOCOLS[:2]
        if (s := runs.stat((learner, p, ("cub",)), seconds)) is not None
    }
    complete = all(("mlp", p) in minutes for p in PROTOCOLS[:2])
    ticks = summary(omega, size, minutes) if complete else {}
    stands_in = len(runs.data) < len(NAMES) or runs.stands_in(NAMES)
    table.data = f"here: {', '.join(_labels(runs))}" if stands_in and runs.data else ""
    for learner, name in LEARNERS.items():
        values = {
            q: Value(
                words=(_tick(printed[learner, q]), _tick(ticks.get((learner, q)))),
                stands_in=stands_in,
            )
            for q in QUESTIONS
        }
        table.rows.append(((name,), values))
    table.notes += [f"{q}: {rule}" for q, rule in QUESTIONS.items()]
    return table


def _tick(yes: bool | None) -> str:
    return "–" if yes is None else "✓" if yes else "✗"


def _misprints(table: str) -> dict[tuple[str | None, str], dict[str, Any]]:
    """(learner, cell) → what a `Value` says of the error in the printed value."""
    return {
        (m["learner"], m["cell"]): {
            "remark": f"printed {m['printed']:g}, reads {m['reads']:g}: {m['why']}",
            "reads": m["reads"],
        }
        for m in load_published("kemker2018")["misprints"]
        if m["table"] == table
    }


def table_s6(runs: KemkerRuns) -> PaperTable:
    """Table S6: the GeppNets' verification on MNIST, accuracy per sample in percent."""
    heads, columns = ("test", "learner"), ("base", "new", "overall")
    table = PaperTable("S6", "GeppNet verification (MNIST)", heads, columns, unit="%")
    gaps: dict[str, list[list[float]]] = {}
    for row in load_published("kemker2018")["tables"]["S6"]:
        records: list[RunRecord] = []
        if "mnist" in runs.data:
            records = runs.records(runs.inc_specs(row["learner"], row["class"]))
        values = {}
        for column in ("base", "new", "overall"):
            ours = Stat.of(_s6(r)[column] for r in records) if records else None
            values[column] = Value(row[column], ours, 1, fitted=True)
        table.rows.append(((f"Inc-{row['class']}", LEARNERS[row["learner"]]), values))
        if records:
            each = [abs(v.difference or 0.0) for v in values.values()]
            gaps.setdefault(LEARNERS[row["learner"]], []).append(each)
    table.notes.append(
        "GeppNet's constants were fitted to this table, so agreement here confirms nothing"
    )
    for name, of_learner in gaps.items():
        base, new, overall = np.mean(of_learner, axis=0)
        table.notes.append(
            f"{name}: mean absolute gap {base:.1f} (base), {new:.1f} (new), {overall:.1f} (overall)"
        )
    return table


def _s6(r: RunRecord) -> dict[str, float]:
    score = r.by_score["accuracy"]
    return {
        "base": 100 * score.R[0][0],
        "new": 100 * score.R[1][1],
        "overall": 100 * score.pooled[1],
    }


def table_s8(runs: KemkerRuns) -> PaperTable:
    """Table S8: multi-modal accuracies in percent, mean per class."""
    table = PaperTable(
        "S8",
        "Multi-modal accuracies",
        ("learner", "first / second"),
        ("first, initial", "first, final", "second"),
        method="learner",
        printed=runs.printed_labels(),
        unit="%",
    )
    for row in load_published("kemker2018")["tables"]["S8"]:
        names = tuple(row["data"])
        run = (row["learner"], "multi-modal", names)
        cells: dict[str, tuple[float, tuple[int, int]]] = {
            "first, initial": (row["initial"][0], (0, 0)),
            "first, final": (row["final"][0], (1, 0)),
            "second": (row["final"][1], (1, 1)),
        }
        records = runs.of(run)
        values = {
            c: Value(v, over(records, _entry(*at)), 1, runs.stands_in(names))
            for c, (v, at) in cells.items()
        }
        table.rows.append(((LEARNERS[row["learner"]], runs.label(names)), values))
    return table


def _entry(i: int, j: int) -> Callable[[RunRecord], float]:
    return lambda r: 100 * r.R[i][j]


# --- figures and Table S9 ---


def table_s9(runs: KemkerRuns) -> PaperTable:
    """Table S9: number of features that are not redundant, and their share in percent."""
    from embedbench.files.redundancy import redundancy

    table = PaperTable("S9", "Non-redundant features (FCBF)", ("data",), ("features", "percent"))
    table.printed, table.units = runs.printed_labels(), {"features": "features", "percent": "%"}
    for row in load_published("kemker2018")["tables"]["S9"]:
        data = runs.data.get(row["data"])
        values = {
            "features": Value(row["kept"], None, 0, made=EXACT),
            "percent": Value(row["percent"], None, 1, made=EXACT),
        }
        if data:
            result, _ = redundancy(EmbeddingFile.open(data.file))
            kept, share = Stat.of([result.kept]), Stat.of([100 * result.share])
            values = {
                "features": Value(row["kept"], kept, 0, data.stands_in, made=EXACT),
                "percent": Value(row["percent"], share, 1, data.stands_in, made=EXACT),
            }
        table.rows.append(((runs.label((row["data"],)),), values))
    table.notes.append("ours: intervals by Fayyad and Irani's MDL criterion, δ = 0")
    return table


def figures(runs: KemkerRuns) -> PaperTable:
    """Figures 2, S2 and S3: accuracy by session on each data set."""
    from embedbench.reports.curve_figures import Curve, curve_plot
    from embedbench.reports.learner_colours import assign_styles, glyph

    styles = assign_styles((learner, learner) for learner in LEARNERS)
    table = PaperTable("Figures 2, S2, S3", "Figures 2, S2 and S3: accuracy by session", (), ())
    table.notes.append(
        ", ".join(f"{glyph(styles[learner])} {name}" for learner, name in LEARNERS.items())
        + "; dashed: the offline MLP"
    )
    pictures: list[tuple[str, str, Callable[[Floats, Floats], Floats], int]] = [
        ("incremental-class", "all classes so far (Figs. 2 and S3)", lambda _, pooled: pooled, 0),
        ("incremental-class", "the base set (Fig. S3)", lambda R, _: R[:, 0], 0),
        ("permutation", "the original data (Fig. S2)", lambda R, _: R[:, 0], 0),
        ("permutation", "the newest permutation (Fig. S2)", lambda R, _: np.diagonal(R), 0),
    ]
    for name, (protocol, what, part, first) in itertools.product(runs.data, pictures):
        curves, ideal = [], float("nan")
        for learner in LEARNERS:
            if (learner, protocol) == ("pathnet", "incremental-class"):
                continue
            records = runs.of((learner, protocol, (name,)))
            if not records:
                continue
            parts = [
                part(np.array(r.R, dtype=np.float64), np.array(r.pooled, dtype=np.float64))
                for r in records
            ]
            curves.append(Curve(np.stack(parts), styles[learner]))
            ideal = min(records[0].ideals, default=float("nan"))
        if curves:
            title = f"{runs.data[name].label}, {protocol}: {what}"
            table.figures.append((title, curve_plot(curves, ideal, first, title)))
    return table
