"""Learners under several regimes side by side: final score and rank in each, one table a stream."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.scores.behind_the_best import RowVerdict
from embedbench.scores.run_record import FINAL
from embedbench.text.terminal import line, new_table

from .compare_learners import judge
from .result_rows import Row, groups
from .terminal_tables import cell_text

NOTE = (
    "final %; # the rank of the mean, and in brackets the ranks that the verdicts of this regime "
    "leave open. No verdict is between regimes: they teach in different ways"
)


@dataclass(frozen=True)
class RegimeCell:
    """A learner under one regime on one stream."""

    stream: str
    regime: str
    row: Row
    verdict: RowVerdict | None

    @property
    def text(self) -> str:
        """Score and rank."""
        score = cell_text(self.row, FINAL, 1, 100.0, " ")
        if self.verdict is None or self.verdict.rank is None:
            return score
        low, high = min(self.verdict.ranks or (0,)), max(self.verdict.ranks or (0,))
        left_open = f" ({low}–{high})" if low < high else ""
        return f"{score}  #{self.verdict.rank}{left_open}"

    def to_csv(self) -> dict[str, Any]:
        """The numbers in full."""
        stat, verdict = self.row.metrics[FINAL], self.verdict
        ranks = (verdict and verdict.ranks) or (None,)
        return {
            "files": self.stream,
            "regime": self.regime,
            "learner": self.row.label,
            "n": len(self.row.used),
            FINAL: stat.mean,
            f"{FINAL}.half_95": stat.half,
            "rank": verdict and verdict.rank,
            "rank.least": ranks[0],
            "rank.most": ranks[-1],
        }


def regime_cells(tables: Mapping[str, Sequence[Row]]) -> list[RegimeCell]:
    """All cells: stream by stream, regime by regime, in the order of each regime's table.

    Parameters
    ----------
    tables : mapping
        Regime → the rows of its tables.
    """
    cells = []
    for regime, rows in tables.items():
        for group in groups(rows):
            mine = [row for row in rows if row.group is group]
            params = group.first.protocol_params
            layout = [f"{k}={params[k]}" for k in ("base", "step", "sessions") if params.get(k)]
            stream = " · ".join([group.first.protocol, ", ".join(group.file_names), *layout])
            order = str(params.get("order", ""))
            stream = f"{stream} · order {order}" if order else stream
            cells += [
                RegimeCell(stream, regime, row, v)
                for row, v in zip(mine, judge(mine).rows, strict=True)
                if row.used
            ]
    return cells


def regime_parts(cells: Sequence[RegimeCell]) -> list[Text | Table]:
    """The tables, a row for each learner and a column for each regime."""
    parts: list[Text | Table] = []
    regimes = list(dict.fromkeys(cell.regime for cell in cells))
    for stream in dict.fromkeys(cell.stream for cell in cells):
        mine = [cell for cell in cells if cell.stream == stream]
        table = new_table(["learner", *regimes])
        by_place = {(cell.row.label, cell.regime): cell for cell in mine}
        scores = {cell.row.label: -_mean(mine, cell.row.label) for cell in mine}
        for label in sorted(scores, key=scores.__getitem__):
            texts = [by_place[label, r].text if (label, r) in by_place else "–" for r in regimes]
            table.add_row(line(label), *map(Text, texts))
        parts += [line(stream, "bold"), table, Text("")]
    return [*parts, line(NOTE, "dim")] if parts else []


def _mean(cells: Sequence[RegimeCell], label: str) -> float:
    """The mean score of a learner over the regimes, which orders the rows."""
    means = [cell.row.metrics[FINAL].mean for cell in cells if cell.row.label == label]
    known = [mean for mean in means if not math.isnan(mean)]
    return sum(known) / len(known) if known else -math.inf
