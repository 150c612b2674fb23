"""From a study to its cells: a part a stream, in it a cell a learner, grid point and seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from embedbench.config.seeds import parse_seeds
from embedbench.errors import UserError
from embedbench.runs.run_spec import RunSpec

from .set_options import Fields, parse_settings, plan
from .single_run_command import REFERENCES, split_key, start_of_command
from .study import Lists, Study, Table
from .tuning import parse_grid

MOST = 100_000  # runs of a study
Grid = dict[str, tuple[str, ...]]  # setting → values


@dataclass(frozen=True)
class StudyPart:
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
    point : dict of str to str
        Settings of the protocol: a point of the grid.
    """

    study: Study
    files: tuple[str, ...]
    protocol: str
    order: str | None
    point: Table = field(default_factory=dict)

    @property
    def items(self) -> list[str]:
        """The `--set` items of this stream."""
        study, items = self.study, []
        for key, value in (study.set | self.point).items():
            name = _protocol_of(key, study)
            if name is None:
                items.append(f"{key}={value}")
            elif name in ("protocol", _dashed(self.protocol)):
                items.append(f"protocol.{split_key(key)[2]}={value}")
        items += [f"protocol.order={self.order}"] if self.order else []
        chosen = {"trunk": study.trunk, "weights": study.weights, "augment": study.augment}
        return items + trunk_items(study.learners, **chosen)

    @property
    def tune(self) -> list[str]:
        """The `--tune` items of the learners of the study."""
        return [f"{k}={','.join(v)}" for k, v in _flat(grids(self.study, self.study.tune)).items()]

    def cells(
        self, more: Sequence[str] = (), *, out: object = "runs", device: str = "cpu", **how: float
    ) -> list[RunSpec]:
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
            `checkpoint`, see `RunSpec`.
        """
        study = self.study
        every = [*study.learners, *study.other_learners]
        line = start_of_command(self.files, self.protocol, out, study.preset, study.threads or 1)
        cells = []
        for learners, point in _runs(study):
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


def parts(study: Study) -> list[StudyPart]:
    """A study on each of its streams.

    Raises
    ------
    UserError
        Files, protocols or learners are missing, the study has too many runs, or a learner has both
        a grid and values to tune.
    """
    for what, named in (
        ("file", study.files),
        ("protocol", study.protocols),
        ("learner", study.learners),
    ):
        if not named:
            raise UserError(f"name a {what}: on the command line or in a study file (--config)")
    made, each = [], _size(study)
    streams = itertools.product(study.files, study.protocols, study.orders or (None,))
    for files, protocol, order in streams:
        for point in _points(_protocol_grid(study, protocol)):
            made.append(StudyPart(study, files, protocol, order, point))
            if each * len(made) > MOST:
                raise UserError(f"the study has more than {MOST:,} runs; cut it into several")
    return made


def alone(study: Study) -> Study:
    """The same study without settings that only name what flags have left out."""
    have, gone = Fields(), {*study.other_learners, *map(_dashed, study.other_protocols)}
    kept = {}
    for key, value in study.set.items():
        head = split_key(key)[0]
        every = (*study.learners, *study.other_learners)
        which = [n for n in every if head.replace("-", "_") in have[n]]
        if head not in gone and not (which and {*which} <= gone):
            kept[key] = value
    grid = _flat(grids(study, study.grid))
    for protocol in study.protocols:
        grid |= _protocol_grid(study, protocol)
    return replace(study, set=kept, tune=_flat(grids(study, study.tune)), grid=grid)


def grids(study: Study, lists: Lists) -> dict[str, Grid]:
    """Learner → setting → values of a study's `tune` or `grid`; not of what `--set` gives."""
    mine = {k: v for k, v in lists.items() if _protocol_of(k, study) is None}
    every = [*study.learners, *study.other_learners]
    result: dict[str, Grid] = {}
    for name, grid in parse_grid([f"{k}={','.join(v)}" for k, v in mine.items()], every).items():
        kept = {k: tuple(v) for k, v in grid.items() if not {k, f"{name}.{k}"} & study.flagged}
        if kept and name in study.learners:
            result[name] = kept
    return result


def _flat(by_learner: Mapping[str, Grid]) -> Lists:
    return {f"{name}.{k}": v for name, grid in by_learner.items() for k, v in grid.items()}


def _protocol_of(key: str, study: Study) -> str | None:
    """The protocol that a setting names, or `protocol` for any; None: it is a learner's."""
    head, dot, _ = split_key(key)
    names = ("protocol", *map(_dashed, study.protocols + study.other_protocols))
    return head if dot and head in names else None


def _protocol_grid(study: Study, protocol: str) -> Lists:
    """The grid over a protocol's settings; not over what `--set` gives."""
    names = ("protocol", _dashed(protocol))
    grid = {k: v for k, v in study.grid.items() if _protocol_of(k, study) in names}
    return {k: v for k, v in grid.items() if not {k, f"protocol.{split_key(k)[2]}"} & study.flagged}


def _points(grid: Mapping[str, Sequence[str]]) -> Iterator[Table]:
    """Yield every combination of the values; one without values for an empty grid."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _size(study: Study) -> int:
    """The number of runs on one stream, or a bit more."""
    by_learner = grids(study, study.grid)
    points = (math.prod(map(len, by_learner.get(n, {}).values())) for n in study.learners)
    return sum(points) * len(parse_seeds(study.seeds or "0")) * max(1, len(study.vary))


def _runs(study: Study) -> Iterator[tuple[Sequence[str], list[str]]]:
    """Yield learners that are planned together, and the `--set` items of a point of their grid."""
    by_learner = grids(study, study.grid)
    both = [name for name in grids(study, study.tune) if name in by_learner]
    if both:  # each point would need its own search
        raise UserError(f"{both[0]} has both a grid and values to tune; give it one of them")
    if by_learner and study.budget_mb is not None:
        raise UserError("a budget goes with no grid; leave out [grid] or --budget-mb")
    if not by_learner:
        yield study.learners, []
        return
    for name in study.learners:
        for point in _points(by_learner.get(name, {})):
            yield [name], [f"{name}.{key}={value}" for key, value in point.items()]


def _dashed(name: str) -> str:
    """A name as `split_key` gives it."""
    return name if ":" in name else name.replace("_", "-")


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
