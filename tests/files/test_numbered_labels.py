"""Labels that are numbers, beside names of classes that are numbers, too."""

import numpy as np
import pytest

from embedbench.errors import UserError
from embedbench.files.numbered_labels import _are_whole, check_numbers

LABELS = np.array([0, 1, 2, 2])


def test_names_that_are_their_positions_say_nothing() -> None:
    assert check_numbers("classes", np.array(["0", "1", "2"]), LABELS, "a.npz") == ""


def test_numbers_that_are_all_elsewhere_are_refused() -> None:
    """Label 0 may be the class 0, which is the third, or the first class, which is 1."""
    with pytest.raises(UserError, match="label 0 may be the class 0 of classes"):
        check_numbers("classes", np.array([1, 2, 0]), LABELS, "a.npz")


@pytest.mark.parametrize(
    ("labels", "whole"),
    [
        ([107.0, -200.0], True),
        ([2.0**53 - 1], True),
        ([2.0**53], False),  # as is 2**53 + 1
        ([1.0, 0.5], False),
        ([1.0, np.nan], False),
        ([1.0, np.inf], False),
    ],
)
def test_real_numbers_that_are_whole(labels: list[float], whole: bool) -> None:
    assert _are_whole(np.array(labels)) is whole
