"""Tables that are wider than the terminal: columns go, numbers and names stay."""

import fcntl
import io
import os
import re
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from bridge_records import shown
from report_records import keep, make

from embedbench.cli.command_output import show_tables
from embedbench.files.inspect import provenance_lines
from embedbench.papers.paper_table import PaperTable, Value
from embedbench.papers.paper_table import table_parts as paper_parts
from embedbench.reports.compare_learners import ComparisonStudy, studies
from embedbench.reports.comparison_tables import rank_learners, spread_over_orders
from embedbench.reports.frozen_vs_full import bridge, bridge_parts
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.scores.mean_intervals import Stat
from embedbench.text import terminal_text
from embedbench.text.printable_text import printable
from embedbench.text.terminal_text import (
    align_pairs,
    fit_width,
    line,
    new_table,
    render_text,
)

NAME = "a-learner-with-a-long-name"
LEFT_OUT = re.compile(r"\d+ columns? left out; widen the terminal or use --json")
NUMBER = re.compile(r"[\d.,±−]*\d")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learners over three orders, one on images as well, one with single seeds varied."""
    place = tmp_path_factory.mktemp("runs")
    for name in (NAME, "mlp"):
        for s in range(3):
            keep(place, make(name, seed=s, final=0.1 + 0.4 * s))
            keep(place, shown(name, seed=s, final=0.1 + 0.3 * s), stream="images")
    return place


def _paper(_: Path) -> str:
    values = {c: Value(0.512, Stat.of([0.1, 0.2])) for c in ("MNIST", "CUB-200", "AudioSet")}
    table = PaperTable("2", "Ω", ("data", "learner"), tuple(values))
    table.add(("first data", NAME), values)
    table.add(("other data", "mlp"), values)
    return render_text(paper_parts(table))


def _study(runs: Path) -> ComparisonStudy:
    return studies(collect(runs), "final_accuracy")[0]


TEXTS: dict[str, Callable[[Path], str]] = {
    "report": lambda runs: table_text(collect(runs), width=terminal_text.terminal_width()),
    "compare": lambda runs: render_text(rank_learners(_study(runs)).parts),
    "by order": lambda runs: render_text(spread_over_orders(_study(runs)).parts),
    "bridge": lambda runs: render_text(bridge_parts(bridge(collect(runs)))),
    "paper": _paper,
}


@pytest.mark.parametrize("width", [100, 60, 30])
@pytest.mark.parametrize("kind", TEXTS)
def test_columns_are_left_out_whole(
    kind: str, width: int, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = TEXTS[kind](runs)
    assert not LEFT_OUT.search(wide)  # no terminal: all is there, one line a row
    assert NAME in wide
    monkeypatch.setattr(terminal_text, "terminal_width", lambda: width)
    narrow = TEXTS[kind](runs)
    assert "…" not in narrow
    assert "mlp" in narrow
    assert max(map(len, narrow.splitlines())) <= width
    rest = LEFT_OUT.sub("", " ".join(narrow.split()))
    fits = width > 60 or (kind, width) == ("compare", 60)
    assert len(rest) < len(" ".join(narrow.split())) or fits
    assert set(NUMBER.findall(rest)) <= set(NUMBER.findall(wide))


def test_a_name_is_folded_and_the_first_number_stays() -> None:
    made = new_table(["learner", "n", "mean"])
    made.add_row(*map(line, (NAME, "12,345", "0.5")))
    assert render_text([made], width=16).splitlines()[:3] == [
        "learner        n",
        "a-learne  12,345",
        "r-with-a",
    ]
    made = new_table(["learner", "n"])
    made.add_row(line("mlp"), line("1,234,567,890"))
    assert render_text([made], width=10).splitlines()[1] == "mlp      1,234,567,890"


def test_pairs_are_folded_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("content digest", "0123456789" * 6), ("b", "some words that go on for long")]
    assert align_pairs(pairs).splitlines()[0] == f"content digest  {pairs[0][1]}"
    monkeypatch.setattr(terminal_text, "terminal_width", lambda: 42)
    made = align_pairs(pairs).splitlines()
    assert max(map(len, made)) <= 42
    assert "".join("".join(made).split()) == "".join("".join(map("".join, pairs)).split())


def test_sentences_end_lines_at_words() -> None:
    text = "it holds 11.0 MB and learns in 0.034 s (chance: 1.2 %); see /a/path/that/is/long"
    assert fit_width(text, None) == fit_width(text, 200) == text
    assert fit_width(text, 13).split("\n") == [
        *("it holds 11.0", "MB and learns", "in 0.034 s", "(chance: 1.2", "%); see"),
        "/a/path/that/is/long",
    ]
    assert fit_width("    ab cd ef", 9) == "    ab cd\n    ef"
    assert render_text([line("it holds 11.0 MB")], width=13) == "it holds 11.0\nMB"


def test_printable() -> None:
    assert printable("a\x1b[31m\x9bb\r\nc\u202ed\udcff\u2028é名") == "a[31mb  cd\ufffd é名"
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
        assert (out, err.count("\n")) == ("", said)


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
