"""Studies: files × protocols × orders × learners × values of their grids × seeds.

A command line is a study, and a study file is one, see `study_file`. `resolve` makes its runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from embedbench.errors import UserError


class Key(NamedTuple):
    """The name of a setting, taken apart at its first dot; `name` is "" where there is none.

    `head` is as written: a learner, `protocol`, `seeds`, or the setting itself. Dots in
    `package.module:Class` do not count.
    """

    head: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> "Key":
        """Take a text apart.

        >>> [Key.parse(text) for text in ("mlp.stop.epochs", "my.mod:Mine.floor")]
        [Key(head='mlp', name='stop.epochs'), Key(head='my.mod:Mine', name='floor')]
        """
        at = text.find(".", text.find(":") + 1)
        return cls(text) if at < 0 else cls(text[:at], text[at + 1 :])

    @property
    def target(self) -> str:
        """The learner or protocol that the head may be, as our names are written."""
        return with_dashes(self.head)

    @property
    def field(self) -> str:
        """The field of a learner that the head may be."""
        return self.head.replace("-", "_")

    def __str__(self) -> str:
        return f"{self.head}.{self.name}" if self.name else self.head


Settings = dict[Key, str]
Lists = dict[Key, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """The request of a command line or a study file. None and empty: not given.

    What is not described here is the option of its name.

    Parameters
    ----------
    files : tuple of tuple of str
        Those of each stream.
    protocols, learners : tuple of str
        Names.
    seeds : tuple of int
        One run of each learner a seed; empty is 0.
    preset : str or None
        The name or the file of a preset.
    metric : str or None
        The base score that tables show; None: that of the preset, or the usual one.
    unknown : str or None
        The file of samples that no session teaches.
    tune_seeds : tuple of int
        Those of the trials; empty: three that `seeds` has not.
    names : dict of str to str
        Names for the rows of tables, see `RowNames`.
    set : dict of Key to str
        What `--set` gives.
    set_of : dict of str to dict of Key to str
        Settings of the streams of one file, by its name in `files`; they go over `set`.
    tune, grid : dict of Key to tuple of str
        Values to choose from, and values that are all run.
    """

    files: tuple[tuple[str, ...], ...] = ()
    protocols: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    preset: str | None = None
    metric: str | None = None
    trunk: str | None = None
    weights: str | None = None
    augment: str | None = None
    unknown: str | None = None
    tune_sessions: int | None = None
    tune_seeds: tuple[int, ...] = ()
    budget_mb: float | None = None
    threads: int | None = None
    device: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    set: Settings = field(default_factory=dict)
    set_of: dict[str, Settings] = field(default_factory=dict)
    tune: Lists = field(default_factory=dict)
    grid: Lists = field(default_factory=dict)


def parse_settings(items: Iterable[str]) -> Settings:
    """Read items such as "ewc.lam=100"; of two with one key, the later goes; refuses others."""
    settings: Settings = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UserError("--set", expected="name=value, such as ewc.lam=100", got=item)
        settings[Key.parse(key)] = value
    return settings


def parse_lists(items: Iterable[str]) -> Lists:
    """Read items such as "mlp.lr=0.1,0.01"; refuses others."""
    lists: Lists = {}
    for item in items:
        key, _, values = item.partition("=")
        listed = split_names(values)
        if not key or not listed:
            raise UserError(
                "--tune", expected="name=value,value, such as mlp.lr=0.1,0.01", got=item
            )
        lists[Key.parse(key)] = listed
    return lists


def split_names(text: str | None) -> tuple[str, ...]:
    """The names or values in a list with commas; none in None."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))


def with_dashes(name: str) -> str:
    """A name as ours are written: with `-`; code by its path stays as it is."""
    return name if ":" in name else name.replace("_", "-")
