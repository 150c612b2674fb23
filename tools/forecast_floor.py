"""Forecast how far behind the best each learner of the floor is on a set that it was not run on.

`python tools/forecast_floor.py` writes `docs/studies/data/floor-forecast.csv`, from the sets that
ship an interval for each learner; with `--judge` it prints whether they hold on the other sets.

The distance of a learner on a set is ln(odds of the best there) − ln(odds of the learner), with
odds a / (1 − a) of the mean accuracy a. The interval for another set is the 95 % prediction
interval of normal distances, mean ± t · s · √(1 + 1/n) over n sets, cut at 0.
"""

import argparse
import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy import stats

from embedbench.sharing.floor import part_study, read_floor

DATA = Path(__file__).resolve().parents[1] / "docs" / "studies" / "data"
FORECAST = DATA / "floor-forecast.csv"


class Forecast(NamedTuple):
    """The interval of a learner's distance to the best, in ln odds."""

    learner: str
    least: float
    most: float


def distances(accuracies: Mapping[str, float]) -> dict[str, float]:
    """The distance of each learner to the best of a set."""
    odds = {name: math.log(a / (1 - a)) for name, a in accuracies.items()}
    best = max(odds.values())
    return {name: best - value for name, value in odds.items()}


def forecast(sets: Sequence[Mapping[str, float]]) -> list[Forecast]:
    """The interval of each learner from its distances on some sets."""
    known = [distances(accuracies) for accuracies in sets]
    result = []
    for learner in known[0]:
        values = [one[learner] for one in known]
        n = len(values)
        half = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) * math.sqrt(1 + 1 / n)
        mean = statistics.mean(values)
        result.append(Forecast(learner, max(0.0, mean - half), mean + half))
    return result


def accuracy_at(best: float, distance: float) -> float:
    """The accuracy at a distance of the best accuracy."""
    return 1 / (1 + math.exp(distance) * (1 - best) / best)


def judge(found: Mapping[str, float], forecasts: Sequence[Forecast]) -> dict[str, bool]:
    """For each learner, whether its distance on a set lies in its interval."""
    known = distances(found)
    return {one.learner: one.least <= known[one.learner] <= one.most for one in forecasts}


def read(path: Path) -> list[Forecast]:
    """The intervals of a CSV file."""
    with path.open(encoding="utf-8", newline="") as f:
        return [
            Forecast(row["learner"], float(row["least"]), float(row["most"]))
            for row in csv.DictReader(f)
        ]


def write(path: Path, forecasts: Sequence[Forecast]) -> None:
    """Write the intervals."""
    with path.open("w", encoding="utf-8", newline="") as f:
        lines = csv.writer(f, lineterminator="\n")
        lines.writerow(Forecast._fields)
        for one in forecasts:
            lines.writerow([one.learner, f"{one.least:.4f}", f"{one.most:.4f}"])


def main() -> None:
    """Write the forecast, or with `--judge` print how it holds."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--judge", action="store_true", help="print how the stored forecast holds")
    given = words.parse_args()
    parts = () if given.judge else ("floor",)
    accuracies = {
        name.removesuffix(".h5"): {label: place.mean for label, place in of.items()}
        for name, of in read_floor(print, parts=parts).items()
    }
    ship = [files[0].removeprefix("known:") for files in part_study("floor").files]
    if not given.judge:
        write(FORECAST, forecast([accuracies[name] for name in ship]))
        return
    for name in ship:  # each from the other four, as a check of the rule
        others = [accuracies[other] for other in ship if other != name]
        say(name, accuracies[name], forecast(others))
    for name in accuracies:
        if name not in ship:
            say(name, accuracies[name], read(FORECAST))


def say(name: str, found: Mapping[str, float], forecasts: Sequence[Forecast]) -> None:
    """Print a row for each learner: forecast, found, and whether it holds."""
    holds = judge(found, forecasts)
    best = max(found.values())
    print(f"{name}: {sum(holds.values())} of {len(holds)} intervals hold")
    for one in forecasts:
        low, high = (100 * accuracy_at(best, end) for end in (one.most, one.least))
        word = "" if holds[one.learner] else " no"
        print(f"| {one.learner} | {low:.1f} to {high:.1f} | {100 * found[one.learner]:.1f}{word} |")


if __name__ == "__main__":
    main()
