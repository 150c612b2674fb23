"""Tables that are wider than the terminal: columns go, numbers and names stay."""

import fcntl
import io
import os
import re
import struct
import sys
import termios
from pathlib import Path

import pytest
from report_records import keep, make
from rich.table import Table

from embedbench.cli.command_output import show_tables
from embedbench.files.inspect import provenance_lines
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.text import terminal_text
from embedbench.text.printable_text import printable
from embedbench.text.terminal_text import align_pairs, fit_width, line, new_table, render_text

NAME = "a-learner-with-a-long-name"


def test_columns_are_left_out_whole_and_a_name_is_folded() -> None:
    def rendered(width: int | None) -> list[str]:
        table = new_table(["learner", "n", "mean", "Δ"])
        for row in (("mlp", "12,345", "0.5", "−1.25"), (NAME, "6", "10.5 ±0.1", "2")):
            table.add_row(*map(line, row))
        return render_text([table], width=width).splitlines()

    whole = [
        "learner                          n       mean      Δ",
        "mlp                         12,345        0.5  −1.25",
        "a-learner-with-a-long-name       6  10.5 ±0.1      2",
    ]
    assert rendered(None) == rendered(52) == whole
    assert rendered(34) == [
        "learner        n       mean      Δ",
        "mlp       12,345        0.5  −1.25",
        "a-learne       6  10.5 ±0.1      2",
        "r-with-a",
        "-long-na",
        "me",
    ]
    assert rendered(33) == [
        "learner              n       mean",
        "mlp             12,345        0.5",
        "a-learner-with       6  10.5 ±0.1",
        "-a-long-name",
        "1 column left out; widen the",
        "terminal or use --json",
    ]
    assert [rendered(width)[1] for width in (27, 26, 3)] == [
        "mlp       12,345        0.5",
        "mlp                 12,345",
        "mlp       12,345",
    ]
    assert rendered(26)[-2:] == ["2 columns left out; widen", "the terminal or use --json"]


def test_pairs_are_folded_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("content digest", "0123456789" * 6), ("b", "some words that go on for long")]
    assert align_pairs(pairs) == f"content digest  {pairs[0][1]}\nb{' ' * 15}{pairs[1][1]}"
    monkeypatch.setattr(terminal_text, "terminal_width", lambda: 42)
    made = align_pairs(pairs).splitlines()
    assert max(map(len, made)) <= 42
    assert "".join("".join(made).split()) == "".join("".join(map("".join, pairs)).split())


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "b"), ("l\xe4ng\xe9\u6f22", "c")],
        [("x\ny", "z\t1"), ("\x1b[0ma", "")],
        [("one", "alone")],
    ],
)
def test_pairs_without_a_terminal_are_those_of_a_wide_table(pairs: list[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    for pair in pairs:
        table.add_row(*map(line, pair))
    assert align_pairs(pairs) == render_text([table])


def test_sentences_end_lines_at_words() -> None:
    text = "it holds 11.0 MB and learns in 0.034 s (chance: 1.2 %); see /a/path-that/is/long"
    assert fit_width(text, None) == fit_width(text, 200) == text
    assert fit_width(text, 13).split("\n") == [
        *("it holds 11.0", "MB and learns", "in 0.034 s", "(chance: 1.2", "%); see"),
        "/a/path-that/is/long",
    ]
    assert fit_width("    ab cd ef", 9) == "    ab cd\n    ef"
    assert render_text([line("it holds 11.0 MB")], width=13) == "it holds 11.0\nMB"


def test_printable() -> None:
    assert printable("a\x1b[31m\x9bb\r\nc\u202ed\ud800\u2028é名") == "a[31mb  cd\ufffd é名"
    assert printable("a\n\tb\x07", lines=True) == "a\n b"


@pytest.mark.parametrize(("kind", "bold"), [("xterm", True), ("dumb", False)])
def test_titles_are_bold_where_the_terminal_can(
    kind: str, bold: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [line("title", "bold")]
    monkeypatch.setenv("TERM", kind)
    show_tables("text", {}, [], parts)
    assert capsys.readouterr().out == "title\n"  # piped
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_tables("text", {}, [], parts)
    assert capsys.readouterr().out == ("\x1b[1mtitle\x1b[0m\n" if bold else "title\n")


def test_tables_to_paste_that_are_none_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    for form, parts, said in (("csv", [], 1), ("latex", [line("a")], 1), ("text", [], 0)):
        show_tables(form, {}, [], parts)
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == said


def test_flags_have_a_column_where_there_are_any(tmp_path: Path) -> None:
    keep(tmp_path, make("mlp"))
    assert "flags" not in table_text(collect(tmp_path))
    keep(tmp_path, make("ewc", flags=["not-learned"]))
    assert re.search(r"learn s  flags\n", table_text(collect(tmp_path)))


def test_a_table_in_the_provenance_is_said_in_words() -> None:
    made = {"backbone": {"layers": {"b1": "token", "b2": "token"}, "library": "timm", "name": "v"}}
    assert next(provenance_lines(made, 2)) == (
        "backbone",
        "name v, layers b1 b2 (token), library timm",
    )


def test_the_width_is_that_of_the_terminal_or_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 31, 0, 0))
    monkeypatch.delenv("COLUMNS", raising=False)
    with os.fdopen(outer, "wb"), os.fdopen(inner, "w", encoding="utf-8") as stream:
        assert terminal_text.terminal_width(stream) == 31
        monkeypatch.setenv("COLUMNS", "40")
        assert terminal_text.terminal_width(stream) == 40
        monkeypatch.delenv("COLUMNS")
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert terminal_text.terminal_width(stream) is None  # it does not say
    assert terminal_text.terminal_width(io.StringIO()) is None
