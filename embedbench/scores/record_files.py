"""Run records: one directory per cell with `record.json` and `predictions.h5`.

`RunRecord` describes the schema. NaN is written as null, so that the file is plain JSON. The
record names the SHA-256 of the predictions, which is compared whenever they are read.
"""

import functools
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.json_records import parse_json
from embedbench.errors import UserError
from embedbench.storage import user_cache
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.regular_files import open_regular

from . import few_shot_scores, label_set_predictions, metrics
from .label_set_predictions import load_any
from .offline_references import BEST, MISSING, References, offline_groups, reference_values
from .run_answers import RunAnswers
from .run_flags import find_flags
from .run_record import SCHEMA as SCHEMA
from .run_record import BaseScore, Moments, RunRecord, UnscoredRun
from .score_matrix import ScoreMatrix

Matrices = Mapping[str, ScoreMatrix]
RECORD, PREDICTIONS = "record.json", "predictions.h5"
FEW_SHOT = "fscil"  # the protocol whose records have the curves of `few_shot_scores`
LARGEST = 2**27  # bytes of a record


def save(record: RunRecord, directory: Path) -> None:
    """Write `record.json` completely or not at all: it exists exactly when the cell is finished."""
    text = json.dumps(record.to_json(), indent=1, allow_nan=False)
    write_safely(directory / RECORD, text + "\n")


def load(directory: Path) -> RunRecord:
    """Read the record of a finished cell."""
    return parse_record(read(directory), directory)


def read(directory: Path) -> bytes:
    """The bytes of a record."""
    path = directory / RECORD
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise UserError(f"{path} is larger than {LARGEST >> 20} MiB", "make that run again")
            return file.read()
    except OSError as e:
        raise UserError(
            f"cannot read {path} ({e.strerror}); expected the record of a run, a regular file"
        ) from e


def parse_record(data: bytes, directory: Path) -> RunRecord:
    """The record that `read` returned the bytes of."""
    path = str(directory / RECORD)
    record = RunRecord.from_json(parse_json(data, path), path)
    run = os.fsencode(directory.resolve().name.removeprefix("seed-"))
    return replace(record, run=run.decode(errors="replace"))


def find(root: Path, *, references: bool = False) -> list[Path]:
    """Directories under `root` with a record, sorted; hidden ones are unfinished work.

    Reference runs are left out unless `references`.
    """
    if os.path.isfile(root):
        raise UserError(
            f"{root} is a file, not a directory of runs",
            "`runs merge` makes one of packs, and `report --site` makes a board of them",
        )
    if not os.path.isdir(root):
        raise UserError(f"there is no directory {root}", "give the --out of an earlier run")
    result = []
    for place, folders, files in os.walk(root):
        if RECORD in files or RECORD in folders:
            result.append(Path(place))
        folders[:] = [
            name for name in folders if name[0] != "." and (references or name != "references")
        ]
    return sorted(result, key=lambda path: path.parts)


def is_finished(place: Path) -> bool:
    """Whether a directory holds a finished cell: its record and its predictions."""
    return os.path.isfile(place / RECORD) and os.path.isfile(place / PREDICTIONS)


def check_versions(directory: Path) -> None:
    """Refuse a run of which a file is of a version that cannot be read."""
    load(directory)
    label_set_predictions.check_version(directory / PREDICTIONS)


def predictions_sha256(directory: Path, made: UnscoredRun) -> str:
    """The SHA-256 of a run's predictions."""
    path = directory / PREDICTIONS
    if not os.path.isfile(path):
        raise UserError(
            f"{directory} has a record.json and no predictions.h5, which scores come from",
            "make that run again",
        )
    try:
        actual = user_cache.sha256(path)
    except OSError as e:
        raise UserError(f"cannot read {path} ({e.strerror})") from e
    expected = made.predictions_sha256
    if expected is not None and actual != expected:
        raise UserError(
            f"{path} is not the file that its record was made from: expected SHA-256 "
            f"{expected[:12]}…, got {actual[:12]}…",
            "restore it, or make that run again with --overwrite",
        )
    return actual


def read_predictions(directory: Path, made: UnscoredRun | None = None) -> RunAnswers:
    """The predictions of a run; their SHA-256 is compared with that of its record `made` first."""
    made = made or load(directory)
    with user_cache.refuse_changes(directory / PREDICTIONS):
        predictions_sha256(directory, made)
        predictions = load_any(directory / PREDICTIONS)
    check_lengths(made, predictions, directory)
    return predictions


def check_lengths(made: UnscoredRun, p: RunAnswers, directory: Path) -> None:
    """Refuse a record with a list that is not as long as its predictions say."""
    for key, values, expected in _lists(made, p):
        if isinstance(values, tuple) and len(values) != expected:
            raise UserError(
                f"{directory}: {key} has {len(values)} values, predictions.h5 has {expected}",
                "make that run again with --overwrite",
            )


def _lists(made: UnscoredRun, p: RunAnswers) -> Iterator[tuple[str, Any, int]]:
    """Yield the lists of a record by key, and the lengths that they must have."""
    kept = made.reference
    sessions = int(p.session[-1]) + 1
    yield "n_train", made.n_train, sessions
    if not p.OWN_SETS:
        yield "n_candidates", made.n_candidates, p.n_sets
    yield "n_train_by_class", made.n_train_by_class, p.seen.shape[1]
    each = sessions if kept.so_far else p.n_sets
    if any(isinstance(runs, tuple) for runs in kept.offline_runs):
        yield "reference.offline_runs", kept.offline_runs, each
    for name, ideal in (kept.ideal or {}).items():
        yield f"reference.ideal.{name}", ideal, each
    for name, chance in (kept.chance or {}).items():
        if kept.chance_run is not None:  # or else it is undefined
            yield f"reference.chance.{name}", chance, min(sessions + 1, p.n_sets)


def evaluate(made: UnscoredRun, directory: Path, root: Path) -> RunRecord:
    """`score_answers` of a run that lies in a directory; its predictions are checked first."""
    return score_answers(made, read_predictions(directory, made), root, directory)


def score_answers(made: UnscoredRun, predictions: RunAnswers, root: Path, place: Path) -> RunRecord:
    """Return a record with every score, metric and flag computed from predictions.

    The record names its reference runs by paths relative to `root`. If one is missing or damaged,
    the reference values in the record are used, and `reference.source` is "record", or "missing"
    without such values. `place` is where the run lies, or will lie: a chance run refers to itself.
    """
    matrices = predictions.score_matrices(made.n_train_by_class)
    itself = {place.resolve(): matrices}
    reference = _measure_references(made.reference, root, list(matrices), itself)
    described: dict[str, Any] = {f.name: getattr(made, f.name) for f in fields(UnscoredRun)}
    described["reference"] = reference
    measured = UnscoredRun(**described)
    by_score = {name: base_score(measured, predictions, m) for name, m in matrices.items()}
    main_score = next(iter(by_score))
    main = by_score[main_score]
    pooled = matrices[main_score].pooled
    seen = predictions.samples_seen
    return RunRecord(
        **described,
        R=main.R,
        pooled=main.pooled,
        metrics=main.metrics,
        curves=main.curves,
        score=main_score,
        moments=Moments(tuple(seen.tolist()), _row(pooled)),
        by_score=by_score,
        flags=tuple(find_flags(made, predictions, matrices[main_score])),
    )


def base_score(made: UnscoredRun, p: RunAnswers, matrix: ScoreMatrix) -> BaseScore:
    """One base score of a run, by the reference values in its record."""
    limited = any(n is not None for n in made.n_candidates or ())
    values = p.curves(matrix, limited=limited)
    if made.protocol == FEW_SHOT:
        values |= few_shot_scores.curves_from_accuracies(matrix.R, matrix.n_classes, matrix.sizes)
    return BaseScore(
        R=tuple(map(_row, matrix.R)),
        pooled=_row(matrix.pooled[matrix.ends]),
        metrics=metrics.compute(matrix, reference_values(made.reference, matrix.name)),
        curves={name: _row(curve) for name, curve in values.items()},
    )


def earlier_curves(
    p: RunAnswers, class_sizes: Sequence[int] | None
) -> dict[tuple[str, ...], tuple[float, ...]]:
    """The curves that few-shot records before 2026-11-29 have otherwise, by the path of their keys.

    Novel accuracy and hAcc weighed each session alike, and aAcc each class, also per sample.
    """
    result: dict[tuple[str, ...], tuple[float, ...]] = {}
    for name, matrix in p.score_matrices(class_sizes).items():
        curves = {
            "aacc": few_shot_scores.aacc(matrix.R, matrix.n_classes),
            "novel_accuracy": few_shot_scores.novel_accuracy(matrix.R),
            "hacc": few_shot_scores.hacc(matrix.R),
        }
        paths = [("by_score", name)] if result else [(), ("by_score", name)]
        for key, curve in curves.items():
            result |= {(*path, "curves", key): _row(curve) for path in paths}
    return result


def _row(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def are_finished(reference: References, root: Path) -> bool:
    """Whether all reference runs are finished."""
    return all(is_finished(root / run) for run in reference.runs)


def _measure_references(
    reference: References, root: Path, names: list[str], known: Mapping[Path, Matrices]
) -> References:
    """α_ideal and the chance level of each base score, from their runs or else the record.

    The scores of runs in `known` directories need no reading.
    """

    def matrices(run: str) -> Matrices:
        place = (root / run).resolve()
        if place in known:
            return known[place]
        return _reference_scores(place / PREDICTIONS, predictions_sha256(place, load(place)))

    unmeasured = replace(reference, source=MISSING if reference.ideal is None else "record")
    if not all(
        (root / run).resolve() in known or is_finished(root / run) for run in reference.runs
    ):
        return unmeasured
    groups, each = offline_groups(reference)
    try:
        offline = [[matrices(run) for run in runs] for runs in groups]
        drawn = None if reference.chance_run is None else matrices(reference.chance_run)
    except UserError:  # one is damaged: not finished, and named where it is read itself
        return unmeasured
    ideal: dict[str, float | tuple[float, ...]] = {}
    chance = {}
    for name in names:
        # Kemker et al. normalise answers over all classes; within-session answers have no α_ideal.
        within = name.startswith("within_")
        finals = [[float(run[name].pooled[-1]) for run in runs] for runs in offline]
        ideals = tuple(np.nan if within or not f else float(np.mean(f)) for f in finals)
        ideal[name] = ideals if each else ideals[0]
        level = np.full(1, np.nan) if drawn is None else np.diagonal(drawn[name].R, offset=1)
        chance[name] = (np.nan, *level.tolist())
    chosen = _chosen(root, groups) if reference.learner == BEST else None
    return replace(reference, source="runs", ideal=ideal, chance=chance, chosen=chosen)


def _chosen(root: Path, groups: Sequence[tuple[str, ...]]) -> str | None:
    """The learners that validation chose in the runs behind α_ideal, each once; None if none."""
    names = []
    for run in itertools.chain(*groups):
        for session in load(root / run).sessions:
            if isinstance(session.log.get("learner"), str):
                names.append(session.log["learner"])
    return ", ".join(dict.fromkeys(names)) or None


@functools.lru_cache(maxsize=16)
def _reference_scores(path: Path, sha256: str) -> Matrices:
    """Scores of a reference run, which many runs have."""
    with user_cache.refuse_changes(path):
        if user_cache.sha256(path) != sha256:
            raise UserError(f"{path} changed while it was read", "run the command again")
        return load_any(path).score_matrices()
