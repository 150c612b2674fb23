"""Figures of the pages, as SVG that takes light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from embedbench.disk import write_safely
from embedbench.reports.plots import MARKERS
from embedbench.reports.svg import INK, STYLE, colour, standalone, svg

from .compared import used
from .rows import Row


def costs(rows: Sequence[Row], order: Sequence[str], path: Path) -> None:
    """Mean final accuracy of each learner against its bytes and its seconds of learning."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for style, learner in enumerate(order):
            mine = [r for r in used(rows) if r.learner == learner]
            y = 100 * float(np.mean([r.final_accuracy for r in mine]))
            held = float(np.mean([r.bytes for r in mine])) / 1e6
            seconds = float(np.mean([r.learn_seconds for r in mine]))
            for axes, x in ((left, held), (right, seconds)):
                marker = MARKERS[style % len(MARKERS)]
                axes.plot(x, y, marker, color=colour(style), markersize=6)
                axes.annotate(
                    learner, (x, y), (5, 3), textcoords="offset points", fontsize=8, color=INK
                )
        for axes, name in ((left, "MB held"), (right, "seconds of learning")):
            axes.set_xscale("log")
            axes.set_xlabel(name)
            axes.margins(x=0.2)
        left.set_ylabel("final accuracy, %")
        label = "Mean final accuracy of each learner against bytes held and seconds of learning"
        write_safely(path, standalone(svg(figure, label)))
