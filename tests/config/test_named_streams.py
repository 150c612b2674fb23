"""Streams by name: found by every door that takes a protocol, and listed."""

from pathlib import Path
from typing import Any

import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench import build_stream
from embedbench.cli import list_entries
from embedbench.config.named_streams import find_metric, find_protocol, named_streams
from embedbench.errors import UserError

B0_INC2 = {"base": "2", "step": "2", "order": "icarl1993", "loss": "seen"}


def test_a_name_brings_a_protocol_and_settings() -> None:
    assert find_protocol("b0-inc2") == ("incremental-class", B0_INC2)


def test_other_names_are_those_of_protocols() -> None:
    assert find_protocol("mine.module:Mine") == ("mine.module:Mine", {})


def test_every_stream_has_the_score_that_its_papers_print() -> None:
    assert {stream.metric for stream in named_streams().values()} == {"accuracy"}


@pytest.mark.parametrize(
    ("name", "metric"), [("b0-inc2", "accuracy"), ("incremental-class", None), ("a:B", None)]
)
def test_a_name_brings_its_metric(name: str, metric: str | None) -> None:
    assert find_metric(name) == metric


@pytest.mark.parametrize(("name", "near"), [("b50-inc11", "b50-inc10"), ("B0-Inc10", "b0-inc10")])
def test_an_unknown_name_has_a_nearest_one(name: str, near: str) -> None:
    with pytest.raises(UserError, check=says(got=name, expected=near)):
        find_protocol(name)


@pytest.mark.parametrize(
    ("given", "sizes"), [({}, [2, 2, 2]), ({"base": 4}, [4, 2]), ({"step": 4}, [2, 4])]
)
def test_python_takes_a_name_and_settings_over_it(
    given: dict[str, Any], sizes: list[int], tmp_path: Path
) -> None:
    file = make_file(tmp_path, [3] * 6, [0] * 6, [1] * 6)
    stream = build_stream(file, "b0-inc2", **given)
    assert [len(session.classes) for session in stream.sessions] == sizes


def test_the_list_of_protocols_has_them() -> None:
    listed = [row["name"] for row in list_entries.entries("protocols")]
    assert {*named_streams()} <= {*listed}


def test_a_name_is_listed_with_its_settings() -> None:
    described = list_entries.describe("streams", "b0-inc2")
    rows = {row["setting"]: row["value"] for row in described["settings"]}
    assert rows == {f"protocol.{name}": value for name, value in B0_INC2.items()}


@pytest.mark.parametrize(
    ("name", "base", "step"), [("b4-inc2", 4, 2), ("b0-inc3", 3, 3), ("B50-INC11", 50, 11)]
)
def test_a_stream_without_a_name_has_its_settings_named(name: str, base: int, step: int) -> None:
    way = f"--protocol incremental-class --set protocol.base={base} --set protocol.step={step};"
    with pytest.raises(UserError, match=way):
        find_protocol(name)


@pytest.mark.parametrize("name", ["b0-inc0", "b4-inc2-natural"])
def test_what_is_no_such_stream_has_no_settings_named(name: str) -> None:
    with pytest.raises(UserError) as error:
        find_protocol(name)
    assert "--set" not in str(error.value)
