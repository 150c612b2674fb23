"""What guessing scores on average, against many drawn answers and by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pinned_runs import write_run
from toy import Array, predictions

from embedbench.scores.predictions import Predictions
from embedbench.scores.scores_of_guessing import guess_scores, without_draws

GROUPS = [[0, 1, 2], [3], [4, 5]]
TRUTH = [[0] * 5 + [1] * 2 + [2], [3] * 4, [4] + [5] * 6]
DRAWS = 4000


def drawn(seed: int) -> Predictions:
    """Answers that are drawn among the classes seen, and within among those of the session."""
    rng = np.random.default_rng(seed)
    p = predictions(TRUTH, np.zeros((3, 19), int), GROUPS)
    answer = np.array([rng.choice(np.flatnonzero(seen), 19) for seen in p.seen])
    own: Array = np.array([rng.choice(GROUPS[e]) for e in p.eval_set])
    tables: dict[str, Any] = {"answer": answer, "within": np.tile(own, (3, 1))}
    return replace(p, **{name: table.astype(np.int32) for name, table in tables.items()})


@pytest.mark.parametrize("name", Predictions.SCORES)
def test_it_is_the_mean_over_many_draws(tmp_path: Path, name: str) -> None:
    made = write_run(tmp_path, "run", drawn(0), learner="chance", learns=False)
    every = [drawn(seed).score_matrix(name) for seed in range(DRAWS)]
    mean = np.mean([matrix.pooled for matrix in every], axis=0)
    found = guess_scores(made, tmp_path / "run")[name].pooled
    np.testing.assert_allclose(found, mean, atol=5 / np.sqrt(4 * DRAWS * 6))


def test_it_falls_with_the_classes_seen(tmp_path: Path) -> None:
    made = write_run(tmp_path, "run", drawn(0), learner="chance", learns=False)
    scores = guess_scores(made, tmp_path / "run")
    assert scores["accuracy"].pooled == pytest.approx((1 / 3, 1 / 4, 1 / 6))


def test_it_does_not_depend_on_what_was_drawn(tmp_path: Path) -> None:
    one, other = (
        without_draws(
            write_run(tmp_path, name, drawn(seed), learner="chance", learns=False), tmp_path / name
        )
        for seed, name in enumerate(("one", "other"))
    )
    assert repr(one.by_score) == repr(other.by_score)  # NaN is no NaN


def test_its_scores_are_nan_where_those_of_a_run_are(tmp_path: Path) -> None:
    made = write_run(tmp_path, "run", drawn(0), learner="chance", learns=False)
    found = without_draws(made, tmp_path / "run")
    assert np.isnan(found.R).tolist() == np.isnan(made.R).tolist()


def test_another_learner_keeps_its_scores(tmp_path: Path) -> None:
    made = write_run(tmp_path, "run", drawn(0), learner="mlp")
    assert without_draws(made, tmp_path / "run") is made
