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


@pytest.mark.parametrize(
    ("changes", "what", "expected"),
    [
        ({"x": np.zeros((N, 6))}, "sessions[0].x", "a View"),
        ({"y": np.full(N, 3)}, "sessions[0].y", LABELS),
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
    ],
)
def test_a_session_that_does_not_fit(changes: dict[str, Any], what: str, expected: str) -> None:
    with pytest.raises(UserError, check=says(what=what, expected=expected)):
        check_stream(of_session(**changes))


def test_samples_of_another_width() -> None:
    stream = class_stream([[0, 1], [2]])
    other = replace(stream, spec=replace(stream.spec, input_shape=(7,)))
    with pytest.raises(
        UserError, check=says(what="sessions[0].x", expected="samples of shape (7,)")
    ):
        check_stream(other)
