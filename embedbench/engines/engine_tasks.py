"""Tasks of an engine: what they take of a machine, how they end early and travel to another."""

import itertools
import os
import pickle
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, Self

from embedbench.config.plain_numbers import plain_number, read_whole
from embedbench.errors import UserError, error_text, keep_inside, unknown

MOST_CPUS = 10**6
_BYTES = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?([MGT])B")
_NEXT = re.compile(r",(?=[^,=]*=|\s*$)")  # between name=value and name=value


@dataclass(frozen=True)
class Resources:
    """The resources that one task takes of a machine; 0 asks for none."""

    cpus: int = 1
    gpus: float = 0.0  # its share of one card
    memory: int = 0  # bytes

    @classmethod
    def parse(cls, text: str, *, cpus: int = 1) -> Self:
        """Read "cpus=2,gpus=0.25,memory=4GB"; `cpus` are the cores where the text names none.

        >>> Resources.parse("gpus=0.25,memory=4GB", cpus=2)
        Resources(cpus=2, gpus=0.25, memory=4000000000)
        """
        whole = partial(read_whole, name="--resources cpus", least=1, most=MOST_CPUS)
        read: dict[str, Callable[[str], float]]
        read = {"cpus": whole, "gpus": _gpus, "memory": _memory}
        given: dict[str, Any] = {"cpus": cpus}
        for name, value in pairs("--resources", [text]).items():
            if name not in read:
                raise unknown("resource", name, read)
            given[name] = read[name](value)
        return cls(**given)


def pairs(option: str, items: Sequence[str]) -> dict[str, str]:
    """Read "a=1,b=2" of an option that may be given several times.

    A comma that no name follows belongs to the value: "nodelist=n1,n2,time=4h".
    """
    read: dict[str, str] = {}
    parts = itertools.chain(*[_NEXT.split(item) for item in items])
    for part in map(str.strip, parts):
        name, equals, value = map(str.strip, part.partition("="))
        if part and not (name and equals and value and part.isprintable()):  # sbatch: no new lines
            raise UserError(option, expected="name=value,name=value", got=part)
        if name in read and read[name] != value:
            raise UserError(
                f"{option} has two values of {name}, {read[name]} and {value}: give one"
            )
        if part:
            read[name] = value
    return read


def _gpus(value: str) -> float:
    share = plain_number(value)
    if share is None or (share != 0 and not 1e-3 <= share <= 1):
        raise UserError(
            "--resources gpus", expected="a share of one card, 0 to 1, such as 0.25", got=value
        )
    return float(share)


def _memory(value: str) -> int:
    match = _BYTES.fullmatch(value)
    size = int(float(match[1]) * 10 ** (6 + 3 * "MGT".index(match[2]))) if match else 0
    if size < 10**6:
        raise UserError("--resources memory", expected="1MB or more, such as 4GB", got=value)
    return size


class LostTaskError(Exception):
    """A task whose process ended each time it was tried."""

    def __init__(self, times: int, more: str = "") -> None:
        super().__init__(
            f"the process that ran it ended {times} times; was it killed, or out of memory?{more}"
        )


class TimeUpError(Exception):
    """The time of this process is nearly over; what its task has done is saved."""


ends_soon = Event()  # a task of this process is to save what it has done, and raise TimeUpError


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
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit would end this process, and try the task again
            text = type(error).__name__
            try:
                text = f"{text}: {error}"
                made = pickle.dumps((False, error))
                pickle.loads(made)  # some errors cannot be made again
                is_error = isinstance(error, Exception)
            except BaseException:
                is_error = False
            return made if is_error else pickle.dumps((False, RuntimeError(text)))

    return run


def pack_call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """A call as `call_packed` takes it."""
    return pickle.dumps((fn, args, kwargs))


def call_packed(packed: bytes) -> Any:
    """In a process of this machine: run a pickled call; what it raises can travel back."""
    try:
        with keep_inside("its process"):
            fn, args, kwargs = pickle.loads(packed)
            return fn(*args, **kwargs)
    except Exception as error:
        raise as_sent(error) from error


def as_sent(error: Exception) -> Exception:
    """An error if pickle can make it again in another process, else its words."""
    try:
        with keep_inside("it"):
            pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(error_text(error))
    return error


def unpack(made: bytes) -> Any:
    """Return the result of a packed call, or raise its error."""
    good, value = pickle.loads(made)
    if not good:
        raise value
    return value
