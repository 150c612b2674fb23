"""Draw `docs/pictures/exemplars.svg`: what the share of exemplars does to IIRC's learners.

`python tools/draw_exemplars.py` after `docs/studies/data/iirc-exemplars.csv` has changed. Its rows
are from the table *measures* of `embedbench reproduce iirc`, after session 10.
"""

import csv
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embedbench.reports.figure_style import STYLE, write
from embedbench.reports.learner_colours import INK, SOFT

DOCS = Path(__file__).resolve().parents[1] / "docs"
TABLE = DOCS / "studies" / "data" / "iirc-exemplars.csv"
PANELS = {  # a measure's name: its title, and where the claim begins to hold
    "newest labels in all given": ("newest session's labels\nin all labels given (I6)", 0.5),
    "labels given for each true one": ("labels given\nfor each true one (I5)", 1.0),
}
MARKS = {"ER": "o", "iCaRL-CNN": "s", "iCaRL-norm": "^"}
PAPER = 20 / 500  # of the samples of a class, the share that the paper's learners keep


def draw_panel(axis: Axes, rows: list[dict[str, str]], measure: str) -> None:
    """A line a learner and file: the measure by the share of a class's samples that are kept."""
    title, threshold = PANELS[measure]
    lines: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row in rows:
        if row["measure"] == measure:
            share = int(row["exemplars"]) / int(row["samples a class"])
            half = float(row["half"]) if row["half"] else 0.0
            point = (100 * share, float(row["mean"]), half)
            lines.setdefault((row["learner"], row["data"]), []).append(point)
    for (learner, data), points in lines.items():
        shares, means, halves = zip(*sorted(points), strict=True)
        colour = INK if learner == "ER" else SOFT
        hollow = "none" if data.startswith("CIFAR") else colour
        axis.errorbar(
            shares, means, yerr=halves, fmt=MARKS[learner] + "-", color=colour,
            markerfacecolor=hollow, markeredgewidth=0.8, label=f"{learner}, {data}",
        )  # fmt: skip
    axis.axhline(threshold, color=SOFT, linewidth=0.8, linestyle=(0, (5, 3)))
    axis.axvline(100 * PAPER, color=SOFT, linewidth=0.8, linestyle=(0, (1, 2)))
    axis.set_title(title)
    axis.set_xlabel("exemplars, % of a class's samples")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y")


@rc_context(STYLE)
def draw(rows: list[dict[str, str]]) -> Figure:
    """A panel a measure; the dashed line is the claim's threshold, the dotted the paper's share."""
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for axis, measure in zip(axes, PANELS, strict=True):
        draw_panel(axis, rows, measure)
    return figure


def main() -> None:
    """Draw the picture."""
    with TABLE.open(encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    write(DOCS / "pictures" / "exemplars.svg", draw(rows))


if __name__ == "__main__":
    main()
