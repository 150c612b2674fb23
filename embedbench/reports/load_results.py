"""Finished runs as data: `load_runs` gives one row a run; answers are read on demand.

docs/results_as_data.md has examples.
"""

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.array_types import Floats
from embedbench.config.fields_added_later import EARLIER, align_versions
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError, unknown
from embedbench.scores import record_files
from embedbench.scores.run_answers import RunAnswers
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.scores.verified_records import Checker
from embedbench.text.printable_text import printable
from embedbench.text.table_export import flatten

from .data_frame import data_frame
from .results import Result, Results
from .run_rows import matching, settings_apart, streams

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Run:
    """One finished run.

    Parameters
    ----------
    place : Path
        Its directory.
    root : Path
        The directory of all runs.
    record : RunRecord
        Everything in `record.json`.
    """

    place: Path
    root: Path
    record: RunRecord

    def __repr__(self) -> str:
        """Three lines: its directory, the stream, and the final score."""
        b = self.record
        final = self.record.metrics.get(FINAL, math.nan)
        files = " ".join(f.name for f in b.files)
        return (
            f"<Run {self.name}\n {b.learner} on {b.protocol} of {files}, "
            f"{len(b.n_train)} sessions, seed {b.seed}\n {FINAL} {final:.4f} ({b.score})>"
        )

    @property
    def name(self) -> str:
        """Its directory, relative to that of all runs."""
        return self.place.relative_to(self.root).as_posix()

    def row(self) -> dict[str, Any]:
        """Settings, metrics, costs and digests by name.

        Metrics are fractions, times are seconds, sizes are bytes; NaN where undefined. They are of
        the base score `score`; the name of a base score (`accuracy`, …) is the final one by it.
        Settings are
        `learner.lam`, `protocol.base`, nested ones `learner.stop.epochs`; digests `digests.train`;
        sizes `bytes.total`; times `seconds.learn`. Other names are those of `RunRecord`.
        """
        b = self.record
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
        row |= {name: s.metrics[FINAL] for name, s in b.by_score.items() if name not in row}
        tables = {
            "seconds": vars(b.seconds),
            "bytes": b.footprint,
            "learner": b.learner_params,
            "protocol": b.protocol_params,
            "seeds": vars(b.seeds),
            "environment": b.environment,
            "digests": vars(b.digests) | {"predictions": b.predictions_sha256},
        }
        for name, table in tables.items():
            row |= {sys.intern(key): value for key, value in flatten(table, f"{name}.").items()}
        return row | {"command": b.command}

    def predictions(self) -> RunAnswers:
        """The answers of the learner.

        Raises
        ------
        UserError
            Their SHA-256 is not that of the record, or they hold what no run can have answered.
        """
        return record_files.read_predictions(self.place, self.record)

    @check_arguments
    def matrix(self, score: str | None = None) -> ScoreMatrix:
        """A score matrix, computed from the predictions; None is the run's main score.

        Raises
        ------
        UserError
            The run has no such score; or as in `predictions`.
        """
        matrices = self.predictions().score_matrices(self.record.n_train_by_class)
        name = self.record.score if score is None else score
        if name not in matrices:
            raise unknown("score", name, matrices)
        return matrices[name]

    def per_class(self) -> Floats:
        """(T, C) recall of each class after each session; NaN before the class was seen.

        Its columns are in the order of `classes`. It is computed from the predictions.
        """
        matrices = self.predictions().score_matrices(self.record.n_train_by_class)
        matrix = next(iter(matrices.values()))
        return matrix.per_class[matrix.ends]

    @property
    def classes(self) -> list[str]:
        """(C,) Names of the classes, file by file."""
        return [name for names in self.record.classes for name in names]


class Runs(list[Run]):
    """Finished runs, sorted by their directories: a list that can be narrowed by `where`."""

    def __repr__(self) -> str:
        """Three lines: how many, of which learners, on which protocols."""
        parts = [sorted({getattr(r.record, key) for r in self}) for key in ("learner", "protocol")]
        learners, protocols = (", ".join(names) or "none" for names in parts)
        return f"<{len(self)} runs\n learners: {learners}\n protocols: {protocols}>"

    @check_arguments
    def where(self, conditions: Mapping[str, Any] | None = None, /, **more: Any) -> "Runs":
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
        keep = matching(self.rows(), {**(conditions or {}), **more})
        return Runs(itertools.compress(self, keep))

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a run, see `Run.row`."""
        return [run.row() for run in self]

    def to_pandas(self) -> "pandas.DataFrame":
        """One row a run; a value that a run does not have is missing.

        Raises
        ------
        UserError
            pandas is not installed.
        """
        return data_frame(self.rows())

    def results(self) -> Results:
        """The runs as one table of results, which averages, pairs and compares them.

        A stream has the name that tells it from others, a setting what tells namesakes apart.
        """
        rows = self.rows()
        each = zip(self, rows, streams(rows), settings_apart(rows), strict=True)
        return Results(
            tuple(
                Result.of_run(run.record, run.place, stream=stream, setting=setting, values=row)
                for run, row, stream, setting in each
            )
        )


@check_arguments
def load_runs(
    *roots: str | Path,
    verify: bool = False,
    references: bool = False,
    notify: Callable[[str], None] = lambda sentence: warnings.warn(sentence, stacklevel=4),
) -> Runs:
    """Load finished runs: `load_runs("runs")`.

    Every record is read and its values are checked, and nothing else: 10,000 runs take seconds.
    Predictions are compared with the SHA-256 in their record when they are read. Nothing that a
    record names is imported.

    Parameters
    ----------
    *roots : str or Path
        Directories of runs, or directories inside them.
    verify : bool
        Compute all metrics again from the predictions and compare, as `embedbench report` does.
        What is in doubt is left out.
    references : bool
        Whether to load the runs under `references`, too.
    notify : callable
        `notify(sentence)` gets one for each run that is left out; the default warns.

    Raises
    ------
    UserError
        There is no such directory, or it has no finished run.
    """
    places: list[tuple[Path, Path]] = []
    records: list[RunRecord] = []
    for root in map(Path, roots):
        checker = Checker(root, notify)
        found = record_files.find(root, references=references)
        if not found:
            raise UserError(f"{root} has no finished run", "give the --out of an earlier run")
        for place in found:
            try:
                if not record_files.is_finished(place):
                    raise UserError(f"{place} has no predictions.h5", "make that run again")
                records.append(checker.record(place) if verify else record_files.load(place))
                places.append((place, root))
            except UserError as e:
                notify(printable(f"left out: {e}"))
    if not roots:
        raise UserError("load_runs takes a directory of runs, such as load_runs('runs')")
    each = zip(places, align_records(records), strict=True)
    return Runs(Run(place, root, record) for (place, root), record in each)


def align_records(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The records, each with all settings that any of them has of its learner and protocol.

    So runs of one learner from before and after a setting was added are one row.
    """
    result = list(records)
    for kind in ("learner", "protocol"):
        key = f"{kind}_params"
        for name in dict.fromkeys(getattr(r, kind) for r in records):
            mine = [i for i, r in enumerate(records) if getattr(r, kind) == name]
            earlier = EARLIER[kind].get(name, {})
            settings = align_versions([getattr(records[i], key) for i in mine], earlier)
            for i, aligned in zip(mine, settings, strict=True):
                changes: dict[str, Any] = {key: aligned}
                result[i] = replace(result[i], **changes)
    return result
