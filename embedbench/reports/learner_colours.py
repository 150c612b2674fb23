"""Colours of figures; one colour and one mark a learner, the same in all figures of a report."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result_rows import Row

# A search moved the hues apart in CIELAB, as they are and as seen with deuteranopia and protanopia
# (Machado et al. 2009), the first six further than the rest. Each learner has a mark, too.
# fmt: off
COLOURS = ("#092681", "#581e00", "#e4933b", "#2392fd", "#02bb98",
           "#637100", "#c298c3", "#76274a", "#007b86", "#d0595d")
# fmt: on
INK, SOFT, LINE, BLANK = "#1b1b1b", "#444444", "#9a9a9a", "#dcdcdc"  # text, lines, empty cells

HUES = len(COLOURS)
MARKERS = ("o", "s", "^", "D", "v", "*", "X", "P", "<", ">")


def look(style: int) -> dict[str, Any]:
    """The colour and the mark of a style, as matplotlib takes them; the first 100 differ."""
    mark = MARKERS[(style + style // HUES) % len(MARKERS)]
    return {"color": COLOURS[style % HUES], "marker": mark}


def styles_in(rows: "Iterable[Row]") -> dict[str, int]:
    """Label → style, of the learners among some rows by their names; the chance level has none."""
    labels = sorted({row.label for row in rows if row.learns})
    return {label: style for style, label in enumerate(labels)}


def styles_of(rows: "Iterable[Row]", names: Iterable[str]) -> dict[str, int]:
    """The styles of the learners of a study: those of the rows, unless it has other names."""
    of_rows = styles_in(rows)
    names = sorted(names)
    if of_rows.keys() >= {*names}:
        return of_rows
    return {name: style for style, name in enumerate(names)}
