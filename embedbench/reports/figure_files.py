"""Figures as files, in the widths and fonts of a two-column paper.

matplotlib is used without pyplot, and everything that is drawn depends on the numbers alone: the
same figure twice has the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embedbench.errors import printable
from embedbench.storage.atomic_write import write_safely

from .inline_svg import INK, STYLE

DPI = 300  # of PNG, and of what is rasterised in SVG and PDF
SMALL = 7  # points: ticks and legends; everything else has 8

PAPER: Any = {  # Any: each version of matplotlib types the keys differently
    **STYLE,
    "pdf.fonttype": 42,  # TrueType: text stays text, and journals take it
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "grid.linewidth": 0.4,
    "grid.color": "#d9d9d9",
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.2,
    "legend.labelspacing": 0.3,
    "legend.handletextpad": 0.5,
}
_METADATA: dict[str, dict[str, Any]] = {  # without dates and versions
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def write(path: Path, draw: Callable[[], Figure]) -> None:
    """Write what `draw` returns as the format that the name of the file ends with.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    write_safely(path, render_figure(draw, path.suffix.lower()[1:]))


def render_figure(draw: Callable[[], Figure], form: str, dpi: int = DPI) -> bytes:
    """What `draw` returns, as pdf, svg or png."""
    out = io.BytesIO()
    with matplotlib.rc_context(PAPER), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is a box
        draw().savefig(out, format=form, dpi=dpi, metadata=_METADATA[form], facecolor="w")
    return out.getvalue()


def words(label: str, width: int) -> str:
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


def legend(figure: Figure, entries: Mapping[str, Artist], *, height: float) -> None:
    """Write a legend below everything else, in as many columns as fit; the figure grows with it.

    Parameters
    ----------
    entries : mapping
        Name → what stands for it.
    height : float
        The height of the figure without the legend, inches.
    """
    wide, dpi = figure.get_figwidth(), figure.dpi
    names = [words(name, int(13 * wide)) for name in entries]
    even = [-(-len(names) // lines) for lines in range(1, len(names) + 1)]
    for columns in dict.fromkeys([*even, 1]):
        made = figure.legend(
            list(entries.values()), names, loc="outside lower center", ncols=columns
        )
        box = made.get_window_extent()
        if box.width <= wide * dpi or columns == 1:
            figure.set_figheight(height + box.height / dpi)
            return
        made.remove()


def fit(axes: Axes, low: float, high: float, most: float = float("inf")) -> None:
    """End the y axis just outside the values from `low` to `high`; never under 0 or over `most`.

    Values below 0 are drawn, too; a span that begins near 0 begins at 0.
    """
    if not low <= high:  # NaN: nothing is drawn
        low, high = 0.0, 1.0
    span = max(high - low, 1e-3 * max(abs(high), 1.0))
    bottom = low - 0.05 * span
    if low >= 0 and bottom < 0.12 * span:
        bottom = 0.0
    axes.set_ylim(bottom, min(high + 0.05 * span, 1.02 * most))
