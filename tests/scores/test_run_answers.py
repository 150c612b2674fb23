"""A third kind of answers, real-valued grades: it costs one class and its line in `KINDS`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import pytest
from commands import Call
from report_records import unscored

from embedbench.array_types import Bools, Floats, Ints
from embedbench.reports import headings_and_units, results, table_metric
from embedbench.scores import label_set_predictions, record_files
from embedbench.scores.array_file import INT, MASK, inside
from embedbench.scores.metric_jackknife import leave_out_metric
from embedbench.scores.metrics import Reference, all_metrics
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_answers import RunAnswers, SampleScores
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.storage import user_cache

TRUE = np.array([0, 0, 1, 1, 2, 2, 3, 3])  # two samples of each of four grades, two a session


@dataclass(frozen=True, repr=False)
class Grades(RunAnswers):
    """Real-valued grades: an answer is the better the closer it is to the true grade."""

    ids: Annotated[Ints, INT, "n"]
    y: Annotated[Ints, INT, "n"]
    eval_set: Annotated[Ints, INT, "n"]
    session: Annotated[Ints, INT, "M"]
    samples_seen: Annotated[Ints, INT, "M"]
    seen: Annotated[Bools, MASK, "MC"]
    answer: Annotated[Floats, "<f8", "Mn"]

    FORMAT: ClassVar[str] = "embedbench-grades"
    SCORES: ClassVar[tuple[str, ...]] = ("closeness", "farthest")
    NAMES: ClassVar[Mapping[str, str]] = {"farthest": "closeness of the worst"}
    MEANINGS: ClassVar[Mapping[str, str]] = {"farthest": "the sample that is farthest off"}

    @property
    def n_sets(self) -> int:
        """One a session."""
        return int(self.session[-1]) + 1

    def rate_samples(self, score: str, moments: Ints) -> SampleScores | None:
        """1 less the distance to the true grade, as a share of the largest possible one."""
        if score == "farthest":  # a minimum, and no mean over samples
            return None
        apart = np.abs(self.answer[moments] - self.y) / (self.seen.shape[1] - 1)
        return SampleScores(1 - apart, self.y, self.eval_set, by_class=False)

    def score_matrix(self, name: str = "", class_sizes: Sequence[int] | None = None) -> ScoreMatrix:
        """The means over samples."""
        every = np.arange(len(self.session))
        rated = self.rate_samples("closeness", every)
        assert rated is not None
        close = rated.values
        over = np.min if name == "farthest" else np.mean
        sets = np.arange(self.n_sets)
        values = np.stack([over(close[:, self.eval_set == e], axis=1) for e in sets], axis=1)
        values[self.session[:, None] < sets] = np.nan
        pooled = [over(close[m, self.eval_set <= self.session[m]]) for m in every]
        sizes = np.bincount(self.eval_set)
        n_classes = np.array([len({*self.y[self.eval_set == e].tolist()}) for e in sets])
        return ScoreMatrix.of(name or "closeness", self, values, np.array(pooled), sizes, n_classes)

    def find_unanswered(self) -> Bools:
        """An answer that is NaN."""
        return np.isnan(self.answer)

    def check(self) -> None:
        """Refuse grades that are none."""
        super().check()
        inside(self.y, 0, self.seen.shape[1] - 1, "y")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `KINDS` had it; reports make their lists of base scores when they are imported."""
    monkeypatch.setattr(label_set_predictions, "KINDS", (*label_set_predictions.KINDS, Grades))
    names = (*table_metric.BASE_SCORES, *Grades.SCORES)
    monkeypatch.setattr(table_metric, "BASE_SCORES", names)
    monkeypatch.setattr(results, "BASE_SCORES", names)
    for score, meaning in Grades.MEANINGS.items():
        monkeypatch.setitem(headings_and_units.SCORE_MEANINGS, score, meaning)


def grades(error: float) -> Grades:
    """Answers all right after session 0; after session 1 each second one is `error` too low."""
    last = TRUE - error * np.tile([0, 1], 4)
    return Grades(
        ids=np.arange(8),
        y=TRUE,
        eval_set=TRUE // 2,
        session=np.array([0, 1]),
        samples_seen=np.array([4, 8]),
        seen=np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.bool_),
        answer=np.stack([TRUE.astype(np.float64), last]),
    )


def save_run(place: Path, learner: str, seed: int, error: float) -> None:
    place.mkdir(parents=True)
    grades(error).save(place / record_files.PREDICTIONS)
    pin = user_cache.sha256(place / record_files.PREDICTIONS)
    seeds = dict.fromkeys(("order", "init", "batches", "memory"), seed)
    made = unscored(2, learner=learner, seed=seed, seeds=seeds, predictions_sha256=pin)
    record_files.save(record_files.evaluate(made, place, place), place)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two learners with three seeds; final closeness .95, .94, .93 and .8, .79, .77."""
    errors = {"near": (0.3, 0.36, 0.42), "wide": (1.2, 1.26, 1.38)}
    for learner, each in errors.items():
        for seed, error in enumerate(each):
            save_run(tmp_path / "runs" / "stream" / learner / f"seed-{seed}", learner, seed, error)
    return tmp_path / "runs"


def test_its_part_of_the_file_is_read_again(tmp_path: Path) -> None:
    grades(0.3).save(tmp_path / "p.h5")
    again = label_set_predictions.load_any(tmp_path / "p.h5")
    assert isinstance(again, Grades)
    np.testing.assert_array_equal(again.answer, grades(0.3).answer)


def test_its_record_has_its_scores_and_the_metrics_of_any_matrix(runs: Path) -> None:
    made = record_files.load(runs / "stream" / "near" / "seed-0")
    assert made.score == "closeness"
    np.testing.assert_allclose(made.R, [[1, np.nan], [0.95, 0.95]])
    assert made.metrics["final_accuracy"] == pytest.approx(0.95)
    assert made.metrics["average_forgetting"] == pytest.approx(0.05)
    assert made.flags == ()


def test_its_scores_are_recomputed_and_agree(runs: Path, call: Call) -> None:
    done = call("score", runs, "--json")
    assert done.code == 0
    assert [run["agrees"] for run in json.loads(done.out)] == [True] * 6


def test_reports_say_what_it_measures_and_who_is_behind(runs: Path, call: Call) -> None:
    out = call("report", runs).out
    assert "94.0 % closeness" in out
    assert "8 samples" in out  # verdicts have the test sample's share


@pytest.mark.parametrize("name", ["final_accuracy", "average_accuracy"])
def test_a_sample_is_left_out_of_its_scores(name: str) -> None:
    rest = leave_out_metric(grades(0.3), "closeness", all_metrics()[name], Reference())
    assert rest is not None
    close = 1 - np.tile([0, 0.1], 4)
    for k in range(8):
        kept = np.arange(8) != k
        sets = [close[kept & (e == TRUE // 2)].mean() for e in (0, 1)]
        expected = close[kept].mean() if name == "final_accuracy" else np.mean(sets)
        assert rest.values[k] == pytest.approx(expected)
    assert rest.values[-1] == pytest.approx(0.95)


def test_what_it_lacks_is_left_out(runs: Path, call: Call) -> None:
    run = runs / "stream" / "near" / "seed-0"  # audits, confidence and chance
    assert "one label a sample" in call("score", run, "--audit").err
    assert "needs to know how sure" in call("report", runs, "--metric", "nll").err
    assert "chance" not in call("report", runs).out


def test_a_score_that_is_no_mean_over_samples_leaves_none_out() -> None:
    metric = all_metrics()["final_accuracy"]
    assert leave_out_metric(grades(0.3), "farthest", metric, Reference()) is None


def test_a_table_of_such_a_score_has_verdicts_over_seeds_alone(runs: Path, call: Call) -> None:
    assert "over 3 seeds alone" in call("report", runs, "--metric", "farthest").out


def test_a_table_says_what_its_score_means(runs: Path, call: Call) -> None:
    out = call("report", runs, "--metric", "farthest").out
    assert "the sample that is farthest off" in " ".join(out.split())


@dataclass(frozen=True, repr=False)
class Sure(Predictions):
    """Answers with one more table."""

    sure: Annotated[Bools | None, MASK, "Mn"] = None


def test_a_kind_has_the_tables_of_the_kind_that_it_extends() -> None:
    assert list(Sure.tables()) == [*Predictions.tables(), "sure"]


def test_no_two_kinds_have_a_score_of_one_name() -> None:
    names = [name for kind in label_set_predictions.KINDS for name in kind.SCORES]
    assert len(names) == len({*names})
