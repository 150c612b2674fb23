"""Make a dataclass from settings: names with dots and texts become its fields."""

import contextlib
import csv
import dataclasses
import difflib
import io
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, cast

from embedbench.errors import UserError, keep_inside, unknown

from .describe_settings import REQUIRED, get_default
from .plain_numbers import number_text
from .setting_ranges import field_hints
from .typed_calls import alternatives

TRUE = ("true", "1", "yes")
FALSE = ("false", "0", "no")


def make(cls: type, settings: dict[str, Any], *, name: str, start: Any = None) -> Any:
    """Build a dataclass from nested settings; text values are read as the field's type.

    Names with dots and nested dicts set fields of nested dataclasses; the other fields keep the
    values that they have in `start`, or by default. `name` is the prefix in error messages: `ewc`
    in `ewc.lam`.
    """
    hints = {field: hint.kind for field, hint in field_hints(cls).items()}
    if not dataclasses.is_dataclass(cls):
        raise UserError(f"{name} must be a dataclass", "put @dataclass above its class")
    names = _init_names(cls)
    nested: dict[str, dict[str, Any]] = {}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        head, _, rest = key.partition(".")
        head = head.replace("-", "_")
        if head not in names:
            raise unknown(f"setting of {name}", head, names, nearest(cls, head))
        if rest:
            nested.setdefault(head, {})[rest] = value
        elif isinstance(value, dict) and dataclasses.is_dataclass(hints[head]):
            nested.setdefault(head, {}).update(value)
        else:
            values[head] = _read(value, hints[head], f"{name}.{head}")
    for head, inner in nested.items():
        if not dataclasses.is_dataclass(hints[head]):
            raise UserError(
                f"{name}.{head} is a single value; it has no setting {next(iter(inner))!r}"
            )
        before = _default_of(cls, head) if start is None else getattr(start, head)
        values[head] = make(cast(type, hints[head]), inner, name=f"{name}.{head}", start=before)
    try:
        with keep_inside(f"{name}: its class"):
            return cls(**values) if start is None else dataclasses.replace(start, **values)
    except TypeError as e:  # a field without a default that was not given
        raise UserError(f"{name} cannot be made: {e}", f"give it with --set {name}.…") from e


def _default_of(cls: type, name: str) -> Any:
    """The default of a field; None where it has none."""
    defaults = {field.name: get_default(field) for field in dataclasses.fields(cls)}
    default = defaults[name]
    return None if default is REQUIRED else default


def nearest(cls: type, name: str) -> list[str]:
    """The settings that a wrong name may mean, the likeliest first: of `cls` or nested in it.

    >>> nearest(dataclasses.make_dataclass("Mine", [("lam", float), ("scale", float)]), "lambda")
    ['lam']
    """
    hints = field_hints(cls)
    names = _init_names(cls)
    meant = {"lambda": "lam", "learning_rate": "lr"}.get(name, name)  # what is often typed
    same = [meant] if meant in names else []
    nested = [f"{n}.{meant}" for n in names if meant in _init_names(hints[n].kind)]
    return [*same, *nested] or difflib.get_close_matches(name, names, n=1, cutoff=0.5)


def join_list(values: Sequence[Any], name: str) -> str:
    """The values of a list as one text, with commas; a text with a comma in double quotes.

    >>> join_list(["a", "b, c"], "names"), join_list([10, 0.1], "numbers")
    ('a,"b, c"', '10,0.1')
    """
    texts = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
            texts.append(number_text(value))
        else:
            raise UserError(name, expected="a list of names or numbers", got=values)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(texts)
    return text.getvalue()


def _init_names(hint: Any) -> list[str]:
    """The fields that a dataclass is made with; none for what is no dataclass."""
    if not dataclasses.is_dataclass(hint):
        return []
    return [f.name for f in dataclasses.fields(hint) if f.init]


def _read(value: Any, hint: Any, name: str) -> Any:
    """Convert a text to the type `hint`; a value of another type must already fit it.

    A list for a setting that is a text becomes the text that `--set` takes, with commas.
    """
    options = alternatives(hint)
    if isinstance(value, list | tuple) and str in options:
        if int in options and len(value) < 2:  # as a text it would be a number
            raise UserError(name, expected="a number, or a list of two or more", got=value)
        return join_list(value, name)
    read = _read_text(value, options) if isinstance(value, str) else _as_one_of(value, options)
    if read is UNFIT:
        expected = getattr(hint, "__name__", str(hint))
        raise UserError(name, expected=expected, got=value)
    return read


UNFIT = object()  # what is read of a value that is of none of the types


def _read_text(text: str, options: tuple[Any, ...]) -> Any:
    """The value of a text as the first type that reads it."""
    word = text.lower()
    if type(None) in options and word in ("none", "null"):
        return None
    is_plain = text.isascii() and "_" not in text  # Python reads 1_0 and digits of other scripts
    for option in options:
        if option is str:
            return text
        if option is bool and word in (*TRUE, *FALSE):
            return word in TRUE
        if option in (int, float) and is_plain:
            with contextlib.suppress(ValueError):
                return option(text)
    return UNFIT


def _as_one_of(value: Any, options: tuple[Any, ...]) -> Any:
    """A value that is no text, if it is of one of the types; an integer may be a float's."""
    if value is None and type(None) in options:
        return None
    if isinstance(value, bool) != (bool in options):  # True is no 1
        return UNFIT
    if float in options and int not in options and isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:  # an integer above all floats
            return math.inf
    kinds = tuple(option for option in options if isinstance(option, type))
    return value if isinstance(value, kinds) else UNFIT
