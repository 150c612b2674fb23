"""Streams by name: a protocol and settings that papers name in one word, such as `b0-inc10`.

`assets/named_streams.toml` has them. `--protocol`, a study file and `build_stream` take a name in
the place of a protocol's.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from embedbench.errors import unknown

from .json_records import ABSENT, JsonRecord, parse_toml

FILE = "named_streams.toml"
_FORM = re.compile(r"b\d+-inc\d+[\w-]*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class NamedStream(JsonRecord):
    """A stream by its name: a protocol, its settings, and the score that its papers print."""

    protocol: str
    set: dict[str, str]
    metric: str | None = field(default=None, metadata=ABSENT)

    def summary(self) -> str:
        """What `list` says of it."""
        settings = " ".join(f"{name}={value}" for name, value in self.set.items())
        return f"--protocol {self.protocol}, {settings}"


@dataclass(frozen=True)
class _File(JsonRecord):
    streams: dict[str, NamedStream]


@cache
def named_streams() -> dict[str, NamedStream]:
    """Every stream that has a name."""
    text = (resources.files("embedbench") / "assets" / FILE).read_text(encoding="utf-8")
    return _File.from_json(parse_toml(text, FILE), FILE).streams


def find_protocol(name: str) -> tuple[str, dict[str, str]]:
    """The protocol of a name, and the settings that come with it; a protocol's own has none.

    >>> find_protocol("b0-inc10")[1]["base"], find_protocol("iirc")
    ('10', ('iirc', {}))

    Raises
    ------
    UserError
        The name is of the form of a stream's, and none has it.
    """
    if not _FORM.fullmatch(name):
        return name, {}
    streams = named_streams()
    if name not in streams:
        meant = [name.lower()] if name.lower() in streams else []
        raise unknown("stream of the zoo", name, streams, meant)
    return streams[name].protocol, dict(streams[name].set)


def find_metric(name: str) -> str | None:
    """The base score that papers print of a stream by its name; None of a protocol's own name."""
    stream = named_streams().get(name)
    return None if stream is None else stream.metric
