"""Figures of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedbench.reports.comparison_results import Ranking
from embedbench.reports.cost_figures import draw_costs
from embedbench.reports.figure_files import write
from embedbench.reports.figure_kinds import WIDTHS
from embedbench.reports.learner_colours import assign_styles
from embedbench.reports.matrix_figures import draw_ranks
from embedbench.scores.mean_intervals import Stat

from .compared import used
from .rows import Row


def ranks(ranked: Ranking, path: Path) -> None:
    """Ranks of the means, with bars over the ranks left open."""
    styles = assign_styles((e.learner, e.learner) for e in ranked.learners)
    write(path, draw_ranks(ranked, styles, WIDTHS["page"]))


def costs(rows: Sequence[Row], order: Sequence[str], path: Path) -> None:
    """Mean final accuracy of each learner against its bytes and its seconds of learning."""
    styles = assign_styles((name, name) for name in order)
    runs = [[row for row in used(rows) if row.learner == learner] for learner in order]
    held = [float(np.mean([row.bytes for row in each])) / 1e6 for each in runs]
    seconds = [float(np.mean([row.learn_seconds for row in each])) for each in runs]
    means = [Stat.of([100 * float(np.mean([row.final_accuracy for row in each]))]) for each in runs]
    marks = {name: styles[name] for name in order}
    by_cost = {"MB held": held, "seconds of learning": seconds}
    write(path, draw_costs(by_cost, means, marks, WIDTHS["page"], "final accuracy (%)"))
