"""Which setting a search uses, worked by hand; what it tries; what a resumed one repeats."""

import math
from collections.abc import Callable
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


@pytest.mark.parametrize(
    ("values", "means", "is_edge"),
    [
        (["1", "10", "100"], [0.1, 0.2, 0.3], True),
        (["100", "1", "10"], [0.1, 0.3, 0.2], True),
        (["1", "10", "100"], [0.1, 0.3, 0.2], False),
        (["1", "10", "100"], [0.1, 0.3, 0.3], False),  # a tie does not rise
        (["3", "2", "1"], [0.3 + 1e-16, 0.3, 0.1], False),
        (["1", "10"], [0.1, 0.3], False),  # two values have no middle
        (["1", "10", "none"], [0.1, 0.3, 0.2], False),
        (["sgd", "adam", "nadam"], [0.1, 0.2, 0.3], False),
    ],
)
def test_a_score_rises_to_an_edge(values: list[str], means: list[float], is_edge: bool) -> None:
    tried = [{"lam": value} for value in values]
    assert rises(tried, means, tried[int(np.argmax(means))], "lam") == is_edge


def test_each_of_two_settings_has_its_own_edge() -> None:
    tried = [{"lam": a, "lr": b} for a in ("1", "10") for b in ("1", "2", "3")]
    means = [0.1, 0.2, 0.3, 0.2, 0.3, 0.4]
    assert [rises(tried, means, tried[-1], name) for name in ("lam", "lr")] == [False, True]
    assert not rises(tried, [0.0] * 6, tried[0], "lr")


GRID = ["0.01", "0.1", "1"]


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    file = make_file(tmp_path, [12] * 4, [0] * 4, [5] * 4, apart=8.0)
    items = ["protocol.val_fraction=0.3", "protocol.order=random"]
    return plan([str(file.path)], "incremental-class", ["slda"], [0], items)[0]


class Scripted:
    """Trials whose scores are given, by value and seed; it notes what ran."""

    def __init__(self) -> None:
        self.scores: Callable[[float | None, int], float] = lambda v, s: 0.0
        self.ran: list[tuple[str, int]] = []
        self.breaks_at = -1

    def __call__(self, spec: RunSpec, sessions: int, threads: int, streams: StreamCache) -> float:
        if len(self.ran) == self.breaks_at:
            raise KeyboardInterrupt
        assert threads == 1
        settings: Any = spec.learner.settings
        self.ran.append((str(settings.shrinkage), spec.seed))
        return self.scores(settings.shrinkage, spec.seed)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    trials = Scripted()
    monkeypatch.setattr("embedbench.studies.tuning.trial_score", trials)
    return trials


SEEDS = (100, 101, 102)


def told(log: dict[str, Any]) -> str:
    record = RunRecord.__new__(RunRecord)
    object.__setattr__(record, "tuning", log)
    return searches([record])


def test_the_mean_over_seeds_decides_and_all_is_recorded(
    tmp_path: Path, spec: RunSpec, trials: Scripted
) -> None:
    better = {None: 0.5, 0.01: 0.3, 0.1: 0.6, 1.0: 0.4}
    trials.scores = lambda v, s: better[v] + (s - 100) / 100
    log = tune(spec, {"shrinkage": GRID}, tmp_path, seeds=SEEDS)
    assert trials.ran == [(v, s) for s in SEEDS for v in ("0.01", "0.1", "1.0", "None")]
    assert log.pop("gain") == pytest.approx(0.1)
    assert log.pop("standard_error") == pytest.approx(0, abs=1e-12)
    tried = log.pop("tried")
    assert tried[1]["by_seed"] == pytest.approx([0.6, 0.61, 0.62])
    assert tried[1]["average_incremental_accuracy"] == pytest.approx(0.61)
    assert log == {
        "learner": "slda",
        "grid": {"shrinkage": GRID},
        "sessions": 3,
        "seeds": [*SEEDS],
        "default": {"shrinkage": "none"},
        "chosen": {"shrinkage": "0.1"},
        "edge": [],
    }


def test_one_seed_alone_decides_as_before(tmp_path: Path, spec: RunSpec, trials: Scripted) -> None:
    trials.scores = lambda v, s: v or 0.0
    log = tune(spec, {"shrinkage": GRID}, tmp_path, seeds=[0])
    assert {*log} == {"learner", "grid", "sessions", "seed", "tried", "chosen"}
    assert (log["chosen"], log["seed"], len(trials.ran)) == ({"shrinkage": "1"}, 0, 3)
    assert tune(spec, {"shrinkage": GRID}, tmp_path) == log  # the place of an earlier tree's log
    assert told(log) == "best of 3 on seed 0"


@pytest.mark.parametrize("finished", [1, 11])
def test_a_resumed_search_repeats_no_finished_trial(
    tmp_path: Path, spec: RunSpec, trials: Scripted, finished: int
) -> None:
    trials.scores = lambda v, s: 0.9 - (0.85 if v is None else v) + s / 1e4
    grid, whole, cut = {"shrinkage": GRID}, tmp_path / "whole", tmp_path / "cut"
    log = tune(spec, grid, whole, seeds=SEEDS)
    ran, trials.ran, trials.breaks_at = trials.ran, [], finished
    with pytest.raises(KeyboardInterrupt):
        tune(spec, grid, cut, seeds=SEEDS)
    trials.breaks_at = -1
    assert tune(spec, grid, cut, seeds=SEEDS) == log
    assert trials.ran == ran
    assert len({*ran}) == 12
    assert [p.name for p in (cut / "tuning").iterdir()] == [
        p.name for p in (whole / "tuning").iterdir()
    ]


def to_the_left(value: float | None, seed: int) -> float:
    return 0.9 - (0.85 if value is None else value)


def within_an_error(value: float | None, seed: int) -> float:
    noise = {100: -0.03, 101: 0.0, 102: 0.06}
    return 0.6 if value is None else 0.6 + noise[seed] - (1 - value) / 10


@pytest.mark.parametrize(
    ("scores", "sentence", "short"),
    [
        (to_the_left, "shrinkage=0.01 (+84.0 ± 0.0 points)", "best of 4, at the grid's edge"),
        (
            within_an_error,
            "default kept (shrinkage=none; the best is only 1.0 ± 2.6 points above it)",
            "default kept of 4",
        ),
        ({None: 0.5, 0.01: 0.3, 0.1: 0.6}, "shrinkage=0.1 (+10.0 ± 0.0 points)", "best of 4"),
        ({None: 0.6, 0.1: 0.5}, "default kept (shrinkage=none)", "default kept of 4"),
        ({None: 0.6, 0.01: 0.6, 0.1: 0.6}, "default kept (shrinkage=none)", "default kept of 4"),
        ({None: NAN, 0.1: 0.6, 1.0: 0.5}, "shrinkage=0.1", "best of 4"),
    ],
)
def test_what_a_search_on_seeds_says(
    tmp_path: Path, spec: RunSpec, trials: Scripted, scores: Any, sentence: str, short: str
) -> None:
    trials.scores = scores if callable(scores) else lambda v, s: scores.get(v, 0.0)
    said: list[str] = []
    for _ in range(2):  # as it ends, and from the log
        how: dict[str, Any] = {"sessions": 2, "engine": HERE, "seeds": SEEDS}
        grids = {"slda": {"shrinkage": GRID}}
        (run,) = search([spec], grids, tmp_path, notify=said.append, **how)
        assert run.tuning is not None
        assert told(run.tuning).replace(" on seeds 100-102", "") == short
        assert len(trials.ran) == 12
    assert said[0].startswith(f"tuned slda on seeds 100-102: {sentence}, by")
    assert said[0] == said[1]
