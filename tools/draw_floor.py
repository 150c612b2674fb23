"""Draw `docs/pictures/floor.svg` from the answers that ship.

`python tools/draw_floor.py` after the floor has changed.
"""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.reports.figure_style import STYLE, write
from embedbench.reports.learner_colours import INK, SOFT
from embedbench.sharing.floor import CLOSED_FORMS, Place, list_floor, read_floor

DOCS = Path(__file__).resolve().parents[1] / "docs"
WORST = 40.0  # points behind the best, where a panel ends


@rc_context(STYLE)
def draw(sets: dict[str, dict[str, Place]]) -> Figure:
    """A panel a set, a row a learner: how far behind the best it is, with its 95 % interval."""
    labels = [row["learner"] for row in list_floor(sets)]
    figure = Figure(figsize=(7.2, 0.22 * len(labels) + 0.9), layout="constrained")
    for axis, (name, places) in zip(
        figure.subplots(1, len(sets), sharey=True), sets.items(), strict=True
    ):
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
            axis.plot(min(behind, WORST), y, "o" if behind <= WORST else ">", color=colour)
        axis.set_title(f"{name.removesuffix('.h5')}\nbest {best:.1f} %")
        axis.set_xlim(-1, WORST)
        axis.set_yticks(range(len(labels)), labels)
        axis.grid(axis="x")
    axis.invert_yaxis()
    figure.supxlabel("points behind the best (95 % interval)", fontsize=8)
    return figure


def main() -> None:
    """Draw the picture."""
    write(DOCS / "pictures" / "floor.svg", draw(read_floor(print)))


if __name__ == "__main__":
    main()
