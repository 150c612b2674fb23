"""From the words of a command line to cells: seeds, `--set`, presets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from embedbench.config.declared_settings import make, nearest
from embedbench.config.seeds import Seeds, check_seed, is_number, vary_seeds
from embedbench.errors import UserError, short, unknown
from embedbench.learning.learner import Learner
from embedbench.runs.class_registry import (
    alias_settings,
    learner_class,
    learner_names,
    protocol_class,
    protocol_name,
)
from embedbench.runs.run_spec import RunSpec, Spec

from .presets import preset
from .single_run_command import REFERENCES, run_command, split_key

OMEGAS = ("kemker_table", "kemker_eq")
SEED_NAMES = tuple(f.name for f in dataclasses.fields(Seeds))
REFERENCE_RUNS = 1000  # the most offline runs behind an α_ideal
_KNOWN = ("protocol.…", "seeds.…", "omega", "references")


@dataclasses.dataclass
class Settings:
    """`--set` values by what they are for.

    Parameters
    ----------
    protocol : dict
        Parameters of the protocol.
    defaults : dict of dict
        Settings of single learners that a preset or the learner's name gives.
    common : dict
        Settings without a prefix, for every learner that has them; over the defaults.
    learners : dict of dict
        Settings of single learners; over all others.
    seeds : dict of int
        Seeds that are set instead of drawn.
    omega : str
        The formula of Ω.
    references : int
        Number of offline runs behind an α_ideal.
    items : tuple of str
        The `--set` items as they were given.
    """

    protocol: dict[str, Any] = dataclasses.field(default_factory=dict)
    defaults: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    common: dict[str, Any] = dataclasses.field(default_factory=dict)
    learners: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    seeds: dict[str, int] = dataclasses.field(default_factory=dict)
    omega: str = "kemker_table"
    references: int = 1
    items: tuple[str, ...] = ()

    def take(self, key: str, value: str) -> bool:
        """Take a setting that belongs to no learner; False if it may belong to one."""
        head, dot, rest = split_key(key)
        if head == "protocol" and dot:
            self.protocol[rest] = value
        elif head == "seeds" and dot:
            if rest not in SEED_NAMES:
                raise unknown("seed", rest, SEED_NAMES)
            self.seeds[rest] = _whole(f"seeds.{rest}", value)
            check_seed(self.seeds[rest], f"seeds.{rest}")
        elif key == "omega":
            if value not in OMEGAS:
                raise unknown("omega", value, OMEGAS)
            self.omega = value
        elif key == "references":
            self.references = _whole("references", value)
            if self.references > REFERENCE_RUNS:
                raise UserError(f"references must be at most {REFERENCE_RUNS}, got {short(value)}")
        else:
            return False
        return True

    def of(self, learner: str) -> dict[str, Any]:
        """The settings with the learner's name: those given over the defaults."""
        return {**self.defaults.get(learner, {}), **self.learners.get(learner, {})}


def parse_settings(items: Sequence[str], learners: Sequence[str], given: str | None) -> Settings:
    """Read `--set` items over the settings of aliases, and those over a preset's.

    Parameters
    ----------
    items : sequence of str
        Such as "ewc.lam=100", "protocol.base=50", "seeds.order=3", "omega=kemker_eq", "lam=100".
        One with a learner's name goes over one without.
    learners : sequence of str
        The learners of the run. Settings of others are refused.
    given : str or None
        A preset: its name or its file.
    """
    settings = Settings(items=tuple(items))
    _take_preset(settings, learners, given)
    for name in learners:
        if with_name := alias_settings(name):
            settings.defaults[name] = {**settings.defaults.get(name, {}), **with_name}
    for item in items:
        key, value = key_value(item)
        head, _, rest = split_key(key)
        if settings.take(key, value):
            continue
        if head in learners or head in REFERENCES:
            settings.learners.setdefault(head, {})[rest] = value
        else:
            settings.common[key] = value
    return settings


def key_value(item: str, option: str = "--set") -> tuple[str, str]:
    """The key and the value of `key=value`."""
    key, equals, value = item.partition("=")
    if not equals or not key:
        raise UserError(f"{option} takes name=value, such as ewc.lam=100; got {item!r}")
    return key, value


def _take_preset(settings: Settings, learners: Sequence[str], given: str | None) -> None:
    """Take the settings of a preset; those of learners that do not run are left out."""
    every: dict[str, str] = {}
    fields, known = Fields(), learner_names()
    for key, value in preset(given).items():
        head, _, rest = split_key(key)
        if head in learners or head in REFERENCES:
            settings.defaults.setdefault(head, {})[rest] = value
        elif not settings.take(key, value) and head not in known and ":" not in head:
            every[key] = value
    run = [name for name in learners if name not in REFERENCES]
    for name in run if every else ():
        mine = {k: v for k, v in every.items() if _head(k) in fields[name]}
        settings.defaults[name] = mine | settings.defaults.get(name, {})
    for key in every:
        others = (name for name in known if name not in run)
        if not any(_head(key) in fields[name] for name in (*run, *others)):
            meant = [near for n in run for near in nearest(learner_class(n), _head(key))]
            raise unknown(f"setting in preset {given}", key, _KNOWN, meant)


def _whole(name: str, value: str) -> int:
    if not is_number(value):
        raise UserError(f"{name} must be a whole number, got {short(value)}")
    return int(value)


def plan(
    files: Sequence[str],
    protocol: str,
    learners: Sequence[str],
    seeds: Sequence[int],
    *,
    settings: Settings,
    device: str,
    command: str = "embedbench run",
    among: Sequence[str] = (),
    vary: Sequence[str] = (),
    checkpoint: float = RunSpec.checkpoint,
) -> list[RunSpec]:
    """All cells of a run, learner by learner; wrong names and values are refused here.

    Parameters
    ----------
    files : sequence of str
        Paths of the embedding files.
    protocol : str
        The name of the protocol.
    learners : sequence of str
        The names of the learners.
    seeds : sequence of int
        One cell of each learner a seed.
    settings : Settings
        What `parse_settings` made of `--set`.
    device : str
        "cpu", "cuda", …
    command : str
        The beginning of the command that runs one cell alone, see `start_of_command`.
    among : sequence of str
        Further learners: a setting without a prefix must belong to one of these or of `learners`.
    vary : sequence of str
        Kinds of seed that alone differ between cells, see `embedbench.config.seeds.vary_seeds`.
    checkpoint : float
        Seconds between two checkpoints, at least.
    """
    if not learners:
        raise UserError("--learner names no learner; give one or more, with commas")
    made = make(protocol_class(protocol), settings.protocol, name="protocol")
    protocol_spec = Spec(protocol_name(protocol), made)
    fields = Fields()
    names = list(dict.fromkeys([*learners, *among]))
    specs = [_learner_spec(name, settings, names, fields, _fields(type(made))) for name in learners]
    offline = _spec("offline", settings.of("offline"))
    chance = _spec("chance", {})
    return [
        RunSpec(
            files=tuple(files),
            protocol=protocol_spec,
            learner=spec,
            seed=seed,
            fixed=tuple(sorted({**settings.seeds, **other}.items())),
            offline=offline,
            chance=chance,
            references=settings.references,
            preset=settings.omega,
            device=device,
            command=run_command(
                command,
                [*settings.items, *(f"seeds.{k}={v}" for k, v in other.items())],
                (spec.name, fields[spec.name]),
                seed,
            ),
            checkpoint=checkpoint,
        )
        for spec in specs
        for seed, other in vary_seeds(seeds, list(dict.fromkeys(vary)), settings.seeds)
    ]


class Fields(dict[str, frozenset[str]]):
    """Names of the hyperparameters of learners, each looked up once."""

    def __missing__(self, learner: str) -> frozenset[str]:
        self[learner] = _fields(learner_class(learner))
        return self[learner]


def _fields(cls: type) -> frozenset[str]:
    """Names of a learner's fields; none of a class that is no dataclass, which `make` refuses."""
    return frozenset(getattr(cls, "__dataclass_fields__", ()))


def _learner_spec(
    name: str,
    settings: Settings,
    learners: Sequence[str],
    fields: Fields,
    of_protocol: frozenset[str],
) -> Spec[Learner]:
    """A learner with the settings that are for it; the protocol's names are for the error."""
    for key in settings.common:
        if not any(_head(key) in fields[n] for n in learners):
            known = [*_KNOWN, *(f"{n}.…" for n in learners)]
            meant = [f"protocol.{key}"] if _head(key) in of_protocol else []
            meant += [near for n in learners for near in nearest(learner_class(n), _head(key))]
            raise unknown("setting", key, known, meant)
    cls = learner_class(name)
    fields[name] = _fields(cls)
    common = {k: v for k, v in settings.common.items() if _head(k) in fields[name]}
    values = {**settings.defaults.get(name, {}), **common, **settings.learners.get(name, {})}
    return _spec(name, values, cls)


def _spec(name: str, values: dict[str, Any], cls: type[Learner] | None = None) -> Spec[Learner]:
    """A learner with complete settings: the one place where they become an object."""
    made: Learner = make(cls or learner_class(name), values, name=name)
    return Spec(name, made)


def _head(key: str) -> str:
    return key.partition(".")[0].replace("-", "_")
