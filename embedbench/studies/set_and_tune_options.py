"""The texts of `--set` and `--tune`: taken apart here, once; `resolve` says what each is for."""

from collections.abc import Iterable
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


def parse_settings(items: Iterable[str]) -> Settings:
    """Read items such as "ewc.lam=100"; of two with one key, the later goes; refuses others."""
    settings: Settings = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UserError(f"--set takes name=value, such as ewc.lam=100; got {item!r}")
        settings[Key.parse(key)] = value
    return settings


def parse_lists(items: Iterable[str]) -> Lists:
    """Read items such as "mlp.lr=0.1,0.01"; refuses others."""
    lists: Lists = {}
    for item in items:
        key, _, values = item.partition("=")
        listed = tuple(v.strip() for v in values.split(",") if v.strip())
        if not key or not listed:
            raise UserError(f"--tune takes name=value,value, such as mlp.lr=0.1,0.01; got {item!r}")
        lists[Key.parse(key)] = listed
    return lists


def with_dashes(name: str) -> str:
    """A name as ours are written: with `-`; code by its path stays as it is."""
    return name if ":" in name else name.replace("_", "-")
