"""How far a learner's runs differ by their seeds: `report --by seeds`.

A run has four seeds: of the class order, the first weights, the batches and the memory. Runs that
differ in one of them alone (`run --seed 0 --set seeds.init=1`, `=2`, …) say what that one does;
runs of other `--seeds` differ in all four at once. A table says over which seeds each spread is.
"""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, unknown
from embedbench.text.table_export import records
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import TableView, pooled_sd, section
from .headings_and_units import heading, value_text
from .measurement_words import count_text
from .result_rows import Row, split_tables
from .results import Result, varied_seeds

NAMES = tuple(seed.name for seed in fields(Seeds))
REMARK = (
    "over: the seeds in which these runs differ, the others are the same · sd: of single runs; of "
    "several sets of runs, each with the other seeds in common, pooled"
)


@dataclass(frozen=True)
class SeedSpread:
    """The runs of a learner that differ in some of their seeds alone.

    Parameters
    ----------
    learner : str
        The label of its row.
    over : tuple of str
        The seeds in which they differ: of order, init, batches and memory.
    sets : tuple of tuple of Result
        The runs; those of one set have the other seeds in common.
    """

    learner: str
    over: tuple[str, ...]
    sets: tuple[tuple[Result, ...], ...]

    @property
    def runs(self) -> list[Result]:
        return list(itertools.chain(*self.sets))

    @property
    def words(self) -> str:
        """The seeds in words."""
        return "all four" if self.over == NAMES else ", ".join(self.over)

    @property
    def changes_nothing(self) -> bool:
        """Whether the runs of each set gave equal answers."""
        each = [{run.answers for run in one} for one in self.sets]
        return all(len(answers) == 1 and None not in answers for answers in each)

    def values(self, metric: str) -> list[list[float]]:
        """Its values, set by set, without undefined ones."""
        each = [[run.value(metric) for run in one] for one in self.sets]
        return [[value for value in values if value == value] for values in each]


def find_spreads(row: Row) -> Iterator[SeedSpread]:
    """Yield the spreads of a row: over all its runs, then over single seeds.

    Among the latter are the variations, which are in no mean of the row.
    """
    varied = tuple(varied_seeds(run.seeds for run in row.used))
    if len(varied) > 1:
        yield SeedSpread(row.label, varied, (row.results.rows,))
    every = [*row.results, *row.variation_results]
    for name in NAMES:
        sets: dict[Hashable, list[Result]] = {}
        for run in every:
            others = {**vars(run.seeds), name: None}
            sets.setdefault(tuple(others.items()), []).append(run)
        several = tuple(tuple(runs) for runs in sets.values() if len(runs) > 1)
        if several:
            yield SeedSpread(row.label, (name,), several)


def spreads_over_seeds(rows: Sequence[Row], metric: str) -> list[TableView]:
    """The spread of each learner over its seeds: one table for each of a report.

    The JSON of a table has `title`, `metric` and `score`, and `learners`: `learner`; `over`, the
    seeds in which its runs differ, of `order`, `init`, `batches` and `memory`; `runs` and `sets`,
    how many there are: the runs of a set have the other seeds in common; their `mean`; `sd`, the
    standard deviation of runs within sets, pooled; `least` and `most`.

    Raises
    ------
    UserError
        No row has two runs, or none the metric.
    """
    rows = [row for row in rows if row.learns and row.used]
    known = {name for row in rows for name in row.metrics}
    if metric not in known:
        raise unknown("metric", metric, known)
    views = []
    for mine in split_tables(rows):
        spreads = list(itertools.chain(*map(find_spreads, mine)))
        if spreads:
            views.append(_view(mine[0], spreads, metric))
    if not views:
        raise UserError(
            "--by seeds needs two runs of a learner that differ in their seeds",
            "run again with --seeds 0-4, or with --set seeds.init=1 for one of the four alone",
        )
    return views


def _view(first: Row, spreads: Sequence[SeedSpread], metric: str) -> TableView:
    group = first.group
    table = new_table(
        ["learner", "over", "n", heading(metric, group.score), "sd", "least", "most"], names=2
    )
    learners = []
    for spread in spreads:
        values = spread.values(metric)
        flat = list(itertools.chain(*values))
        if not flat:
            continue
        numbers = {"mean": float(np.mean(flat)), "sd": pooled_sd(values)}
        numbers |= {"least": min(flat), "most": max(flat)}
        counts = {"over": list(spread.over), "runs": len(flat), "sets": sum(map(bool, values))}
        learners.append({"learner": spread.learner, **counts, **numbers})
        n = count_text(1 if spread.changes_nothing else len(flat), len(flat))
        texts = [value_text(value, metric) for value in numbers.values()]
        table.add_row(*map(line, [spread.learner, spread.words, n, *texts]))
    data = plain(
        {"title": group.title, "metric": metric, "score": group.score, "learners": learners}
    )
    parts = section(group.title, ["spread over seeds"], table, ["", REMARK, *_equal(spreads)])
    return TableView(group.title, records(data, "learners"), parts, data)


def _equal(spreads: Sequence[SeedSpread]) -> list[str]:
    """Name the rows whose runs gave equal answers: no seed changes them."""
    same = [f"{spread.learner} ({spread.words})" for spread in spreads if spread.changes_nothing]
    if not same:
        return []
    return [f"=: runs with equal answers, which these seeds do not change: {', '.join(same)}"]
