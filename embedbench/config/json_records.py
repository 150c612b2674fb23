"""Records as JSON: frozen dataclasses, written to plain data, checked and read back.

`JsonRecord.from_json` is the one validator of such data: it checks every key and every type.
"""

import dataclasses
import functools
import json
import math
import operator
import re
import tomllib
import types
import typing
from collections.abc import Callable
from typing import Any, Self, cast

from embedbench.errors import UserError, short

from .setting_ranges import field_hints
from .typed_calls import alternatives

# Metadata of a dataclass's field.
ABSENT = {"absent": True}  # None leaves the key out; a null is read as NaN if NaN fits
UNWRITTEN = {"unwritten": True}  # the field is not written

INTEGERS = 2**63  # integers are below this, so that they fit 64 bits
DEEPEST = 100  # levels of nested lists and objects
PARTS = 20  # of a key of TOML: `a.b.c` has three
# A part begins where no other has begun, so that a search takes one walk over the text.
_PART = r"""(?:(?<![\w-])[\w-]++|(?<!\\)"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?:{_PART}\.[ \t]*+){{{PARTS}}}", re.ASCII)

_JSON = (str, bool, int, types.NoneType)
_SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    type(None): ((type(None),), "null"),
}


class _MismatchError(Exception):
    """A value that does not fit: what was expected, and the path of the value."""

    def __init__(self, path: str, expected: str, value: Any) -> None:
        super().__init__(f"{path or 'it'} must be {expected}, got {_short(value)}")
        self.path = path
        self.expected = expected
        self.value = value


class _MissingError(_MismatchError):
    """A missing key."""

    def __str__(self) -> str:
        return f"the key {self.path} is missing"


class JsonRecord:
    """Base of the dataclasses that are written as JSON and read back.

    Fields are texts, numbers, `bool`, `tuple[…, ...]`, `dict[str, …]`, other dataclasses, unions of
    these, or `Any`. In JSON a tuple is a list, NaN is null, and an infinity is a text.
    """

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data, its keys in the order of the fields."""
        return cast(dict[str, Any], plain(self))

    @classmethod
    def from_json(cls, data: Any, name: str = "the data") -> Self:
        """Read and check what `json.loads` returned; `name` names it in error messages.

        Unknown keys are ignored; one that is missing, or a value of another type, is a UserError.
        """
        try:
            return cast(Self, _read_object(cls, data, ""))
        except _MismatchError as e:
            raise UserError.worded(
                f"{name}: {e}", what=f"{name}: {e.path or 'it'}", expected=e.expected, got=e.value
            ) from None


def parse_json(text: str | bytes, name: str) -> Any:
    """Return the values of a JSON text from a file; `name` names it in error messages.

    Values nested deeper than 100 levels are refused.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError, MemoryError) as e:
        raise UserError(f"{name} is not JSON ({e})") from None
    level = [value]  # the lists and objects so many levels deep
    for _ in range(DEEPEST):
        level = _containers_in(level)
        if not level:
            return value
    raise UserError(f"{name} is nested deeper than {DEEPEST} levels")


def _containers_in(level: list[Any]) -> list[Any]:
    """The lists and objects that are values of some lists and objects."""
    inside: list[Any] = []
    for container in level:
        if isinstance(container, dict):
            inside += container.values()
        elif isinstance(container, list):
            inside += container
    return [value for value in inside if isinstance(value, dict | list)]


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the table of a TOML text; floats are texts, as they are written, without `_`."""
    if _LONG_KEY.search(text):
        raise UserError(f"{name} has a key of over {PARTS} parts with dots between", "shorten it")
    try:
        return tomllib.loads(text, parse_float=lambda text: text.replace("_", ""))
    except (ValueError, RecursionError, MemoryError) as e:
        raise UserError(f"{name} is not TOML ({e or 'nested too deep'})") from None


def plain(value: Any) -> Any:
    """Return plain JSON values: dataclasses to objects, arrays to lists, NaN to null.

    >>> import numpy
    >>> plain({"a": (1, float("nan")), "b": numpy.arange(2), "c": math.inf})
    {'a': [1, None], 'b': [0, 1], 'c': 'inf'}
    """
    if type(value) in _JSON:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(float(value))
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    import numpy as np  # `--help` needs none

    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if dataclasses.is_dataclass(value):
        return _plain_object(value)
    return value


def _plain_object(record: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values; keys that may be missing are, where the value is None."""
    result = {}
    cls: Any = type(record)
    for spec in _specs(cls):
        value = getattr(record, spec.name)
        if value is not None or not spec.absent:
            result[spec.key] = plain(value)
    return result


@dataclasses.dataclass(frozen=True)
class _Spec:
    """One field of a dataclass: name, key in JSON, its reader, whether the key may be missing."""

    name: str
    key: str
    read: Callable[[Any, str], Any]
    absent: bool
    required: bool


@functools.cache
def _specs(cls: type) -> tuple[_Spec, ...]:
    hints = field_hints(cls)
    missing = dataclasses.MISSING
    specs = []
    for f in dataclasses.fields(cast(Any, cls)):
        if f.metadata.get("unwritten"):
            continue
        hint = hints[f.name].kind
        absent = bool(f.metadata.get("absent"))
        if absent:  # None means a missing key, not a null
            present = [one for one in alternatives(hint) if one is not type(None)]
            hint = functools.reduce(operator.or_, present)
        spec = _Spec(
            f.name,
            f.metadata.get("key", f.name),
            _reader(hint),
            absent,
            required=f.default is missing and f.default_factory is missing,
        )
        specs.append(spec)
    return tuple(specs)


@functools.cache
def _reader(hint: Any) -> Callable[[Any, str], Any]:
    """What converts a JSON value at a path to a type; found once, not for each value."""
    if hint is Any:
        return _read_any
    options = alternatives(hint)
    if len(options) > 1:  # a null is None rather than NaN
        none_first = sorted(options, key=lambda one: one is not type(None))
        return functools.partial(_read_union, tuple(map(_reader, none_first)))
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin is tuple:
        return functools.partial(_read_tuple, _reader(args[0]))
    if origin is dict:
        return functools.partial(_read_dict, _reader(args[1]))
    if dataclasses.is_dataclass(hint):
        return functools.partial(_read_object, cast(type, hint))
    return _read_float if hint is float else functools.partial(_read_scalar, hint)


def _read_any(value: Any, path: str, level: int = 0) -> Any:
    """Refuse what no code expects in a value of any type: depth, huge integers, broken text."""
    if level > DEEPEST and isinstance(value, dict | list | tuple):
        raise _MismatchError(path, f"at most {DEEPEST} levels deep", value)
    if isinstance(value, dict):
        for key, part in value.items():
            _read_any(part, _joined(path, _text(key, path)), level + 1)
    elif isinstance(value, list | tuple):
        for part in value:
            _read_any(part, path, level + 1)
    elif isinstance(value, str | int):
        _read_scalar(type(value), value, path)
    elif value is not None and not isinstance(value, float):
        raise _MismatchError(path, "a value of JSON", value)
    return value


def _read_dict(item: Callable[[Any, str], Any], value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _MismatchError(path, "an object", value)
    return {_text(k, path): item(v, _joined(path, k)) for k, v in value.items()}


def _read_float(value: Any, path: str) -> Any:
    return value if type(value) is float else _read_scalar(float, value, path)


def _read_scalar(hint: Any, value: Any, path: str) -> Any:
    kinds, expected = _SCALARS[hint]
    if hint is float and value is None:
        return math.nan
    if hint is float and value in ("inf", "-inf"):
        return float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
        raise _MismatchError(path, expected, value)
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int) and not -INTEGERS <= value < INTEGERS:
        raise _MismatchError(path, "an integer of 64 bits", value)
    return value


def _text(value: str, path: str) -> str:
    """Refuse halves of a character (\\ud800 alone), which cannot be printed."""
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise _MismatchError(path, "a text of whole characters", ascii(value))
    return value


def _read_tuple(item: Callable[[Any, str], Any], value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _MismatchError(path, "a list", value)
    if item is _read_float:  # most values of a record are floats: no path for each
        return tuple(
            v if type(v) is float else _read_scalar(float, v, f"{path}[{i}]")
            for i, v in enumerate(value)
        )
    return tuple(item(v, f"{path}[{i}]") for i, v in enumerate(value))


def _read_union(readers: tuple[Callable[[Any, str], Any], ...], value: Any, path: str) -> Any:
    """Convert a value to the first type that fits."""
    errors = []
    for read in readers:
        try:
            return read(value, path)
        except _MismatchError as e:
            errors.append(e)
    deepest = max(errors, key=lambda e: len(e.path))
    if deepest.path != path:
        raise deepest
    raise _MismatchError(path, " or ".join(e.expected for e in errors), value)


def _read_object(cls: type, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _MismatchError(path, "an object", value)
    values = {}
    for spec in _specs(cls):
        if spec.key in value:
            values[spec.name] = spec.read(value[spec.key], _joined(path, spec.key))
        elif spec.required:
            raise _MissingError(_joined(path, spec.key), "there", ...)
    return cls(**values)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _short(value: Any) -> str:
    """Return a value as short text for error messages."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return short(value)
