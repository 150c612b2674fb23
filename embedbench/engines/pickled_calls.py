"""Pickled calls: how a task travels to another machine, and its result back."""

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

Packed = tuple[list[str], str, bytes]  # sys.path, working directory, the pickled call


def pack(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
    """A call as `runner()` takes it."""
    return [p or os.getcwd() for p in sys.path], os.getcwd(), pickle.dumps((fn, args, kwargs))


def runner() -> Callable[[Packed], bytes]:
    """A function that runs a packed call on another machine and packs what comes of it.

    It is sent there as code, because this package may not be importable there before it runs: it
    lets the process look for modules where this one does, and goes to the same directory if that
    is there.
    """

    def run(packed: Packed) -> bytes:
        import os
        import pickle
        import sys

        paths, directory, call = packed
        sys.path += [path for path in paths if path not in sys.path]
        if os.path.isdir(directory):
            os.chdir(directory)
        try:
            fn, args, kwargs = pickle.loads(call)
            return pickle.dumps((True, fn(*args, **kwargs)))
        except Exception as error:
            try:
                made = pickle.dumps((False, error))
                pickle.loads(made)  # some errors cannot be made again
            except Exception:
                made = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
            return made

    return run


def unpack(made: bytes) -> Any:
    """Return the result of a packed call, or raise its error."""
    good, value = pickle.loads(made)
    if not good:
        raise value
    return value
