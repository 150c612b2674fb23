"""How numbers are printed: signs, megabytes, seconds."""

import math


def format_signed(value: float, decimals: int) -> str:
    """A number with a typographic minus sign; a value that rounds to zero has no sign."""
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def megabytes(size: float | None) -> str:
    """Bytes as MB (10⁶)."""
    return "–" if size is None else amount(size / 1e6)


def amount(value: float) -> str:
    """Seconds or MB: fewer digits for large values, an upper bound for very small ones."""
    if math.isnan(value):
        return "–"
    for least, decimals in ((100, 0), (1, 1), (0.095, 2), (0.0005, 3)):
        if value >= least:
            return f"{value:,.{decimals}f}"
    return "<0.001" if value > 0 else "0"
