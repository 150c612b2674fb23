"""The intervals of a table's verdicts as dots and bars on one scale, for its page.

They are placed in percent of a line's width, so that a page draws them as wide as it is.
"""

import math
from collections.abc import Sequence

from embedbench.scores.learner_verdicts import RowVerdict

MARGIN = 3.0  # percent of the width at both ends, for arrows and dots
BEYOND = 2.0  # the scale ends there at the latest: a multiple of the largest mean behind the best
TICKS = 6  # about so many numbers stand below the scale


def draw_bars(verdicts: Sequence[RowVerdict | None]) -> list[str]:
    """A bar for each row on one scale: its interval, its mean, and the best as a line at 0.

    A row without an interval has "", and the best alone its dot. An end that lies beyond the scale
    has an arrow.
    """
    known = _known(verdicts)
    if len(known) < 2:
        return [""] * len(verdicts)
    low, high = _scale(known)
    return ["" if v is None or v.behind is None else _draw(v, low, high) for v in verdicts]


def scale_numbers(verdicts: Sequence[RowVerdict | None], factor: float = 100.0) -> list[str]:
    """Numbers at their places below the bars, in points; none without bars."""
    known = _known(verdicts)
    if len(known) < 2:
        return []
    low, high = _scale(known)
    rough = factor * (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    numbers = range(math.ceil(factor * low / step), math.floor(factor * high / step) + 1)
    return [
        f'<i style="left:{_place(number * step / factor, low, high)}%">{number * step:g}</i>'
        for number in numbers
    ]


def _known(verdicts: Sequence[RowVerdict | None]) -> list[RowVerdict]:
    return [v for v in verdicts if v is not None and v.behind is not None]


def _scale(known: Sequence[RowVerdict]) -> tuple[float, float]:
    """The ends of the scale, in points behind the best: 0 and all intervals that are drawn.

    No further than `BEYOND` times the largest mean, and a quarter of that below 0; around 0 where
    no row is behind. The best rows, whose intervals are not drawn, do not count.
    """
    below = [v for v in known if v.behind_by > 0]
    ends = [v.behind_by_least for v in below] + [v.behind_by_most for v in below]
    farthest = max((v.behind_by for v in below), default=0.0)
    limit = BEYOND * farthest
    low = max(min([0.0, *ends]), -limit / 4)
    high = min(max([farthest, *ends]), max(limit, farthest))
    return (low, high) if high > low else (-1.0, 1.0)


def _place(value: float, low: float, high: float) -> float:
    """Percent of the width."""
    share = (min(max(value, low), high) - low) / (high - low)
    return round(MARGIN + share * (100 - 2 * MARGIN), 1)


def _draw(verdict: RowVerdict, low: float, high: float) -> str:
    parts = [f'<i class="best" style="left:{_place(0.0, low, high)}%"></i>']
    if verdict.behind_by > 0:
        least = verdict.behind_by_least
        most = verdict.behind_by_most
        start = _place(least, low, high)
        end = _place(most, low, high)
        parts.append(f'<i class="bar" style="left:{start}%;right:{round(100 - end, 1)}%"></i>')
        if least < low:
            parts.append(f'<i class="arrow" style="left:{start}%">◂</i>')
        if most > high:
            parts.append(f'<i class="arrow" style="left:{end}%">▸</i>')
    parts.append(f'<i class="dot" style="left:{_place(verdict.behind_by, low, high)}%"></i>')
    kind = "behind" if verdict.behind else "level"
    return f'<span class="interval {kind}" aria-hidden="true">{"".join(parts)}</span>'
