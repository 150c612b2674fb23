"""Which stream of ours a result from elsewhere is of: that with all that its line says of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from embedbench.errors import UserError, short

from .results import Result
from .run_rows import RowOfRun

# of a stream, in a row; and the base score of the row's numbers
FACTS = ("protocol", "files", "order", "sessions", "reference.preset", "score")
PREFIXES = ("protocol.", "digests.")
ON_THEIR_WORD = "{} does not say of which stream it is: taken to be this one"


@dataclass(frozen=True)
class KnownStream:
    """A stream of ours: its title, other names of it, and what rows of its runs say of it."""

    title: str
    facts: RowOfRun
    names: tuple[str, ...] = ()


def stream_facts(result: Result) -> dict[str, Any]:
    """What a line says of its stream."""
    return {
        name: value
        for name, value in result.values.items()
        if name == "stream" or name in FACTS or name.startswith(PREFIXES)
    }


def names_stream(result: Result) -> bool:
    """Whether a line says anything of its stream."""
    return bool(stream_facts(result).keys() - {"score"})


def match_stream(result: Result, known: Sequence[KnownStream]) -> KnownStream | None:
    """The one stream that agrees with all that a line says; None if none does.

    Raises
    ------
    UserError
        Several do: a result of one stream never stands beside a mean over several.
    """
    found = [stream for stream in known if all(_agrees(result, stream).values())]
    if len(found) > 1:
        name, texts = _difference(found)
        raise UserError(
            f"{result.label} does not say which of {len(found)} streams it is of",
            f"add a column {name}: {' or '.join(texts)}",
        )
    return found[0] if found else None


def explain_misfit(result: Result, known: Sequence[KnownStream]) -> str:
    """What a line says that is so of no stream of ours, or of none with the rest, in words."""
    nearest = max(known, key=lambda stream: sum(_agrees(result, stream).values()))
    name = next(name for name, agrees in _agrees(result, nearest).items() if not agrees)
    ours = dict.fromkeys(
        stream.title if name == "stream" else str(stream.facts.get(name, "none"))
        for stream in known
    )
    return f"its {name} is {short(stream_facts(result)[name])}, and of ours {', '.join(ours)}"


def _agrees(result: Result, stream: KnownStream) -> dict[str, bool]:
    """For each thing that a line says of its stream, whether it is so of one of ours."""
    agrees = {}
    for name, value in stream_facts(result).items():
        if name == "stream":
            agrees[name] = str(value) in (stream.title, *stream.names)
        else:
            agrees[name] = name in stream.facts and _is_same(value, stream.facts[name])
    return agrees


def _is_same(one: Any, other: Any) -> bool:
    return one == other or str(one) == str(other)


def _difference(streams: Sequence[KnownStream]) -> tuple[str, list[str]]:
    """A column that tells streams apart, and its values."""
    names = dict.fromkeys(name for stream in streams for name in stream.facts)
    settings = [name for name in names if name.startswith("protocol.")]
    for name in (*settings, *FACTS):
        values = [str(stream.facts.get(name, "")) for stream in streams]
        if len({*values}) == len(streams) and all(values):
            return name, values
    return "stream", [stream.title for stream in streams]
