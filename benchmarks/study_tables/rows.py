"""What a page of a study needs of its runs: one line a run, in a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from embedbench import load_runs
from embedbench.errors import UserError
from embedbench.storage.atomic_write import read_text, write_safely

REFERENCES = ("joint", "chance", "offline")
LEFT_OUT = ("nan", "diverged")  # as in every report


@dataclass(frozen=True)
class Row:
    """One run. Scores are fractions; NaN is undefined.

    Parameters
    ----------
    file, embedding, protocol, learner, seed : str, str, str, str, int
        What was run; `file` without its suffix.
    chosen : str
        The settings that validation data chose; empty if none was to be chosen.
    sessions : int
        Sessions of the stream.
    final_accuracy, average_incremental_accuracy, omega_all, average_forgetting : float
        Metrics.
    bytes, samples : int
        Everything that the learner held after the last session, and the stored samples among it.
    learn_seconds, evaluate_seconds : float
        Costs of the run.
    flags : str
        With spaces between.
    """

    file: str
    embedding: str
    protocol: str
    learner: str
    seed: int
    chosen: str
    sessions: int
    final_accuracy: float
    average_incremental_accuracy: float
    omega_all: float
    average_forgetting: float
    bytes: int
    samples: int
    learn_seconds: float
    evaluate_seconds: float
    flags: str

    @property
    def stream(self) -> str:
        """The name of its stream on a page."""
        layer = "" if self.embedding == "final" else f" {self.embedding}"
        return ", ".join(filter(None, [self.file + layer, self.protocol]))


def of_runs(roots: Sequence[Path]) -> list[Row]:
    """The rows of finished runs; every metric is computed again from the stored answers.

    Raises
    ------
    UserError
        One learner has two runs of one stream and seed, so that settings were mixed.
    """
    rows = []
    for run in load_runs(*roots, verify=True):
        row, tuning = run.row(), run.record.tuning or {}
        rows.append(
            Row(
                file=Path(row["files"]).stem,
                embedding=row.get("protocol.embedding", "final"),
                protocol=row["protocol"],
                learner=row["learner"],
                seed=row["seed"],
                chosen=" ".join(f"{k}={v}" for k, v in tuning.get("chosen", {}).items()),
                sessions=row["sessions"],
                **{f.name: row.get(f.name, math.nan) for f in fields(Row)[7:11]},
                bytes=int(row["bytes.total"]),
                samples=int(row.get("bytes.samples", 0)),
                learn_seconds=row["seconds.learn"],
                evaluate_seconds=row["seconds.evaluate"],
                flags=row["flags"],
            )
        )
    twice = [k for k, n in Counter((r.stream, r.learner, r.seed) for r in rows).items() if n > 1]
    if twice:
        stream, learner, seed = twice[0]
        raise UserError(
            f"{learner} has two runs of {stream} with seed {seed}: settings were mixed; give "
            "directories of one study"
        )
    return sorted(rows, key=lambda r: (r.stream, r.learner, r.seed))


def write(rows: Iterable[Row], path: Path) -> None:
    """Write rows as CSV: scores with six digits, seconds with three."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([f.name for f in fields(Row)])
    for row in rows:
        table.writerow([_text(f.name, getattr(row, f.name)) for f in fields(Row)])
    write_safely(path, text.getvalue())


def _text(name: str, value: object) -> object:
    if not isinstance(value, float):
        return value
    return f"{value:.3f}" if name.endswith("seconds") else f"{value:.6f}"


def read(path: Path) -> list[Row]:
    """The rows of a CSV file.

    Raises
    ------
    UserError
        It is no such file.
    """
    made = {"int": int, "float": float, "str": str}
    lines = csv.DictReader(read_text(path).splitlines())
    try:
        return [
            Row(**{f.name: made[str(f.type)](line[f.name]) for f in fields(Row)}) for line in lines
        ]
    except (KeyError, TypeError, ValueError) as e:
        raise UserError(
            f"{path} is no table of a study ({e}); make it with study_pages.py rows"
        ) from e
