"""Finished runs as data: `load_runs` gives one row a run; answers are read on demand.

docs/results_as_data.md has examples.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from embedbench.errors import UserError, printable, unknown
from embedbench.scores import record
from embedbench.scores.checked import Checker
from embedbench.scores.label_sets import AnyPredictions
from embedbench.scores.matrix import ScoreMatrix
from embedbench.scores.run_record import SCHEMA, ClassOrder, Costs, Digests, FileInfo, RunRecord
from embedbench.scores.scoring import score_matrices
from embedbench.seeds import Seeds
from embedbench.typed import ABSENT, Typed

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True)
class _Brief(Typed):
    """The parts of a record that make a row; docs/record.md describes each."""

    schema: str
    protocol: str
    protocol_params: dict[str, Any]
    learner: str
    learner_params: dict[str, Any]
    learns: bool
    seed: int
    seeds: Seeds
    files: tuple[FileInfo, ...]
    predictions_sha256: str | None = field(default=None, metadata=ABSENT)
    order: ClassOrder | None = None
    digests: Digests
    validation: str
    n_train: tuple[int, ...]
    environment: dict[str, Any]
    command: str
    seconds: Costs
    joules: Costs | None = field(default=None, metadata=ABSENT)
    footprint: dict[str, float]
    score: str
    metrics: dict[str, float]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One finished run.

    Parameters
    ----------
    place : Path
        Its directory.
    root : Path
        The directory of all runs.
    """

    place: Path
    root: Path
    _brief: _Brief

    @classmethod
    def of(cls, made: RunRecord, place: Path, root: Path) -> Run:
        """A run from its whole record."""
        run = cls(place, root, _brief(made.to_json(), str(place)))
        run.__dict__["record"] = made  # where `cached_property` looks
        return run

    @property
    def name(self) -> str:
        """Its directory, relative to that of all runs."""
        return self.place.relative_to(self.root).as_posix()

    @cached_property
    def record(self) -> RunRecord:
        """Everything in `record.json`; read when it is first used."""
        return record.load(self.place)

    def row(self) -> dict[str, Any]:
        """Settings, metrics, costs and digests by name.

        Metrics are fractions, times are seconds, sizes are bytes; NaN where undefined. Settings are
        `learner.lam`, `protocol.base`, nested ones `learner.stop.epochs`; digests `digests.train`;
        sizes `bytes.total`; times `seconds.learn`. Other names are those of docs/record.md.
        """
        b = self._brief
        row: dict[str, Any] = {
            "run": self.name,
            "root": str(self.root),
            "protocol": b.protocol,
            "learner": b.learner,
            "learns": b.learns,
            "seed": b.seed,
            "files": " ".join(f.name for f in b.files),
            "order": None if b.order is None else b.order.name or b.order.kind,
            "sessions": len(b.n_train),
            "n_train": sum(b.n_train),
            "validation": b.validation,
            "score": b.score,
            "flags": " ".join(b.flags),
            **b.metrics,
        }
        tables = {
            "seconds": vars(b.seconds),
            "joules": vars(b.joules) if b.joules else {},
            "bytes": b.footprint,
            "learner": b.learner_params,
            "protocol": b.protocol_params,
            "seeds": vars(b.seeds),
            "environment": b.environment,
            "digests": vars(b.digests) | {"predictions": b.predictions_sha256},
        }
        for name, table in tables.items():
            row |= _flat(table, f"{name}.")
        return row | {"command": b.command}

    def predictions(self) -> AnyPredictions:
        """What the learner answered.

        Raises
        ------
        UserError
            Their SHA-256 is not that of the record, or they hold what no run can have answered.
        """
        return record.predictions_of(self.place, self.record)

    def matrix(self, score: str | None = None) -> ScoreMatrix:
        """A score matrix, computed from the predictions.

        Parameters
        ----------
        score : str or None
            Such as "class_accuracy", "accuracy" or "pw_js"; None: the run's main score.

        Raises
        ------
        UserError
            The run has no such score; or as in `predictions`.
        """
        matrices = score_matrices(self.predictions(), self.record.n_train_by_class)
        name = next(iter(matrices)) if score is None else score
        if name not in matrices:
            raise unknown("score", name, matrices)
        return matrices[name]

    def per_class(self) -> Any:
        """(T, C) recall of each class after each session; NaN before the class was seen.

        Its columns are in the order of `classes`. It is computed from the predictions.
        """
        matrix = self.matrix()
        return matrix.per_class[matrix.ends]

    @property
    def classes(self) -> list[str]:
        """(C,) Names of the classes, file by file."""
        return [name for names in self.record.classes for name in names]


@dataclass(frozen=True, repr=False)
class Runs(Sequence[Run]):
    """Finished runs, sorted by their directories. A slice of them is `Runs` again."""

    _runs: tuple[Run, ...]

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Run | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return f"<{len(self)} runs>"

    def where(self, conditions: Mapping[str, Any] | None = None, /, **more: Any) -> Runs:
        """The runs whose rows have these values.

        Parameters
        ----------
        conditions : mapping or None
            Name in the row → value, or a list of values; for names with dots.
        **more : object
            The same, for names without: `learner="ewc", seed=[0, 1]`.

        Raises
        ------
        UserError
            No run has such a name.
        """
        wanted = {
            k: v if isinstance(v, list | tuple | set | range) else [v]
            for k, v in {**(conditions or {}), **more}.items()
        }
        rows = self.rows()
        for name in wanted:
            if rows and not any(name in row for row in rows):
                raise unknown("name in the rows", name, {key for row in rows for key in row})
        kept = (
            run
            for run, row in zip(self._runs, rows, strict=True)
            if all(name in row and row[name] in values for name, values in wanted.items())
        )
        return Runs(tuple(kept))

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a run, see `Run.row`."""
        return [run.row() for run in self._runs]

    def to_pandas(self) -> pandas.DataFrame:
        """One row a run; a value that a run does not have is missing.

        Raises
        ------
        UserError
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise UserError(
                "to_pandas needs pandas: pip install 'embedbench-cl[pandas]'; rows() needs nothing"
            ) from None
        return pd.DataFrame.from_records(self.rows())


def load_runs(
    *roots: str | Path,
    verify: bool = False,
    references: bool = False,
    tell: Callable[[str], None] = lambda sentence: warnings.warn(sentence, stacklevel=3),
) -> Runs:
    """Load finished runs: `load_runs("runs")`.

    Every record is read and the values of its row are checked, and nothing else: 10,000 runs take
    seconds. Predictions are compared with the SHA-256 in their record when they are read.
    Nothing that a record names is imported.

    Parameters
    ----------
    *roots : str or Path
        Directories of runs, or directories inside them.
    verify : bool
        Compute all metrics again from the predictions and compare, as `embedbench report` does.
        What is in doubt is left out.
    references : bool
        Whether to load the runs under `references`, too.
    tell : callable
        `tell(sentence)` gets one for each run that is left out; the default warns.

    Raises
    ------
    UserError
        There is no such directory, or it has no finished run.
    """
    runs: list[Run] = []
    for root in map(Path, roots):
        checker = Checker(root, tell)
        found = record.find(root, references=references)
        if not found:
            raise UserError(f"{root} has no finished run; give the --out of an earlier run")
        for place in found:
            try:
                run = (
                    Run.of(checker.record(place), place, root)
                    if verify
                    else Run(place, root, _read(place))
                )
                runs.append(run)
            except UserError as e:
                tell(printable(f"left out: {e}"))
    if not roots:
        raise UserError("load_runs takes a directory of runs, such as load_runs('runs')")
    return Runs(tuple(runs))


def _read(place: Path) -> _Brief:
    """The row's part of a record."""
    if not record.is_finished(place):
        raise UserError(f"{place} has no predictions.h5; run that cell again")
    data = record.decoded(record.read(place), place)
    return _brief(data, str(place / record.RECORD))


def _brief(data: Any, path: str) -> _Brief:
    if isinstance(data, dict) and data.get("schema") != SCHEMA:
        raise UserError(f"{path} has schema {data.get('schema')!r}, expected {SCHEMA!r}")
    return _Brief.from_json(data, path)


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield nested values by names with dots."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield sys.intern(prefix + key), value
