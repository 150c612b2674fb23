"""How often tuning makes a learner worse: each rule chooses on validation data, fresh seeds judge.

python benchmarks/tuned_vs_default.py FILE --sessions 5 [--learners slda,knn] [--add scores.json]

Of every value of a grid, and of the default: the validation score of the first three sessions for
each of nine seeds, and the final test accuracy of five others. The rule of one seed takes the best
value of the grid, so a learner has nine choices; the rule of `run --tune`, on three seeds each, has
three. A choice is worse where the mean over the five test seeds is more than .05 points below the
default's. `--add` keeps the scores in a file, and tells of all that it holds.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.make_score_matrices import main_matrix
from embedbench.studies.resolve import resolve
from embedbench.studies.set_options import parse_settings
from embedbench.studies.study import Study
from embedbench.studies.tuning import trial_score
from embedbench.studies.tuning_choice import choose

DEFAULT, TUNING, TESTING = "default", range(100, 109), range(5)
GRIDS = {
    "slda": ("shrinkage", ["1e-4", "1e-2", "0.1", "0.5"]),
    "knn": ("k", ["1", "3", "5", "15", "45"]),
    "fecam": ("gamma1", ["0.1", "1", "10", "100"]),
    "naive-bayes": ("shrinkage", ["1e-3", "1e-2", "0.1", "0.5"]),
    "er": ("lr", ["0.005", "0.05", "0.5"]),
    "acil": ("lam", ["1e-3", "1", "10", "100", "1000"]),
    "gdumb": ("lr", ["5e-3", "0.05", "0.1"]),
}
Scores = dict[str, float]  # "value|seed"


def score_values(path: str, sessions: int, learner: str) -> Scores:
    """The validation and test scores of every value of a learner's grid."""
    name, values = GRIDS[learner]
    settings = parse_settings([f"protocol.sessions={sessions}", "protocol.order=random"])
    study = Study(
        files=((path,),),
        protocols=("incremental-class",),
        learners=(learner,),
        seeds=(0,),
        set=settings,
    )
    (spec,) = resolve(study)
    streams, scores = StreamCache(), Scores()
    for seed in (*TUNING, *TESTING):
        for value in (DEFAULT, *values):
            each = replace(spec, seed=seed)
            each = each if value == DEFAULT else each.with_settings(**{name: value})
            if seed in TUNING:
                scores[f"{value}|{seed}"] = trial_score(each, 3, 1, streams)
            else:
                answers, _ = run_stream(streams.stream(each), each.learner.fresh(), each.seeds)
                scores[f"{value}|{seed}"] = float(main_matrix(answers).pooled[-1])
    return scores


def tell(key: str, scores: Scores) -> np.ndarray:
    """Print what each rule chose; (rules, 3) how many choices are worse, the same, better."""
    values = list(dict.fromkeys(name.split("|")[0] for name in scores))
    val, test = (
        np.array([[scores[f"{v}|{s}"] for s in seeds] for v in values])
        for seeds in (TUNING, TESTING)
    )
    gains = 100 * (test.mean(1) - test.mean(1)[0])
    rules = {
        "one seed": [1 + int(val[1:, i].argmax()) for i in range(len(TUNING))],
        "three seeds": [choose(part, 0).index for part in np.split(val, 3, axis=1)],
    }
    counts = []
    for rule, chosen in rules.items():
        gain = gains[chosen]
        counts.append([int((gain < -0.05).sum()), 0, int((gain > 0.05).sum())])
        counts[-1][1] = len(chosen) - sum(counts[-1])
        names = ", ".join(values[i] for i in chosen)
        print(f"{key}, {rule}: {counts[-1]} worse, same, better; mean {gain.mean():+.2f}: {names}")
    return np.array(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--learners", default="slda,knn,fecam,naive-bayes")
    parser.add_argument("--add", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(args.add.read_text()) if args.add and args.add.exists() else {}
    for learner in args.learners.split(","):
        key = f"{Path(args.file).stem}|{learner}|{GRIDS[learner][0]}"
        kept[key] = kept.get(key) or score_values(args.file, args.sessions, learner)
        if args.add:
            args.add.write_text(json.dumps(kept))
    print("all, worse, same, better:", *sum(tell(*each) for each in kept.items()).tolist())


if __name__ == "__main__":
    main()
