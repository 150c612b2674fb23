"""The Python API: whatever an argument is, a call ends well or with a sentence."""

import pytest
from hostile_calls import HOSTILE, Call, calls, fault

# What says that a file is not there by an OSError, which extraction puts in words.
MAY_RAISE = {f"read_sample: argument 0 is {label}" for label in (
    "empty text", "text", "long text", "surrogate", "path",
)}  # fmt: skip
OFTEN = ("score", "run", "build_stream", "load_table", "Seeds.of")


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return calls(tmp_path_factory.mktemp("api"))


def faults(every: list[Call]) -> list[str]:
    hostile = [each for call in every for each in call.hostile()]
    ended = [(label, fault(call)) for label, call in hostile if label not in MAY_RAISE]
    return [f"{label}: {said}" for label, said in ended if said]


def test_right_calls_are_right(every: list[Call]) -> None:
    wrong = [c.name for c in every if fault(lambda c=c: c.function(*c.first, **c.given))]  # type: ignore[misc]
    assert wrong == []


def test_hostile_arguments_of_a_few(every: list[Call]) -> None:
    assert faults([call for call in every if call.name in OFTEN]) == []


@pytest.mark.fuzz
def test_hostile_arguments_of_all(every: list[Call]) -> None:
    assert len(every) * len(HOSTILE) > 1500
    assert faults(every) == []
