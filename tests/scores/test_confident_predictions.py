"""Version 1.1 of predictions.h5: how sure a learner was, kept beside its answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from toy import confident_predictions, plain, random_predictions

from embedbench.errors import UserError
from embedbench.scores.make_score_matrices import score_matrices
from embedbench.scores.predictions import Predictions

PARTS = ("rank", "score", "logp", "true_logp", "squares", "group")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("groups", [True, False])
def test_the_file_gives_back_what_was_saved(
    tmp_path: Path, seed: int, logits: bool, groups: bool
) -> None:
    p = confident_predictions(seed, logits=logits, groups=groups)
    p.check()
    p.save(tmp_path / "predictions.h5")
    again = Predictions.load(tmp_path / "predictions.h5")
    for name, value in vars(p).items():
        if value is None:
            assert getattr(again, name) is None
        else:
            np.testing.assert_array_equal(getattr(again, name), value)
            assert getattr(again, name).dtype == value.dtype
    with h5py.File(tmp_path / "predictions.h5") as f:
        assert f.attrs["format_version"] == "1.1"
        assert set(f) == {name for name, value in vars(p).items() if value is not None}


def test_answers_alone_are_version_1_0(tmp_path: Path) -> None:
    p = confident_predictions(1)
    alone = plain(p)
    alone.save(tmp_path / "plain.h5")
    with h5py.File(tmp_path / "plain.h5") as f:
        assert f.attrs["format_version"] == "1.0"
        assert not set(PARTS) & set(f)
    for name, scores in score_matrices(alone).items():
        full = score_matrices(p)[name]
        np.testing.assert_array_equal(full.values, scores.values)
        np.testing.assert_array_equal(full.pooled, scores.pooled)


def test_a_table_that_version_1_0_does_not_have_is_not_read(tmp_path: Path) -> None:
    """A file of 1.0 scores to the same bits, whatever lies beside its tables."""
    p = random_predictions(2)
    p.save(tmp_path / "predictions.h5")
    with h5py.File(tmp_path / "predictions.h5", "r+") as f:
        f["rank"] = np.zeros(3)
    assert Predictions.load(tmp_path / "predictions.h5").rank is None


def changed(p: Predictions, name: str, at: Any, value: Any) -> Predictions:
    """`p` with one value of a table changed."""
    table = getattr(p, name).copy()
    table[at] = value
    return replace(p, **{name: table})


def wrong_predictions() -> dict[str, Predictions]:
    """Predictions that no run can have given, by what is said of them."""
    p = confident_predictions(4)
    assert p.rank is not None
    first = {
        "right": np.argwhere(p.rank == 0)[0],
        "wrong": np.argwhere((p.rank > 0) & (p.rank < 65535))[0],
        "none": np.argwhere(p.answer < 0)[0],
        "unseen": np.argwhere((p.rank == 65535) & (p.answer >= 0))[0],
    }
    right, wrong, none, unseen = (tuple(place) for place in first.values())
    return {
        "rank must be 0 exactly where": changed(p, "rank", wrong, 0),
        "rank must be 0 exactly where the answer": changed(p, "rank", right, 1),
        "rank must be 65535 where": changed(p, "rank", unseen, 1),
        "rank must be 65535 where the class": changed(p, "rank", none, 1),
        "rank must be lower than": changed(p, "rank", wrong, p.seen[wrong[0]].sum()),
        "score must be NaN exactly": changed(p, "score", right, np.nan),
        "score must be NaN exactly where": changed(p, "score", none, 0),
        "logp is NaN elsewhere": changed(p, "logp", wrong, np.nan),
        "true_logp is NaN elsewhere": changed(p, "true_logp", unseen, -1),
        "squares is NaN elsewhere": changed(p, "squares", none, 0.5),
        "logp must be at most 0": changed(p, "logp", wrong, 0.1),
        "true_logp must be at most 0": changed(p, "true_logp", wrong, np.inf),
        "true_logp must be logp": changed(p, "true_logp", right, -9),
        "squares must lie between": changed(p, "squares", wrong, 1.01),
        "squares must lie between 1 /": changed(p, "squares", wrong, 0.01),
        "squares must be at least": changed(p, "logp", wrong, 0),
        "only all of rank, score": replace(p, score=None),
        "only all of logp, true_logp": replace(p, squares=None),
        "need rank and score": replace(p, rank=None, score=None),
        "group must not be negative": changed(p, "group", 0, -1),
    }


WRONG = wrong_predictions()


@pytest.mark.parametrize("says", WRONG)
def test_what_no_run_can_have_given_is_refused(tmp_path: Path, says: str) -> None:
    WRONG[says].save(tmp_path / "predictions.h5")
    with pytest.raises(UserError, match=says):
        Predictions.load(tmp_path / "predictions.h5")


def test_version_1_1_without_its_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "predictions.h5"
    random_predictions(1).save(path)
    with h5py.File(path, "r+") as f:
        f.attrs["format_version"] = "1.1"
    with pytest.raises(UserError, match=r"1\.1 must have the table rank"):
        Predictions.load(path)
    with h5py.File(path, "r+") as f:
        f.attrs["format_version"] = "1.2"
    with pytest.raises(UserError, match=r"1\.0 or 1\.1, it says"):
        Predictions.load(path)
