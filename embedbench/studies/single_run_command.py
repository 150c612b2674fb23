"""The command that runs one cell alone, as its record gives it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

REFERENCES = ("offline", "chance")  # what learners are compared with


def start_of_command(
    files: Sequence[object],
    protocol: str,
    out: object,
    preset: str | None = None,
    threads: int = 1,
) -> str:
    """`embedbench run …` without learner, seed and settings."""
    words = ["embedbench", "run", *map(str, files), "--protocol", protocol, "--out", str(out)]
    words += ["--preset", preset] if preset else []
    return shlex.join([*words, *(["--threads", str(threads)] if threads > 1 else [])])


def run_command(
    start: str, items: Sequence[str], learner: tuple[str, Collection[str]], seed: int
) -> str:
    """The command that runs one cell alone: settings of the stream, then of this learner."""

    def words(chosen: Sequence[str]) -> list[str]:
        return [word for item in chosen for word in ("--set", item)]

    name, fields = learner
    shared = ("protocol", "seeds", "omega", "references", *REFERENCES)
    heads = [(item, split_key(item.partition("=")[0])[0]) for item in items]
    common = [item for item, head in heads if head in shared]
    mine = [i for i, h in heads if h == name or h.replace("-", "_") in fields]
    cell = ["--learner", name, "--seed", str(seed)]
    return f"{start} {shlex.join([*words(common), *cell, *words(mine)])}"


def split_key(key: str) -> tuple[str, bool, str]:
    """A key at its first dot; dots in `package.module:Class` do not count.

    >>> split_key("mlp.stop.epochs"), split_key("my.mod:Mine.floor"), split_key("lam")
    (('mlp', True, 'stop.epochs'), ('my.mod:Mine', True, 'floor'), ('lam', False, ''))
    """
    at = key.find(".", key.find(":") + 1)
    head = key if at < 0 else key[:at]
    return (
        head if ":" in head else head.replace("_", "-"),
        at >= 0,
        key[at + 1 :] if at >= 0 else "",
    )
