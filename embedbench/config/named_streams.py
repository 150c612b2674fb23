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
_PLAIN = re.compile(r"b(\d{1,6})-inc(\d{1,6})", re.IGNORECASE)
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
        raise unknown("stream of the zoo", name, streams, meant, more="" if meant else _same(name))
    return streams[name].protocol, dict(streams[name].set)


def _same(name: str) -> str:
    """A sentence on the settings that make a stream without a name; empty if none do.

    >>> _same("b4-inc2")
    'Its sessions are those of --protocol incremental-class --set protocol.base=4 --set \
protocol.step=2; --set protocol.order=icarl1993 has their order, too.'
    """
    match = _PLAIN.fullmatch(name)
    if match is None or int(match[2]) == 0:
        return ""
    step = int(match[2])
    base = int(match[1]) or step  # b0: all sessions are alike
    settings = f"--set protocol.base={base} --set protocol.step={step}"
    return (
        f"Its sessions are those of --protocol incremental-class {settings}; --set "
        "protocol.order=icarl1993 has their order, too."
    )


def find_metric(name: str) -> str | None:
    """The base score that papers print of a stream by its name; None of a protocol's own name."""
    stream = named_streams().get(name)
    return None if stream is None else stream.metric
