"""Views, sessions, digests and the merged stream."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from toy import class_stream

from embedbench.storage.value_digest import digest
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View, rows_of, table_of


def test_a_revealed_stream_is_the_same_with_ids() -> None:
    stream = class_stream([[0, 1], [2], [3]])
    told = stream.revealed()
    assert [s.session_id for s in told.sessions] == [0, 1, 2]
    assert told.spec == dataclasses.replace(stream.spec, reveals_session_id=True)
    assert told.digests == stream.digests
    limited = dataclasses.replace(told, spec=dataclasses.replace(told.spec, loss_over_seen=True))
    assert limited.merged().spec == stream.merged().spec == stream.spec
    assert repr(told) == "<Stream: 3 sessions, 4 classes>"
    assert [s.session_id for s in stream.sessions] == [None] * 3  # and leaves the other as it was
    for a, b in zip(stream.sessions, told.sessions, strict=True):
        assert dataclasses.replace(b, session_id=None) == a


def random_view(seed: int) -> View:
    """A view with repeated, unsorted rows; permuted, padded, cut or neither, by the seed."""
    rng = np.random.default_rng(seed)
    n, d = (int(v) for v in rng.integers(3, 12, 2))
    table = Table(rng.normal(size=(n, d)).astype(np.float32))
    columns = rng.permutation(d) if seed % 2 else None
    more = 3 if seed % 3 == 0 else -2 if seed % 4 == 2 else 0
    return View(table, rng.integers(0, n, 7), d + more, columns)


def by_elements(view: View) -> np.ndarray:
    """The view by its definition, an element at a time."""
    d = min(table_of(view).values.shape[1], view.width)
    out = np.zeros((len(rows_of(view)), view.width), np.float32)
    for i, row in enumerate(rows_of(view)):
        for k in range(d):
            column = k if view.columns is None else view.columns[k]
            out[i, k] = table_of(view).values[row, column]
    return out


@pytest.mark.parametrize("seed", range(6))
def test_numpy_tensor_and_batch_are_the_definition(seed: int) -> None:
    view = random_view(seed)
    expected = by_elements(view)
    np.testing.assert_array_equal(view.numpy(), expected)
    np.testing.assert_array_equal(view.tensor().numpy(), expected)
    assert (view.numpy().dtype, view.tensor().dtype) == (np.float32, torch.float32)
    assert len(view) == len(expected)
    index = torch.tensor([2, 0, 2, 6])
    np.testing.assert_array_equal(view.batch(index).numpy(), expected[index.numpy()])
    assert view.batch(index[:0]).shape == (0, view.width)


def test_nothing_is_copied_until_asked() -> None:
    values = np.zeros((4, 3), np.float32)
    table = Table(values)
    a, b = View(table, np.arange(4), 3), View(table, np.arange(2), 3, np.array([2, 1, 0]))
    assert table_of(a).values is table_of(b).values is values
    assert np.shares_memory(table.tensor("cpu").numpy(), values)
    assert table.tensor("cpu") is table.tensor("cpu")
    values[0, 0] = 7  # what the table holds is what every view shows
    assert a.numpy()[0, 0] == b.numpy()[0, 2] == a.tensor()[0, 0] == b.tensor()[0, 2] == 7


def test_digests_of_values() -> None:
    ints = np.array([1, 0, 1])
    same = [ints, ints.astype(np.int32), ints.astype(">i8"), ints > 0, np.repeat(ints, 2)[::2]]
    assert len({digest(x) for x in same}) == 1  # however integers are stored
    assert digest("α") == digest("α".encode())
    different: list[tuple[Any, ...]] = [("a", "b"), ("ab",), ("b", "a"), ("a", "b", "")]
    different += [(ints,), (ints[1:],), (ints[:2], ints[2:]), (ints[:, None],)]
    different += [(ints[:0],), (np.zeros((0, 3), np.int64),)]
    assert len({digest(*values) for values in different}) == len(different)
    with pytest.raises(TypeError, match="float64"):
        digest(np.zeros(2))


def change_session(stream: Stream, **changes: object) -> Stream:
    """The stream with session 1 changed."""
    sessions = list(stream.sessions)
    sessions[1] = dataclasses.replace(sessions[1], **changes)
    return dataclasses.replace(stream, sessions=tuple(sessions))


def change_set(stream: Stream, **changes: object) -> Stream:
    """The stream with eval set 1 changed."""
    sets = list(stream.eval_sets)
    sets[1] = dataclasses.replace(sets[1], **changes)
    return dataclasses.replace(stream, eval_sets=tuple(sets))


def turned(view: View) -> View:
    return dataclasses.replace(view, columns=np.arange(6)[::-1])


CHANGES: list[tuple[str, Callable[[Stream], Stream], set[str]]] = [
    ("nothing", lambda s: dataclasses.replace(s), set()),
    ("order of sessions", lambda s: dataclasses.replace(s, sessions=s.sessions[::-1]), {"train"}),
    ("ids", lambda s: change_session(s, ids=s.sessions[1].ids + 1), {"train"}),
    ("order of samples", lambda s: change_session(s, ids=s.sessions[1].ids[::-1]), {"train"}),
    ("labels", lambda s: change_session(s, y=s.sessions[1].y * 0), {"train"}),
    ("validation labels", lambda s: change_session(s, val_y=s.sessions[1].val_y * 0), {"train"}),
    ("validation data", lambda s: change_session(s, val_x=s.sessions[0].val_x), {"train"}),
    ("classes", lambda s: change_session(s, classes=np.array([0, 1])), {"train"}),
    ("training permutation", lambda s: change_session(s, x=turned(s.sessions[1].x)), {"train"}),
    ("loss", lambda s: change_session(s, loss_classes=np.ones(4, np.bool_)), {"train"}),
    ("candidates", lambda s: change_set(s, candidates=np.ones(4, np.bool_)), {"eval"}),
    ("test ids", lambda s: change_set(s, ids=s.eval_sets[1].ids + 1), {"eval"}),
    ("test labels", lambda s: change_set(s, y=s.eval_sets[1].y * 0), {"eval"}),
    ("test classes", lambda s: change_set(s, classes=~s.eval_sets[1].classes), {"eval"}),
    ("split", lambda s: change_set(s, split="val"), {"eval"}),
    ("test permutation", lambda s: change_set(s, x=turned(s.eval_sets[1].x)), {"eval"}),
    ("samples", lambda s: dataclasses.replace(s, samples=("other",)), {"train", "eval"}),
    ("recipe", lambda s: dataclasses.replace(s, recipe="other"), {"recipe"}),
    ("features", lambda s: dataclasses.replace(s, features="other"), {"features"}),
]


@pytest.mark.parametrize(("what", "change", "moved"), CHANGES, ids=[c[0] for c in CHANGES])
def test_what_digests_tell(what: str, change: Callable[[Stream], Stream], moved: set[str]) -> None:
    stream = class_stream([[0, 1], [2], [3]])
    before, after = stream.digests, change(stream).digests
    assert set(before) == {"recipe", "train", "eval", "features"}
    assert {k for k in before if before[k] != after[k]} == moved, what


def test_merged_holds_every_sample_once_sorted() -> None:
    stream = class_stream([[3, 0], [1], [2]], n_train=5, n_val=2, n_test=3)
    assert stream.class_sizes == (5, 5, 5, 5)
    merged = stream.merged()
    (session,), (tests,) = merged.sessions, merged.eval_sets
    assert session.ids.tolist() == sorted(session.ids.tolist())
    assert np.bincount(session.y).tolist() == [5] * 4
    assert np.bincount(session.val_y).tolist() == [2] * 4
    assert np.bincount(tests.y).tolist() == [3] * 4
    assert session.classes.tolist() == [0, 1, 2, 3]
    assert tests.classes.all()
    np.testing.assert_array_equal(rows_of(session.x), session.ids)
    parts = [session.ids, rows_of(session.val_x), tests.ids]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))  # no sample in two roles
    labels = np.repeat(np.arange(4), 10)  # the toy table lies class after class
    np.testing.assert_array_equal(session.y, labels[rows_of(session.x)])
    np.testing.assert_array_equal(tests.y, labels[rows_of(tests.x)])


def test_merged_depends_on_what_the_scaling_was_fitted_to() -> None:
    stream = class_stream([[0, 1], [2]])
    fitted = dataclasses.replace(stream, fitted="rows of session 0")
    assert stream.merged().digests["recipe"] != fitted.merged().digests["recipe"]
    one = class_stream([[0, 1]])
    assert one.merged() is one
    assert not dataclasses.replace(one, so_far=True).references[0].so_far


def permuted(seed: int, *, shared: bool = True) -> Stream:
    """Three sessions of the same samples; session 0 unpermuted. Not `shared`: of other samples."""
    rng = np.random.default_rng(seed)
    table = Table(rng.normal(size=(12, 4)).astype(np.float32))
    sessions, sets = [], []
    for t in range(3):
        columns = rng.permutation(4) if t else None
        rows = np.arange(4) if shared else np.arange(4) + 4 * t
        view = View(table, rows, 4, columns)
        empty = View(table, rows[:0], 4, columns)
        y = rows % 2
        new = np.arange(2) if t == 0 else np.arange(0)
        sessions.append(Session(view, y, empty, y[:0], rows, new))
        sets.append(EvalSet(view, y, rows, np.ones(2, np.bool_)))
    return Stream(StreamSpec((4,), 2), tuple(sessions), tuple(sets), "r", "f", ("s",))


def test_merged_permutations_are_the_unpermuted_data() -> None:
    stream = permuted(0)
    merged = stream.merged()
    assert merged.sessions[0].x.columns is None
    assert len(merged.sessions[0].x) == len(merged.eval_sets[0].x) == 4
    a, b = (s.sessions[0].x.numpy() for s in (merged, stream))
    np.testing.assert_array_equal(a, b, strict=True)


def test_merged_refuses_new_samples_under_another_permutation_and_two_tables() -> None:
    with pytest.raises(ValueError, match="permutations"):
        permuted(0, shared=False).merged()
    stream = class_stream([[0], [1]])
    other = View(Table(np.zeros((99, 6), np.float32)), rows_of(stream.sessions[1].x), 6)
    with pytest.raises(ValueError, match="one table"):
        change_session(stream, x=other).merged()
