"""Forecast how far behind the best each learner of the floor is on a set that it was not run on.

`python tools/forecast_floor.py esc10` writes an interval for each learner on that set into
`docs/studies/data/floor-forecast.csv`, from all other sets whose answers are there; with
`--regime online` for that regime. With `--judge` it prints whether the stored intervals hold on
sets that were run, and as a check of the rule the same of each set, forecast from all others.

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

from embedbench.sharing.floor import REGIMES, read_floor

DATA = Path(__file__).resolve().parents[1] / "docs" / "studies" / "data"
FORECAST = DATA / "floor-forecast.csv"


class Forecast(NamedTuple):
    """The interval of a learner's distance to the best, in ln odds."""

    learner: str
    least: float
    most: float


class Stored(NamedTuple):
    """The forecast for a set, and the sets that it was made from."""

    set: str
    regime: str
    others: tuple[str, ...]
    intervals: list[Forecast]


def distances(accuracies: Mapping[str, float]) -> dict[str, float]:
    """The distance of each learner to the best of a set."""
    odds = {name: math.log(a / (1 - a)) for name, a in accuracies.items()}
    best = max(odds.values())
    return {name: best - value for name, value in odds.items()}


def forecast(sets: Sequence[Mapping[str, float]]) -> list[Forecast]:
    """The interval of each learner from its distances on those of some sets that have it."""
    known = [distances(accuracies) for accuracies in sets]
    learners = dict.fromkeys(learner for one in known for learner in one)
    result = []
    for learner in learners:
        values = [one[learner] for one in known if learner in one]
        n = len(values)
        half = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) * math.sqrt(1 + 1 / n)
        mean = statistics.mean(values)
        result.append(Forecast(learner, max(0.0, mean - half), mean + half))
    return result


def accuracy_at(best: float, distance: float) -> float:
    """The accuracy at a distance of the best accuracy."""
    return 1 / (1 + math.exp(distance) * (1 - best) / best)


def judge(found: Mapping[str, float], forecasts: Sequence[Forecast]) -> dict[str, bool]:
    """For each learner that was run on a set, whether its distance there lies in its interval."""
    known = distances(found)
    run = [one for one in forecasts if one.learner in known]
    return {one.learner: one.least <= known[one.learner] <= one.most for one in run}


def read(path: Path) -> list[Stored]:
    """The forecasts of a CSV file, in its order."""
    found: dict[tuple[str, str], Stored] = {}
    with path.open(encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            key = row["set"], row["regime"]
            one = found.setdefault(key, Stored(*key, tuple(row["from"].split()), []))
            learner = Forecast(row["learner"], float(row["least"]), float(row["most"]))
            one.intervals.append(learner)
    return list(found.values())


def write(path: Path, stored: Sequence[Stored]) -> None:
    """Write the forecasts."""
    with path.open("w", encoding="utf-8", newline="") as f:
        lines = csv.writer(f, lineterminator="\n")
        lines.writerow(["set", "regime", "from", *Forecast._fields])
        for one in stored:
            for learner, least, most in one.intervals:
                ends = f"{least:.4f}", f"{most:.4f}"
                lines.writerow([one.set, one.regime, " ".join(one.others), learner, *ends])


def mean_accuracies(regime: str) -> dict[str, dict[str, float]]:
    """The mean accuracy of each learner on each set of a regime."""
    return {
        name.removesuffix(".h5"): {label: place.mean for label, place in places.items()}
        for name, places in read_floor(print, regime).items()
    }


def add(name: str, regime: str) -> None:
    """Store a forecast for a set, in the place of one that was there."""
    known = mean_accuracies(regime)
    others = tuple(other for other in known if other != name)
    made = Stored(name, regime, others, forecast([known[other] for other in others]))
    kept = [one for one in read(FORECAST) if (one.set, one.regime) != (name, regime)]
    write(FORECAST, [*kept, made])


def judge_all() -> None:
    """Print how the stored forecasts hold, and as a check of the rule each set from all others."""
    stored = read(FORECAST)
    for regime in REGIMES:
        known = mean_accuracies(regime)
        print(f"## {regime}: each set from the others")
        for name in known:
            others = [known[other] for other in known if other != name]
            say(name, known[name], forecast(others))
        print(f"## {regime}: stored before its runs")
        for one in stored:
            if one.regime == regime and one.set in known:
                say(one.set, known[one.set], one.intervals)


def main() -> None:
    """Store a forecast, or with `--judge` print how those stored hold."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("set", nargs="?", help="the set that it is for")
    words.add_argument("--regime", choices=REGIMES, default="pilot")
    words.add_argument("--judge", action="store_true", help="print how stored forecasts hold")
    given = words.parse_args()
    if given.judge:
        judge_all()
    elif given.set:
        add(given.set, given.regime)
    else:
        words.error("name a set, or give --judge")


def say(name: str, found: Mapping[str, float], forecasts: Sequence[Forecast]) -> None:
    """Print a row for each learner: forecast, found, and whether it holds."""
    holds = judge(found, forecasts)
    best = max(found.values())
    print(f"{name}: {sum(holds.values())} of {len(holds)} intervals hold")
    for one in forecasts:
        if one.learner not in found:
            continue
        low, high = (100 * accuracy_at(best, end) for end in (one.most, one.least))
        word = "" if holds[one.learner] else " no"
        print(f"| {one.learner} | {low:.1f} to {high:.1f} | {100 * found[one.learner]:.1f}{word} |")


if __name__ == "__main__":
    main()
