"""Studies: files × protocols × orders × learners × values of their grids × seeds.

A command line is a study, and a study file is one, see `study_file`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from embedbench.errors import UserError, short
from embedbench.seeds import is_number, parse_seeds

from .cell import Cell
from .command import REFERENCES, split_key, start_of_command
from .settings import Fields, parse_settings, plan
from .tune import parse_grid

MOST = 100_000  # cells of a study
Table = Mapping[str, str]
Lists = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a command line or a study file asks for. None and empty: not given.

    Parameters
    ----------
    files : tuple of tuple of str
        The embedding files of each stream.
    protocols, learners, orders, vary : tuple of str
        Names; `orders` are values of `protocol.order`, `vary` are kinds of seed.
    seeds : str or None
        Such as "0-4"; None is 0.
    preset : str or None
        The name or the file of a preset.
    trunk, weights, augment, engine, resources, device : str or None
        The options of these names.
    threads, tune_sessions : int or None
        The options of these names.
    budget_mb : float or None
        The option of this name.
    set : mapping of str to str
        The items of `--set`. A protocol's name instead of `protocol` means this protocol alone.
    tune, grid : mapping of str to tuple of str
        Values to choose from, and values that are all run.
    engine_set : mapping of str to str
        Settings of the engine.
    other_learners, other_protocols : tuple of str
        Those of a study file that flags have left out; its settings may name them.
    flagged : frozenset of str
        Keys that `--set` gives: no grid and no search of the file goes over them.
    """

    files: tuple[tuple[str, ...], ...] = ()
    protocols: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()
    seeds: str | None = None
    orders: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()
    preset: str | None = None
    trunk: str | None = None
    weights: str | None = None
    augment: str | None = None
    tune_sessions: int | None = None
    budget_mb: float | None = None
    engine: str | None = None
    resources: str | None = None
    threads: int | None = None
    device: str | None = None
    set: Table = field(default_factory=dict)
    tune: Lists = field(default_factory=dict)
    grid: Lists = field(default_factory=dict)
    engine_set: Table = field(default_factory=dict)
    other_learners: tuple[str, ...] = ()
    other_protocols: tuple[str, ...] = ()
    flagged: frozenset[str] = frozenset()

    def under(self, flags: Study) -> Study:
        """This study with what `flags` say instead; their tables are added to its own."""
        given = {f.name: getattr(flags, f.name) for f in fields(flags)}
        changed = {k: v for k, v in given.items() if v is not None and v not in ((), {})}
        for name in ("set", "tune", "grid", "engine_set"):
            changed[name] = {**getattr(self, name), **given[name]}
        if flags.engine is not None:  # another engine has other settings
            changed["engine_set"] = flags.engine_set
        if "protocol.order" in flags.set:
            changed["orders"] = flags.orders
        new = replace(self, **changed)
        return replace(
            new,
            other_learners=tuple(n for n in self.learners if n not in new.learners),
            other_protocols=tuple(n for n in self.protocols if n not in new.protocols),
            flagged=frozenset({*flags.set} - {*flags.tune}),
        )

    def parts(self) -> list[Part]:
        """The study on each of its streams.

        Raises
        ------
        UserError
            Files, protocols or learners are missing, or the study has too many cells.
        """
        for what, values in (
            ("file", self.files),
            ("protocol", self.protocols),
            ("learner", self.learners),
        ):
            if not values:
                raise UserError(f"name a {what}: on the command line or in a study file (--config)")
        streams = itertools.product(self.files, self.protocols, self.orders or (None,))
        parts = [Part(self, *stream) for stream in streams]
        if (n := sum(part.size for part in parts[:1]) * len(parts)) > MOST:
            raise UserError(f"the study has {n:,} runs or more, and the most is {MOST:,}; cut it")
        return parts


@dataclass(frozen=True)
class Part:
    """A study on one stream.

    Parameters
    ----------
    study : Study
        The study.
    files : tuple of str
        The files of the stream.
    protocol : str
        Its protocol.
    order : str or None
        Its class order; None leaves it to the settings.
    """

    study: Study
    files: tuple[str, ...]
    protocol: str
    order: str | None

    @property
    def items(self) -> list[str]:
        """The `--set` items of this stream."""
        study, items, here = self.study, [], _dashed(self.protocol)
        protocols = {*map(_dashed, (*study.protocols, *study.other_protocols))}
        for key, value in study.set.items():
            head, dot, rest = split_key(key)
            if not (dot and head in protocols):
                items.append(f"{key}={value}")
            elif head == here:
                items.append(f"protocol.{rest}={value}")
        items += [f"protocol.order={self.order}"] if self.order else []
        chosen = {"trunk": study.trunk, "weights": study.weights, "augment": study.augment}
        return items + trunk_items(study.learners, **chosen)

    @property
    def tune(self) -> list[str]:
        """The `--tune` items of the learners of the study."""
        grids = self._grids(self.study.tune)
        return [f"{n}.{k}={','.join(v)}" for n, grid in grids.items() for k, v in grid.items()]

    @property
    def size(self) -> int:
        """The number of cells, or a bit more."""
        study, grids = self.study, self._grids(self.study.grid)
        points = (math.prod(map(len, grids.get(n, {}).values())) for n in study.learners)
        return sum(points) * len(parse_seeds(study.seeds or "0")) * max(1, len(study.vary))

    def cells(
        self, more: Sequence[str] = (), *, out: object = "runs", device: str = "cpu", **how: float
    ) -> list[Cell]:
        """The cells of this stream.

        Parameters
        ----------
        more : sequence of str
            Further `--set` items; they go over all others.
        out : object
            The directory of all runs, for the commands in the records.
        device : str
            "cpu", "cuda", …
        **how : float
            `checkpoint`, see `Cell`.
        """
        study, every, grids = self.study, self._learners, self._grids(self.study.grid)
        self._check(grids)
        line = start_of_command(self.files, self.protocol, out, study.preset, study.threads or 1)
        cells = []
        for learners, point in _runs(study.learners, grids):
            cells += plan(
                self.files,
                self.protocol,
                learners,
                parse_seeds(study.seeds or "0"),
                settings=parse_settings([*self.items, *point, *more], every, study.preset),
                device=device,
                command=line,
                among=every,
                vary=study.vary,
                **how,
            )
        return list(dict.fromkeys(cells))

    def _check(self, grids: Mapping[str, object]) -> None:
        """Refuse to choose settings of a learner that has a grid: each point would need its own."""
        both = [name for name in self._grids(self.study.tune) if name in grids]
        if both:
            raise UserError(f"{both[0]} has both a grid and values to tune; give it one of them")
        if grids and self.study.budget_mb is not None:
            raise UserError("a budget goes with no grid; leave out [grid] or --budget-mb")

    @property
    def _learners(self) -> list[str]:
        """The learners of the study, and those that flags have left out."""
        return [*self.study.learners, *self.study.other_learners]

    def _grids(self, lists: Lists) -> dict[str, dict[str, list[str]]]:
        """Learner → setting → values; not of settings that `--set` gives."""
        items = [f"{key}={','.join(values)}" for key, values in lists.items()]
        flagged = self.study.flagged
        grids: dict[str, dict[str, list[str]]] = {}
        for name, grid in parse_grid(items, self._learners).items():
            kept = {k: v for k, v in grid.items() if not {k, f"{name}.{k}"} & flagged}
            if kept and name in self.study.learners:
                grids[name] = kept
        return grids


def _dashed(name: str) -> str:
    return name if ":" in name else name.replace("_", "-")


def _runs(
    learners: Sequence[str], grids: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterable[tuple[Sequence[str], list[str]]]:
    """Learners that are planned together, and the `--set` items of a point of their grid."""
    if not grids:
        return [(learners, [])]
    runs: list[tuple[Sequence[str], list[str]]] = []
    for name in learners:
        grid = grids.get(name, {})
        for values in itertools.product(*grid.values()):
            point = [f"{name}.{k}={v}" for k, v in zip(grid, values, strict=True)]
            runs.append(([name], point))
    return runs


def trunk_items(learners: Sequence[str], **options: str | None) -> list[str]:
    """`--set` items that give each learner, and the offline reference, a trunk and its training.

    Parameters
    ----------
    learners : sequence of str
        The learners of the run.
    **options : str or None
        `trunk` itself, and of its training `weights` and `augment`. None where not given.

    Raises
    ------
    UserError
        A learner has no trunk to choose.
    """
    given = {k: v for k, v in options.items() if v is not None}
    if not given:
        return []
    trained = [name for name in learners if name not in REFERENCES]
    for name in trained:
        if "trunk" not in Fields()[name]:
            raise UserError(
                f"{name} has no trunk: it takes embeddings as they are. Run it on a file of them "
                "(embedbench extract SOURCE --backbone NAME --out FILE), without --trunk"
            )
    return [
        f"{name}.{'trunk' if key == 'trunk' else f'images.{key}'}={value}"
        for name in (*trained, "offline.mlp")
        for key, value in given.items()
    ]


def share_of(cells: Sequence[Cell], shard: str | None) -> list[Cell]:
    """The cells of one shard: "3/64" has the third cell of every 64; None has all.

    Raises
    ------
    UserError
        The shard is no I/N with 1 ≤ I ≤ N.
    """
    if shard is None:
        return list(cells)
    index, slash, number = shard.partition("/")
    if not (slash and is_number(index) and is_number(number) and 1 <= int(index) <= int(number)):
        raise UserError(
            f"--shard takes I/N with I from 1 to N, such as 3/64 for the third of 64 commands; got "
            f"{short(shard)}"
        )
    return list(cells)[int(index) - 1 :: int(number)]
