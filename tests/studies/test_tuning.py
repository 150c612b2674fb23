"""Tuning: what a trial sees, which setting is used, what is repeated; test data cannot choose."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from file_helpers import PROVENANCE, make_features, make_samples, says
from plan_runs import plan
from protocol_files import make_file
from toy import class_stream

from embedbench.config.run_seeds import Seeds
from embedbench.engines.engine import HERE
from embedbench.errors import UserError
from embedbench.files.write_file import write_file
from embedbench.reports.result_rows import searches
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.run_record import RunRecord
from embedbench.storage import leases
from embedbench.streams.view import rows_of
from embedbench.studies import tuning
from embedbench.studies.resolve import grids
from embedbench.studies.study import Study, parse_lists
from embedbench.studies.tuning import outcome, search, trial_score, trial_stream, tune
from embedbench.studies.tuning_rule import choose, rises

ITEMS = ["protocol.val_fraction=0.3", "mlp.stop.rule=epochs"]
NAN = math.nan


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_file(tmp_path_factory.mktemp("file"), [12] * 4, [0] * 4, [5] * 4, apart=8.0).path


def cells(path: Path, items: list[str]) -> list[RunSpec]:
    return plan([str(path)], "incremental-class", ["mlp"], [0], [*ITEMS, *items])


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_trial_holds_no_test_data(sessions: int) -> None:
    stream = class_stream([[0, 1], [2], [3]], n_val=5, n_test=7)
    trial = trial_stream(stream, sessions)
    assert len(trial.sessions) == len(trial.eval_sets) == sessions
    seen = {r for s in trial.sessions for v in (s.x, s.val_x) for r in rows_of(v).tolist()}
    seen |= {r for e in trial.eval_sets for r in rows_of(e.x).tolist()}
    assert not seen & {r for e in stream.eval_sets for r in rows_of(e.x).tolist()}
    for s, e in zip(stream.sessions, trial.eval_sets, strict=False):
        assert e.split == "val"
        np.testing.assert_array_equal(rows_of(e.x), rows_of(s.val_x))
        np.testing.assert_array_equal(e.y, s.val_y)


def test_a_trial_refuses_test_data_and_sessions_without_validation_data() -> None:
    stream = class_stream([[0, 1], [2]])
    with pytest.raises(UserError, match=r"test data, .* tuned"):
        trial_stream(replace(stream, validation="test"), 1)
    with pytest.raises(UserError, match=r"session 0 .* validation"):
        trial_stream(class_stream([[0, 1], [2]], n_val=0), 1)


def test_of_a_few_shot_stream_the_base_session_alone_can_be_tuned_on(tmp_path: Path) -> None:
    path = make_file(tmp_path, [20] * 6, [0] * 6, [5] * 6, apart=8.0).path
    (cell,) = plan([str(path)], "fscil", ["prototype"], [0], ["protocol.base=4", "protocol.way=1"])
    streams = StreamCache()
    with pytest.raises(UserError, match=r"session 1 .* validation .*--tune-sessions"):
        trial_stream(streams.stream(cell), 3)
    trial = trial_stream(streams.stream(cell), 1)
    assert trial.eval_sets[0].y.tolist() == np.repeat(range(4), 2).tolist()
    assert trial_score(cell, 1, 1, streams) > 0.8


def test_the_best_on_validation_data_is_chosen_and_kept(file: Path, tmp_path: Path) -> None:
    grid = {"lr": ["1e-9", "0.01"], "batch_size": ["8", "4"]}
    short = ["mlp.stop.epochs=4"]
    (cell,) = cells(file, short)
    log = tune(cell, grid, tmp_path / "runs", sessions=2)
    every = [{"lr": a, "batch_size": b} for a in grid["lr"] for b in grid["batch_size"]]
    assert [t["settings"] for t in log["tried"]] == every
    for tried in log["tried"]:  # each trial again, by hand
        items = [*short, *(f"mlp.{k}={v}" for k, v in tried["settings"].items())]
        (alone,) = cells(file, items)
        trial = trial_stream(StreamCache().stream(alone), 2)
        found, _ = run_stream(trial, alone.learner.fresh(), Seeds.of(0))
        mean = found.score_matrix().pooled.mean()
        assert tried["average_incremental_accuracy"] == pytest.approx(mean)
    best = max(log["tried"], key=lambda t: t["average_incremental_accuracy"])
    assert log["chosen"] == best["settings"] != log["tried"][0]["settings"]
    (kept,) = (tmp_path / "runs" / "tuning").iterdir()
    kept.write_text(json.dumps({**log, "seed": 99}))
    assert tune(cell, grid, tmp_path / "runs", sessions=2)["seed"] == 99  # not searched again
    assert tune(cell, grid, tmp_path / "runs", sessions=1)["seed"] == 0  # another search
    for wrong, sentence in (
        ([], "it must .* object"),
        ({"learner": 1}, "learner .* text, got 1"),
        ({**log, "tried": [1]}, r"tried\[0\] .* object"),
        ({**log, "chosen": {"layers": "100000"}}, "chose settings"),
        ({**log, "tried": [{"settings": 1}]}, "chose settings"),
    ):
        kept.write_text(json.dumps(wrong))
        with pytest.raises(UserError, match=sentence):
            tune(cell, grid, tmp_path / "runs", sessions=2)


def test_waiting_for_a_search(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = cells(file, ["mlp.stop.epochs=1"])
    log = tune(cell, {"lr": ["0.01"]}, tmp_path / "runs", sessions=1)
    (kept,) = (tmp_path / "runs" / "tuning").iterdir()
    text = kept.read_text()
    kept.unlink()
    said: list[str] = []

    def sleep(seconds: float) -> None:
        if seconds == leases.POLL:  # not the thread that keeps this process's leases
            kept.write_text(text)

    monkeypatch.setattr(leases, "time", SimpleNamespace(sleep=sleep, monotonic=float))
    monkeypatch.setattr("embedbench.studies.tuning.trial_score", None)
    with leases.take(kept.with_name(f".{kept.name}.lease")) or pytest.fail("it is free"):
        again = tune(cell, {"lr": ["0.01"]}, tmp_path / "runs", sessions=1, notify=said.append)
    assert again == log
    (sentence,) = said
    assert sentence.startswith("waiting for the search for mlp")


def test_grids() -> None:
    study = Study(learners=("mlp", "ewc", "ncm"))
    assert grids(study, parse_lists(["lr=0.1,0.01", "ewc.lam=1, 10"])) == {
        "mlp": {"lr": ("0.1", "0.01")},
        "ewc": {"lr": ("0.1", "0.01"), "lam": ("1", "10")},
    }
    for item in ("mlp.lr", "mlp.lr=,"):
        with pytest.raises(UserError, check=says(what="--tune", got=item)):
            grids(study, parse_lists([item]))
    with pytest.raises(UserError, match="tune 'lamb'"):
        grids(study, parse_lists(["lamb=1,2"]))


def test_a_wrong_setting_is_refused_before_anything_is_tried(file: Path, tmp_path: Path) -> None:
    (cell,) = cells(file, [])
    with pytest.raises(UserError, match="mlp 'lrr'"):
        tune(cell, {"lrr": ["1"]}, tmp_path)
    assert not (tmp_path / "tuning").exists()


def said(scores: dict[str, float | None], chosen: str, name: str = "lam") -> list[str]:
    tried = [{"settings": {name: v}, "average_incremental_accuracy": s} for v, s in scores.items()]
    log = {"learner": "ewc", "seed": 3, "sessions": 2, "tried": tried, "chosen": {name: chosen}}
    return outcome(log).split("\n")


def test_what_was_chosen_by_which_score_and_every_score_is_said() -> None:
    assert said({"1": 0.55, "1e2": 0.652, "1e4": 0.5111}, "1e2") == [
        "tuned ewc on seed 3: lam=1e2, by average incremental accuracy on the validation data of "
        "2 sessions",
        "  lam → %: 1→55.0 · 1e2→65.2 · 1e4→51.1",
    ]


def test_values_of_equal_scores_decided_nothing() -> None:
    tie = 0.5527777777777777
    *_, last = said(dict.fromkeys(["0.0001", "0.01", "1", "100"], tie), "0.0001")
    assert last.startswith("  all 4 scored 55.3 %: nothing was decided; try")
    *_, last = said({"1": None, "2": math.nan}, "1")
    assert last.startswith("  all 2 scored – %: nothing was decided")
    assert said({"1": None, "2": 0.5}, "2")[1:] == ["  lam → %: 1→– · 2→50.0"]
    assert len(said({"1": tie}, "1")) == 2  # one value alone


def test_the_edge_of_a_grid_of_two_settings() -> None:
    # along lr the best has 0.2 beside it; along lam a tie
    rows = {"1": (0.1, 0.2, 0.3), "2": (0.1, 0.2, 0.3), "3": (0.1, 0.2, 0.0)}
    tried = [
        {"settings": {"lam": lam, "lr": lr}, "average_incremental_accuracy": score}
        for lam, scores in rows.items()
        for lr, score in zip(("4", "5", "6"), scores, strict=True)
    ]
    log = {"learner": "ewc", "seed": 0, "sessions": 1, "tried": tried}
    lines = outcome(log | {"chosen": {"lam": "1", "lr": "6"}}).split("\n")
    assert lines[0].endswith(": lam=1, lr=6, by average incremental accuracy on the validation "
                             "data of 1 session")  # fmt: skip
    assert lines[1].startswith("  lam,lr → %: 1,4→10.0 · 1,5→20.0 · ")
    assert lines[2:] == ["  lr=6: at the edge of the grid, a value beyond may be better"]


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


GRID = ["0.01", "0.1", "1"]
SEEDS = (100, 101, 102)


@pytest.fixture
def spec(file: Path) -> RunSpec:
    items = ["protocol.val_fraction=0.3", "protocol.order=random"]
    return plan([str(file)], "incremental-class", ["slda"], [0], items)[0]


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


def told(log: dict[str, Any]) -> str:
    record = RunRecord.__new__(RunRecord)
    object.__setattr__(record, "tuning", log)
    return searches([record])


def test_the_mean_over_seeds_decides(tmp_path: Path, spec: RunSpec, trials: Scripted) -> None:
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


def test_a_kept_default_hides_no_edge_that_is_as_good(
    tmp_path: Path, spec: RunSpec, trials: Scripted
) -> None:
    level = {None: 0.6, 0.01: 0.3, 0.1: 0.5, 1.0: 0.6}
    trials.scores = lambda v, s: level[v] + (s - 100) / 100
    log = tune(spec, {"shrinkage": GRID}, tmp_path, seeds=SEEDS)
    assert log["chosen"] == {"shrinkage": "none"}
    assert log["edge"] == ["shrinkage"]
    assert "shrinkage=1, the best of those tried: at the edge of the grid" in outcome(log)


def test_an_edge_below_the_default_is_none(tmp_path: Path, spec: RunSpec, trials: Scripted) -> None:
    below = {None: 0.7, 0.01: 0.3, 0.1: 0.5, 1.0: 0.6}
    trials.scores = lambda v, s: below[v] + (s - 100) / 100
    assert tune(spec, {"shrinkage": GRID}, tmp_path, seeds=SEEDS)["edge"] == []


def test_one_seed_alone_decides_as_before(tmp_path: Path, spec: RunSpec, trials: Scripted) -> None:
    trials.scores = lambda v, s: v or 0.0
    log = tune(spec, {"shrinkage": GRID}, tmp_path, seeds=[0])
    assert {*log} == {"learner", "grid", "sessions", "seed", "tried", "chosen"}
    assert log["chosen"] == {"shrinkage": "1"}
    assert log["seed"] == 0
    assert len(trials.ran) == 3
    assert tune(spec, {"shrinkage": GRID}, tmp_path) == log
    tune(spec, {"shrinkage": GRID}, tmp_path, seeds=[0, 1])
    (names := [p.name for p in (tmp_path / "tuning").iterdir()]).sort()  # of earlier trees too
    assert names == ["slda-88f25dc3.json", "slda-e3e61b17.json"]
    assert told(log) == "best of 3 on seed 0"


@pytest.mark.parametrize("finished", [1, 11])
def test_a_resumed_search(tmp_path: Path, spec: RunSpec, trials: Scripted, finished: int) -> None:
    trials.scores = lambda v, s: 0.9 - (0.85 if v is None else v) + s / 1e4
    grid, whole, cut = {"shrinkage": GRID}, tmp_path / "whole", tmp_path / "cut"
    log = tune(spec, grid, whole, seeds=SEEDS)
    ran, trials.ran, trials.breaks_at = trials.ran, [], finished
    with pytest.raises(KeyboardInterrupt):
        tune(spec, grid, cut, seeds=SEEDS)
    trials.breaks_at, shown = -1, list[tuple[str, int, int]]()
    assert tune(spec, grid, cut, seeds=SEEDS, progress=lambda *now: shown.append(now)) == log
    assert shown == [("tuning slda", done, 12) for done in range(finished, 13)]
    assert trials.ran == ran
    assert len({*ran}) == 12
    mine, other = ([p.name for p in (root / "tuning").iterdir()] for root in (cut, whole))
    assert mine == other


def test_the_lease_of_a_search_says_its_trials(
    tmp_path: Path, spec: RunSpec, trials: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = list[str]()
    monkeypatch.setattr(leases.Lease, "note", lambda _, doing: noted.append(doing))
    tune(spec, {"shrinkage": GRID}, tmp_path, seeds=[0])
    assert noted == [f"trials {done}/3" for done in range(4)]  # `runs status` reads it


def interrupted(spec: RunSpec, root: Path, trials: Scripted) -> None:
    """A search that has finished five of twelve trials."""
    trials.ran, trials.breaks_at = [], 5
    with pytest.raises(KeyboardInterrupt):
        tune(spec, {"shrinkage": GRID}, root, seeds=SEEDS)
    trials.ran, trials.breaks_at = [], -1


def test_trials_of_another_version_are_not_mixed_in(
    tmp_path: Path, spec: RunSpec, trials: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(spec, tmp_path, trials)
    monkeypatch.setattr("embedbench.studies.tuning.__version__", "99")
    said: list[str] = []
    tune(spec, {"shrinkage": GRID}, tmp_path, seeds=SEEDS, notify=said.append)
    assert len(trials.ran) == 12
    assert said == [
        "the trials of an interrupted search for slda are made again: version of embedbench is "
        "another now"
    ]


def test_a_search_on_other_columns_is_made_again(
    tmp_path: Path, trials: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*domains: str) -> RunSpec:
        samples = make_samples(60)
        columns = {"domain": np.array(domains * 30)}
        features = make_features(60)
        out = tmp_path / "d.h5"
        write_file(out, samples, features, PROVENANCE, columns=columns, overwrite=True)
        return plan([str(out)], "domain-incremental", ["slda"], [0])[0]

    tune(planned("art", "photo"), {"shrinkage": GRID}, tmp_path, seeds=SEEDS)
    trials.ran, said = [], list[str]()
    other = planned("photo", "art")
    log = tune(other, {"shrinkage": GRID}, tmp_path, seeds=SEEDS, notify=said.append)
    assert len(trials.ran) == 12
    assert said == ["the search for slda is made again: columns is another than when it was made"]
    assert "made_from" not in log


def test_a_finished_search_on_the_same_columns_is_kept(tmp_path: Path, trials: Scripted) -> None:
    columns = {"domain": np.array(["art", "photo"] * 30)}
    path = write_file(
        tmp_path / "d.h5", make_samples(60), make_features(60), PROVENANCE, columns=columns
    ).path
    spec = plan([str(path)], "domain-incremental", ["slda"], [0])[0]
    log = tune(spec, {"shrinkage": GRID}, tmp_path, seeds=SEEDS)
    trials.ran = []
    assert tune(spec, {"shrinkage": GRID}, tmp_path, seeds=SEEDS) == log
    assert trials.ran == []


def test_a_trial_runs_on_the_file_that_was_planned_for(file: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(file, tmp_path / "e.h5"))
    spec = plan([str(copy)], "incremental-class", ["slda"], [0])[0]
    planned = tuning._contents(spec, StreamCache())
    write_file(copy, make_samples(60), make_features(60), PROVENANCE, overwrite=True)
    with pytest.raises(UserError, match=r"e\.h5: the file is not the one that the search was"):
        tuning._same_files(lambda spec: 0.5, StreamCache(), planned, spec)


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
            "default kept of 4, the best other at the grid's edge",
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
        (run,) = search([spec], {"slda": {"shrinkage": GRID}}, tmp_path, notify=said.append, **how)
        assert run.tuning is not None
        assert told(run.tuning).replace(" on seeds 100-102", "") == short
        assert len(trials.ran) == 12
    assert said[0].startswith(f"tuned slda on seeds 100-102: {sentence}, by")
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("table", "tuning", "begins"),
    [
        ((0, 1, 2), (2, 3, 1), "seeds 1-2 of the table also tune:"),
        ((0, 1, 2), (0,), "seed 0 of the table also tunes:"),
        ((5, 6), (), "seed 5 of the table also tunes:"),
    ],
)
def test_a_seed_that_tunes_and_is_in_the_table_is_named(
    tmp_path: Path,
    spec: RunSpec,
    trials: Scripted,
    table: tuple[int, ...],
    tuning: tuple[int, ...],
    begins: str,
) -> None:
    runs, said = [replace(spec, seed=seed) for seed in table], list[str]()
    grid = {"slda": {"shrinkage": GRID}}
    search(runs, grid, tmp_path, seeds=tuning, notify=said.append)
    assert said[0].startswith(begins)


def test_seeds_of_their_own_need_no_word(tmp_path: Path, spec: RunSpec, trials: Scripted) -> None:
    said = list[str]()
    search([spec], {"slda": {"shrinkage": GRID}}, tmp_path, seeds=SEEDS, notify=said.append)
    assert [line.partition(" on ")[0] for line in said] == ["tuned slda"]
