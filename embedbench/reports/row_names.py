"""Names for the rows of tables, which a paper has: `--name rmlp="Replay MLP"`.

A row is called by its learner. `RowNames` is the one place where it gets another name, which all
views then have: tables in every form, the page, figures and sentences. Files of runs keep the
learner's own name, and so do `learner` in JSON and every condition on runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedbench.errors import UserError, unknown
from embedbench.plugins import name_in_runs
from embedbench.text.printable_text import printable

EXAMPLE = 'LEARNER="A name", such as slda="Streaming LDA"'


@dataclass(frozen=True)
class RowNames:
    """Names to give, and which of them some row has taken.

    Parameters
    ----------
    given : mapping
        What a row is called otherwise → its name. That is its learner (`ewc`; all its rows keep the
        settings that tell them apart), or its whole label (`ewc lam=100`). Of a learner
        `package.module:Class` it is that, `Class`, or the module.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set, init=False, compare=False)
    seen: dict[str, None] = field(default_factory=dict, init=False, compare=False)

    def label(self, learner: str, usual: str, settings: Sequence[str] = ()) -> str:
        """The label of a row; `usual` is what its learner is called without a name."""
        whole = " ".join([usual, *settings])
        self.seen[whole if settings else usual] = None
        if whole in self.given:
            return self._take(whole)
        for key in (*_parts(learner), usual):
            if key in self.given:
                return " ".join([self._take(key), *settings])
        return whole

    def _take(self, key: str) -> str:
        self.used.add(key)
        return self.given[key]

    @property
    def unused(self) -> list[str]:
        """What no row has taken."""
        return [key for key in self.given if key not in self.used]

    def check_used(self) -> None:
        """Refuse a name that no row has taken, once all tables are made."""
        for key in self.unused:
            raise unknown("row to name", key, self.seen)


NO_NAMES = RowNames()


def plain_name(name: str) -> str:
    """What stands after the `:` of `package.module:Name`."""
    return name.rpartition(":")[2] or name


def _parts(learner: str) -> list[str]:
    """What a learner may be called in a key: of `package.module:Class` each part, too."""
    module, colon, name = learner.rpartition(":")
    return [learner, name, module] if colon else [learner, learner.replace("-", "_")]


def names_of(names: Mapping[str, str], learners: Iterable[str]) -> dict[str, str]:
    """Those of some names that rows of these learners may take."""
    known = {part for learner in learners for part in _parts(learner)}
    return {key: name for key, name in names.items() if key.partition(" ")[0] in known}


def check_learners(names: Mapping[str, str], learners: Sequence[str]) -> None:
    """Refuse names that no row of these learners can take, before any of them runs."""
    kept = names_of(names, learners)
    for key in names:
        if key not in kept:
            raise unknown("row to name", key, learners)


def check_apart(usual: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse two rows of one table whose names are the same, though they were told apart."""
    first: dict[str, str] = {}
    for before, label in zip(usual, labels, strict=True):
        if first.setdefault(label, before) != before:
            raise UserError(
                f"two rows of a table would be called {label}: {first[label]} and {before}",
                "give each a name of its own",
            )


def parse_names(items: Iterable[str]) -> dict[str, str]:
    """Read items of `--name`, such as `slda=Streaming LDA`; the last of one learner goes.

    >>> parse_names(["slda=Streaming LDA", "ewc lam=100=EWC"])
    {'slda': 'Streaming LDA', 'ewc lam=100': 'EWC'}
    """
    names = {}
    for item in items:
        key, equals, name = item.partition("=")
        if " " in key.strip():  # a label with settings, which have = themselves
            key, equals, name = item.rpartition("=")
        if not equals or not key.strip():
            raise UserError("--name", expected=EXAMPLE, got=item)
        names[key.strip()] = check_name(name, f"--name {key}")
    return names


def read_names(value: Any, where: str) -> dict[str, str]:
    """The names in a table of a TOML file.

    `file.py:Name`, as a study file names code beside it, is `file:Name` in runs.
    """
    if not isinstance(value, Mapping):
        raise UserError(where, expected='a table, such as slda = "Streaming LDA"', got=value)
    return {name_in_runs(key): check_name(name, f"{where}.{key}") for key, name in value.items()}


def check_name(name: Any, where: str) -> str:
    """A name that can be seen, on one line."""
    if not isinstance(name, str):
        raise UserError(where, expected="a name", got=name)
    plain = " ".join(printable(name).split())
    if not plain:
        raise UserError(where, "leave it out to keep the learner's", expected="a name", got=name)
    return plain
