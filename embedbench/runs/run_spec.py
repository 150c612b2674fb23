"""The specification of a run: one learner, one stream, one seed. It opens no file.

`run_task` makes a task of it, `run_one` runs that.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from embedbench.config import fields_added_later, make_from_settings, run_seeds
from embedbench.learning.learner import Learner
from embedbench.scores.offline_references import BEST
from embedbench.streams.protocol import Protocol
from embedbench.text.undecoded_text import join_words

T = TypeVar("T", Learner, Protocol)


@dataclass(frozen=True, eq=False)
class Spec(Generic[T]):
    """A learner or a protocol by its name, with complete settings.

    Specs are equal if their names and settings are.

    Parameters
    ----------
    name : str
        As written on the command line.
    settings : Learner or Protocol
        The learner or protocol made from the settings. It is never started; `fresh` copies it.
    """

    name: str
    settings: T

    @cached_property
    def text(self) -> str:
        """The complete settings as JSON, keys sorted."""
        return json.dumps(dataclasses.asdict(self.settings), sort_keys=True)

    @cached_property
    def identity(self) -> str:
        """The settings that decide where a run is kept, as JSON; see `later`."""
        kept = fields_added_later.identity(self.settings)
        behaves = self.settings.later_behaviour() if isinstance(self.settings, Learner) else ()
        if behaves:
            kept = {**kept, "": behaves}  # no setting has an empty name
        return json.dumps(kept, sort_keys=True)

    def fresh(self) -> T:
        """A copy of the learner or protocol, which may be started."""
        return copy.deepcopy(self.settings)

    def with_settings(self, **settings: Any) -> Spec[T]:
        """The learner or protocol with other settings, by name; dots reach into nested ones."""
        start = self.settings
        return Spec(
            self.name, make_from_settings.make(type(start), settings, name=self.name, start=start)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return (self.name, self.text) == (other.name, other.text)

    def __hash__(self) -> int:
        return hash((self.name, self.text))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run: everything that decides its result, and what its metrics refer to.

    Parameters
    ----------
    seed : int
        The seed from which the four seeds are drawn.
    fixed : tuple of tuple
        Pairs (kind of seed, value): the seeds among the four that are set instead of drawn.
    offline, chance : Spec
        The learners behind α_ideal and behind the chance level.
    references : int
        Number of offline runs behind an α_ideal.
    preset : str
        The formula of Ω.
    command : str
        The command that makes this run alone.
    part : int
        For an offline run: the index of the stream's reference that it learns.
    tuning : dict or None
        The log of the search that chose the settings, see `tune`. It does not affect the result.
    checkpoint : float
        Least number of seconds between two checkpoints. It does not affect the result.
    unknown : str
        Path of the file of samples that no session teaches; empty: there is none.
    budget_mb : float or None
        What the learner may hold, MB; its record says whether it did. It does not affect the
        result.
    metric : str or None
        The base score that its tables show. It does not affect the result.
    """

    files: tuple[str, ...]
    protocol: Spec[Protocol]
    learner: Spec[Learner]
    seed: int
    fixed: tuple[tuple[str, int], ...] = ()
    offline: Spec[Learner]
    chance: Spec[Learner]
    references: int = 1
    preset: str = "kemker_table"
    device: str = "cpu"
    command: str = ""
    part: int = 0
    tuning: dict[str, Any] | None = field(default=None, compare=False)
    checkpoint: float = 60.0
    unknown: str = ""
    budget_mb: float | None = field(default=None, compare=False)
    metric: str | None = field(default=None, compare=False)

    @cached_property
    def seeds(self) -> run_seeds.Seeds:
        """The four seeds."""
        return run_seeds.Seeds.of(self.seed, **dict(self.fixed))

    @property
    def is_offline(self) -> bool:
        """Whether the learner gets a reference of the stream instead of its sessions."""
        return self.learner.settings.tags.offline

    @property
    def omega_reference(self) -> str | None:
        """The learner behind α_ideal, or its trunk; None: the MLP, which records do not name.

        "best": validation chooses it, which `References.chosen` then names.
        """
        settings = fields_added_later.identity(self.offline.settings)
        if "learner" in settings:
            name = settings["learner"] or BEST
        else:
            name = settings.get("mlp", {}).get("trunk")
        return None if name == "mlp" or not self.references else name

    def with_settings(self, **settings: Any) -> RunSpec:
        """The run with other settings of its learner, see `Spec`; its command has them, too."""
        words = join_words(set_words({f"{self.learner}.{k}": v for k, v in settings.items()}))
        command = " ".join(filter(None, [self.command, words]))
        return dataclasses.replace(
            self, learner=self.learner.with_settings(**settings), command=command
        )

    def with_offline(self, **settings: Any) -> RunSpec:
        """The run with other settings of the learner behind α_ideal, see `with_settings`."""
        start, learner, end = self.command.partition(" --learner ")
        words = join_words(set_words({f"{self.offline}.{k}": v for k, v in settings.items()}))
        return dataclasses.replace(
            self,
            offline=self.offline.with_settings(**settings),
            command=f"{start} {words}{learner}{end}",
        )

    def offline_runs(self, parts: int) -> list[list[RunSpec]]:
        """The runs behind α_ideal: one list per reference of the stream, one run per seed."""
        order = (("order", self.seeds.order),)
        return [
            [
                self._other(self.offline, seed=seed, fixed=order, part=part)
                for seed in range(self.references)
            ]
            for part in range(parts)
        ]

    def chance_run(self) -> RunSpec:
        """The chance run on the same stream."""
        return self._other(self.chance)

    def _other(self, learner: Spec[Learner], **changes: Any) -> RunSpec:
        head, _, _ = self.command.partition(" --learner ")
        seed = changes.get("seed", self.seed)
        command = f"{head} --learner {learner} --seed {seed}"
        return dataclasses.replace(
            self, learner=learner, tuning=None, budget_mb=None, command=command, **changes
        )


def set_words(settings: Mapping[Any, Any]) -> list[str]:
    """The words of a command that give settings, each value as Python writes it.

    >>> set_words({"ewc.lam": 100})
    ['--set', 'ewc.lam=100']
    """
    words: list[str] = []
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return words
