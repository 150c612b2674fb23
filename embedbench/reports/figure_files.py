"""Figures as files and on pages: their bytes as pdf, svg or png.

A figure is drawn once, with matplotlib but without pyplot, for a file and for a page. It depends on
its numbers alone: the same figure twice has the same bytes.
"""

import io
import warnings
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from embedbench.storage.atomic_write import write_safely

from .figure_style import STYLE, legend

DPI = 300  # of PNG, and of what is rasterised in SVG and PDF
_METADATA: dict[str, dict[str, Any]] = {  # without dates and versions
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def write(path: Path, figure: Figure) -> None:
    """Write a figure as the format that the name of the file ends with."""
    write_safely(path, render_figure(figure, path.suffix.lower()[1:]))


@rc_context(STYLE)
def render_figure(figure: Figure, form: str, dpi: int = DPI, *, page: bool = False) -> bytes:
    """A figure as pdf, svg or png; for a page without a legend and without white behind it."""
    out = io.BytesIO()
    figure.patch.set_visible(not page)
    if not page:
        legend(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is a box
        figure.savefig(out, format=form, dpi=dpi, metadata=_METADATA[form])
    return out.getvalue()
