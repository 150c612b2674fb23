"""The commands: runs pack, runs merge, report --site."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError


def command(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, words)))
    if isinstance(result.exception, UserError):
        raise result.exception
    return result.exit_code, result.output


def test_from_runs_to_a_board(team: Path, lean: Path, tmp_path: Path) -> None:
    zipped, site, runs = tmp_path / "b.zip", tmp_path / "site", tmp_path / "runs"
    code, text = command("runs", "merge", lean, "--out", runs, "--json")
    assert (code, json.loads(text)["left_out"]) == (0, [])
    assert command("score", runs)[0] == 0
    words = ["runs", "pack", runs, "--out", zipped, "--by", "Team B"]
    code, text = command(*words)
    assert (code, "SHA-256" in text) == (0, True)
    with pytest.raises(UserError, match="is there already"):
        command(*words)
    report = ["--site", site, "--data", team / "e.h5"]
    code, text = command("report", zipped, *report)
    assert (code, f"wrote {site / 'index.html'}" in text) == (0, True)
    made = json.loads((site / "board.json").read_text())
    assert [(s["ranked"], s["unranked"]) for s in made["submissions"]] == [(3, [])]
    code, text = command("report", lean, zipped, *report, "--overwrite")
    assert (code, "a duplicate: a.zip has this run" in text) == (1, True)


def test_options_that_do_not_go_together(team: Path, tmp_path: Path) -> None:
    site = ["--site", tmp_path / "site"]
    for words, why in (
        ([team / "runs", *site], "--site takes packs"),
        ([team / "a.zip", "--data", team / "e.h5"], "add --site DIR"),
        ([team / "a.zip", *site, "--compare"], "--site makes pages of its own"),
        ([team / "a.zip", *site, "--data", tmp_path / "no.h5"], r"no\.h5"),
    ):
        with pytest.raises(UserError, match=why):
            command("report", *words)
    assert not list(tmp_path.iterdir())
