"""The door of the Python API: arguments are of the types that a function's hints say.

What a function needs beyond types, such as ranges and shapes, it checks itself.
"""

import collections.abc
import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from embedbench.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

_UNIONS = (typing.Union, types.UnionType)
_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    Path: "a path",
    os.PathLike: "a path",
    type(None): "None",
    collections.abc.Callable: "a function",
    collections.abc.Sequence: "a list",
    collections.abc.Mapping: "a dict",
    dict: "a dict",
}
_KINDS = {"i": "iu", "u": "iu", "f": "fiu", "b": "b", "U": "U"}  # of arrays that will do for one


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse arguments of other types than its hints say.

    Hints are read at the first call. A NumPy number is a number, an array of one axis a list of its
    numbers, and a truth value no number. A text has no character that cannot be a file's name.

    >>> @check_arguments
    ... def double(n: int) -> int:
    ...     return 2 * n
    >>> double("3")
    Traceback (most recent call last):
    embedbench.errors.UserError: n of double must be a whole number, got '3'
    """
    signature = inspect.signature(function)
    hints = functools.cache(lambda: typing.get_type_hints(function))

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            hint = hints().get(name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                values: Iterable[Any] = value
            elif parameter.kind is parameter.VAR_KEYWORD:
                values = value.values()
            else:
                values = (value,)
            for one in values:
                check_type(one, hint, f"{name} of {function.__name__}")
        return function(*args, **kwargs)

    return checked


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union; of any other hint itself alone.

    >>> alternatives(int | None), alternatives(int)
    ((<class 'int'>, <class 'NoneType'>), (<class 'int'>,))
    """
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def check_type(value: Any, hint: Any, name: str) -> None:
    """Refuse a value that is not of a hint's type; `name` is what the error calls it."""
    if not fits(value, hint):
        raise UserError(name, expected=words(hint), got=value)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a hint's type.

    >>> fits((1, 2), collections.abc.Sequence[int]), fits("ab", collections.abc.Sequence[str])
    (True, False)
    """
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin is typing.Annotated:
        return fits(value, args[0])
    if origin in _UNIONS:
        return any(fits(value, option) for option in args)
    if origin is typing.Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is not None:
        return _fits_container(value, origin, args)
    if hint in _SCALARS:
        return _SCALARS[hint](value)
    return isinstance(value, type(None) if hint is None else hint)


def _fits_container(value: Any, origin: Any, args: tuple[Any, ...]) -> bool:
    """Whether a value is a container of things that fit."""
    import numpy as np

    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _fits_numbers(value, args)
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is collections.abc.Mapping or origin is dict:
        return isinstance(value, origin) and all(
            fits(k, args[0]) and fits(v, args[1]) for k, v in value.items()
        )
    if isinstance(value, np.ndarray) and origin is collections.abc.Sequence:
        return value.ndim == 1 and all(fits(one, args[0]) for one in value.tolist())
    if not isinstance(value, origin):
        return False
    if origin is collections.abc.Sequence or origin is list:
        return not isinstance(value, str | bytes) and all(fits(one, args[0]) for one in value)
    if origin is tuple and args[-1:] == (Ellipsis,):
        return all(fits(one, args[0]) for one in value)
    if origin is tuple:
        return len(value) == len(args) and all(map(fits, value, args))
    return True


def _fits_numbers(value: Any, args: tuple[Any, ...]) -> bool:
    """Whether an array holds the kind of numbers that its hint's dtype does."""
    import numpy as np

    stored = typing.get_args(args[-1]) if args else ()
    if not stored or not (isinstance(stored[0], type) and issubclass(stored[0], np.generic)):
        return bool(value.dtype.kind != "O")
    return bool(value.dtype.kind in _KINDS.get(np.dtype(stored[0]).kind, "biufU"))


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, of Python or NumPy, and no truth value."""
    return hasattr(value, "__index__") and not _is_truth(value) and _is_scalar(value)


def _is_number(value: Any) -> bool:
    return is_whole(value) or isinstance(value, float) or _is_numpy(value, "f")


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or _is_numpy(value, "b")


def _is_numpy(value: Any, kind: str) -> bool:
    """Whether a value is a NumPy scalar of a kind; NumPy is not imported for it."""
    return type(value).__module__ == "numpy" and _is_scalar(value) and value.dtype.kind == kind


def _is_scalar(value: Any) -> bool:
    return getattr(value, "shape", ()) == ()


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be encoded, and be a part of a path."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= c <= "\udbff" for c in value)


_SCALARS: dict[Any, Callable[[Any], bool]] = {
    int: is_whole,
    float: _is_number,
    bool: _is_truth,
    str: _is_text,
    Path: lambda value: isinstance(value, Path) and "\0" not in str(value),
}


def words(hint: Any) -> str:
    """What a hint allows, for an error message.

    >>> words(int | None), words(collections.abc.Sequence[str])
    ('a whole number or None', 'a list')
    """
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin is typing.Annotated:
        return words(args[0])
    if origin in _UNIONS:
        *most, last = dict.fromkeys(map(words, args))
        return f"{', '.join(most)} or {last}" if most else last
    if origin is typing.Literal:
        return " or ".join(map(repr, args))
    kind = origin or hint
    if kind in _WORDS:
        return _WORDS[kind]
    name = getattr(kind, "__name__", str(kind))
    return "an array" if name == "ndarray" else f"a {name}"
