"""A stream made by hand that does not fit itself is refused before a run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from toy import class_stream

from embedbench.errors import UserError
from embedbench.streams.check_stream import check_stream
from embedbench.streams.stream import Stream


def of_session(**changes: Any) -> Stream:
    stream = class_stream([[0, 1], [2]])
    first, *others = stream.sessions
    return replace(stream, sessions=(replace(first, **changes), *others))


def test_a_sound_stream_passes() -> None:
    check_stream(class_stream([[0, 1], [2]]))


N = len(class_stream([[0, 1], [2]]).sessions[0].y)
LABELS = f"an array of {N} classes below 3"
VAL_LABELS = f"an array of {len(class_stream([[0, 1], [2]]).sessions[0].val_y)} classes below 3"


@pytest.mark.parametrize(
    ("changes", "what", "expected"),
    [
        ({"x": np.zeros((N, 6))}, "sessions[0].x", "a View"),
        ({"y": np.full(N, 3)}, "sessions[0].y", LABELS),
        ({"y": np.full(N, -1)}, "sessions[0].y", LABELS),
        ({"val_y": np.zeros(N + 1, dtype=int)}, "sessions[0].val.y", VAL_LABELS),
        ({"y": np.zeros(N + 1, dtype=int)}, "sessions[0].y", LABELS),
        ({"y": np.full(N, np.nan)}, "sessions[0].y", LABELS),
        ({"y": np.array([None] * N)}, "sessions[0].y", LABELS),
        ({"ids": np.arange(N - 1)}, "sessions[0].ids", f"{N} whole numbers"),
        ({"classes": np.array([7])}, "sessions[0].classes", "an array of classes below 3"),
        (
            {"loss_classes": np.ones(2, dtype=bool)},
            "sessions[0].loss_classes",
            "an array of truth values of shape (3,)",
        ),
        (
            {"loss_classes": np.ones(3, dtype=int)},
            "sessions[0].loss_classes",
            "an array of truth values of shape (3,)",
        ),
    ],
)
def test_a_session_that_does_not_fit(changes: dict[str, Any], what: str, expected: str) -> None:
    with pytest.raises(UserError, check=says(what=what, expected=expected)):
        check_stream(of_session(**changes))


@pytest.mark.parametrize(
    ("changes", "what", "expected"),
    [
        ({"input_shape": (2, 3)}, "input_shape", "(D,), or (C, H, W) of images"),
        ({"input_shape": (2**31,)}, "input_shape", "(D,), or (C, H, W) of images"),
        ({"input_shape": [6]}, "input_shape", "(D,), or (C, H, W) of images"),
        ({"n_classes": 0}, "n_classes", "a whole number from 1"),
        ({"n_classes": 2.0}, "n_classes", "a whole number from 1"),
    ],
)
def test_a_spec_of_no_size(changes: dict[str, Any], what: str, expected: str) -> None:
    stream = class_stream([[0, 1], [2]])
    with pytest.raises(UserError, check=says(what=what, expected=expected)):
        check_stream(replace(stream, spec=replace(stream.spec, **changes)))


@pytest.mark.parametrize("y", [np.zeros(N), np.zeros((N, 3), int), np.zeros((N, 4), bool), None])
def test_label_sets_that_are_none(y: Any) -> None:
    stream = of_session(y=y)
    sets = replace(stream, spec=replace(stream.spec, multilabel=True))
    expected = f"an array of truth values of shape ({N}, 3)"
    with pytest.raises(UserError, check=says(what="sessions[0].y", expected=expected)):
        check_stream(sets)


@pytest.mark.parametrize("name", ["classes", "candidates"])
def test_a_mask_of_an_eval_set_that_does_not_fit(name: str) -> None:
    stream = class_stream([[0, 1], [2]])
    first, *others = stream.eval_sets
    wrong = replace(first, **{name: np.ones(4, dtype=bool)})
    with pytest.raises(UserError, check=says(what=f"eval_sets[0].{name}")):
        check_stream(replace(stream, eval_sets=(wrong, *others)))


@pytest.mark.parametrize("part", ["sessions", "eval_sets"])
def test_a_stream_of_nothing(part: str) -> None:
    stream = class_stream([[0, 1], [2]])
    with pytest.raises(UserError, match=r"^this stream has no session or no eval set; give it one"):
        check_stream(replace(stream, **{part: ()}))


def test_samples_of_another_width() -> None:
    stream = class_stream([[0, 1], [2]])
    other = replace(stream, spec=replace(stream.spec, input_shape=(7,)))
    with pytest.raises(
        UserError, check=says(what="sessions[0].x", expected="samples of shape (7,)")
    ):
        check_stream(other)
