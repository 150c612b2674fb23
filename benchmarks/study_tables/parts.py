"""Tables that both pages have, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from embedbench.reports.comparison_results import Ranking
from embedbench.reports.comparison_text import allowed_ranks
from embedbench.reports.terminal_tables import behind_text, points
from embedbench.scores.mean_intervals import format_signed
from embedbench.text.markdown import table

from .compared import percent, stat, streams, used, within
from .rows import REFERENCES, Row


def studied(rows: Iterable[Row]) -> list[Row]:
    """The rows without references."""
    return [r for r in rows if r.learner not in REFERENCES]


def accuracy(rows: Sequence[Row], order: Sequence[str]) -> str:
    """Final accuracy and ranks left open: a line a learner, a column a stream; references last."""
    places: dict[tuple[str, str], str] = {}
    for stream in streams(rows):
        ranked = within([r for r in studied(rows) if r.stream == stream])
        places |= {(e.learner, stream): f"[{allowed_ranks(e)}]" for e in ranked.learners}

    def cell(mine: list[Row], stream: str) -> str:
        s = stat(mine, stream)
        return " ".join(
            filter(None, [percent(s.mean, s.half), places.get((mine[0].learner, stream))])
        )

    return by_stream(rows, order, cell)


def incremental(rows: Sequence[Row], order: Sequence[str]) -> str:
    """Average incremental accuracy in percent / Ω_all."""

    def cell(mine: list[Row], stream: str) -> str:
        curve = stat(mine, stream, "average_incremental_accuracy").mean
        omega = stat(mine, stream, "omega_all").mean
        return f"{percent(curve)} / {'–' if np.isnan(omega) else format_signed(omega, 2)}"

    return by_stream(rows, order, cell)


def chosen(rows: Sequence[Row], order: Sequence[str]) -> str:
    """The settings that validation data chose."""
    searched = [name for name in order if any(r.chosen for r in rows if r.learner == name)]

    def cell(mine: list[Row], stream: str) -> str:
        return ", ".join(sorted({r.chosen for r in mine if r.stream == stream})) or "–"

    return by_stream(rows, searched, cell)


def by_stream(
    rows: Sequence[Row], order: Sequence[str], cell: Callable[[list[Row], str], str]
) -> str:
    """A line a learner, a column a stream; references that were run come last."""
    there = [*order, *(n for n in REFERENCES if n in {r.learner for r in rows} - {*order})]
    names = streams(rows)
    lines = []
    for learner in there:
        mine = [r for r in used(rows) if r.learner == learner]
        if mine:
            lines.append([f"`{learner}`", *(cell(mine, s) for s in names)])
    return table(["learner", *names], lines)


def costs(rows: Sequence[Row], order: Sequence[str]) -> str:
    """Bytes and seconds of each learner."""
    lines = []
    for learner in order:
        mine = [r for r in used(rows) if r.learner == learner]
        learn, ask = (
            float(np.mean([getattr(r, f"{what}_seconds") for r in mine]))
            for what in ("learn", "evaluate")
        )
        held = [f"{max(getattr(r, what) for r in mine) / 1e6:.2f}" for what in ("bytes", "samples")]
        final = float(np.mean([r.final_accuracy for r in mine]))
        lines.append([f"`{learner}`", percent(final), *held, f"{learn:.2f}", f"{ask:.2f}"])
    head = ["learner", "final %", "MB", "samples, MB", "learning, s", "answers, s"]
    return table(head, lines)


def ranking(ranked: Ranking) -> str:
    """Means, their ranks, the ranks left open, and how far each learner is behind the best."""
    lines = [
        [
            f"`{e.learner}`",
            percent(e.mean),
            str(e.rank),
            allowed_ranks(e),
            behind_text(e, points, " "),
        ]
        for e in ranked.learners
    ]
    return table(["learner", "final %", "rank", "of", "behind by, points"], lines)


def missing(rows: Sequence[Row], whole: Sequence[Row]) -> str:
    """A sentence on runs that no mean includes; empty if there are none."""
    lost = sorted({r.learner for r in whole} - {r.learner for r in used(rows)})
    n = len(whole) - len(used(rows))
    who = f", all of {', '.join(lost)}" if lost else ""
    return f"{n} runs whose answers were NaN are left out{who}." if n else ""


def listed(names: Sequence[str]) -> str:
    """Names as code with commas and an "and"."""
    quoted = [f"`{n}`" for n in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1] if quoted else ""]))
