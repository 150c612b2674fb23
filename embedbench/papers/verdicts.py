"""One verdict a published row, by fixed rules.

**Scale.** A fraction counts as it is, a percentage in points (0.02 are 2 points), and a value in
another unit (MB, minutes) as a share of the printed one.

**A value**, on the paper's own data:

- *computed without a run*: reproduced if it equals the printed value at the printed decimals, or
  is as near as the rounding of the printed numbers allows that it is computed from;
- *from runs*: reproduced if there are at least `RUNS` runs (one where nothing is drawn), the 95 %
  interval meets the printed value ± `TOLERANCE` or ± its printed error, the larger of the two, and
  the half-width of the interval is at most `WIDEST`;
- *a word*: reproduced if it is the printed word;
- otherwise not. If settings were chosen with the value in view, the reason says so.

On other data:

- *in kind* if, against every method of its table whose printed value differs by more than
  `TOLERANCE` and that ran on the same data, the difference has the printed sign and the two
  intervals are apart, or if a word is the printed one; otherwise not;
- where no such method ran, or the value is no result of a run, nothing can be compared.

A misprint is compared with what it should read; without such a value it is left out.

**A row** has the worst verdict of its values: not, in kind, reproduced, in this order. Without any
value that can be judged it cannot be checked here.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .published import DRAWN, EXACT, Value

REPRODUCED, IN_KIND, NOT = "reproduced", "in kind", "not"
UNCHECKED = "cannot be checked here"
ORDER = (REPRODUCED, IN_KIND, NOT, UNCHECKED)  # of a row's values the last decides
RUNS, TOLERANCE, WIDEST = 3, 0.02, 0.05
ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """A verdict and its reason.

    Parameters
    ----------
    word : str
        One of `ORDER`.
    why : str
        What failed, or what was compared; "" if there is nothing to add.
    """

    word: str
    why: str = ""


def printed_number(value: Value) -> float | None:
    """The printed number, corrected if it is a misprint; None if there is none to compare with."""
    if value.reads is not None:
        return value.reads
    return None if value.remark else value.published


def scale(unit: str, of: float) -> float:
    """The factor from fractions to a unit, for a printed value."""
    return {"": 1.0, "%": 100.0}.get(unit, abs(of))


def of_value(value: Value, unit: str, rivals: Mapping[str, Value]) -> Verdict | None:
    """The verdict on one value; None if it cannot be judged.

    Parameters
    ----------
    value : Value
        Published and ours.
    unit : str
        Unit of both.
    rivals : mapping
        Values of the other methods that were measured on the same data, by the method's name.
    """
    if value.words is not None:
        return _of_words(value)
    of = printed_number(value)
    if of is None or value.ours is None:
        return None
    if math.isnan(value.ours.mean):
        return Verdict(NOT, "ours is undefined")
    if value.stands_in:
        return None if value.made == EXACT else _in_kind(value, of, unit, rivals)
    if value.made == EXACT:
        most = 0.5 * 10**-value.decimals + value.rounding + ROUNDING
        equal = abs(value.ours.mean - of) <= most
        return Verdict(REPRODUCED) if equal else Verdict(NOT, "another number")
    return _reproduced(value, of, unit)


def _of_words(value: Value) -> Verdict | None:
    theirs, ours = value.words or ("–", "–")
    if "–" in (theirs, ours):
        return None
    if theirs != ours:
        return Verdict(NOT, "another word")
    return Verdict(IN_KIND if value.stands_in else REPRODUCED)


def _reproduced(value: Value, of: float, unit: str) -> Verdict:
    """The verdict on runs on the paper's own data."""
    assert value.ours is not None
    runs, one = len(value.ours.values), scale(unit, of)
    if value.made == DRAWN and runs < RUNS:
        return Verdict(NOT, f"{runs} of {RUNS} seeds")
    half = interval(value)
    if half > WIDEST * one + ROUNDING:
        return Verdict(NOT, "interval too wide")
    tolerance = max(TOLERANCE * one, value.sd or 0.0)
    if abs(value.ours.mean - of) > half + tolerance + ROUNDING:
        return Verdict(NOT, "too far")
    return Verdict(REPRODUCED, "fitted to it" if value.fitted else "")


def _in_kind(value: Value, of: float, unit: str, rivals: Mapping[str, Value]) -> Verdict | None:
    """The verdict on runs on other data, against methods with other printed values."""
    assert value.ours is not None
    compared, against = 0, []
    for name, rival in rivals.items():
        theirs = printed_number(rival)
        if theirs is None or rival.ours is None or math.isnan(rival.ours.mean):
            continue
        gap = of - theirs
        if abs(gap) <= TOLERANCE * scale(unit, of) + ROUNDING:
            continue
        compared += 1
        ours = value.ours.mean - rival.ours.mean
        apart = abs(ours) > interval(value) + interval(rival)  # False for NaN
        if not apart or ours * gap < 0:
            against.append(name)
    if not compared:
        return None
    if against:
        return Verdict(NOT, f"not against {', '.join(against)}")
    return Verdict(IN_KIND, f"against {compared}")


def interval(value: Value) -> float:
    """Half-width of our interval; of a single run 0 if nothing is drawn, else NaN."""
    assert value.ours is not None
    alone = len(value.ours.values) == 1 and value.made != DRAWN
    return 0.0 if alone else value.ours.half


def of_row(verdicts: Iterable[Verdict | None]) -> Verdict:
    """The verdict on a row: the worst of its values, with the reasons of those that have it."""
    judged = [v for v in verdicts if v is not None]
    if not judged:
        return Verdict(UNCHECKED)
    worst = max((v.word for v in judged), key=ORDER.index)
    reasons = dict.fromkeys(v.why for v in judged if v.word == worst and v.why)
    return Verdict(worst, "; ".join(reasons))
