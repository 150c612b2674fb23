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

from .learner_colours import hollow, hue, marker
from .svg_minify import slim

# The hues, for a light and for a dark page: a search moved them apart in CIELAB, as they are and as
# seen with deuteranopia and protanopia (Machado et al. 2009), the first six further than the rest.
# In addition each learner has a marker.
# fmt: off
COLOURS = ("#092681", "#581e00", "#e4933b", "#2392fd", "#02bb98",
           "#637100", "#c298c3", "#76274a", "#007b86", "#d0595d")
DARK_COLOURS = ("#2e6bc2", "#9b5a5c", "#fed25d", "#85cfff", "#70ffcb",
                "#6d931b", "#a085f2", "#f867a1", "#178f84", "#e09a78")
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
