"""From a study to its runs: each stream is planned once, and in it every learner, point and seed.

What goes over what: a preset, what belongs to a learner's name, settings without a learner's name,
settings with it, a point of the learner's grid. Those of one file go over those of all.
"""

import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from embedbench.config.make_from_settings import make, nearest
from embedbench.config.named_streams import find_metric, find_protocol
from embedbench.config.plain_numbers import read_whole
from embedbench.config.run_seeds import LARGEST, Seeds
from embedbench.errors import UserError, unknown
from embedbench.files.remote import fetch
from embedbench.learning.learner import Learner, refuse_without_validation
from embedbench.reports.row_names import check_learners, names_of
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.runs.run_spec import RunSpec, Spec, set_words
from embedbench.streams.protocol import Protocol
from embedbench.system.callback_types import Notify, Progress
from embedbench.text.undecoded_text import join_words

from .presets import check_score, metric, preset
from .study import Key, Lists, Settings, Study, with_dashes

MOST = 100_000  # runs of a study
OMEGAS = ("kemker_table", "kemker_eq")
REFERENCES = ("offline", "chance")  # what learners are compared with
REFERENCE_RUNS = 1000  # the most offline runs behind an α_ideal
PASSES = Key("passes")  # a preset that sets it gives all the same training
SHARED = ("protocol", "seeds", "omega", "references", *REFERENCES)  # with every learner's command
SEED_NAMES = tuple(Seeds.__dataclass_fields__)
_KNOWN = ("protocol.…", "seeds.…", "omega", "references")

K = TypeVar("K")
V = TypeVar("V")
Grid = Mapping[str, Sequence[str]]  # setting of a learner → values


# Each class is looked up once.
_learner_class = functools.cache(by_name.learner_class)


def has_setting(learner: str, key: Key) -> bool:
    """Whether a learner has the setting that a key without a learner's name begins with."""
    cls = _learner_class(learner)
    return is_dataclass(cls) and key.field in {f.name for f in fields(cls)}


@dataclass
class SortedSettings:
    """Settings by what they are for; `learners` go over `common`, that over the defaults."""

    protocol: dict[str, Any] = field(default_factory=dict)
    # by learner, from a preset or the learner's name
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict)
    common: Settings = field(default_factory=dict)  # for every learner that has them
    learners: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)  # set instead of drawn
    omega: str = OMEGAS[0]
    references: int = 1  # offline runs behind an α_ideal

    def take(
        self, key: Key, value: str, learners: Sequence[str], into: dict[str, dict[str, Any]]
    ) -> bool:
        """Take a setting, one of a learner `into` its settings; False if it names no target."""
        if _is_of_protocol(key):
            self.protocol[key.name] = value
        elif key.head == "seeds" and key.name:
            if key.name not in SEED_NAMES:
                raise unknown("seed", key.name, SEED_NAMES)
            self.seeds[key.name] = read_whole(value, str(key), 0, LARGEST)
        elif key == Key("omega"):
            if value not in OMEGAS:
                raise unknown("omega", value, OMEGAS)
            self.omega = value
        elif key == Key("references"):
            self.references = read_whole(value, "references", 0, REFERENCE_RUNS)
        elif key.target in learners or key.target in REFERENCES:
            into.setdefault(key.target, {})[key.name] = value
        else:
            return False
        return True

    def settings_by_name(self, learner: str) -> dict[str, Any]:
        """The settings of a learner that are given with its name."""
        return {**self.defaults.get(learner, {}), **self.learners.get(learner, {})}

    def settings_for(self, learner: str) -> dict[str, Any]:
        """The settings of a learner; those with its name go over those without."""
        common = {str(k): v for k, v in self.common.items() if has_setting(learner, k)}
        return {**self.defaults.get(learner, {}), **common, **self.learners.get(learner, {})}


def sort_settings(
    settings: Settings, learners: Sequence[str], preset_name: str | None = None
) -> SortedSettings:
    """Sort settings by what they are for, over those of aliases, and those over a preset's.

    Of `settings`, which `--set` gives, one with a learner's name goes over one without. Those of
    learners that do not run are refused when they are used.
    """
    result = SortedSettings()
    known = by_name.learner_names()
    run = [name for name in learners if name not in REFERENCES]
    for key, value in preset(preset_name).items():
        if result.take(key, value, learners, result.defaults) or key.target in known:
            continue  # the latter are of learners that do not run
        if ":" not in key.head and not any(has_setting(name, key) for name in (*run, *known)):
            meant = _nearest(run, key.field)
            raise unknown(f"setting in preset {preset_name}", str(key), _KNOWN, meant)
        for name in run:
            if has_setting(name, key):  # one with the learner's name goes over it
                result.defaults.setdefault(name, {}).setdefault(str(key), value)
    for name in learners:
        result.defaults.setdefault(name, {}).update(by_name.alias_settings(name))
    for key, value in settings.items():
        if not result.take(key, value, learners, result.learners):
            result.common[key] = value
    return result


def resolve(
    study: Study,
    *,
    out: object = "runs",
    device: str = "cpu",
    checkpoint: float = RunSpec.checkpoint,
) -> list[RunSpec]:
    """All runs of a study, stream by stream, learner by learner; wrong settings are refused here.

    `out` is the directory of all runs, for the commands in the records.
    """
    check_study(study)
    check_learners(study.names, (*study.learners, *REFERENCES))
    if study.metric is not None:
        check_score(study.metric, "--metric")
    runs: dict[RunSpec, None] = {}
    for files, name in itertools.product(study.files, study.protocols):
        protocol, named = find_protocol(name)
        of_name = {Key("protocol", key): value for key, value in named.items()}
        shown = study.metric or metric(study.preset) or find_metric(name)
        given = dict(study.set)
        for file in files:
            given |= study.set_of.get(file, {})
        for point in _points(_protocol_grid(study)):
            settings = of_name | given | point | _trunk_settings(study)
            stream = _StreamStudy(study, files, protocol, settings, shown)
            runs |= dict.fromkeys(stream.runs(str(out), device, checkpoint))
    return list(runs)


def pin_files(
    study: Study, *, progress: Progress = lambda *_: None, notify: Notify = lambda _: None
) -> Study:
    """The study with names that can mean one content only; their files are fetched."""

    def pinned(name: str) -> str:
        return fetch.pin_name(name, progress=progress, notify=notify)

    files = tuple(tuple(pinned(name) for name in names) for names in study.files)
    set_of = {pinned(name): settings for name, settings in study.set_of.items()}
    return replace(
        study, files=files, set_of=set_of, unknown=pinned(study.unknown) if study.unknown else None
    )


def references_without_validation(runs: Sequence[RunSpec]) -> list[str]:
    """The offline references that would stop by validation data where their streams have none."""
    return [
        run.offline.name
        for run in runs
        if run.protocol.settings.validation == "none"
        and (run.references or run.is_offline)
        and run.offline.settings.validation_needs()
    ]


def check_study(study: Study) -> None:
    """Refuse a study that has no runs, or none that could be meant."""
    for what in ("file", "protocol", "learner"):
        if not getattr(study, f"{what}s"):
            raise UserError(f"name a {what}: on the command line or in a study file (--config)")
    files = [name for names in study.files for name in names]
    for name in study.set_of:
        if name not in files:
            raise unknown("file of set-of", name, files)
    by_learner = grids(study, study.grid)
    both = [name for name in grids(study, study.tune) if name in by_learner]
    if both:  # each point would need its own search
        raise UserError(f"{both[0]} has both a grid and values to tune", "give it one of them")
    if by_learner and study.budget_mb is not None:
        raise UserError("a budget goes with no grid", "leave out [grid] or --budget-mb")
    streams = len(study.protocols) * _size(_protocol_grid(study))
    each = sum(_size(by_learner.get(name, {})) for name in study.learners)
    if len(study.files) * streams * each * max(1, len(study.seeds)) > MOST:
        raise UserError(f"the study has more than {MOST:,} runs", "cut it into several")
    for name in study.learners if PASSES in preset(study.preset) else ():
        if has_setting(name, Key("lr")) and not has_setting(name, PASSES):
            raise UserError(
                f"{name} has a training of its own, and no count of what it presents",
                f"leave it out of --preset {study.preset}",
            )


def grids(study: Study, lists: Lists) -> Mapping[str, Grid]:
    """Learner → setting → values of a study's `tune` or `grid`.

    A key without a learner's name is for every learner that has the setting.
    """
    result: dict[str, dict[str, Sequence[str]]] = {}
    for key, values in lists.items():
        if _is_of_protocol(key):
            continue
        named = [name for name in study.learners if name == key.target and key.name]
        chosen = named or [name for name in study.learners if has_setting(name, key)]
        if not chosen:
            raise unknown("setting to tune", str(key), [f"{name}.…" for name in study.learners])
        for name in chosen:
            result.setdefault(name, {})[key.name if named else str(key)] = values
    return result


def override(study: Study, flags: Study) -> Study:
    """The study of a file with what flags say instead; their tables are added to its own.

    What the file says of learners and files that flags leave out goes, and no grid or search of it,
    and no setting of one file, is over a setting that flags give.
    """
    given = {f.name: getattr(flags, f.name) for f in fields(flags)}
    changed = {k: v for k, v in given.items() if v is not None and v not in ((), {})}
    new = replace(study, **changed)
    if not (new.learners and new.protocols):
        return new  # which `check_study` refuses
    mine = without_others(study, new.learners)
    fixed = {*map(str, {*flags.set} - {*flags.tune})}

    def free(lists: Lists) -> Lists:
        names = {k: {str(k)} if _is_of_protocol(k) else {str(k), k.name} for k in lists}
        return {k: v for k, v in lists.items() if not names[k] & fixed}

    left = {name for names in new.files for name in names}
    set_of = dict[str, Settings]()
    for name, settings in mine.set_of.items():
        kept = {key: value for key, value in settings.items() if key not in flags.set}
        if kept and name in left:
            set_of[name] = kept
    return replace(
        new,
        names=names_of(study.names, (*new.learners, *REFERENCES)) | flags.names,
        set=mine.set | flags.set,
        set_of=set_of,
        tune=free(mine.tune) | flags.tune,
        grid=free(mine.grid) | flags.grid,
    )


def without_others(study: Study, learners: Sequence[str]) -> Study:
    """The study of these learners, without settings that are for its others alone."""
    gone = {*study.learners} - {*learners}
    left = {*map(with_dashes, gone)}

    def kept(given: Mapping[Key, V]) -> dict[Key, V]:
        return {key: value for key, value in given.items() if is_kept(key)}

    def is_kept(key: Key) -> bool:
        which = {name for name in {*study.learners, *learners} if has_setting(name, key)}
        return key.target not in left and not (which and which <= gone)

    return replace(
        study,
        learners=tuple(learners),
        set=kept(study.set),
        set_of={name: kept(settings) for name, settings in study.set_of.items()},
        tune=kept(study.tune),
        grid=kept(study.grid),
    )


def take_shard(runs: Sequence[RunSpec], shard: str | None) -> list[RunSpec]:
    """The runs of one shard: "3/64" has the third of every 64; None has all."""
    if shard is None:
        return list(runs)
    parts = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,8})", shard, re.ASCII)
    if parts is None or int(parts[1]) > int(parts[2]):
        raise UserError(
            "--shard",
            expected="I/N with I from 1 to N, such as 3/64 for the third of 64 commands",
            got=shard,
        )
    return list(runs)[int(parts[1]) - 1 :: int(parts[2])]


@dataclass(frozen=True)
class _StreamStudy:
    """A stream of a study, with the settings of all that runs on it."""

    study: Study
    files: tuple[str, ...]
    protocol: str
    settings: Settings
    metric: str | None  # the base score that its tables show

    def runs(self, out: str, device: str, checkpoint: float) -> Iterator[RunSpec]:
        """Yield the runs: a learner, a point of its grid, a seed."""
        study = self.study
        mine = sort_settings(self.settings, study.learners, study.preset)
        made = make(by_name.protocol_class(self.protocol), mine.protocol, name="protocol")
        protocol = Spec[Protocol](by_name.protocol_name(self.protocol), made)
        self._check_common(mine.common, study.learners, made)
        by_learner = grids(study, study.grid)
        learners = []  # each with its point of the grid
        for name in study.learners:
            for point in _points(by_learner.get(name, {})):
                spec = self._spec(name, mine.settings_for(name) | point, made)
                learners.append((spec, point))
        offline = self._spec("offline", mine.settings_by_name("offline"), made)
        chance = self._spec("chance", {}, made)
        if made.validation == "none":
            for learner, _ in learners:
                refuse_without_validation(
                    learner.settings, learner.name, online=bool(made.observe_batch)
                )
        for learner, point in learners:
            start, end = self._command(out, learner.name, point)
            for seed in study.seeds or (0,):
                words = [*start, "--learner", learner.name, "--seed", str(seed), *end]
                yield RunSpec(
                    files=self.files,
                    protocol=protocol,
                    learner=learner,
                    seed=seed,
                    fixed=tuple(sorted(mine.seeds.items())),
                    offline=offline,
                    chance=chance,
                    references=mine.references,
                    preset=mine.omega,
                    device=device,
                    command=join_words(words),
                    checkpoint=checkpoint,
                    unknown=study.unknown or "",
                    metric=self.metric,
                )

    def _spec(self, name: str, values: dict[str, Any], protocol: Protocol) -> Spec[Learner]:
        """A learner with complete settings: the one place where they become an object."""
        spec = Spec(name, make(_learner_class(name), values, name=name))
        if name != "offline" or protocol.validation == "train":
            return spec
        if spec.settings.learner == "best":
            raise UserError(
                "offline.learner=best is chosen by validation samples, and protocol.validation="
                f"{protocol.validation} leaves none for it",
                "name one, as --set offline.learner=mlp, or take --set protocol.validation=train",
            )
        # said by name, so that it shares its place with the reference that was there before
        return spec.with_settings(learner="mlp") if spec.settings.learner is None else spec

    def _check_common(self, common: Settings, learners: Sequence[str], protocol: Protocol) -> None:
        """Refuse a setting without a prefix that no learner has."""
        for key in common:
            if any(has_setting(name, key) for name in learners):
                continue
            known = [*_KNOWN, *[f"{name}.…" for name in learners]]
            meant = _nearest(learners, key.field)
            if any(key.field == field.name for field in fields(protocol)):
                meant.insert(0, f"protocol.{key}")
            raise unknown("setting", str(key), known, meant)

    def _command(self, out: str, name: str, point: dict[str, str]) -> tuple[list[str], list[str]]:
        """The words of the command that makes one run alone, before learner and seed and after.

        First come settings of the stream, then those of this learner.
        """
        study = self.study
        words = ["embedbench", "run", *self.files, "--protocol", self.protocol, "--out", out]
        if study.preset:
            words += ["--preset", study.preset]
        if self.metric and (study.metric or not metric(study.preset)):
            words += ["--metric", self.metric]
        if study.unknown:
            words += ["--unknown", study.unknown]
        if (study.threads or 1) > 1:
            words += ["--threads", str(study.threads)]
        every = self.settings | {Key(name, setting): value for setting, value in point.items()}
        shared = {k: v for k, v in every.items() if k.target in SHARED}
        mine = {k: v for k, v in every.items() if k.target == name or has_setting(name, k)}
        return [*words, *set_words(shared)], set_words(mine)


def _nearest(learners: Sequence[str], name: str) -> list[str]:
    """The settings of some learners that a wrong name may mean."""
    meant: list[str] = []
    for learner in learners:
        meant += nearest(_learner_class(learner), name)
    return meant


def _trunk_settings(study: Study) -> Settings:
    """The settings that give each learner, and the offline reference, a trunk and its training."""
    options = {
        "trunk": study.trunk,
        "images.weights": study.weights,
        "images.augment": study.augment,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return {}
    trained = [name for name in study.learners if name not in REFERENCES]
    for name in trained:
        if not has_setting(name, Key("trunk")):
            raise UserError(
                f"{name} has no trunk: it takes embeddings as they are. Run it on a file of them "
                "(embedbench extract SOURCE --backbone NAME --out FILE), without --trunk"
            )
    settings: Settings = {}
    for learner in trained:
        settings |= {Key(learner, name): value for name, value in given.items()}
    return settings | {Key("offline", f"mlp.{name}"): value for name, value in given.items()}


def _is_of_protocol(key: Key) -> bool:
    """Whether a setting is the protocol's, not a learner's."""
    return key.head == "protocol" and bool(key.name)


def _protocol_grid(study: Study) -> Lists:
    """The grid over the protocol's settings."""
    return {k: v for k, v in study.grid.items() if _is_of_protocol(k)}


def _points(grid: Mapping[K, Sequence[str]]) -> Iterator[dict[K, str]]:
    """Yield every combination of the values; one without values for an empty grid."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _size(grid: Mapping[Any, Sequence[str]]) -> int:
    """The number of combinations."""
    return math.prod(map(len, grid.values()))
