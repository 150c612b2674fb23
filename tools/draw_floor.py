"""Draw `docs/pictures/floor.svg` from the answers that ship.

`python tools/draw_floor.py` after the floor has changed.
"""

import math
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.reports.figure_style import STYLE, write
from embedbench.reports.learner_colours import INK, SOFT
from embedbench.sharing.floor import CLOSED_FORMS, Place, list_floor, read_floor

DOCS = Path(__file__).resolve().parents[1] / "docs"
WORST = 40.0  # points behind the best, where a panel ends
PANELS = 5  # in a row


@rc_context(STYLE)
def draw(sets: dict[str, dict[str, Place]]) -> Figure:
    """A panel a set, a row a learner: how far behind the best it is, with its 95 % interval."""
    labels = [row["learner"] for row in list_floor(sets)]
    rows = math.ceil(len(sets) / PANELS)
    figure = Figure(figsize=(7.2, rows * (0.2 * len(labels) + 0.6) + 0.3), layout="constrained")
    axes = figure.subplots(rows, PANELS, sharey=True, squeeze=False).flat
    for axis in axes[len(sets) :]:
        axis.set_axis_off()
    for axis, (name, places) in zip(axes, sets.items(), strict=False):
        best = max(100 * place.mean for place in places.values())
        for y, label in enumerate(labels):
            if label not in places:
                continue
            verdict = places[label].verdict
            colour = INK if label in CLOSED_FORMS else SOFT
            ends = (verdict.behind_by_least, verdict.behind_by_most)
            low, high = (min(max(100 * end, 0), WORST) for end in ends)
            axis.plot([low, high], [y, y], color=colour, linewidth=2.2, alpha=0.45)
            behind = 100 * verdict.behind_by
            marker = "o" if behind <= WORST else ">"
            axis.plot(min(behind, WORST), y, marker, color=colour, clip_on=False)
        axis.set_title(f"{name.removesuffix('.h5')}\nbest {best:.1f} %")
        axis.set_xlim(-1, WORST)
        axis.set_yticks(range(len(labels)), labels)
        axis.grid(axis="x")
    axes[0].invert_yaxis()  # of all, which share it
    figure.supxlabel("points behind the best (95 % interval)", fontsize=8)
    return figure


def main() -> None:
    """Draw the picture."""
    write(DOCS / "pictures" / "floor.svg", draw(read_floor(print)))


if __name__ == "__main__":
    main()
