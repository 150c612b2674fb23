"""Abdelsalam et al. (2021): Tables 5 to 7, and the paper's statements about the learners.

**Departs**: the paper trains residual networks on images; we use embeddings, with learning rates
chosen for them. Means are over task configurations; each counts with the mean over its seeds.
"""

from collections.abc import Callable, Mapping

import numpy as np

from embedbench.arrays import Floats
from embedbench.papers.published import COLUMNS as METHODS
from embedbench.papers.published import PaperTable, Value, load_published
from embedbench.scores.mean_intervals import Stat

from .runs import LEARNERS, OFFICIAL, VARIANTS, IIRCRuns, Official, curve, matrix, score

JOINTS = ("joint", "incremental-joint")
COLUMNS = [*LEARNERS, "joint"]
TITLE = "average performance (pw-JS) after each session"


def table5(runs: IIRCRuns) -> list[PaperTable]:
    """Table 5: pw-JS on IIRC-CIFAR after every session, or on files that replace it."""
    return _tables(runs, "5")


def table6(runs: IIRCRuns) -> list[PaperTable]:
    """Table 6: pw-JS on IIRC-ImageNet-lite after every session."""
    return _tables(runs, "6")


def table7(runs: IIRCRuns) -> list[PaperTable]:
    """Table 7: pw-JS on IIRC-ImageNet-full after every session."""
    return _tables(runs, "7")


def _tables(runs: IIRCRuns, number: str) -> list[PaperTable]:
    return [_table(runs, name) for name, d in runs.data.items() if d.paper.table == number]


def _table(runs: IIRCRuns, name: str) -> PaperTable:
    """The published table of a data set, with our values beside it."""
    data = runs.data[name]
    ours = pool_scores(runs, name)
    table = _beside(data.paper, ours, runs.sessions(name), stands_in=data.stands_in)
    table.name = _named(data.paper.table, runs, name)
    table.title = f"{TITLE}, {data.label}"
    table.of, table.data = data.paper.table, data.label if data.stands_in else ""
    table.notes += _notes(runs, name)
    return table


def printed_tables() -> list[PaperTable]:
    """Tables 5 to 7 without ours."""
    return [_beside(official, {}, 0) for official in OFFICIAL.values()]


def _beside(
    official: Official, ours: Mapping[str, Floats], sessions: int, *, stands_in: bool = False
) -> PaperTable:
    """A printed table, and beside it our (n, T) values by learner."""
    paper = {row["task"]: row for row in load_published("iirc")["tables"][official.table]}
    last = (sessions or len(paper)) - 1
    columns = [n for n in COLUMNS if n in ours or any(n in row["pw_js"] for row in paper.values())]
    heads = [VARIANTS[n].label for n in columns]
    table = PaperTable(official.table, f"{TITLE}, {official.label}", ("after session",), heads)
    table.method = METHODS
    for t in range(max(last, max(paper)) + 1):
        printed = paper.get(t, {"pw_js": {}, "sd": {}})
        values = {}
        for n, head in zip(columns, heads, strict=True):
            at = 0 if n == "joint" and t == last else t if n != "joint" else -1
            of_learner = ours.get(n)
            stat = (
                None
                if of_learner is None or not 0 <= at < of_learner.shape[1]
                else Stat.of(of_learner[:, at])
            )
            mean, sd = printed["pw_js"].get(n), printed["sd"].get(n)
            values[head] = Value(mean, stat, 2, stands_in, sd=sd)
        table.rows.append(((str(t),), values))
    return table


def _named(what: str, runs: IIRCRuns, name: str) -> str:
    """A table's name; for a stand-in with the name of the data, never the paper's name alone."""
    return f"{what} · {runs.data[name].file.stem}" if runs.data[name].stands_in else what


def _notes(runs: IIRCRuns, name: str) -> list[str]:
    data, k = runs.data[name], len(runs.configurations(name))
    over = f"{k} task configurations" if k > 1 else "one task configuration"
    notes = [
        f"in brackets the paper's standard deviation over {data.paper.configurations} task "
        f"configurations; ± is our 95 % interval over {over}, of each the mean over its seeds "
        f"({', '.join(map(str, runs.seeds))})",
        "joint: all classes at once with complete labels, shown in the row of the last session; "
        "incremental joint: all data so far with complete labels",
    ]
    if data.stands_in:
        notes.append(
            f"{data.file.stem} stands in for {data.paper.label}: other classes in other sessions, "
            "so rows agree in their numbers alone, and no difference is formed"
        )
    else:
        notes.append("the paper's are residual networks trained on the images; ours are embeddings")
    return notes


def pool_scores(runs: IIRCRuns, name: str) -> dict[str, Floats]:
    """R_j for pw-JS, (n, T) by learner, for the learners that were run."""
    curves = {n: runs.curve(name, n, score("pw_js")) for n in COLUMNS}
    return {n: values for n, values in curves.items() if values is not None}


# --- what the paper says ---


def statements(runs: IIRCRuns) -> list[PaperTable]:
    """The paper's statements about its results, and whether they hold here."""
    return [_statements(runs, name) for name in runs.data]


def _statements(runs: IIRCRuns, name: str) -> PaperTable:
    data, ours = runs.data[name], pool_scores(runs, name)
    paper = load_published("iirc")["tables"][data.paper.table][-1]["pw_js"]
    mine = {n: _final(values) for n, values in ours.items()}
    title = f"What the paper says of the learners: {data.label}"
    table = PaperTable(f"Statements · {name}", title, ("statement",), ("measured", "holds"))
    judged = {
        "joint and incremental joint are on top in the end; the lower one's lead": _on_top(
            paper, mine, stands_in=data.stands_in
        ),
        "ER-infinite stays below incremental joint: memory alone is not enough; the gap": _gap(
            paper, ours, stands_in=data.stands_in
        ),
        "ER gives labels of the newest session only: their share in all it gives": _measured(
            _lasts(runs, name, "er", "labels_newest"), lambda share: share > 0.5
        ),
        **{
            f"{VARIANTS[n].label} gives too many labels: given for each true one": _measured(
                _ratio(_lasts(runs, name, n, "labels_predicted"),
                       _lasts(runs, name, n, "labels_true")),
                lambda given: given > 1,
            )
            for n in ("icarl-cnn", "icarl-norm")
        },
        "LUCIR stops learning: its R_jj as a share of ER's": _measured(
            _ratio(_late(runs, name, "lucir"), _late(runs, name, "er")), lambda share: share < 0.5
        ),
    }  # fmt: skip
    table.rows += [((statement,), values) for statement, values in judged.items()]
    table.notes += [
        f"in the end, paper: {_ranking(paper)}; ours: {_ranking(mine)}",
        "after the last session; R_jj: mean over the second half of the sessions. What counts as "
        "holding is ours: of means over the configurations, a gap over 0, a share of newest "
        "labels over .5, more labels given than true, an R_jj under half of ER's. The paper shows "
        "the last four in figures only",
    ]
    return table


def _on_top(
    paper: Mapping[str, float], mine: Mapping[str, float], *, stands_in: bool
) -> dict[str, Value]:
    """Final pw-JS of the worse joint learner minus that of the best other learner."""
    printed, lead = _lead(paper), _lead(mine)
    stat = None if np.isnan(lead) else Stat.of([lead])
    value = Value(None if np.isnan(printed) else printed, stat, 2, stands_in)
    return {"measured": value, **_holds(None if stat is None else lead > 0)}


def _lead(of: Mapping[str, float]) -> float:
    joints = [of[n] for n in JOINTS if n in of]
    others = [v for n, v in of.items() if n not in JOINTS]
    return min(joints) - max(others) if joints and others else float("nan")


def _ranking(of: Mapping[str, float]) -> str:
    """The learners from best to worst."""
    ranked = sorted((n for n in COLUMNS if n in of), key=lambda n: -of[n])
    return " > ".join(VARIANTS[n].label for n in ranked) or "–"


def _gap(
    paper: Mapping[str, float], ours: Mapping[str, Floats], *, stands_in: bool
) -> dict[str, Value]:
    """Final pw-JS of incremental joint minus that of ER-infinite, for each configuration."""
    pair = "incremental-joint", "er-infinite"
    printed = paper[pair[0]] - paper[pair[1]] if all(n in paper for n in pair) else None
    a, b = (ours.get(n) for n in pair)
    if a is None or b is None or len(a) != len(b):
        return {"measured": Value(printed, None, 2), **_holds(None)}
    stat = Stat.of(a[:, -1] - b[:, -1])
    value = Value(printed, stat, 2, stands_in)
    return {"measured": value, **_holds(stat.mean > 0)}


def _measured(values: Floats | None, holds: Callable[[float], bool]) -> dict[str, Value]:
    """A number for each configuration, and whether the statement holds for their mean."""
    if values is None:
        return {"measured": Value(), **_holds(None)}
    stat = Stat.of(values)
    held = None if np.isnan(stat.mean) else bool(holds(stat.mean))
    return {"measured": Value(None, stat, 2), **_holds(held)}


def _holds(held: bool | None) -> dict[str, Value]:
    word = {True: "yes", False: "no", None: "–"}[held]
    return {"holds": Value(words=("–", word))}


def _final(values: Floats) -> float:
    return float(values[:, -1].mean())


def _lasts(runs: IIRCRuns, name: str, learner: str, what: str) -> Floats | None:
    """(n,) last value of a curve, for each configuration."""
    values = runs.curve(name, learner, curve(what))
    return None if values is None else values[:, -1]


def _late(runs: IIRCRuns, name: str, learner: str) -> Floats | None:
    """(n,) mean of R_jj over the second half of the sessions, for each configuration."""
    values = runs.curve(name, learner, lambda r: np.diagonal(matrix(r)))
    if values is None:
        return None
    late: Floats = values[:, values.shape[1] // 2 :].mean(axis=1)
    return late


def _ratio(above: Floats | None, below: Floats | None) -> Floats | None:
    """Quotient for each configuration; NaN where `below` is 0, None if one is missing."""
    if above is None or below is None or len(above) != len(below):
        return None
    quotient: Floats = above / np.where(below > 0, below, np.nan)
    return quotient
