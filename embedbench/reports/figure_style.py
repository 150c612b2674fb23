"""The style of figures, and figures as bytes: sizes and colours, words that fit, the legend.

A figure is drawn with matplotlib but without pyplot, and depends on its numbers alone: the same
figure twice has the same bytes.
"""

import io
import re
import warnings
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.scores.number_text import format_signed
from embedbench.storage.atomic_write import write_safely
from embedbench.text.printable_text import printable

from .learner_colours import BLANK, INK, LINE, SOFT

SMALL = 7  # points: ticks and legends; everything else has 8
LETTERS = 14  # of a title in an inch
DPI = 300  # of PNG, and of what is rasterised in SVG and PDF
SCREEN = 150  # of PNG in a notebook
STYLE: Any = {  # Any: each version of matplotlib types the keys differently
    "font.sans-serif": ["DejaVu Sans"],  # which is matplotlib's own
    "text.parse_math": False,  # a name with a $ is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "embedbench",
    "pdf.fonttype": 42,  # TrueType: text stays text, and journals take it
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 8),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), LINE),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), SOFT),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    # minor ticks are shorter by 1.5 points: their numbers stand where those of major ones do
    **dict.fromkeys(("xtick.major.pad", "ytick.major.pad"), 3.5),
    **dict.fromkeys(("xtick.minor.pad", "ytick.minor.pad"), 5.0),
    "axes.axisbelow": True,
    "grid.color": BLANK,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0,
}
# Levels that learners are compared with
OFFLINE: Any = {"color": INK, "linewidth": 0.9, "linestyle": (0, (5, 3)), "zorder": 1}
CHANCE: Any = {**OFFLINE, "color": SOFT, "linestyle": (0, (1, 2))}
_METADATA: dict[str, dict[str, Any]] = {  # without dates and versions
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def level_name(name: str, value: float) -> str:
    """The name of a level in a legend: with its value, from a fraction."""
    return f"{name} ({format_signed(100 * value, 1)})"


def words(label: str, width: int = 1000) -> str:
    """A name in lines of about `width` characters, broken after spaces and signs where it has any.

    Without underscores at the start: matplotlib hides such names.
    """
    lines = [""]
    for part in re.findall(r".*?[ _.=:,/-]+|.+$", printable(label).lstrip("_")):
        for start in range(0, len(part), width):
            piece = part[start : start + width]
            if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def title_lines(title: str, width: float) -> str:
    """A title in as many lines as a figure of this width in inches needs."""
    return words(title, int(LETTERS * width))


def legend(figure: Figure) -> None:
    """Name what is labelled below everything else, in as many columns as fit; the figure grows.

    A figure that has its legend keeps it.
    """
    if figure.legends:
        return
    entries: dict[str, Any] = {}  # by name: what several axes have is named once
    for axes in figure.axes:
        marks, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, marks, strict=True))
    wide = figure.get_figwidth()
    names = [words(name, int(13 * wide)) for name in entries]
    for columns in range(len(names), 0, -1):
        made = figure.legend(entries.values(), names, loc="outside lower center", ncols=columns)
        box = made.get_window_extent()
        if box.width <= wide * figure.dpi or columns == 1:
            figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)
            return
        made.remove()


def write(path: Path, figure: Figure) -> None:
    """Write a figure as the format that the name of the file ends with."""
    write_safely(path, render_figure(figure, path.suffix.lower()[1:]))


@rc_context(STYLE)
def render_figure(figure: Figure, form: str, dpi: int = DPI) -> bytes:
    """A figure with its legend as pdf, svg or png."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is a box
        legend(figure)
        figure.savefig(out, format=form, dpi=dpi, metadata=_METADATA[form])
    return out.getvalue()


@rc_context(STYLE)
def shown_figure(figure: Figure) -> Figure:
    """A figure with its legend, which a notebook draws without pyplot, too."""
    legend(figure)
    # IPython asks an object for this name, and matplotlib tells it of figures of pyplot alone
    figure._repr_png_ = lambda: render_figure(figure, "png", SCREEN)  # type: ignore[attr-defined]
    return figure
