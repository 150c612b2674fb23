"""Score the candidates of the floor's learners on each set, and choose one for each set by others.

`python tools/tune_floor.py docs/studies/floor-tuning.toml` adds what is not there yet to
`docs/studies/data/floor-tuning.csv`, which is named as the study, and prints what is chosen, as a
study file has it. An interrupted search goes on from the directory given by `--out`.
"""

import argparse
import csv
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from embedbench.runs.stream_cache import StreamCache
from embedbench.studies import tuning
from embedbench.studies.resolve import grids, resolve
from embedbench.studies.study_file import read_study

DATA = Path(__file__).resolve().parents[1] / "docs" / "studies" / "data"


class Trial(NamedTuple):
    """A candidate on a set: mean accuracy over the first sessions, on samples held out."""

    set: str
    learner: str
    setting: str
    value: str
    accuracy: float


def read(path: Path) -> list[Trial]:
    """The trials of a CSV file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as f:
        return [
            Trial(row["set"], row["learner"], row["setting"], row["value"], float(row["accuracy"]))
            for row in csv.DictReader(f)
        ]


def write(path: Path, trials: Sequence[Trial]) -> None:
    """Write the trials, in order."""
    with path.open("w", encoding="utf-8", newline="") as f:
        lines = csv.writer(f, lineterminator="\n")
        lines.writerow(Trial._fields)
        lines.writerows(trial._replace(accuracy=f"{trial.accuracy:.6f}") for trial in trials)


def choose(trials: Sequence[Trial], learner: str, held_out: str) -> tuple[str, str]:
    """The setting of a learner for one set, and its value: that of the best mean rank elsewhere.

    Equal accuracies share the mean of their ranks; of equal mean ranks the one with the higher mean
    accuracy is chosen, and of those the one tried first.
    """
    mine = [trial for trial in trials if trial.learner == learner and trial.set != held_out]
    values = list(dict.fromkeys(trial.value for trial in mine))
    ranks: dict[str, list[float]] = {value: [] for value in values}
    accuracies: dict[str, list[float]] = {value: [] for value in values}
    for name in dict.fromkeys(trial.set for trial in mine):
        on_set = {trial.value: trial.accuracy for trial in mine if trial.set == name}
        for value, accuracy in on_set.items():
            above = sum(other > accuracy for other in on_set.values())
            equal = sum(other == accuracy for other in on_set.values())
            ranks[value].append(above + (equal + 1) / 2)
            accuracies[value].append(accuracy)

    def badness(value: str) -> tuple[float, float]:
        return statistics.mean(ranks[value]), -statistics.mean(accuracies[value])

    return mine[0].setting, min(values, key=badness)


def score(study_path: Path, out: Path, path: Path) -> list[Trial]:
    """Run what the file at `path` has not; it is written after each learner on each set."""
    study = read_study(study_path)
    trials, streams = read(path), StreamCache()
    every = resolve(study)
    for spec in every:
        grid = grids(study, study.tune)[spec.learner.name]
        (name,) = spec.files
        label = name.removeprefix("known:")
        if any(trial.set == label and trial.learner == spec.learner.name for trial in trials):
            continue
        log = tuning.tune(spec, grid, out, streams=streams, notify=print)
        for tried in log["tried"]:
            ((setting, value),) = tried["settings"].items()
            accuracy = tried["average_incremental_accuracy"]
            trials.append(Trial(label, spec.learner.name, setting, value, accuracy))
        write(path, trials)
        print(tuning.outcome(log), file=sys.stderr, flush=True)
    return trials


def chosen_toml(trials: Sequence[Trial]) -> str:
    """What is chosen, as in a study file: for all sets, and for those where it is another value."""
    names = list(dict.fromkeys(trial.set for trial in trials))
    shared, apart = list[str](), dict[str, list[str]]()
    for learner in dict.fromkeys(trial.learner for trial in trials):
        each = {name: choose(trials, learner, name) for name in names}
        usual = statistics.mode(each.values())
        shared.append(_line(learner, usual))
        for name, chosen in each.items():
            if chosen != usual:
                apart.setdefault(name, []).append(_line(learner, chosen))
    for name, lines in apart.items():
        shared += ["", f'[set-of."known:{name}"]', *lines]
    return "\n".join(shared)


def _line(learner: str, chosen: tuple[str, str]) -> str:
    setting, value = chosen
    is_number = value.replace(".", "").replace("e-", "").isdigit()
    return f"{learner}.{setting} = {value if is_number else json.dumps(value)}"


def main() -> None:
    """Score, choose, print."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("study", type=Path)
    words.add_argument("--out", type=Path, default=Path("floor-tuning"))
    given = words.parse_args()
    trials = score(given.study, given.out, DATA / f"{given.study.stem}.csv")
    print(chosen_toml(trials))


if __name__ == "__main__":
    main()
