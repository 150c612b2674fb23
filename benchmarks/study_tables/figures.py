"""Figures of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from embedbench.reports.comparison_results import Ranking
from embedbench.reports.figure_files import write
from embedbench.reports.inline_svg import INK, look
from embedbench.reports.learner_colours import assign_styles
from embedbench.reports.matrix_figures import diagram

from .compared import used
from .rows import Row


def ranks(ranked: Ranking, path: Path) -> None:
    """Ranks of the means, with bars over the ranks left open."""
    styles = assign_styles((e.learner, e.learner) for e in ranked.learners)
    write(path, partial(diagram, ranked, styles, 6.75))


def costs(rows: Sequence[Row], order: Sequence[str], path: Path) -> None:
    """Mean final accuracy of each learner against its bytes and its seconds of learning."""
    write(path, partial(_costs, rows, order))


def _costs(rows: Sequence[Row], order: Sequence[str]) -> Figure:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    styles = assign_styles((name, name) for name in order)
    for learner in order:
        mine = [r for r in used(rows) if r.learner == learner]
        y = 100 * float(np.mean([r.final_accuracy for r in mine]))
        held = float(np.mean([r.bytes for r in mine])) / 1e6
        seconds = float(np.mean([r.learn_seconds for r in mine]))
        for axes, x in ((left, held), (right, seconds)):
            axes.plot(x, y, linestyle="", markersize=6, **look(styles[learner]))
            axes.annotate(
                learner, (x, y), (5, 3), textcoords="offset points", fontsize=7, color=INK
            )
    for axes, name in ((left, "MB held"), (right, "seconds of learning")):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(f"{name}, logarithmic")
        axes.margins(x=0.2)
    left.set_ylabel("final accuracy, %")
    return figure
