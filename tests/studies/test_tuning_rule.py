"""Which setting a search uses, worked by hand; what it tries; what a resumed one repeats."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file

from embedbench.engines.engine import HERE
from embedbench.reports.result_rows import searches
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores.run_record import RunRecord
from embedbench.studies.tuning import search, tune
from embedbench.studies.tuning_rule import choose, rises

NAN = math.nan


@pytest.mark.parametrize(
    ("scores", "default", "index", "gain", "error"),
    [
        # differences .01, .02, .03: mean .02, standard deviation .01, over √3
        ([[0.5, 0.6, 0.7], [0.51, 0.62, 0.73]], 0, 1, 0.02, 0.01 / math.sqrt(3)),
        # differences -.03, .00, .06: mean .01, deviation √.0021, error .0265: within one
        ([[0.5, 0.6, 0.7], [0.47, 0.6, 0.76]], 0, 0, 0.01, math.sqrt(0.0021 / 3)),
        # what an order does to both decides nothing: the scores' own error is .058
        ([[0.4, 0.5, 0.6], [0.405, 0.505, 0.605]], 0, 1, 0.005, 0.0),
        ([[0.5, 0.6], [0.6, 0.5]], 1, 1, 0.0, 0.1),  # a tie keeps the default, whatever its place
        ([[0.5, 0.6], [0.4, 0.6]], 0, 0, NAN, NAN),  # the default is best
        ([[0.5, NAN], [0.2, 0.1]], 0, 1, NAN, NAN),  # the default has no score
        ([[0.5, 0.6], [0.9, NAN], [0.7, 0.9]], 0, 2, 0.25, 0.05),
        ([[0.5], [0.50001], [0.50001]], None, 1, NAN, NAN),  # one seed: the first of the best
    ],
)
def test_a_value_replaces_the_default_by_more_than_a_standard_error(
    scores: list[list[float]], default: int | None, index: int, gain: float, error: float
) -> None:
    choice = choose(np.array(scores), default)
    assert choice.index == index
    assert choice.gain == pytest.approx(gain, abs=1e-12, nan_ok=True)
    assert choice.error == pytest.approx(error, abs=1e-12, nan_ok=True)


def line(values: Sequence[str], name: str = "lam") -> list[dict[str, str]]:
    return [{name: value} for value in values]


@pytest.mark.parametrize(
    ("values", "means", "is_edge"),
    [
        (["1", "10", "100"], [0.1, 0.2, 0.3], True),
        (["100", "1", "10"], [0.1, 0.3, 0.2], True),
        (["1", "10", "100"], [0.1, 0.3, 0.2], False),
        (["1", "10", "100"], [0.1, 0.3, 0.3], False),  # a tie does not rise
        (["1", "10"], [0.1, 0.3], False),  # two values have no middle
        (["1", "10", "none"], [0.1, 0.3, 0.2], False),
        (["sgd", "adam", "nadam"], [0.1, 0.2, 0.3], False),
    ],
)
def test_a_score_rises_to_an_edge(values: list[str], means: list[float], is_edge: bool) -> None:
    tried = line(values)
    assert rises(tried, means, tried[int(np.argmax(means))], "lam") == is_edge


def test_each_of_two_settings_has_its_own_edge() -> None:
    tried = [{"lam": a, "lr": b} for a in ("1", "10") for b in ("1", "2", "3")]
    means = [0.1, 0.2, 0.3, 0.2, 0.3, 0.4]
    assert [rises(tried, means, tried[-1], name) for name in ("lam", "lr")] == [False, True]
    assert not rises(tried, [0.0] * 6, tried[0], "lr")


def spec_of(tmp_path: Path, learner: str = "slda", seed: int = 0) -> RunSpec:
    path = tmp_path / "file.h5"
    if not path.exists():
        make_file(tmp_path, [12] * 4, [0] * 4, [5] * 4, apart=8.0)
    items = ["protocol.val_fraction=0.3", "protocol.order=random"]
    (spec,) = plan([str(path)], "incremental-class", [learner], [seed], items)
    return spec


class Scripted:
    """Trials whose scores are given: by value and seed; it counts what ran."""

    def __init__(self, name: str, of: Any) -> None:
        self.name, self.of = name, of
        self.ran: list[tuple[str, int]] = []
        self.breaks_at = -1

    def __call__(self, spec: RunSpec, sessions: int, threads: int, streams: StreamCache) -> float:
        if len(self.ran) == self.breaks_at:
            raise KeyboardInterrupt
        assert threads == 1
        value = getattr(spec.learner.settings, self.name)
        self.ran.append((str(value), spec.seed))
        return float(self.of(value, spec.seed))


def script(monkeypatch: pytest.MonkeyPatch, of: Any, name: str = "shrinkage") -> Scripted:
    trials = Scripted(name, of)
    monkeypatch.setattr("embedbench.studies.tuning.trial_score", trials)
    return trials


SEEDS = (100, 101, 102)


def told(log: dict[str, Any]) -> str:
    """What a table says of a search."""
    record = RunRecord.__new__(RunRecord)
    object.__setattr__(record, "tuning", log)
    return searches([record])


def test_the_mean_over_seeds_decides_and_all_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = {None: 0.5, 0.01: 0.3, 0.1: 0.6, 0.5: 0.4}
    trials = script(monkeypatch, lambda v, s: better[v] + (s - 100) / 100)
    log = tune(spec_of(tmp_path), {"shrinkage": ["0.01", "0.1", "0.5"]}, tmp_path, seeds=SEEDS)
    assert sorted({seed for _, seed in trials.ran}) == [100, 101, 102]
    assert len(trials.ran) == 4 * 3  # the default too
    assert (log["chosen"], log["sessions"]) == ({"shrinkage": "0.1"}, 3)
    assert (log["default"], log["seeds"], log["edge"]) == ({"shrinkage": "none"}, [*SEEDS], [])
    assert log["gain"] == pytest.approx(0.1)
    assert log["standard_error"] == pytest.approx(0, abs=1e-12)
    assert log["tried"][1]["by_seed"] == pytest.approx([0.6, 0.61, 0.62])
    assert log["tried"][1]["average_incremental_accuracy"] == pytest.approx(0.61)
    assert "seed" not in log


def test_a_best_value_at_an_edge_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # ever better to the left
    trials = script(monkeypatch, lambda v, s: 0.9 - (0.85 if v is None else v))
    log = tune(spec_of(tmp_path), {"shrinkage": ["0.01", "0.1", "1"]}, tmp_path, seeds=SEEDS)
    assert [each["settings"]["shrinkage"] for each in log["tried"]] == ["0.01", "0.1", "1", "none"]
    assert (log["chosen"], log["edge"]) == ({"shrinkage": "0.01"}, ["shrinkage"])
    count = len(trials.ran)
    again = tune(spec_of(tmp_path), {"shrinkage": ["0.01", "0.1", "1"]}, tmp_path, seeds=SEEDS)
    assert (again, len(trials.ran)) == (log, count)  # from the log, without a trial
    assert told(log) == "best of 4 on seeds 100-102, at the grid's edge"


def test_the_default_is_kept_within_a_standard_error_and_is_not_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = {100: -0.03, 101: 0.0, 102: 0.06}
    script(monkeypatch, lambda v, s: 0.6 if v is None else 0.6 + noise[s] - (1 - v) / 10)
    log = tune(spec_of(tmp_path), {"shrinkage": ["0.5", "0.75", "1"]}, tmp_path, seeds=SEEDS)
    assert (log["chosen"], log["edge"]) == ({"shrinkage": "none"}, [])
    assert log["gain"] == pytest.approx(0.01)
    assert told(log) == "default kept of 4 on seeds 100-102"


def test_one_seed_alone_decides_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = script(monkeypatch, lambda v, s: v)
    spec, grid = spec_of(tmp_path), {"shrinkage": ["0.01", "0.1", "0.2"]}
    log = tune(spec, grid, tmp_path, seeds=[0])
    assert {*log} == {"learner", "grid", "sessions", "seed", "tried", "chosen"}
    assert (log["chosen"], log["seed"], len(trials.ran)) == ({"shrinkage": "0.2"}, 0, 3)
    assert tune(spec, grid, tmp_path) == log  # the place of an earlier tree's log
    assert told(log) == "best of 3 on seed 0"


@pytest.mark.parametrize("finished", [1, 11])
def test_a_resumed_search_repeats_no_finished_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    def of(value: float | None, seed: int) -> float:
        return 0.9 - (0.85 if value is None else value) + seed / 1e4

    grid = {"shrinkage": ["0.01", "0.1", "1"]}
    whole = script(monkeypatch, of)
    log = tune(spec_of(tmp_path), grid, tmp_path / "whole", seeds=SEEDS)
    trials = script(monkeypatch, of)
    trials.breaks_at = finished
    with pytest.raises(KeyboardInterrupt):
        tune(spec_of(tmp_path), grid, tmp_path / "cut", seeds=SEEDS)
    trials.breaks_at = -1
    assert tune(spec_of(tmp_path), grid, tmp_path / "cut", seeds=SEEDS) == log
    assert len(trials.ran) == len({*trials.ran}) == len(whole.ran) == 12
    assert [p.name for p in (tmp_path / "cut" / "tuning").iterdir()] == [
        p.name for p in (tmp_path / "whole" / "tuning").iterdir()
    ]


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ({None: 0.5, 0.1: 0.3, 0.2: 0.6}, "shrinkage=0.2 (+10.0 ± 0.0 points), by"),
        ({None: 0.6, 0.1: 0.3, 0.2: 0.5}, "default kept (shrinkage=none), by"),
        ({None: 0.6, 0.1: 0.6, 0.2: 0.6}, "default kept (shrinkage=none), by"),
        ({None: NAN, 0.1: 0.6, 0.2: 0.5}, "seeds 100-102: shrinkage=0.1, by"),
    ],
)
def test_what_a_search_on_seeds_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scores: dict[float | None, float],
    sentence: str,
) -> None:
    script(monkeypatch, lambda v, s: scores.get(v, 0.0))
    chosen = {"slda": {"shrinkage": ["0.1", "0.2"]}}
    said: list[str] = []
    for _ in range(2):  # as it ends, and from the log
        how: dict[str, Any] = {"sessions": 2, "engine": HERE, "seeds": SEEDS}
        (run,) = search([spec_of(tmp_path)], chosen, tmp_path, notify=said.append, **how)
        assert run.tuning is not None
        assert run.tuning["seeds"] == [*SEEDS]
    assert sentence in said[0]
    assert said[0] == said[1]


def test_a_log_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, lambda v, s: NAN if v is None else v)
    log = tune(spec_of(tmp_path), {"shrinkage": ["0.1", "0.2"]}, tmp_path, seeds=SEEDS)
    assert json.loads(json.dumps(log)) == log
    assert log["chosen"] == {"shrinkage": "0.2"}
