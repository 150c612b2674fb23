"""Figures as inline SVG: colours are CSS variables of the page, and nothing is loaded."""

from __future__ import annotations

import html
import io
import re
import warnings
import zlib
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from embedbench.errors import printable

from .slim import slim
from .styles import hollow, hue, marker

# One hue per learner, for a light and for a dark page. Colour-blind readers can tell them apart,
# too (after Okabe and Ito, and Tol); in addition each learner has a marker.
# fmt: off
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b07d00",
           "#4aa3df", "#882255", "#7a8b1f", "#4b3fa7", "#c4566a")
DARK_COLOURS = ("#4ea8de", "#ff8a4c", "#2fc79a", "#d884c8", "#f2b632",
                "#a5dcff", "#e0709f", "#bcc24a", "#a396f5", "#f3a6ae")
# fmt: on

# The colours of text, lines, empty cells and what is behind a figure. In a page these and the hues
# are CSS variables, so that dark mode works; no figure uses them for anything else.
INK, SOFT, LINE, BLANK, SHEET = "#1b1b1b", "#444444", "#9a9a9a", "#dcdcdc", "#fefefe"
_VARIABLES = {INK: "--ink", SOFT: "--soft", LINE: "--line", BLANK: "--blank", SHEET: "--card"}
_VARIABLES |= {c: f"--c{i}" for i, c in enumerate(COLOURS)}

STYLE: Any = {  # Any: each version of matplotlib types the keys differently
    "text.parse_math": False,  # a name with a $ is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "embedbench",
    "font.size": 10.5,
    "text.color": SOFT,
    "axes.facecolor": "none",
    "axes.labelcolor": SOFT,
    "axes.edgecolor": LINE,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "lines.markeredgewidth": 0,
}


def colour(style: int) -> str:
    """The hue of a style."""
    return COLOURS[hue(style)]


def look(style: int) -> dict[str, Any]:
    """The colour and the mark of a style, as matplotlib takes them."""
    ink = colour(style)
    look: dict[str, Any] = {"color": ink, "marker": marker(style)}
    if hollow(style):
        look |= {"markerfacecolor": SHEET, "markeredgecolor": ink, "markeredgewidth": 0.9}
    return look


def svg(figure: Figure, label: str) -> str:
    """The figure as an SVG element that takes its colours and font from the page."""
    out = io.StringIO()
    FigureCanvasSVG(figure)
    metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the reader's font may have it: text stays text
        figure.savefig(out, format="svg", transparent=False, facecolor="none", metadata=metadata)
    text = printable(out.getvalue(), lines=True)
    text = text[text.index("<svg") :]
    for element in ("metadata", "style"):
        text = re.sub(rf"<{element}.*?</{element}>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    for fixed, variable in _VARIABLES.items():
        text = text.replace(fixed, f"var({variable})")
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)  # matplotlib before 3.11
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    # ids must differ between the figures of one page
    text = slim(text, f"f{zlib.crc32((label + text).encode()):08x}")
    name = html.escape(printable(label))
    return text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1).strip()
