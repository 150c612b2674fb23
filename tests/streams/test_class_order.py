"""What the entries of an order file mean, and published orders of class numbers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.domain_incremental import DomainIncremental
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.streams.class_order import class_order, order_notes, was_by_position
from embedbench.streams.make_class_order import make_order

TEXT = sorted(map(str, range(12)))  # 0, 1, 10, 11, 2, …: the order of a file


def named(folder: Path, names: Sequence[str], train: Sequence[int] | None = None) -> EmbeddingFile:
    """A file of classes with these names in this order, two training samples each."""
    n = len(names)
    counts = [2] * n if train is None else train
    return make_file(folder, counts, [0] * n, [1 if k else 0 for k in counts], classes=names)


def read(folder: Path, file: EmbeddingFile, order: Any) -> list[str]:
    """The names that an order file puts in order; text is written as it is, else as JSON."""
    path = folder / "order.json"
    path.write_text(order if isinstance(order, str) else json.dumps(order), encoding="utf-8")
    return [file.classes[c] for c in class_order(str(path), file, 0)]


BACKWARDS = list(range(11, -1, -1))


@pytest.mark.parametrize(
    "order",
    [
        BACKWARDS,
        [str(c) for c in BACKWARDS],
        "\n".join(map(str, BACKWARDS)),
        {"order": BACKWARDS},
        [f"{c:02d}" for c in BACKWARDS],
    ],
)
def test_numbers_are_names_where_all_names_are_numbers(order: Any, tmp_path: Path) -> None:
    assert read(tmp_path, named(tmp_path, TEXT), order) == [str(c) for c in BACKWARDS]


def test_a_number_is_never_a_position_where_all_names_are_numbers(tmp_path: Path) -> None:
    file = named(tmp_path, ["12", "3", "9", "5", "1", "2"])
    assert read(tmp_path, file, [5, 3, 9, 12, 2, 1]) == ["5", "3", "9", "12", "2", "1"]
    with pytest.raises(UserError, match=r"holds 4 .* 6 entries; their names are numbers"):
        read(tmp_path, file, [5, 4, 3, 2, 1, 0])


@pytest.mark.parametrize(
    ("names", "order", "others"),
    [
        ([*"0123"], [3, 1, 2, 0], False),  # each is at the position of its number
        ([*"0123"], [3, 1, "2.0", 0], False),
        ([*"0132"], [0, 1], False),
        ([*"0132"], [0, 2], True),
        ([*"1234"], [4, 1], True),  # beyond the last position, or at another
        (["0", "0.5"], [0, "0.50"], True),
        ([*"0132"], ["2", "3"], False),  # texts of names as they are
        (["cat", "ant"], [1, 0], False),
    ],
)
def test_an_order_that_earlier_versions_read_by_position(
    names: list[str], order: list[Any], others: bool, tmp_path: Path
) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps(order), encoding="utf-8")
    assert was_by_position(str(path), named(tmp_path, names)) is others


@pytest.mark.parametrize(
    ("order", "names", "others"),
    [
        ("icarl1993", [str(c) for c in range(100)], False),
        ("icarl1993", sorted(map(str, range(100))), True),
        ("number", ["1", "0"], False),
    ],
)
def test_a_published_order_that_earlier_versions_read_by_position(
    order: str, names: list[str], others: bool, tmp_path: Path
) -> None:
    assert was_by_position(order, named(tmp_path, names)) is others


def test_numbers_are_positions_where_no_name_is_a_number(tmp_path: Path) -> None:
    file = named(tmp_path, ["cat", "ant", "dog"])
    assert read(tmp_path, file, [2, 0, 1]) == ["dog", "cat", "ant"]
    path = str(tmp_path / "order.json")
    assert order_notes(path, file) == (
        "numbers in order.json are positions in file.h5: 0 is 'cat', 1 is 'ant', …",
    )
    assert read(tmp_path, file, ["dog", "cat", "ant"]) == ["dog", "cat", "ant"]
    assert order_notes(path, file) == ()


@pytest.mark.parametrize("names", [["1", "0", "cat"], ["01", "1", "2"]])
def test_a_number_that_may_be_a_name_or_not_is_refused(names: list[str], tmp_path: Path) -> None:
    file = named(tmp_path, names)
    with pytest.raises(UserError, match=r"numbers that may be names .* as text"):
        read(tmp_path, file, [2, 1, 0])
    assert read(tmp_path, file, names[::-1]) == names[::-1]


def test_a_stream_has_the_order_and_its_note(tmp_path: Path) -> None:
    file = named(tmp_path, ["cat", "ant", "dog", "elk"])
    (tmp_path / "order.json").write_text("[3, 2, 1, 0]")
    stream = IncrementalClass(order=str(tmp_path / "order.json")).build([file], seed=0)
    assert [s.classes.tolist() for s in stream.sessions] == [[3, 2], [1], [0]]
    assert stream.notes[0].startswith("numbers in order.json are positions in file.h5")


def test_the_natural_order_of_numbers_is_that_of_text_and_a_note_says_it(tmp_path: Path) -> None:
    file = named(tmp_path, TEXT)
    assert class_order("natural", file, 0).tolist() == list(range(12))
    assert "order of text: 0, 1, 10, 11" in IncrementalClass().build([file], seed=0).notes[0]
    assert [file.classes[c] for c in class_order("number", file, 0)] == [*map(str, range(12))]


def test_the_order_by_number_takes_numbers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"all named by numbers, and file\.h5 has 'cat'"):
        class_order("number", named(tmp_path, ["1", "cat"]), 0)


ICARL = np.random.RandomState(1993).permutation(100).tolist()  # as iCaRL's code draws it


@pytest.mark.parametrize("names", [sorted(map(str, range(100))), [f"{c:03d}" for c in range(100)]])
def test_icarl1993_is_of_the_numbers_that_are_names(names: list[str], tmp_path: Path) -> None:
    file = named(tmp_path, names)
    assert list(map(int, make_order(file, "icarl1993")["order"])) == ICARL
    assert order_notes("icarl1993", file) == ()


def test_icarl_87_is_of_the_numbers_that_are_names(tmp_path: Path) -> None:
    made = make_order(named(tmp_path, sorted(map(str, range(100)))), "icarl_87")["order"]
    assert made[:4] == ["87", "0", "52", "58"]


def test_icarl1993_takes_ranks_of_other_numbers_and_says_so(tmp_path: Path) -> None:
    file = named(tmp_path, ["12", "20", "3", "9"])
    ranked = ["3", "9", "12", "20"]
    drawn = np.random.RandomState(1993).permutation(4)
    assert [file.classes[c] for c in class_order("icarl1993", file, 0)] == [
        ranked[c] for c in drawn
    ]
    (note,) = order_notes("icarl1993", file)
    assert "ranks of the numbers in file.h5, 0 is '3', 1 is '9'" in note


def test_icarl1993_of_names_without_known_numbers_says_what_it_takes(tmp_path: Path) -> None:
    (note,) = order_notes("icarl1993", named(tmp_path, ["cat", "ant", "dog"]))
    assert "positions in the file, 0 is 'cat', 1 is 'ant'" in note


def test_icarl1993_of_equal_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'01' and '1' of .* have the same one"):
        class_order("icarl1993", named(tmp_path, ["01", "1", "2"]), 0)


def test_groups_that_are_numbers_are_sorted_by_number(tmp_path: Path) -> None:
    names = ["a", "b", "c", "10", "2", "1"]
    file = make_file(
        tmp_path, [2] * 3, [0] * 3, [1] * 3, classes=names, parents=[3, 4, 5] + [-1] * 3
    )
    assert make_order(file, "coarse", sessions=3)["order"] == ["c", "b", "a"]


def test_an_order_may_hold_classes_that_the_stream_leaves_out(tmp_path: Path) -> None:
    file = named(tmp_path, ["a", "b", "c", "d"], [2, 0, 2, 2])
    for order, expected in (
        (["d", "b", "c", "a"], ["d", "c", "a"]),
        (["d", "c", "a"], ["d", "c", "a"]),
        ([3, 1, 2, 0], ["d", "c", "a"]),  # positions in the file, with those left out
    ):
        (tmp_path / "order.json").write_text(json.dumps(order))
        stream = IncrementalClass(order=str(tmp_path / "order.json")).build([file], seed=0)
        assert [stream.classes[c] for s in stream.sessions for c in s.classes] == expected


def test_domains_that_are_numbers_come_as_text_and_a_note_says_it(tmp_path: Path) -> None:
    domain = np.array(["1", "10", "2"] * 6)
    file = make_file(tmp_path, (6, 6), (0, 0), (3, 3), columns={"domain": domain}, classes="ab")
    assert "protocol.domains=1,2,10" in DomainIncremental().build([file], seed=0).notes[0]
    chosen = DomainIncremental(domains="1,2,10").build([file], seed=0)
    assert chosen.notes == ()


@pytest.mark.parametrize(
    ("names", "order", "moved"),
    [
        (TEXT, BACKWARDS, True),
        (TEXT, [str(c) for c in BACKWARDS], False),
        (TEXT, "icarl1993", True),
        (TEXT, "natural", False),
        ([*"0123"], [3, 2, 1, 0], False),
        ([*"0123"], "icarl1993", False),
        ([*"abcd"], [3, 2, 1, 0], False),
        ([*"abcd"], "icarl1993", False),
        ([*"abcd"], "random", False),
    ],
)
def test_runs_have_a_new_place_only_where_the_order_was_another(
    names: list[str], order: Any, moved: bool, tmp_path: Path
) -> None:
    if not isinstance(order, str):
        (tmp_path / "order.json").write_text(json.dumps(order))
        order = str(tmp_path / "order.json")
    protocol = IncrementalClass(order=order)
    assert bool(protocol.later_readings([named(tmp_path, names)])) == moved
