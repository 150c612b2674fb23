"""Bars of the intervals of a table's verdicts, for its page: SVG beneath each number."""

from collections.abc import Sequence

from embedbench.scores.learner_verdicts import RowVerdict

WIDTH, HEIGHT = 120, 12  # units of a bar's drawing
MARGIN = 5  # units at both ends, for arrows and marks
BEYOND = 2.0  # the scale ends there, as a multiple of the largest distance to the best


def draw_bars(verdicts: Sequence[RowVerdict | None]) -> list[str]:
    """A bar for each row on one scale: its interval, its mean, and the best as a line at 0.

    A row without an interval has "", and the best alone its mark. An end that lies beyond the scale
    has an arrow.
    """
    known = [v for v in verdicts if v is not None and v.behind is not None]
    if len(known) < 2:
        return [""] * len(verdicts)
    low, high = _scale(known)
    return ["" if v is None or v.behind is None else _draw(v, low, high) for v in verdicts]


def _scale(known: Sequence[RowVerdict]) -> tuple[float, float]:
    """The ends of the scale: those of the intervals, as far as they are near the means."""
    below = [v for v in known if v.behind_by > 0]
    ends = [end for v in below for end in (v.behind_by_least, v.behind_by_most)]
    farthest = max((v.behind_by for v in below), default=0.0)
    limit = BEYOND * farthest
    low = max(min([0.0, *ends]), -limit / 4)
    high = min(max([farthest, *ends]), max(limit, farthest))
    return (low, high) if high > low else (-1.0, 1.0)


def _draw(verdict: RowVerdict, low: float, high: float) -> str:
    def place(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    middle, zero = HEIGHT / 2, place(0.0)
    parts = [f'<line class="best" x1="{zero}" x2="{zero}" y1="0" y2="{HEIGHT}"/>']
    if verdict.behind_by > 0:
        least, most = verdict.behind_by_least, verdict.behind_by_most
        start, end = place(least), place(most)
        parts.append(f'<line class="bar" x1="{start}" x2="{end}" y1="{middle}" y2="{middle}"/>')
        if least < low:
            parts.append(_arrow(start, -1))
        if most > high:
            parts.append(_arrow(end, 1))
    parts.append(f'<circle cx="{place(verdict.behind_by)}" cy="{middle}" r="2.6"/>')
    kind = "behind" if verdict.behind else "level"
    return (
        f'<svg class="interval {kind}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _arrow(x: float, way: int) -> str:
    middle = HEIGHT / 2
    return f'<path d="M{x + 4 * way} {middle}L{x} {middle - 3}V{middle + 3}Z"/>'
