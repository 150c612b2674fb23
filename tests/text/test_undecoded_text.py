"""Names and command lines with bytes that are not UTF-8: escapes, and what a shell makes of it."""

import subprocess
from typing import Any

import pytest
from file_helpers import says
from hypothesis import given
from hypothesis import strategies as st

from embedbench.errors import UserError
from embedbench.text.undecoded_text import as_text, check_text, join_words, split_words

LETTERS = st.sampled_from("a0xu$'\"\\ \n\t-|;*é\udce9\udcff\udc80")
WORDS = st.lists(st.text(LETTERS, max_size=6), max_size=5)


@given(WORDS)
def test_words_come_back(words: list[str]) -> None:
    command = join_words(words).encode()
    assert split_words(command.decode()) == words


@pytest.mark.parametrize(
    "words",
    [
        ["donn\udce9es/s.h5", "a b", "it's", ""],
        ["\udce9'\\x\n$(date)", "$'a'", "a$", "\\"],
    ],
)
def test_a_shell_gives_the_same_bytes(words: list[str]) -> None:
    script = f"printf '%s\\0' {join_words(words)}"
    made = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True).stdout
    assert made.split(b"\0")[:-1] == [word.encode("utf-8", "surrogateescape") for word in words]


@pytest.mark.parametrize("command", ["'a", "a 'b", '"', "$'a"])
def test_an_open_quotation_is_no_command(command: str) -> None:
    with pytest.raises(ValueError, match="quotation"):
        split_words(command)


def test_names_that_are_text_stay() -> None:
    assert [as_text(name) for name in ("é.h5", "a\\xe9", "")] == ["é.h5", "a\\xe9", ""]
    assert as_text("\udce9\ud800.h5") == r"\xe9\ud800.h5"


@pytest.mark.parametrize(
    ("value", "name"),
    [("\udce9", "it"), ({"a": [1, "b\ud800"]}, "it.a"), ({"\udce9": 1}, "a key of it")],
)
def test_what_no_record_can_hold_is_refused(value: Any, name: str) -> None:
    with pytest.raises(UserError, check=says(what=name, expected="a text in UTF-8")):
        check_text(value, name="it")
