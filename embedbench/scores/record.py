"""Run records: one directory per cell with `record.json` and `predictions.h5`.

docs/record.md describes the schema. NaN is written as null, so that the file is plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from embedbench.arrays import Floats
from embedbench.disk import write_safely
from embedbench.errors import UserError

from . import few_shot, metrics, multilabel
from .label_sets import AnyPredictions, LabelSets, load_any
from .matrix import ScoreMatrix
from .metrics import Reference
from .predictions import Predictions
from .rescaled import curves
from .run_record import SCHEMA as SCHEMA
from .run_record import Moments, References, RunRecord, Scored, Unscored
from .scoring import score_matrices

FEW_SHOT = "fscil"  # the protocol whose records have the curves of `few_shot`
RunPaths = tuple[str, ...]


def save(record: RunRecord, directory: Path) -> None:
    """Write `record.json` completely or not at all: it exists exactly when the cell is finished."""
    text = json.dumps(record.to_json(), indent=1, allow_nan=False)
    write_safely(directory / "record.json", text + "\n")


def load(directory: Path) -> RunRecord:
    """Read the record of a finished cell.

    Raises
    ------
    UserError
        There is no record, or it does not have the form of docs/record.md.
    """
    path = directory / "record.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise UserError(f"{directory} holds no record.json; is it the directory of a run?") from e
    except (ValueError, RecursionError) as e:  # text that is not UTF-8, too
        raise UserError(f"{path} is not valid JSON ({e}); run that cell again") from e
    except OSError as e:
        raise UserError(f"cannot read {path} ({e.strerror})") from e
    record = RunRecord.from_json(data, str(path))
    return replace(record, run=directory.resolve().name.removeprefix("seed-"))


def find(root: Path) -> list[Path]:
    """Directories of all finished cells under `root`, sorted; reference runs are left out."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}; give the --out of an earlier run")
    return [p for p in _finished(root) if "references" not in p.relative_to(root).parts]


def _finished(root: Path) -> Iterator[Path]:
    return iter(sorted(p.parent for p in root.rglob("record.json")))


def evaluate(made: Unscored, directory: Path, root: Path) -> RunRecord:
    """Return a record with every score, metric and flag computed from its predictions.

    Parameters
    ----------
    made : Unscored
        A record, scored or not.
    directory : Path
        Where `predictions.h5` lies.
    root : Path
        The record names its reference runs by paths relative to this directory. If a run is
        missing, the reference values in the record are used, and `reference.source` is "record".
    """
    predictions = load_any(directory / "predictions.h5")
    matrices = score_matrices(predictions)
    reference = _measure_references(made.reference, root, list(matrices))
    limited = any(n is not None for n in made.n_candidates or ())
    by_score = {}
    for name, matrix in matrices.items():
        values = _curves(predictions, matrix, limited)
        if made.protocol == FEW_SHOT:
            values |= few_shot.curves(matrix)
        by_score[name] = Scored(
            R=_rows(matrix.R),
            pooled=_row(matrix.pooled[matrix.ends]),
            metrics=metrics.compute(matrix, _reference(reference, name)),
            curves={name: _row(curve) for name, curve in values.items()},
        )
    main_score, main = next(iter(by_score.items()))
    pooled, seen = matrices[main_score].pooled, predictions.samples_seen
    described = {f.name: getattr(made, f.name) for f in fields(Unscored)}
    return RunRecord(
        **{**described, "reference": reference},
        score=main_score,
        R=main.R,
        pooled=main.pooled,
        moments=Moments(tuple(seen.tolist()), _row(pooled)),
        metrics=main.metrics,
        curves=main.curves,
        by_score=by_score,
        flags=tuple(_flags(made, predictions, matrices[main_score])),
    )


def _row(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _rows(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))


def _curves(p: AnyPredictions, matrix: ScoreMatrix, limited: bool) -> dict[str, Floats]:
    """Curves over sessions of one base score; for label sets only those of the main score."""
    if isinstance(p, LabelSets):
        return multilabel.curves(p) if matrix.name == multilabel.SCORES[0] else {}
    return curves(matrix, restricted=limited or matrix.name.startswith("within_"))


def _measure_references(reference: References, root: Path, names: list[str]) -> References:
    """Fill in α_ideal and the chance level of each base score from the reference runs."""
    groups, each = _offline_groups(reference)
    offline = [[root / p / "predictions.h5" for p in runs] for runs in groups]
    chance_run = None if reference.chance_run is None else root / reference.chance_run
    needed = [p for runs in offline for p in runs]
    needed += [] if chance_run is None else [chance_run / "predictions.h5"]
    if not all(p.is_file() for p in needed):
        return replace(reference, source="missing" if reference.ideal is None else "record")
    loaded = [[_scores(p) for p in runs] for runs in offline]
    drawn = None if chance_run is None else _scores(chance_run / "predictions.h5")
    ideal: dict[str, float | tuple[float, ...]] = {}
    chance = {}
    for name in names:
        # Kemker et al. normalise answers over all classes; within-session answers have no α_ideal.
        within = name.startswith("within_")
        ideals = tuple(np.nan if within else _ideal(runs, name) for runs in loaded)
        ideal[name] = ideals if each else ideals[0]
        level = np.full(1, np.nan) if drawn is None else np.diagonal(drawn[name].R, offset=1)
        chance[name] = (np.nan, *level.tolist())
    return replace(reference, source="runs", ideal=ideal, chance=chance)


def _offline_groups(reference: References) -> tuple[list[RunPaths], bool]:
    """Return the offline runs behind each α_ideal, and whether every session has its own."""
    groups = [runs for runs in reference.offline_runs if isinstance(runs, tuple)]
    if groups:
        return groups, True
    return [tuple(run for run in reference.offline_runs if isinstance(run, str))], False


def _scores(path: Path) -> dict[str, ScoreMatrix]:
    return score_matrices(load_any(path))


def _ideal(runs: list[dict[str, ScoreMatrix]], score: str) -> float:
    """Return the mean score of offline runs; NaN if there are none."""
    each = [float(matrices[score].pooled[-1]) for matrices in runs]
    return float(np.mean(each)) if each else float("nan")


def _reference(reference: References, score: str) -> Reference:
    """Return the reference values for the metrics of one base score."""
    ideal = np.array((reference.ideal or {}).get(score, np.nan), dtype=np.float64)
    chance = (reference.chance or {}).get(score)
    return Reference(
        ideal=ideal,
        chance=None if chance is None else np.array(chance, dtype=np.float64),
        normalise_new=reference.normalise_new,
        preset=reference.preset,
    )


def _flags(record: Unscored, p: AnyPredictions, scores: ScoreMatrix) -> list[str]:
    """Words that mark a run in tables, so that a problem is not averaged away unseen.

    `nan`: some scores were NaN. `chance-level`: the final score is under 1.5 times chance.
    `not-learned`: right after they were learned, new sessions score under twice chance, so a high
    Ω_all only means that there was nothing to forget. `diverged`: a training loss was not finite.
    `test-validation`: test data could stop training. `session-id`: the learner got the session of
    every test sample.
    """
    flags = []
    if (p.undecided if isinstance(p, LabelSets) else p.answer < 0).any():
        flags.append("nan")
    if any(s.log.get("stopped") == "diverged" for s in record.sessions):
        flags.append("diverged")
    if record.validation == "test":
        flags.append("test-validation")
    if record.session_id_at_test:
        flags.append("session-id")
    if record.learns and isinstance(p, Predictions):  # label sets have no single chance level
        limits = record.n_candidates or [None] * len(scores.n_classes)
        most = np.array([np.inf if n is None else n for n in limits])
        # (T, E): candidates are the classes seen, or those of the eval set
        chance = 1.0 / np.minimum(scores.classes_seen[scores.ends][:, None], most)
        new = np.diagonal(scores.R)
        if len(new) > 1:
            level = np.mean(np.diagonal(chance)[1:])
            # for two classes, twice chance is 1: take the middle between chance and 1
            if np.mean(new[1:]) < min(2 * level, (1 + level) / 2):
                flags.append("not-learned")
        if scores.pooled[-1] < 1.5 * np.average(chance[-1], weights=scores.n_classes):
            flags.append("chance-level")
    return flags


def rescore(place: Path, root: Path) -> bool:
    """Recompute a record's metrics from the predictions; True if anything changed."""
    before = load(place)
    after = evaluate(before, place, root)
    changed = after.to_json() != before.to_json()
    if changed:
        save(after, place)
    return changed
