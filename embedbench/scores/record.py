"""Run records: one directory a cell, `record.json` beside `predictions.h5`.

The schema is described in docs/record.md. NaN is written as null, so that the file is plain JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from .scoring import score_matrices

SCHEMA = "embedbench-record/1.0"
FEW_SHOT = "fscil"  # the protocol whose records have the curves of `generalised`

Record = dict[str, Any]


def save(record: Record, directory: Path) -> None:
    """Write `record.json`, whole or not at all: it exists exactly when the cell is done."""
    text = json.dumps(to_json(record), indent=1, allow_nan=False)
    write_safely(directory / "record.json", text + "\n")


def load(directory: Path) -> Record:
    """Read the record of a finished cell."""
    path = directory / "record.json"
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise UserError(f"{directory} holds no record.json; is it the directory of a run?") from e
    except json.JSONDecodeError as e:
        raise UserError(f"{path} is not valid JSON ({e}); run that cell again") from e
    if record.get("schema") != SCHEMA:
        raise UserError(f"{path} has schema {record.get('schema')!r}, expected {SCHEMA!r}")
    return record


def find(root: Path) -> list[Path]:
    """Directories of all finished cells under `root`, sorted; references are left out."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}; give the --out of an earlier run")
    return [p for p in _finished(root) if "references" not in p.relative_to(root).parts]


def _finished(root: Path) -> Iterator[Path]:
    return iter(sorted(p.parent for p in root.rglob("record.json")))


def to_json(value: Any) -> Any:
    """Plain JSON values: arrays to lists, NaN to null, infinities to text."""
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def evaluate(record: Record, directory: Path, root: Path) -> Record:
    """A copy of the record with every score, metric and flag recomputed from predictions.

    Reference runs are looked up under `root` by the relative paths that the record names; where one
    is missing, the reference values kept in the record stand in, and `reference.source` says
    "record".
    """
    predictions = load_any(directory / "predictions.h5")
    matrices = score_matrices(predictions)
    main_score = next(iter(matrices))
    reference = _measure_references(dict(record["reference"]), root, list(matrices))
    limited = any(n is not None for n in record.get("n_candidates") or [])
    by_score = {}
    for name, matrix in matrices.items():
        by_score[name] = {
            "R": matrix.R,
            "pooled": matrix.pooled[matrix.ends],
            "metrics": metrics.compute(matrix, _reference(reference, name)),
            "curves": _curves(predictions, matrix, limited)
            | (few_shot.curves(matrix) if record.get("protocol") == FEW_SHOT else {}),
        }
    main, pooled = by_score[main_score], matrices[main_score].pooled
    scored = {
        **record,
        "score": main_score,
        "R": main["R"],
        "pooled": main["pooled"],
        "moments": {"samples_seen": predictions.samples_seen, "pooled": pooled},
        "metrics": main["metrics"],
        "curves": main["curves"],
        "by_score": by_score,
        "reference": reference,
    }
    scored["flags"] = _flags(scored, predictions, matrices[main_score])
    result: Record = to_json(scored)
    return result


def _curves(p: AnyPredictions, matrix: ScoreMatrix, limited: bool) -> dict[str, Floats]:
    """Curves over sessions of one base score; of label sets those of the main one only."""
    if isinstance(p, LabelSets):
        return multilabel.curves(p) if matrix.name == multilabel.SCORES[0] else {}
    return curves(matrix, restricted=limited or matrix.name.startswith("within_"))


def _measure_references(reference: Record, root: Path, names: list[str]) -> Record:
    """Fill in α_ideal and the chance level, per base score, from the reference runs'
    predictions."""
    listed, chance = reference["offline_runs"], reference["chance_run"]
    own = bool(listed) and isinstance(listed[0], list)  # an α_ideal for each session
    groups = listed if own else [listed]
    offline = [[root / p / "predictions.h5" for p in runs] for runs in groups]
    found = all(p.is_file() for runs in offline for p in runs) and (
        chance is None or (root / chance / "predictions.h5").is_file()
    )
    if not found:
        reference["source"] = "record" if "ideal" in reference else "missing"
        return reference
    loaded = [[_scores(p) for p in runs] for runs in offline]
    drawn = None if chance is None else _scores(root / chance / "predictions.h5")
    reference["source"] = "runs"
    reference["ideal"], reference["chance"] = {}, {}
    for name in names:
        # Kemker normalises the answer over all classes; within-session answers have no α_ideal.
        within = name.startswith("within_")
        ideals = [None if within else _ideal(runs, name) for runs in loaded]
        reference["ideal"][name] = ideals if own else ideals[0]
        level = np.full(1, np.nan)
        if drawn is not None:
            level = np.diagonal(drawn[name].R, offset=1)
        reference["chance"][name] = np.concatenate([[np.nan], level])
    result: Record = to_json(reference)
    return result


def _scores(path: Path) -> dict[str, ScoreMatrix]:
    return score_matrices(load_any(path))


def _ideal(runs: list[dict[str, ScoreMatrix]], score: str) -> float | None:
    """Mean score of offline runs; None where there is none."""
    each = [float(matrices[score].pooled[-1]) for matrices in runs]
    return float(np.mean(each)) if each else None


def _reference(reference: Record, score: str) -> Reference:
    """What the metrics of one base score compare with."""
    ideal = np.array((reference.get("ideal") or {}).get(score), dtype=np.float64)  # null is NaN
    chance = (reference.get("chance") or {}).get(score)
    return Reference(
        ideal=ideal,
        chance=None if chance is None else np.array(chance, dtype=np.float64),
        normalise_new=reference["normalise_new"],
        preset=reference["preset"],
    )


def _flags(record: Record, p: AnyPredictions, scores: ScoreMatrix) -> list[str]:
    """Words that tables print beside a run instead of averaging it quietly.

    `nan`: some scores were NaN. `chance-level`: the final score is under 1.5 times chance.
    `not-learned`: new sessions, right after they were learned, score under twice chance, so that a
    high Ω_all only says that nothing was forgotten because nothing was learned. `diverged`: a
    training loss was not finite. `test-validation`: test data could stop training. `session-id`:
    the learner was told which session every test sample is from.
    """
    flags = []
    if (p.undecided if isinstance(p, LabelSets) else p.answer < 0).any():
        flags.append("nan")
    if any(s["log"].get("stopped") == "diverged" for s in record["sessions"]):
        flags.append("diverged")
    if record["validation"] == "test":
        flags.append("test-validation")
    if record.get("session_id_at_test"):  # absent from records of before there was such a learner
        flags.append("session-id")
    if record["learns"] and isinstance(p, Predictions):  # chance of a label set has no one value
        limits = record.get("n_candidates") or [None] * len(scores.n_classes)
        most = np.array([np.inf if n is None else n for n in limits])
        # (T, E): an answer is one of the classes seen, or of the set's own candidates
        chance = 1.0 / np.minimum(scores.classes_seen[scores.ends][:, None], most)
        new = np.diagonal(scores.R)
        if len(new) > 1:
            level = np.mean(np.diagonal(chance)[1:])
            # with two classes twice chance would be all right: half way to it, then
            if np.mean(new[1:]) < min(2 * level, (1 + level) / 2):
                flags.append("not-learned")
        if scores.pooled[-1] < 1.5 * np.average(chance[-1], weights=scores.n_classes):
            flags.append("chance-level")
    return flags


def rescore(place: Path, root: Path) -> bool:
    """Recompute a record's metrics from predictions; True if anything changed."""
    before = load(place)
    after = evaluate(before, place, root)
    if after != before:
        save(after, place)
    return bool(after != before)
