"""predictions.h5: what was saved is read back, and what no run can have answered is refused."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from confident_runs import confident_predictions, from_scores
from label_set_answers import Sets, label_sets
from toy import random_predictions

from embedbench.errors import UserError
from embedbench.scores.array_file import WrongError
from embedbench.scores.label_set_predictions import levels, load_any
from embedbench.scores.predictions import Predictions

NOTHING: Sets = [set(), set(), set()]
P, S = random_predictions(1), confident_predictions(4)
L = label_sets([{0, 2}, {1}, {0, 3}], [NOTHING] * 2, [{0, 1}, {2, 3}], [-1, -1, 0, 0], [0] * 3)
SAVED: dict[str, Any] = {
    "answers": replace(P, samples_seen=0 * P.samples_seen),
    "probabilities and groups": S,
    "scores": confident_predictions(1, logits=False),
    "one class": from_scores(np.zeros((1, 2, 1)), [[0, 0]], [[0]]),
    "no groups": confident_predictions(2, groups=False),
    "label sets": L,
}


@pytest.mark.parametrize("kind", SAVED)
def test_the_file_gives_back_what_was_saved(tmp_path: Path, kind: str) -> None:
    path, p = tmp_path / "predictions.h5", SAVED[kind]
    p.save(path)
    again, tables = vars(load_any(path)), {k: v for k, v in vars(p).items() if v is not None}
    assert {k for k, v in again.items() if v is not None} == set(tables)
    for name, value in tables.items():
        np.testing.assert_array_equal(again[name], value)
        assert again[name].dtype == value.dtype
    with h5py.File(path) as f:
        assert f.attrs["format_version"] == ("1.1" if "rank" in tables else "1.0")
        assert set(f) == set(tables)


def test_versions(tmp_path: Path) -> None:
    """A file of 1.0 scores to the same bits, whatever lies beside its tables."""
    path = tmp_path / "predictions.h5"
    assert repr(L) == "<LabelSets of 3 samples at 2 moments, 4 classes>"
    P.save(path)
    with h5py.File(path, "r+") as f:
        f["rank"] = np.zeros(3)
    assert load_any(path).rank is None
    for p, version, says in (
        (P, "1.1", "the table rank"),
        (P, "1.2", "a newer embedbench: .* 1.2, and this one reads 1.1"),
        (L, "1.1", "a newer embedbench: .* 1.1, and this one reads 1.0"),
    ):
        p.save(path)
        with h5py.File(path, "r+") as f:
            f.attrs["format_version"] = version
        with pytest.raises(UserError, match=says):
            load_any(path)


def changed(name: str, at: Any, value: Any) -> tuple[Predictions, dict[str, Any]]:
    table = getattr(S, name).copy()
    table[at] = value
    return S, {name: table}


def wrong_predictions() -> dict[str, tuple[Any, dict[str, Any]]]:
    """By what is said: predictions, and tables with which no run can have given them."""
    assert S.rank is not None
    places = (
        np.argwhere(S.rank == 0)[0],
        np.argwhere((S.rank > 0) & (S.rank < 65535))[0],
        np.argwhere(S.answer < 0)[0],
        np.argwhere((S.rank == 65535) & (S.answer >= 0))[0],
    )
    right, wrong, none, unseen = map(tuple, places)
    M, N, C = len(P.session), len(P.y), P.seen.shape[1]
    moments = ("session", "samples_seen", "seen", "answer", "within")
    far = {"far_ids": np.arange(2), "far_score": np.zeros((len(S.session), 2), np.float32)}
    unseen_class, other_set = (np.flatnonzero(x)[0] for x in (~P.seen[0], ~P.set_classes[0]))
    return {
        "the table y is missing": (P, {"y": None}),
        "y must be int64, it is float64": (P, {"y": P.y.astype(float)}),
        "answer must be int32, it is >i4": (P, {"answer": P.answer.astype(">i4")}),
        "ids must have the axes": (P, {"ids": P.seen.astype(int)}),
        f"within must have shape \\({M}, {N}\\)": (P, {"within": P.within[:, 1:]}),
        f"y must lie in 0 to {C - 1}": (P, {"y": P.y - 1}),
        f"answer must lie in -1 to {C - 1}": (P, {"answer": P.answer + np.int32(C)}),
        "answer must be among": (P, {"answer": np.full_like(P.answer, unseen_class)}),
        "within must be among": (P, {"within": np.full_like(P.within, other_set)}),
        "eval_set must not decrease": (P, {"eval_set": P.eval_set[::-1].copy()}),
        f"eval_set must lie in 0 to {M - 1}": (P, {"eval_set": P.eval_set + 1}),
        "it has no eval set": (P, {"set_classes": P.set_classes[:0]}),
        "it has no evaluation moment": (P, {name: getattr(P, name)[:0] for name in moments}),
        "seen must hold 0 and 1": (P, {"seen": P.seen.astype(np.uint8) * 2}),
        "seen must lose no class": (P, {"seen": P.seen[::-1]}),
        "session must begin at 0": (P, {"session": P.session * 2}),
        "session must begin at 0 and go": (P, {"session": P.session - 1}),
        "samples_seen must not": (P, {"samples_seen": P.samples_seen - 1000}),
        "samples_seen must not be": (P, {"samples_seen": P.samples_seen[::-1]}),
        "session must lie in 0 to 0": (L, {"introduces": L.introduces[:1]}),
        "undecided must lie in 0 to 3": (L, {"undecided": L.undecided + 4}),
        "split must lie in 0 to 1": (L, {"split": L.split + 2}),
        "y has labels beyond": (L, {"y": L.y | np.uint8(1)}),
        "labels of 4 classes must take 1 byte": (
            L,
            {"y": np.zeros((3, 2), np.uint8), "answer": np.zeros((2, 3, 2), np.uint8)},
        ),
        "answer must be among .*": (L, {"answer": L.answer | np.uint8(16)}),
        "seen must be the classes": (L, {"seen": L.seen[[1, 1]]}),
        "levels of parents, a .* must lie in 0 to 100": (L, {"parents": np.array([1, 0, 0, 0])}),
        "parents must lie in -1 to 3, got -1 to 4": (L, {"parents": np.array([-1, -1, 4, 0])}),
        "rank must be 0 exactly": changed("rank", wrong, 0),
        "rank must be 0 exactly where": changed("rank", right, 1),
        "rank must be 65535": changed("rank", unseen, 1),
        "rank must be 65535 where": changed("rank", none, 1),
        "score is NaN elsewhere": changed("score", right, np.nan),
        "score is NaN elsewhere than due": changed("score", none, 0),
        "logp is NaN elsewhere": changed("logp", wrong, np.nan),
        "true_logp is NaN elsewhere": changed("true_logp", unseen, -1),
        "squares is NaN elsewhere": changed("squares", none, 0.5),
        "logp must be at most 0": changed("logp", wrong, 0.1),
        "true_logp must be at most 0": changed("true_logp", wrong, np.inf),
        "squares must lie between": changed("squares", wrong, 1.01),
        "squares must lie between 0": changed("squares", wrong, 0),
        "only all of rank, score": (S, {"score": None}),
        "only all of logp, true_logp": (S, {"squares": None}),
        "need rank and score": (S, {"rank": None, "score": None}),
        "only all of far_ids, far_score": (S, {"far_ids": far["far_ids"]}),
        "far_logp must be there as": (S, far),
        "far_logp is NaN elsewhere": (S, {**far, "far_logp": far["far_score"] * np.nan}),
        "far_logp must be at most 0": (S, {**far, "far_logp": far["far_score"] + 1}),
        "group must not be negative": changed("group", 0, -1),
    }


WRONG = wrong_predictions()


@pytest.mark.parametrize("says", WRONG)
def test_what_no_run_can_have_answered_is_refused(tmp_path: Path, says: str) -> None:
    p, tables = WRONG[says]
    replace(p, **tables).save(tmp_path / "predictions.h5")
    with pytest.raises(UserError, match=says):
        load_any(tmp_path / "predictions.h5")


@pytest.mark.parametrize("kind", SAVED)
def test_what_is_stored_is_what_the_file_gives_back(tmp_path: Path, kind: str) -> None:
    path, p = tmp_path / "predictions.h5", SAVED[kind]
    p.save(path)
    again, stored = vars(load_any(path)), vars(p.as_stored())
    assert {name: tables_of(value) for name, value in stored.items()} == {
        name: tables_of(value) for name, value in again.items()
    }


def tables_of(value: Any) -> Any:
    """All that decides what is computed of an array: its bytes, type, shape and order."""
    return value if value is None else (value.tobytes(), value.dtype, value.shape, value.strides)


def test_arrays_in_another_order_are_stored_as_they_are_read(tmp_path: Path) -> None:
    assert S.score is not None
    turned = replace(S, score=np.asfortranarray(S.score)).as_stored()
    assert turned.score.strides == S.score.strides


def test_saving_gives_the_sha256_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "predictions.h5"
    assert P.save(path) == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("says", WRONG)
def test_what_no_run_can_have_answered_is_not_stored(says: str) -> None:
    p, tables = WRONG[says]
    with pytest.raises(WrongError):
        replace(p, **tables).as_stored()


@pytest.mark.parametrize(
    ("p", "tables", "says"),
    [
        (P, {"y": P.y.astype(np.int32)}, "y must be int64, it is int32"),
        (P, {"within": P.within.astype(np.int64)}, "within must be int32, it is int64"),
        (S, {"score": np.float64(S.score)}, "score must be float32, it is float64"),
        (S, {"score": np.float16(S.score)}, "score must be float32, it is float16"),
    ],
)
def test_numbers_that_would_be_read_back_otherwise_are_not_stored(
    p: Any, tables: dict[str, Any], says: str
) -> None:
    """What is scored is what is stored: nothing is rounded on its way."""
    with pytest.raises(WrongError, match=says):
        replace(p, **tables).as_stored()


def test_a_chunk_that_is_missing_is_not_read_as_zeros(tmp_path: Path) -> None:
    path = tmp_path / "predictions.h5"
    P.save(path)
    with h5py.File(path, "r+") as f:
        del f["answer"]
        f.create_dataset("answer", P.answer.shape, np.int32, chunks=True)
    with pytest.raises(UserError):
        load_any(path)


def test_a_file_of_another_program_says_its_format(tmp_path: Path) -> None:
    path = tmp_path / "predictions.h5"
    P.save(path)
    with h5py.File(path, "r+") as f:
        f.attrs["format"] = "theirs"
    with pytest.raises(UserError, match="expected the format embedbench-predictions, it says "):
        load_any(path)


def test_hierarchies_take_linear_time() -> None:
    deep = np.arange(-1, 300_000)
    assert levels(deep).tolist() == list(range(len(deep)))
    assert levels(np.array([2, -1, 0, 1])).tolist() == [-1, 0, -1, 1]


def test_a_flipped_byte_never_gives_other_answers(tmp_path: Path) -> None:
    path, rng = tmp_path / "predictions.h5", np.random.default_rng(0)
    P.save(path)
    data, refused = path.read_bytes(), 0
    for at in (*rng.integers(0, len(data), 6), *rng.integers(len(data) - 400, len(data), 4)):
        flipped = bytearray(data)
        flipped[at] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        try:
            again = load_any(path)
        except UserError:
            refused += 1
            continue
        for name, value in vars(P).items():
            np.testing.assert_array_equal(getattr(again, name), value)
    assert 0 < refused < 10
