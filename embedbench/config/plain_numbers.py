"""Numbers in text: what people write as a number, and not all that Python reads as one."""

import math
import re
from numbers import Integral, Real

from embedbench.errors import UserError

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile("[+-]?[0-9]+")
LONGEST = 400  # characters: the largest float has 309 digits


def plain_number(text: str) -> int | float | None:
    """A decimal number; None for anything else, and for what no float can hold.

    Python also reads `1_0`, digits of other scripts, spaces around a number, `nan` and `inf`.

    >>> [plain_number(text) for text in ("12", "-0.5", "1e-05", "1_0", "٣", " 1", "nan", "1e999")]
    [12, -0.5, 1e-05, None, None, None, None, None]
    """
    if len(text) > LONGEST or not _NUMBER.fullmatch(text) or math.isinf(float(text)):
        return None
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def number_text(number: float | Real) -> str:
    """A number, also one of NumPy, as the shortest text that `plain_number` reads as the same.

    >>> [number_text(n) for n in (12, 45.0, 0.1, 100 / 3, 1e-7)]
    ['12', '45', '0.1', '33.333333333333336', '1e-07']
    """
    if isinstance(number, Integral):
        return str(int(number))
    return repr(float(number)).removesuffix(".0")


def python_number(text: str) -> bool:
    """Whether Python reads a text as a number.

    >>> [python_number(text) for text in ("12", "1_0", "٣", " 1", "nan", "0x1f", "twelve")]
    [True, True, True, True, True, False, False]
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def has_only_digits(text: str) -> bool:
    """Whether `int` reads a text that has digits alone; it reads at most 4,300 of them.

    >>> [has_only_digits(text) for text in ("07", "7" * 4300, "7" * 4301, "-7", "٧", "")]
    [True, True, False, False, False, False]
    """
    return text.isascii() and text.isdigit() and len(text) <= 4300


def read_whole(text: str, name: str, least: int, most: int) -> int:
    """Read a whole number within two bounds; `name` is what the error calls it.

    >>> read_whole("12", "--seed", 1, 20)
    12
    """
    if not (has_only_digits(text) and least <= int(text) <= most):
        raise UserError(name, expected=f"a whole number from {least:,} to {most:,}", got=text)
    return int(text)
