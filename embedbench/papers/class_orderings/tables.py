"""Masana et al. (2020): Table 1, and the paper's statements about first sessions and rankings.

**Departs**: the paper trains a network on CIFAR-100's images. So do we with a pixel file of them
(the preset `class-orderings-images`, the published orders). Otherwise we use embeddings of other
data, with settings chosen for them. Random is drawn anew for each run here, as the spread of the
paper's runs suggests. Accuracy is the mean over the classes seen; it equals the accuracy per sample
if classes are equally large, as in CIFAR-100.
"""

import itertools
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from embedbench.arrays import Floats
from embedbench.papers.published import PaperTable, Value, load_published
from embedbench.scores.learner_ranking import kendall_tau
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .runs import LEARNERS, OFFICIAL, ORDERS, SESSIONS, OrderingRuns

DATA = "CIFAR-100"
AFTER = {"after 2": 2, "after 5": 5, "after the last": SESSIONS}  # the paper's tasks
START, FIRST, LAST = "after 1", "after 2", "after the last"
IN_TABLE = [name for name in LEARNERS if name not in ("finetune", "lwf")]
EASY, HARD = "increasing-task-confusion", "decreasing-task-confusion"

Means = dict[tuple[str, str], float]  # (learner, order) → accuracy, percent


def accuracy(record: RunRecord, head: str) -> float:
    """Accuracy in percent over all classes learned, at a column of Table 1 or at `START`.

    NaN if the run is shorter.
    """
    pooled = record.pooled
    at = len(pooled) if head == LAST else {START: 1, **AFTER}[head]
    return 100 * pooled[at - 1] if at <= len(pooled) else float("nan")


def ours(runs: OrderingRuns, name: str, kind: str, learner: str, head: str) -> Stat | None:
    """A cell of Table 1, over the seeds; None if there are no runs, or they are too short."""
    values = [accuracy(r, head) for r in runs.of(name, kind, learner)]
    return Stat.of(values) if values and not np.isnan(values).any() else None


def printed_means(head: str) -> Means:
    """The paper's means in a column; none after session 1."""
    return {
        (row["learner"], kind): value
        for row in load_published("class-orderings")["tables"]["1"]
        for kind, value in row["accuracy"].items()
        if row["task"] == AFTER.get(head)
    }


def means(runs: OrderingRuns, name: str, head: str) -> Means:
    """Our means in a column."""
    pairs = itertools.product(LEARNERS, ORDERS)
    stats = {(learner, k): ours(runs, name, k, learner, head) for learner, k in pairs}
    return {key: stat.mean for key, stat in stats.items() if stat is not None}


def table1(runs: OrderingRuns) -> list[PaperTable]:
    """Table 1: accuracy after sessions 2, 5 and the last, for every learner and order."""
    tables = []
    for name in runs.files:
        title = f"accuracy in percent, {runs.sessions} sessions of {name} for {SESSIONS} of {DATA}"
        stands_in = name != OFFICIAL
        table = _table1(f"1 · {name}", title, partial(ours, runs, name), stands_in=stands_in)
        table.of = "1"
        if stands_in:
            table.data = f"{name} for {DATA}"
            table.notes.append(f"{name} stands in for CIFAR-100's images: no difference is formed")
        table.notes += [
            "in brackets the paper's standard deviation over ten runs, ± is our 95 % interval over "
            "the seeds",
            "20 exemplars a class by herding, but none for FT and “LwF, no exemplars”, of which "
            "the paper prints curves only (Figure 4)",
        ]
        if (name, "coarse") not in runs.orders:
            table.notes.append(f"{name} has no class hierarchy, so no coarse order")
        tables.append(table)
    return tables


def printed_tables() -> list[PaperTable]:
    """Table 1 without ours."""
    title = f"accuracy in percent after sessions of {DATA}"
    return [_table1("1", title, lambda *_: None)]


def _table1(
    name: str,
    title: str,
    stat: Callable[[str, str, str], Stat | None],
    *,
    stands_in: bool = False,
) -> PaperTable:
    """Table 1; `stat` returns our number of an order, a learner and a column."""
    paper = {
        (r["learner"], r["task"], kind): (r["accuracy"][kind], r["sd"][kind])
        for r in load_published("class-orderings")["tables"]["1"]
        for kind in ORDERS
    }
    heads = ("learner", "order")
    table = PaperTable(name, title, heads, list(AFTER), method="learner", unit="%")
    for learner, kind in itertools.product(LEARNERS, ORDERS):
        values = {}
        for head, task in AFTER.items():
            mean, sd = paper.get((learner, task, kind), (None, None))
            values[head] = Value(mean, stat(kind, learner, head), 1, stands_in, sd=sd)
        table.rows.append(((LEARNERS[learner].label, ORDERS[kind]), values))
    return table


# --- the two statements ---


def statements(runs: OrderingRuns) -> list[PaperTable]:
    """The easy and hard orders, and whether they change the ranking of the learners."""
    return [t for name in runs.files for t in (_extremes(runs, name), _rankings(runs, name))]


def _extremes(runs: OrderingRuns, name: str) -> PaperTable:
    """Best and worst order of every learner, early and at the end."""
    table = PaperTable(
        f"Easiest and hardest order · {name}",
        f"Easiest and hardest order of every learner: {name} for CIFAR-100",
        ("learner", "sessions"),
        ("easiest", "hardest", "spread"),
    )
    both = {head: (printed_means(head), means(runs, name, head)) for head in (START, FIRST, LAST)}
    for learner, (head, sources) in itertools.product(LEARNERS, both.items()):
        values = {}
        for what, at in (("easiest", 0), ("hardest", -1)):
            paper, mine = (_extreme(of, learner, at) for of in sources)
            values[what] = Value(words=(paper, mine))
        gaps = [_gap(of, learner) for of in sources]
        stat = None if gaps[1] is None else Stat.of([gaps[1]])
        values["spread"] = Value(gaps[0], stat, 1, stands_in=name != OFFICIAL)
        table.rows.append(((LEARNERS[learner].label, head), values))
    there, here = (_count(of) for of in both[FIRST])
    alone = _count(both[START][1])
    table.notes += [
        f"{ORDERS[EASY]} is easiest after two sessions for {here[0]} of {here[2]} learners (paper: "
        f"{there[0]} of {there[2]}), after one for {alone[0]}; {ORDERS[HARD]} hardest after two "
        f"for {here[1]} (paper: {there[1]}), after one for {alone[1]}",
        "by means over the seeds; orders whose intervals overlap in Table 1 are not told apart. "
        "Spread: points between the easiest and the hardest",
    ]
    return table


def _extreme(of: Means, learner: str, at: int) -> str:
    """A learner's best (at = 0) or worst (-1) order; several names if they are equal."""
    ranked = _ranked(of, learner)
    equal = [k for k in ranked if of[learner, k] == of[learner, ranked[at]]]
    return " = ".join(ORDERS[k] for k in equal) or "–"


def _ranked(of: Means, learner: str) -> list[str]:
    """The orders, best first, for one learner."""
    kinds = [kind for kind in ORDERS if (learner, kind) in of]
    return sorted(kinds, key=lambda kind: -of[learner, kind])


def _gap(of: Means, learner: str) -> float | None:
    """Accuracy on the best order minus accuracy on the worst."""
    values = [of[learner, kind] for kind in _ranked(of, learner)]
    return values[0] - values[-1] if values else None


def _count(of: Means) -> tuple[int, int, int]:
    """Count learners with `EASY` as best order, those with `HARD` as worst, and all."""
    ranked = [r for r in (_ranked(of, learner) for learner in LEARNERS) if len(r) > 1]
    return sum(r[0] == EASY for r in ranked), sum(r[-1] == HARD for r in ranked), len(ranked)


def _rankings(runs: OrderingRuns, name: str) -> PaperTable:
    """The ranking of the paper's five learners on every order, compared with that on Random."""
    ranking, tau, seeds = f"ranking {LAST}", "τ against Random", "τ between seeds"
    table = PaperTable(
        f"Rankings · {name}",
        f"Does the ranking of the learners change with the order? {name} for CIFAR-100",
        ("order",),
        (ranking, tau, seeds),
    )
    paper, mine = printed_means(LAST), means(runs, name, LAST)
    for kind, label in ORDERS.items():
        texts = [_ranking(of, kind) for of in (paper, mine)]
        taus = [_tau(of, kind) for of in (paper, mine)]
        values = {ranking: Value(words=(texts[0], texts[1]))}
        if kind != "random":
            stat = None if taus[1] is None else Stat.of([taus[1]])
            values[tau] = Value(taus[0], stat, 2, stands_in=name != OFFICIAL)
        values[seeds] = Value(None, _between_seeds(runs, name, kind), 2)
        table.rows.append(((label,), values))
    table.notes += [
        "Kendall's τ_b of the mean accuracies: 1 the same ranking, 0 unrelated, -1 the reverse. "
        "The paper prints none: its values here follow from its Table 1",
        "τ between seeds: mean over every two seeds of one order; an order changes the ranking "
        "where its τ against Random is lower than that. Only the learners of the paper's table",
        "more, with intervals and ties: embedbench report RUNS --by order, of the directory runs",
    ]
    return table


def _on(of: Mapping[tuple[str, str], float], kind: str) -> dict[str, float]:
    return {name: of[name, kind] for name in IN_TABLE if (name, kind) in of}


def _ranking(of: Means, kind: str) -> str:
    """The learners from best to worst."""
    accuracies = _on(of, kind)
    ranked = sorted(accuracies, key=lambda learner: -accuracies[learner])
    return " > ".join(LEARNERS[learner].label for learner in ranked) or "–"


def _tau(of: Means, kind: str) -> float | None:
    """Kendall's τ between the ranking on an order and that on Random; None under two learners."""
    a, b = _on(of, "random"), _on(of, kind)
    both = [name for name in a if name in b]
    return kendall_tau([a[n] for n in both], [b[n] for n in both]) if len(both) > 1 else None


def _between_seeds(runs: OrderingRuns, name: str, kind: str) -> Stat | None:
    """Mean τ between the rankings of any two seeds; None under two seeds or learners."""
    by_seed: dict[int, list[float]] = {}
    run = [records for n in IN_TABLE if (records := runs.of(name, kind, n))]
    for record in itertools.chain.from_iterable(run):
        by_seed.setdefault(record.seed, []).append(accuracy(record, LAST))
    complete: list[Floats] = [np.array(v) for v in by_seed.values() if len(v) == len(run) > 1]
    taus = [kendall_tau(list(a), list(b)) for a, b in itertools.combinations(complete, 2)]
    return Stat.of([float(np.mean(taus))]) if taus else None
