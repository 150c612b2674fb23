"""A small directory of finished runs with real predictions: one learner, its two references."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from report_records import unscored
from toy import random_predictions

from embedbench.scores import record_files
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import RunRecord
from embedbench.storage import user_cache

STREAM = "stream-1"
OFFLINE, CHANCE = "references/offline-1/seed-0", f"{STREAM}/chance-1/seed-0"
MLP = f"{STREAM}/mlp-1/seed-0"
REFERENCE = {
    "preset": "kemker_table", "normalise_new": False,
    "offline_runs": [OFFLINE], "chance_run": CHANCE,
}  # fmt: skip


def write_run(root: Path, name: str, p: Predictions, **changes: Any) -> RunRecord:
    """Save a run with the record that its predictions give."""
    place = root / name
    place.mkdir(parents=True)
    p.save(place / "predictions.h5")
    pin = user_cache.sha256(place / "predictions.h5")
    made = unscored(int(p.session[-1]) + 1, predictions_sha256=pin, **changes)
    record_files.save(record_files.evaluate(made, place, root), place)
    return record_files.load(place)


def answers(seed: int) -> Predictions:
    """Random answers, none of them -1."""
    p = random_predictions(seed)
    first = p.seen.argmax(axis=1)[:, None].astype(np.int32)
    return replace(
        p,
        answer=np.where(p.answer < 0, first, p.answer),
        within=np.where(p.within < 0, p.y, p.within).astype(np.int32),
    )


def merged(p: Predictions) -> Predictions:
    """What an offline learner could have answered: one moment, one set."""
    return replace(
        p,
        eval_set=np.zeros_like(p.eval_set),
        set_classes=p.set_classes.any(axis=0, keepdims=True),
        session=p.session[:1],
        samples_seen=p.samples_seen[-1:],
        seen=p.seen[-1:],
        answer=p.answer[-1:],
        within=p.answer[-1:],
    )


def write_references(root: Path) -> None:
    """The references of `write_runs`."""
    p = answers(1)
    write_run(root, OFFLINE, merged(p), learner="offline")
    write_run(root, CHANCE, answers(1), learner="chance", learns=False)


def write_runs(root: Path, *, references: bool = True) -> Path:
    """Two seeds of a learner with their references; return the first one's directory."""
    if references:
        write_references(root)
    for seed in (0, 1):
        seeds = {"order": 7, "init": seed, "batches": seed, "memory": seed}
        how = {"reference": REFERENCE, "seed": seed, "seeds": seeds}
        write_run(root, f"{STREAM}/mlp-1/seed-{seed}", answers(1), **how)
    return root / MLP


def edit(place: Path, *keys: Any, value: Any) -> None:
    """Set one value of a record; `...` removes it."""
    path = place / "record.json"
    data = json.loads(path.read_text())
    at = data
    for key in keys[:-1]:
        at = at[key]
    if value is ...:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    path.write_text(json.dumps(data, indent=1) + "\n")
