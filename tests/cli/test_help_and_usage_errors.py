"""Help with headings, and remarks that fit the terminal."""

import inspect
import re
import sys
from typing import Any

import pytest
import typer
from click import Context
from commands import Call

from embedbench.cli.app import app
from embedbench.cli.command_output import note
from embedbench.cli.help_and_usage_errors import GROUPS, HEADINGS, App

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def test_options_that_add_up_and_flags_may_come_again(call: Call) -> None:
    adding = [w for name in ("--set", "--tune", "--learner") for w in (name, "a", name, "b")]
    params = COMMANDS["run"].make_context("run", ["a.h5", "b.h5", "--out", "c", *adding]).params
    assert [list(params[name]) for name in ("settings", "tune", "learner")] == [["a", "b"]] * 3
    code, out, _ = call("list", "trackers", "--json", "--json")
    assert code == 0
    assert out[:1] == "["


def test_every_option_of_a_heading_is_one(call: Call) -> None:
    every = COMMANDS | COMMANDS["runs"].commands
    assert set(HEADINGS) <= {param.name for command in every.values() for param in command.params}
    assert len(HEADINGS) == sum(len(listed.split()) for listed in GROUPS.values())


@pytest.mark.parametrize(("options", "heading"), [(11, None), (12, "Output")])
def test_more_than_twelve_options_have_headings(options: int, heading: str | None) -> None:
    """With that of the help."""

    def many(**_: bool) -> None:
        """Do much."""

    kind = inspect.Parameter.KEYWORD_ONLY
    each = {"quiet": bool, **{f"p{i}": bool for i in range(options - 1)}}
    listed = [inspect.Parameter(n, kind, default=False, annotation=bool) for n in each]
    many.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    many.__annotations__ = each
    made = App(add_completion=False)
    made.command()(many)
    command: Any = typer.main.get_command(made)
    (quiet,) = (p for p in command.get_params(Context(command)) if p.name == "quiet")
    assert getattr(quiet, "rich_help_panel", None) == heading


@pytest.mark.parametrize("width", [60, 200])
def test_help_fits_with_headings(call: Call, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", width)
    for words in ((), ("run",), ("extract",), ("runs",)):
        _, out, err = call(*words, "--help")
        assert not err
        assert max(map(len, out.splitlines())) <= width
        assert "..." not in out.partition("\n\n")[2]  # no sentence is cut
    _, out, _ = call("run", "--help")
    headings = re.findall(r"^╭─ (\w+)", out, re.MULTILINE)
    assert headings[:2] == ["Arguments", "Options"]
    assert {*headings[2:]} == {"Network", "Tuning", "Study", "Machine", "Output"}
    few = call("verify", "--help")[1]
    assert re.findall(r"^╭─ (\w+)", few, re.MULTILINE) == ["Arguments", "Options"]
    assert call("--version") == (0, "embedbench 0.1.0\n", "")
    code, out, err = call()  # no words: the help, and no sentence
    assert code == 2
    assert "Usage: " in out
    assert "embedbench: " not in err


def test_remarks_and_errors_end_lines_at_words(
    call: Call, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    note("several words " * 10)
    assert capfd.readouterr().err.count("\n") == 1  # no terminal: one line
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for words in (("list", "x"), ("lsit",), ("run", "--seed", "x"), ("report", "nowhere")):
        code, _, err = call(*words)
        assert code == 2
        assert max(map(len, err.splitlines())) <= 40
        plain = " ".join(err.split())
        monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
        assert call(*words)[2] == f"{plain}\n"
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
