"""Streams of some of a file's classes: by number, by name, in every order."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench import build_stream
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.streams.load_table import load_table
from embedbench.streams.make_sessions import flat_spec, one_file, split_rows, view_session
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of


@pytest.fixture
def eight(tmp_path: Path) -> EmbeddingFile:
    """Classes a to h: rows 4c, 4c + 1 and 4c + 2 to learn from, 4c + 3 to test on."""
    return make_file(tmp_path, [3] * 8, [0] * 8, [1] * 8)


def in_order(stream: Stream) -> str:
    """The names of the classes as the sessions introduce them."""
    return "".join(stream.classes[c] for s in stream.sessions for c in s.classes)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ("all", "abcdefgh"),
        (3, "abc"),
        ("3", "abc"),
        ("8", "abcdefgh"),
        ("h,b,c", "bch"),
        (["h", "b"], "bh"),
        ("5,1", "bf"),  # no class is named by a number: positions, as in an order file
    ],
)
def test_the_classes_of_the_file_in_its_order(
    eight: EmbeddingFile, classes: Any, expected: str
) -> None:
    assert in_order(build_stream(eight, "incremental-class", classes=classes)) == expected


def test_samples_of_other_classes_are_left_out(eight: EmbeddingFile) -> None:
    stream = IncrementalClass(classes="b,g", base=1, validation="none").build([eight], seed=0)
    assert [rows_of(s.x).tolist() for s in stream.sessions] == [[4, 5, 6], [24, 25, 26]]
    assert [rows_of(e.x).tolist() for e in stream.eval_sets] == [[7], [27]]
    assert [s.y.tolist() for s in stream.sessions] == [[0] * 3, [1] * 3]


def test_a_note_says_what_is_left_out(eight: EmbeddingFile) -> None:
    (note,) = IncrementalClass(classes=6).build([eight], seed=0).notes
    assert note == (
        "classes of file.h5 outside protocol.classes (2 of 8 with 8 of 32 samples), left out: g, h"
    )


def test_a_drawn_order_has_the_same_classes_whatever_the_seed(eight: EmbeddingFile) -> None:
    protocol = IncrementalClass(classes=4, order="random")
    drawn = [in_order(protocol.build([eight], seed=seed)) for seed in range(4)]
    assert {"".join(sorted(names)) for names in drawn} == {"abcd"}


def test_the_seed_draws_the_order(eight: EmbeddingFile) -> None:
    protocol = IncrementalClass(classes=4, order="random")
    assert len({in_order(protocol.build([eight], seed=seed)) for seed in range(4)}) > 1


def test_a_number_takes_the_first_of_an_order_file(eight: EmbeddingFile, tmp_path: Path) -> None:
    order = tmp_path / "order.txt"
    order.write_text("\n".join("hgfedcba"))
    protocol = IncrementalClass(classes=3, order=str(order))
    assert in_order(protocol.build([eight], seed=0)) == "hgf"


def test_a_number_takes_the_first_of_icarls_order(eight: EmbeddingFile) -> None:
    first = np.random.RandomState(1993).permutation(8)[:3]
    stream = IncrementalClass(classes=3, order="icarl1993").build([eight], seed=0)
    assert in_order(stream) == "".join("abcdefgh"[c] for c in first)


def test_names_are_ordered_as_if_the_file_had_no_others(eight: EmbeddingFile) -> None:
    permuted = np.random.RandomState(1993).permutation(3)
    stream = IncrementalClass(classes="b,d,h", order="icarl1993").build([eight], seed=0)
    assert in_order(stream) == "".join("bdh"[c] for c in permuted)


def test_a_name_with_a_comma_stands_in_quotes(tmp_path: Path) -> None:
    names = ("dog, boxer", "cat", "x", "y")
    file = make_file(tmp_path, classes=names)
    stream = build_stream(file, "incremental-class", classes='cat,"dog, boxer"')
    assert stream.classes == ("dog, boxer", "cat")


def test_numbers_that_name_classes_are_names(tmp_path: Path) -> None:
    file = make_file(tmp_path, classes=("7", "8", "9", "1"))
    assert build_stream(file, "incremental-class", classes="9,7").classes == ("7", "9")


@pytest.mark.parametrize(
    "protocol", ["permutation", "instance", "mixture", "fscil", "domain-incremental"]
)
def test_every_protocol_of_one_file_takes_a_subset(protocol: str, tmp_path: Path) -> None:
    columns = {"group": np.repeat("g", 88), "domain": np.tile(["day", "night"], 44)}
    file = make_file(tmp_path, [9] * 8, [0] * 8, [2] * 8, columns=columns)
    stream = build_stream(file, protocol, classes="a,c,e,g,h")
    assert stream.classes == ("a", "c", "e", "g", "h")


@pytest.mark.parametrize("protocol", ["iirc", "multi-modal"])
def test_others_refuse_it(protocol: str, tmp_path: Path) -> None:
    files = [make_file(tmp_path, name=f"{k}.h5", width=4 + k) for k in range(2)]
    given = files[:1] if protocol == "iirc" else files
    with pytest.raises(UserError, match=r"iirc\.classes must be all|multi-modal takes all classes"):
        build_stream(given, protocol, classes=2)


def test_a_protocol_from_outside_that_ignores_it_is_refused(eight: EmbeddingFile) -> None:
    class Plain(Protocol):
        name = "plain"

        def build(self, files: Any, *, seed: int) -> Stream:
            file = one_file(files, self.name)
            split = split_rows(file, self.validation, self.val_fraction)
            table, features, _ = load_table(file, "none", split.train)
            pair = view_session(table, file, split, classes=np.arange(file.samples.n_leaves))
            return self.make_stream(flat_spec(table, file), [pair], [file], features)

    with pytest.raises(UserError, match=r"plain takes all classes .* protocol\.classes out"):
        Plain(classes=4).build([eight], seed=0)


@pytest.mark.parametrize("value", ["1", "-3", "", "a", "a,,b", "a,a", True, 2.5])
def test_what_fits_no_file_is_refused(value: Any) -> None:
    expected = "all, a number of classes from 2 on, or two or more names with commas, each once"
    with pytest.raises(
        UserError, check=says(what="protocol.classes", got=value, expected=expected)
    ):
        IncrementalClass(classes=value)


@pytest.mark.parametrize(
    ("value", "refusal"),
    [
        (9, {"check": says(what="protocol.classes", got=9)}),
        ("a,bb", {"match": r"^protocol\.classes: unknown class of file\.h5 'bb'\. "}),
        ("a,0", {"match": "names a class twice"}),
    ],
)
def test_what_does_not_fit_the_file_is_refused(
    eight: EmbeddingFile, value: Any, refusal: Any
) -> None:
    with pytest.raises(UserError, **refusal):
        IncrementalClass(classes=value).build([eight], seed=0)


def test_a_class_that_is_not_taught_is_refused(tmp_path: Path) -> None:
    file = make_file(tmp_path, train=(4, 0, 4, 4))
    with pytest.raises(UserError, match="names 'b', which has no training samples"):
        IncrementalClass(classes="a,b").build([file], seed=0)


def test_equal_choices_have_one_recipe() -> None:
    values: tuple[Any, ...] = ("b,a", "a, b", ["b", "a"], ("a", "b"))
    assert len({IncrementalClass(classes=value).recipe() for value in values}) == 1


def test_all_classes_are_not_in_the_recipe() -> None:
    assert "classes" not in IncrementalClass().recipe()
