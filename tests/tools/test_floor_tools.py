"""`tools/tune_floor.py` and `tools/forecast_floor.py`: the rules, worked by hand."""

import math
from pathlib import Path

import forecast_floor
import pytest
import tune_floor
from tune_floor import Trial

# ranks of 1, 2 and 3: on a 1, 2, 3; on b 2, 1, 3; on c 3, 1, 2
TRIALS = [
    Trial(name, "er", "lr", value, accuracy)
    for name, accuracies in {
        "a": (0.9, 0.8, 0.7),
        "b": (0.5, 0.6, 0.4),
        "c": (0.1, 0.3, 0.2),
    }.items()
    for value, accuracy in zip("123", accuracies, strict=True)
]


@pytest.mark.parametrize(("held_out", "expected"), [("a", "2"), ("b", "2"), ("c", "1")])
def test_a_setting_is_chosen_by_its_mean_rank_on_the_other_sets(
    held_out: str, expected: str
) -> None:
    """Without c, 1 and 2 have both the mean rank 1.5, and their means are .7 and .7."""
    assert tune_floor.choose(TRIALS, "er", held_out) == ("lr", expected)


def test_of_equal_mean_ranks_the_higher_mean_accuracy_is_chosen() -> None:
    trials = [*TRIALS[:3], Trial("b", "er", "lr", "1", 0.5), Trial("b", "er", "lr", "2", 0.7)]
    assert tune_floor.choose(trials, "er", "c") == ("lr", "2")


def test_what_was_not_tried_on_a_set_has_no_rank_there() -> None:
    trials = [one for one in TRIALS if (one.set, one.value) != ("b", "3")]
    assert tune_floor.choose(trials, "er", "a") == ("lr", "2")


def test_what_is_chosen_for_all_is_said_once() -> None:
    assert tune_floor.chosen_toml(TRIALS[3:6] + [one._replace(set="d") for one in TRIALS[3:6]]) == (
        "er.lr = 2"
    )


def test_trials_are_read_as_they_are_written(tmp_path: Path) -> None:
    tune_floor.write(tmp_path / "t.csv", TRIALS)
    assert tune_floor.read(tmp_path / "t.csv") == TRIALS


def test_a_distance_is_the_log_of_a_ratio_of_odds() -> None:
    """Odds of 9, 4 and 1."""
    found = forecast_floor.distances({"a": 0.9, "b": 0.8, "c": 0.5})
    assert found == pytest.approx({"a": 0, "b": math.log(9 / 4), "c": math.log(9)})


def test_a_forecast_is_a_prediction_interval() -> None:
    """Distances ln 9 and ln 4; t of one degree of freedom is 12.706."""
    sets = [{"a": 0.9, "b": 0.5}, {"a": 0.8, "b": 0.5}]
    _, b = forecast_floor.forecast(sets)
    mean, spread = (math.log(9) + math.log(4)) / 2, (math.log(9) - math.log(4)) / math.sqrt(2)
    half = 12.7062 * spread * math.sqrt(1.5)
    assert (b.least, b.most) == (0, pytest.approx(mean + half, rel=1e-5))


def test_a_learner_that_a_set_has_not_is_forecast_from_the_others() -> None:
    sets = [{"a": 0.9}, {"a": 0.9, "b": 0.5}, {"a": 0.8, "b": 0.5}]
    assert forecast_floor.forecast(sets)[1] == forecast_floor.forecast(sets[1:])[1]


def test_a_distance_gives_its_accuracy_back() -> None:
    assert forecast_floor.accuracy_at(0.9, math.log(9)) == pytest.approx(0.5)


def test_an_interval_holds_where_the_distance_lies_in_it() -> None:
    forecasts = [forecast_floor.Forecast("a", 0, 1), forecast_floor.Forecast("b", 0, 1)]
    assert forecast_floor.judge({"a": 0.9, "b": 0.5}, forecasts) == {"a": True, "b": False}


def test_a_learner_that_was_not_run_on_a_set_is_not_judged_there() -> None:
    forecasts = [forecast_floor.Forecast("a", 0, 1), forecast_floor.Forecast("b", 0, 1)]
    assert forecast_floor.judge({"a": 0.9}, forecasts) == {"a": True}


def test_forecasts_are_read_as_they_are_written(tmp_path: Path) -> None:
    intervals = [forecast_floor.Forecast("ncm", 0, 1.5), forecast_floor.Forecast("slda", 0.25, 1)]
    stored = [
        forecast_floor.Stored("a", "pilot", ("b", "c"), intervals),
        forecast_floor.Stored("a", "online", ("b",), intervals[:1]),
    ]
    forecast_floor.write(tmp_path / "f.csv", stored)
    assert forecast_floor.read(tmp_path / "f.csv") == stored


def test_the_forecast_of_a_set_is_from_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `c`, whose runs may be there by now, nothing is used; what is stored of others stays."""
    known = {"a": {"x": 0.9, "y": 0.5}, "b": {"x": 0.8, "y": 0.5}, "c": {"x": 0.5, "y": 0.9}}
    monkeypatch.setattr(forecast_floor, "mean_accuracies", lambda _: known)
    monkeypatch.setattr(forecast_floor, "FORECAST", tmp_path / "f.csv")
    other = forecast_floor.Stored("a", "pilot", ("b",), [forecast_floor.Forecast("x", 0, 1)])
    forecast_floor.write(tmp_path / "f.csv", [other])
    forecast_floor.add("c", "pilot")
    kept, made = forecast_floor.read(tmp_path / "f.csv")
    assert (kept, made.others) == (other, ("a", "b"))
    expected = forecast_floor.forecast([known["a"], known["b"]])
    assert made.intervals[1].most == pytest.approx(expected[1].most, abs=1e-4)
