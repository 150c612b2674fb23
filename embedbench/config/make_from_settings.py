"""Make a dataclass from settings: names with dots and texts become its fields."""

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
from .setting_ranges import _options, field_hints


def make(cls: type, settings: dict[str, Any], *, name: str, start: Any = None) -> Any:
    """Build a dataclass from nested settings; text values are read as the field's type.

    Names with dots and nested dicts set fields of nested dataclasses; the other fields keep the
    values that they have in `start`, or by default. `name` is the prefix in error messages: `ewc`
    in `ewc.lam`.
    """
    hints = {head: hint.kind for head, hint in field_hints(cls).items()}
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
        (field,) = (f for f in dataclasses.fields(cls) if f.name == head)
        own = get_default(field) if start is None else getattr(start, head)
        own = None if own is REQUIRED else own
        values[head] = make(cast(type, hints[head]), inner, name=f"{name}.{head}", start=own)
    try:
        with keep_inside(f"{name}: its class"):
            return cls(**values) if start is None else dataclasses.replace(start, **values)
    except TypeError as e:  # a field without a default that was not given
        raise UserError(f"{name} cannot be made: {e}", f"give it with --set {name}.…") from e


def nearest(cls: type, name: str) -> list[str]:
    """The settings that a wrong name may mean, the likeliest first: of `cls` or nested in it.

    >>> nearest(dataclasses.make_dataclass("Mine", [("lam", float), ("scale", float)]), "lambda")
    ['lam']
    """
    hints, names = field_hints(cls), _init_names(cls)
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
    options = _options(hint)
    if isinstance(value, list | tuple) and str in options:
        if int in options and len(value) < 2:  # as a text it would be a number
            raise UserError(name, expected="a number, or a list of two or more", got=value)
        return join_list(value, name)
    if isinstance(value, str):
        if type(None) in options and value.lower() in ("none", "null"):
            return None
        for option in options:
            try:
                if option is bool and value.lower() in ("true", "false", "1", "0", "yes", "no"):
                    return value.lower() in ("true", "1", "yes")
                if option in (int, float) and not (value.isascii() and "_" not in value):
                    continue  # Python reads 1_0 and digits of other scripts
                if option in (int, float, str):
                    return cast(type, option)(value)
            except ValueError:
                continue
    elif value is None and type(None) in options:
        return None
    elif isinstance(value, bool) == (bool in options) and (
        isinstance(value, tuple(o for o in options if isinstance(o, type)))
        or (float in options and isinstance(value, int))
    ):
        try:
            return float(cast(float, value)) if float in options and int not in options else value
        except OverflowError:  # an integer above all floats
            return math.inf
    expected = getattr(hint, "__name__", str(hint))
    raise UserError(name, expected=expected, got=value)
