"""Recompute record.json from predictions.h5, with h5py and NumPy alone: standalone_score.py RUN."""

import json
import sys

import h5py
import numpy as np

RUN = sys.argv[1]
with open(f"{RUN}/record.json", encoding="utf-8") as text, h5py.File(f"{RUN}/predictions.h5") as h5:
    record, p = json.load(text), {name: h5[name][()] for name in h5}
ends = np.flatnonzero(np.append(np.diff(p["session"]) > 0, True))  # last moment of each session
reference, T, E = record["reference"], len(ends), len(p["set_classes"])
for name, kept in record["by_score"].items():
    within, R, alpha = name.startswith("within_"), np.full((T, E), np.nan), np.zeros(len(p["seen"]))
    recall = np.full((T, p["seen"].shape[1]), np.nan)
    small = np.array(record.get("n_train_by_class") or np.nan) < 20
    for m, i in enumerate(p["session"]):  # a session's last moment is what stays in R
        right = p["within" if within else "answer"][m] == p["y"]
        known = [within or (p["seen"][m] >= s).all() for s in p["set_classes"]]
        parts = [(p["eval_set"] == j, R[i, j : j + 1]) for j in range(E) if known[j]]
        for part, place in [*parts, (p["eval_set"] <= i, alpha[m : m + 1])]:
            names, which, counts = np.unique(p["y"][part], return_inverse=True, return_counts=True)
            by_class = np.bincount(which, right[part]) / counts
            score = by_class if name.endswith("class_accuracy") else right[part]
            place[0] = score.mean() if part.any() else np.nan
        recall[i, names] = np.where(p["seen"][m][names], by_class, np.nan)  # the last part: alpha
    anytime, alpha = np.average(alpha, weights=np.diff(p["samples_seen"], prepend=0)), alpha[ends]
    ideal, chance = (np.array(reference[k][name], dtype=float) for k in ("ideal", "chance"))
    so_far = ideal if reference.get("so_far") else np.full(T, np.nan)  # (T,)
    ideal = ideal[-1] if reference.get("so_far") else ideal
    there = np.bincount(p["eval_set"], minlength=E) > 0  # the others test nothing
    ideals = np.broadcast_to(np.where(ideal > 0, ideal, np.nan), E)  # one for all, or one a set
    by = ideals[1:T] if reference["normalise_new"] and reference["preset"] == "kemker_table" else 1
    new, before = np.diagonal(R), np.diagonal(R, 1)
    drops = [R[j:-1, j].max() - R[-1, j] for j in range(T - 1) if there[j]]
    own = [np.mean(R[i, : i + 1] / ideals[: i + 1]) for i in range(1, T)]
    parts = {"omega_base": R[1:, 0] / ideals[0], "omega_new": (new[1:] / by)[there[1:T]]}
    parts |= {"omega_all": own if ideal.ndim else alpha[1:] / ideals[0]}
    parts |= {"average_accuracy": R[-1, there], "omega_streaming": alpha / so_far}
    parts |= {"average_incremental_accuracy": alpha, "final_accuracy": alpha[-1:]}
    old, few = ~np.isnan(recall[:-1]).all(0), ~np.isnan(recall[-1]) & small
    lost = np.fmax.reduce(recall[:-1, old], initial=-1) - recall[-1, old]
    parts |= {"per_class_forgetting": lost, "learning_accuracy": new[there[:T]]}
    parts |= {"worst_class_accuracy": [np.nanmin(recall[-1])], "few_shot_accuracy": recall[-1, few]}
    parts |= {"average_forgetting": drops, "bwt": (R[-1] - new)[:-1][there[:-1]]}
    gain = before - chance[1 : len(before) + 1]
    parts |= {"fwt": gain[there[1 : len(gain) + 1]], "average_anytime_accuracy": [anytime]}
    found = {key: np.mean(values) if len(values) else np.nan for key, values in parts.items()}
    for key, value in [("R", R), ("pooled", alpha), *found.items()]:
        stored = kept[key] if key in kept else kept["metrics"][key]
        if not np.array_equal(np.array(stored, dtype=float), value, equal_nan=True):
            sys.exit(f"{name}: {key} is {stored} in record.json, {value} from predictions.h5")
