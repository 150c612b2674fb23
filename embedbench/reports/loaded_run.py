"""One finished run as data: its row, and on demand its answers and scores."""

import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from embedbench.array_types import Floats
from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, unknown
from embedbench.scores import record_files, run_record
from embedbench.scores.label_set_predictions import AnyPredictions
from embedbench.scores.make_score_matrices import score_matrices
from embedbench.scores.score_matrix import ScoreMatrix


@dataclass(frozen=True, kw_only=True)
class _Brief(JsonRecord):
    """The parts of a record that make a row, as `RunRecord` has them."""

    schema: str
    protocol: str
    protocol_params: dict[str, Any]
    learner: str
    learner_params: dict[str, Any]
    learns: bool
    seed: int
    seeds: Seeds
    files: tuple[run_record.FileInfo, ...]
    predictions_sha256: str | None = field(default=None, metadata=ABSENT)
    order: run_record.ClassOrder | None = None
    digests: run_record.Digests
    validation: str
    n_train: tuple[int, ...]
    environment: dict[str, Any]
    command: str
    seconds: run_record.Costs
    joules: run_record.Costs | None = field(default=None, metadata=ABSENT)
    footprint: dict[str, float]
    score: str
    metrics: dict[str, float]
    flags: tuple[str, ...]


@dataclass(frozen=True, repr=False)
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
    def of(cls, made: run_record.RunRecord, place: Path, root: Path) -> "Run":
        """A run from its whole record."""
        run = cls(place, root, _Brief(**{f.name: getattr(made, f.name) for f in fields(_Brief)}))
        run.__dict__["record"] = made  # where `cached_property` looks
        return run

    @classmethod
    def read(cls, place: Path, root: Path) -> "Run":
        """A run from the row's part of its record; the rest is not checked.

        Raises
        ------
        UserError
            That part cannot be read, or there are no predictions.
        """
        data = record_files.decode_json(record_files.read(place), place)
        if not os.path.isfile(place / record_files.PREDICTIONS):
            raise UserError(f"{place} has no predictions.h5; make that run again")
        path = str(place / record_files.RECORD)
        if isinstance(data, dict) and data.get("schema") != run_record.SCHEMA:
            raise UserError(
                f"{path} has schema {data.get('schema')!r}, expected {run_record.SCHEMA!r}"
            )
        return cls(place, root, _Brief.from_json(data, path))

    def __repr__(self) -> str:
        """Three lines: its directory, the stream, and the final score."""
        b, final = self._brief, self._brief.metrics.get(run_record.FINAL, math.nan)
        files = " ".join(f.name for f in b.files)
        return (
            f"<Run {self.name}\n {b.learner} on {b.protocol} of {files}, "
            f"{len(b.n_train)} sessions, seed {b.seed}\n"
            f" {run_record.FINAL} {final:.4f} ({b.score})>"
        )

    @property
    def name(self) -> str:
        """Its directory, relative to that of all runs."""
        return self.place.relative_to(self.root).as_posix()

    @cached_property
    def record(self) -> run_record.RunRecord:
        """Everything in `record.json`; read when it is first used."""
        return record_files.load(self.place)

    def row(self) -> dict[str, Any]:
        """Settings, metrics, costs and digests by name.

        Metrics are fractions, times are seconds, sizes are bytes; NaN where undefined. Settings are
        `learner.lam`, `protocol.base`, nested ones `learner.stop.epochs`; digests `digests.train`;
        sizes `bytes.total`; times `seconds.learn`. Other names are those of `RunRecord`.
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
        }
        row |= {name: value for name, value in b.metrics.items() if name not in row}
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
        """The answers of the learner.

        Raises
        ------
        UserError
            Their SHA-256 is not that of the record, or they hold what no run can have answered.
        """
        return record_files.read_predictions(self.place, self.record)

    def matrix(self, score: str | None = None) -> ScoreMatrix:
        """A score matrix, computed from the predictions; None is the run's main score.

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

    def per_class(self) -> Floats:
        """(T, C) recall of each class after each session; NaN before the class was seen.

        Its columns are in the order of `classes`. It is computed from the predictions.
        """
        matrix = self.matrix()
        return matrix.per_class[matrix.ends]

    @property
    def classes(self) -> list[str]:
        """(C,) Names of the classes, file by file."""
        return [name for names in self.record.classes for name in names]


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield nested values by names with dots."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield sys.intern(prefix + key), value
