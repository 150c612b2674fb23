"""Records of runs that never were, for tests of reports."""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from embedbench.config.json_records import plain
from embedbench.scores import record_files
from embedbench.scores.run_record import RunRecord, UnscoredRun
from embedbench.scores.verified_records import AGREES, KIND, outcome_key
from embedbench.storage import user_cache


def stub(learner: str, seed: int) -> bytes:
    """What lies in the place of the answers of a run: no two runs have the same."""
    return f"no predictions of {learner} {seed}".encode()


HEX = {"recipe": "a" * 64, "train": "b" * 64, "eval": "c" * 64, "features": "d" * 64}


def make(learner: str = "mlp", seed: int = 0, final: float = 0.8, **changes: Any) -> dict[str, Any]:
    """A record of a three-session stream whose scores follow from `final`."""
    digests = HEX | {"train": f"{seed:064x}"} | changes.pop("digests", {})
    R = [[0.9, None, None], [0.8, 0.7, None], [final, final, final]]
    metrics = {
        "omega_base": final / 0.9,
        "omega_new": 0.7,
        "omega_all": final,
        "final_accuracy": final,
        "average_accuracy": final,
        "average_forgetting": 0.9 - final,
        "fwt": None,
    }
    score = {"R": R, "pooled": [0.9, 0.75, final], "metrics": metrics}
    within = {**score, "metrics": {**metrics, "final_accuracy": (1 + final) / 2}}
    session: dict[str, Any] = {
        "learn_seconds": 2.0,
        "evaluate_seconds": 0.5,
        "footprint": {"parameters": 1_500_000, "fisher": 500_000},
        "log": {"steps": 100 + seed, "stopped": "patience"},
    }
    made = {
        "schema": record_files.SCHEMA,
        "protocol": "incremental-class",
        "protocol_params": {"base": 2},
        "learner": learner,
        "learner_params": {"units": 400, "stop": {"rule": "patience"}},
        "learns": learner != "chance",
        "seed": seed,
        "seeds": {"order": 100 + seed, "init": seed, "batches": seed, "memory": seed},
        "predictions_sha256": hashlib.sha256(stub(learner, seed)).hexdigest(),
        "files": [{"name": "toy.h5", "digests": {"content": "e" * 64, "samples": "f" * 64}}],
        "digests": digests,
        "validation": "train",
        "notes": [],
        "n_train": [300, 100, 100],
        "classes": [["a", "b", "c", "d"]],
        "reference": {
            "preset": "kemker_table",
            "normalise_new": False,
            "offline_runs": [],
            "chance_run": None,
            "source": "runs",
            "ideal": {"class_accuracy": 0.9, "accuracy": 0.9},
            "chance": {},
        },
        "environment": {"embedbench": "0", "torch": "2", "device": "cpu"},
        "command": f"embedbench run toy.h5 --out RUNS --learner {learner} --seed {seed}",
        "sessions": [copy.deepcopy(session) for _ in range(3)],
        "seconds": {"learn": 6.0, "evaluate": 1.5},
        "footprint": {**session["footprint"], "total": 2_000_000},
        "score": "class_accuracy",
        **score,
        "by_score": {
            "class_accuracy": score,
            "accuracy": score,
            "within_class_accuracy": within,
            "within_accuracy": within,
        },
        "flags": [],
    }
    made = {**copy.deepcopy(made), **changes}
    if "n_train" not in changes:
        made.setdefault("n_classes", [2, 1, 1])
    if "by_score" not in changes:  # accuracy is the main score, too
        main = {key: made[key] for key in ("R", "pooled", "metrics", "curves") if key in made}
        made["by_score"] |= {"class_accuracy": main, "accuracy": main}
    return made


def typed(learner: str = "mlp", seed: int = 0, final: float = 0.8, **changes: Any) -> RunRecord:
    """What `make` makes, as `load` returns it."""
    return RunRecord.from_json(make(learner, seed, final, **changes))


def scored(
    R: ArrayLike,
    pooled: ArrayLike,
    curves: Mapping[str, Any],
    names: Sequence[str] = ("accuracy",),
    **changes: Any,
) -> RunRecord:
    """A run whose base scores `names` are all alike; the first is the main one."""
    score = {"R": R, "pooled": pooled, "metrics": {"final_accuracy": 0.5}, "curves": curves}
    whole = make(**score, score=names[0], by_score=dict.fromkeys(names, score), **changes)
    whole["n_train"] = [1] * len(whole["pooled"])
    if "n_classes" not in changes:
        del whole["n_classes"]
    whole["sessions"] = whole["sessions"][:1] * len(whole["pooled"])
    return RunRecord.from_json(plain(whole))


def unscored(sessions: int, **changes: Any) -> UnscoredRun:
    """What a run is before it is scored: of so many sessions, without references."""
    reference = {
        "preset": "kemker_table", "normalise_new": False, "offline_runs": [], "chance_run": None,
    }  # fmt: skip
    made = make(n_train=[1] * sessions, reference=reference)
    made["sessions"] = made["sessions"][:1] * sessions
    scores = ("score", "R", "pooled", "metrics", "by_score", "flags", "predictions_sha256")
    return UnscoredRun.from_json({k: v for k, v in made.items() if k not in scores} | changes)


def keep(
    root: Path, *records: dict[str, Any], stream: str = "stream-1", row: str | None = None
) -> None:
    """Put records where a grid would."""
    for r in records:
        put(RunRecord.from_json(r), root / stream / (row or r["learner"]) / f"seed-{r['seed']}")


def put(made: RunRecord, place: Path) -> None:
    """Put one record at a place, with a stub of its predictions, as if it had been checked."""
    place.mkdir(parents=True)
    (place / "predictions.h5").write_bytes(stub(made.learner, made.seed))
    record_files.save(made, place)
    pins = [record_files.predictions_sha256(place, made), *("" for _ in made.reference.runs)]
    user_cache.save(KIND, outcome_key(record_files.read(place), *pins), AGREES)
