"""Ranges and choices of settings, declared in the hints of fields and checked there."""

import dataclasses
import functools
import math
import operator
import re
import sys
import types
import typing
from collections.abc import Iterable
from typing import Any, Self, cast

from embedbench.errors import UserError, unknown

from .plain_numbers import plain_number
from .typed_calls import alternatives, check_arguments, check_type

MOST = 1e15  # bound of numbers that have no other: larger ones overflow somewhere
_INTERVAL = re.compile(r"[\[(]\s*([^,\s]+)\s*,\s*([^,\s]+)\s*[\])]")
LARGEST = 10**9  # numbers that the arrays of a learner over embeddings may hold


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers between two bounds.

    Parameters
    ----------
    low, high : float
        The bounds.
    with_low, with_high : bool
        Whether a bound itself lies in the range.
    text : str
        The range in words, for error messages: "at least 1", "in (0, 1]".
    text_high : str
        What is said of a finite number above the range; "": `text`.
    """

    low: float
    high: float
    with_low: bool
    with_high: bool
    text: str
    text_high: str = ""

    def holds(self, value: float) -> bool:
        """Whether a number lies in the range; NaN never does."""
        above = value >= self.low if self.with_low else value > self.low
        below = value <= self.high if self.with_high else value < self.high
        return above and below

    def wanted(self, value: float) -> str:
        """The bound that a number outside the range misses, in words."""
        if not isinstance(value, int) and not math.isfinite(value):
            return f"finite and {self.text}"
        return self.text_high if self.text_high and value > self.high else self.text

    def in_words(self) -> str:
        """The range for a table; the upper bound of most numbers is not worth a word."""
        usual = self.high == MOST or not self.text_high
        return self.text if usual else f"{self.text}, {self.text_high}"


@check_arguments
def at_least(low: float, most: float = MOST) -> Range:
    """The range [low, most]; `most` is more than any study needs."""
    _check_bounds(low, most)
    return Range(low, most, True, True, f"at least {low:g}", f"at most {most:.9g}")


@check_arguments
def above(low: float, most: float = MOST) -> Range:
    """The range (low, most]; `most` is more than any study needs."""
    _check_bounds(low, most)
    return Range(low, most, False, True, f"above {low:g}", f"at most {most:.9g}")


@check_arguments
def within(interval: str) -> Range:
    """The range of an interval in mathematical notation.

    >>> [within("(0, 1]").holds(v) for v in (0, 0.5, 1)]
    [False, True, True]
    """
    match = _INTERVAL.fullmatch(interval)
    low, high = map(_bound, match.groups()) if match else (math.nan, math.nan)
    if not low <= high:
        raise UserError("an interval", expected="two ascending numbers as in (0, 1]", got=interval)
    return Range(low, high, interval[0] == "[", interval[-1] == "]", f"in {interval}")


def _check_bounds(low: float, most: float) -> None:
    if not low <= most:  # NaN is neither
        raise UserError("the bounds of a range", expected="ascending numbers", got=(low, most))


def _bound(text: str) -> float:
    """A bound of an interval; NaN for what is none."""
    if text in ("inf", "-inf"):
        return float(text)
    number = plain_number(text)
    return math.nan if number is None else number


def require(settings: Any, name: str, /, **ranges: Range) -> None:
    """Refuse settings that lie outside their ranges; None is always accepted.

    It is for ranges that depend on another setting. Others stand in the hints of the fields.

    Parameters
    ----------
    settings : object
        An object with an attribute for each of `ranges`.
    name : str
        Prefix in error messages: "ewc" gives `ewc.lam`, "" gives `lam`.
    **ranges : Range
        The range of each attribute.

    Raises
    ------
    UserError
        An attribute lies outside its range; the message names the first one.

    Examples
    --------
    >>> require(types.SimpleNamespace(lam=-1.0), "ewc", lam=at_least(0))
    Traceback (most recent call last):
    embedbench.errors.UserError: ewc.lam must be at least 0, got -1.0
    """
    check_type(name, str, "the name of what is required")
    for field, allowed in ranges.items():
        check_type(allowed, Range, f"the range of {field}")
        if not hasattr(settings, field):
            raise UserError(f"{type(settings).__name__} has no setting {field!r} to check")
        value = getattr(settings, field)
        if value is not None:
            _check_range(allowed, value, f"{name}.{field}" if name else field)


def _check_range(allowed: Range, value: Any, name: str) -> None:
    check_type(value, float, name)
    if not allowed.holds(value):
        raise UserError(name, expected=allowed.wanted(value), got=value)


@dataclasses.dataclass(frozen=True)
class FieldHint:
    """The contents of a field's hint: its type, its ranges and its choices.

    Parameters
    ----------
    kind : object
        The type alone, such as `float | None`.
    ranges : tuple of Range
        Those in `Annotated`; a number must lie in each.
    choices : tuple
        Those in `Literal`; empty if every value of the type will do.
    """

    kind: Any
    ranges: tuple[Range, ...] = ()
    choices: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, hint: Any) -> Self:
        """Take a hint apart."""
        origin = typing.get_origin(hint)
        args = typing.get_args(hint)
        if origin is typing.Annotated:
            inner = cls.parse(args[0])
            declared = tuple(a for a in args[1:] if isinstance(a, Range))
            return cls(inner.kind, inner.ranges + declared, inner.choices)
        if origin is typing.Literal:
            return cls(_union(map(type, args)), (), args)
        options = alternatives(hint)
        parts = [] if options == (hint,) else [cls.parse(option) for option in options]
        ranges: list[Range] = []
        choices: list[Any] = []
        for part in parts:
            ranges += part.ranges
            choices += part.choices
        if not ranges and not choices:
            return cls(hint)
        if not all(part.choices or part.kind is type(None) for part in parts):
            choices = []  # a type beside them takes any other value, too
        # those with choices last: a text is read as a number, if it can be
        parts.sort(key=lambda part: bool(part.choices))
        return cls(_union(part.kind for part in parts), tuple(ranges), tuple(choices))

    def check(self, value: Any, name: str) -> None:
        """Refuse a value that is no choice or lies outside a range."""
        options = alternatives(self.kind)
        if value is None and (type(None) in options or not self.choices):
            return
        if self.choices and value not in self.choices:
            if str not in options:
                *most, last = map(str, self.choices)
                raise UserError(name, expected=f"{', '.join(most)} or {last}", got=value)
            raise unknown(name, str(value), map(str, self.choices))
        if not (isinstance(value, str) and str in options):  # a text has no range
            for allowed in self.ranges:
                _check_range(allowed, value, name)

    def in_words(self) -> str:
        """The choices and ranges for a table; empty if there are none."""
        words = [allowed.in_words() for allowed in self.ranges]
        if self.choices:
            words.insert(0, f"one of {', '.join(map(str, self.choices))}")
        return ", ".join(words)


def _union(types_: Iterable[Any]) -> Any:
    """The union of some types, in their order, each once."""
    return functools.reduce(operator.or_, dict.fromkeys(types_))


@functools.cache
def field_hints(cls: type) -> dict[str, FieldHint]:
    """The parsed hints of a dataclass's fields, those of its bases included.

    All that is read of hints goes through here: settings, their ranges, and records of JSON.

    They are read when they are first needed: hints may be texts with names that are defined later.
    A field that a subclass declares again keeps the ranges and choices of its base, unless it has
    ranges or choices of its own.
    """
    read: dict[dataclasses.Field[Any], FieldHint] = {}
    result: dict[str, FieldHint] = {}
    for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
        names = _names(base)
        for field in dataclasses.fields(cast(Any, base)):
            if field not in read:
                hint = FieldHint.parse(_evaluate(field, names))
                before = result.get(field.name)
                if before and not (hint.ranges or hint.choices):
                    hint = dataclasses.replace(before, kind=hint.kind)
                read[field] = hint
            result[field.name] = read[field]
    return result


def _names(cls: type) -> dict[str, Any]:
    """The names that hints of a class can use: its own, of its module, of its methods' globals.

    A later one of these goes before an earlier one: what `exec` runs has no module of its own, and
    its methods still know its names.
    """
    names = {**vars(cls), **vars(sys.modules.get(cls.__module__, typing))}
    for method in vars(cls).values():
        names |= getattr(method, "__globals__", {})
    return names


def _evaluate(field: dataclasses.Field[Any], names: dict[str, Any]) -> Any:
    """The hint of a field; its text, if that has unknown names and declares nothing."""
    holder = types.SimpleNamespace(__annotations__={field.name: field.type})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)[field.name]
    except NameError as e:
        if "Annotated" not in str(field.type) and "Literal" not in str(field.type):
            return field.type
        raise UserError(
            f"the hint {field.type} of {field.name} cannot be read: {e}",
            "import or define the name outside functions",
        ) from e


def check_settings(settings: Any, name: str) -> None:
    """Refuse values that the fields of a dataclass do not declare; call it in `__post_init__`.

    The hints have `Annotated` ranges or `Literal` choices. `name` is the prefix as for `require`.

    >>> @dataclasses.dataclass
    ... class Settings:
    ...     lam: typing.Annotated[float, at_least(0)] | None = None
    >>> check_settings(Settings(lam=-1.0), "ewc")
    Traceback (most recent call last):
    embedbench.errors.UserError: ewc.lam must be at least 0, got -1.0
    """
    cls: type = type(settings)
    for field, hint in field_hints(cls).items():
        if hint.ranges or hint.choices:
            hint.check(getattr(settings, field), f"{name}.{field}" if name else field)


def check_size(name: str, numbers: int) -> None:
    """Refuse settings with which `name` would hold more than 10⁹ numbers."""
    if numbers > LARGEST:
        raise UserError(
            f"with these settings {name} holds {numbers:.3g} numbers, and the most is {LARGEST:g}",
            "choose smaller ones",
        )
