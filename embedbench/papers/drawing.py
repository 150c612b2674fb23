"""Curves of a paper's figures, with the marks of reports; what draws is imported when it draws."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from embedbench.array_types import Floats


def learner_styles(names: Iterable[str]) -> dict[str, int]:
    """Return the style of each learner, that of every report."""
    from embedbench.reports.learner_colours import assign_styles

    names = list(names)
    styles = assign_styles((name, name) for name in names)
    return {name: styles[name] for name in names}


def legend(labels: Mapping[int, str]) -> str:
    """Return a line with the mark and the label of each style."""
    from embedbench.reports.learner_colours import glyph

    return ", ".join(f"{glyph(style)} {label}" for style, label in labels.items())


def draw_curves(
    caption: str,
    values: Mapping[int, Floats | None],
    *,
    ideal: float = math.nan,
    first: int = 0,
    label: str = "",
    true: Floats | None = None,
    **more: Any,
) -> list[tuple[str, str]]:
    """Return caption and SVG of a figure; nothing if there are no values.

    Parameters
    ----------
    caption : str
        Stands above the figure.
    values : mapping
        By style: (n, T) fractions, one row a run; None draws nothing.
    ideal : float
        A dashed line.
    first : int
        The session of the first column.
    label : str
        A description for screen readers; "" is the caption.
    true : array of float or None
        (1, T) what the others are compared with, dotted.
    more
        For `curve_plot`.
    """
    from embedbench.reports.curve_figures import Curve, curve_plot

    curves = [Curve(v, style) for style, v in values.items() if v is not None]
    above = [] if true is None else [Curve(true, None)]
    if not curves:
        return []
    return [(caption, curve_plot([*above, *curves], ideal, first, label or caption, **more))]
