"""Streams by name: a protocol and settings that papers name in one word, such as `b0-inc10`.

`assets/named_streams.toml` has them. `--protocol`, a study file and `build_stream` take a name in
the place of a protocol's.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from embedbench.config.json_records import JsonRecord, parse_toml
from embedbench.errors import unknown

FILE = "named_streams.toml"
_FORM = re.compile(r"b\d+-inc\d+[\w-]*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class NamedStream(JsonRecord):
    """A stream by its name: a protocol and its settings."""

    protocol: str
    set: dict[str, str]

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
