"""Which stream of ours a line from elsewhere is of."""

from types import SimpleNamespace
from typing import Any

import pytest

from embedbench.errors import UserError
from embedbench.reports.match_streams import (
    KnownStream,
    explain_misfit,
    match_stream,
    names_stream,
)

NARROW = KnownStream("narrow", {"protocol": "incremental-class", "protocol.base": 2, "score": "a"})
WIDE = KnownStream(
    "wide", {"protocol": "incremental-class", "protocol.base": 10, "score": "a"}, ("stream-2",)
)


def said(**values: Any) -> Any:
    """A line that says these things; `protocol_base` is protocol.base."""
    named = {name.replace("_", "."): value for name, value in values.items()}
    return SimpleNamespace(values=named, label="mine")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (said(protocol_base=2), NARROW),
        (said(protocol_base="10"), WIDE),
        (said(stream="wide"), WIDE),
        (said(stream="stream-2"), WIDE),
        (said(stream="stream-2", protocol_base=2), None),
        (said(protocol_base=3), None),
        (said(protocol_way=1), None),
        (said(accuracy=0.7, protocol_base=2), NARROW),
    ],
)
def test_a_line_is_of_the_stream_that_agrees_with_it(line: Any, found: KnownStream | None) -> None:
    assert match_stream(line, [NARROW, WIDE]) is found


@pytest.mark.parametrize(
    ("line", "says"), [(said(score="a"), False), (said(digests_recipe="0"), True), (said(), False)]
)
def test_a_score_names_no_stream(line: Any, says: bool) -> None:
    assert names_stream(line) is says


def test_a_line_of_two_streams_is_told_the_setting_that_differs() -> None:
    way = r"^mine does not say which of 2 streams it is of; add a column protocol\.base: 2 or 10$"
    with pytest.raises(UserError, match=way):
        match_stream(said(protocol="incremental-class"), [NARROW, WIDE])


def test_a_line_of_two_streams_that_differ_in_nothing_said_is_told_their_titles() -> None:
    other = KnownStream("other", NARROW.facts)
    with pytest.raises(UserError, match=r"add a column stream: narrow or other$"):
        match_stream(said(), [NARROW, other])


def test_a_column_that_one_stream_lacks_does_not_tell_them_apart() -> None:
    other = KnownStream("other", {"protocol": "mixture", "score": "a"})
    with pytest.raises(UserError, match=r"add a column protocol: incremental-class or mixture$"):
        match_stream(said(), [NARROW, other])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (said(protocol_base=3), "its protocol.base is 3, and of ours 2, 10"),
        (said(protocol_way=1), "its protocol.way is 1, and of ours none"),
        (said(stream="odd"), "its stream is 'odd', and of ours narrow, wide"),
        (said(protocol_base=10, score="b"), "its score is 'b', and of ours a"),
    ],
)
def test_why_a_line_is_of_no_stream(line: Any, why: str) -> None:
    assert explain_misfit(line, [NARROW, WIDE]) == why
