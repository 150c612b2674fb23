"""Names and provenance that would steer a terminal, a page or rich's markup are mere text."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import Call
from rich.console import Console

from embedbench.cli.command_output import bar, note
from embedbench.cli.shared_options import fetching
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.scores import record_files

EVIL = "[/]\x1b]0;title\x07\x1b[2J\x9b31m[link=x]<script>$\\frac{$\u202e\x85name"
SEEN = "[/]]0;title[2J31m[link=x]<script>$\\frac{$ name"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of such names, and a run whose record has them."""
    place, y = tmp_path_factory.mktemp("evil"), np.arange(40) % 2
    x = (np.eye(2)[y] + 0.1 * np.random.default_rng(0).normal(size=(40, 2))).astype(np.float32)
    ids = np.array([f"{EVIL}{i}" for i in range(40)])
    split = np.where(np.arange(40) < 30, TRAIN, TEST)
    samples = Samples(ids, y, split, (f"{EVIL}a", f"{EVIL}b"), np.full(2, -1))
    write_file(place / "a.h5", samples, x, {"source": {"name": EVIL, EVIL: EVIL}})
    write_file(place / "b.h5", samples, x + np.float32(1e-3), {"source": {"name": EVIL}})
    return place


def test_commands_print_mere_text(call: Call, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(*words: str) -> str:
        _, out, err = call(*words)
        return out + err

    monkeypatch.chdir(place)
    run = ["--protocol", "incremental-class", "--learner", "ncm", "--out", "runs", "--quiet"]
    quick = ["--device", "cpu", "--jobs", "1", "--set", "offline.mlp.stop.epochs=1"]
    text = printed("run", "a.h5", *run, *quick)
    assert not CONTROL.search(text)
    for found in record_files.find(place / "runs"):
        data = json.loads((found / "record.json").read_text("utf-8"))
        data |= {"learner": f"{EVIL}{data['learner']}", "flags": [EVIL], "notes": [EVIL]}
        (found / "record.json").write_text(json.dumps(data), "utf-8")
    bad = place / "runs" / "\x1b[2Jbad"
    bad.mkdir()
    (bad / "record.json").write_text("[]")
    for words in (
        ["inspect", "a.h5"],
        ["diff", "a.h5", "b.h5"],
        ["order", "a.h5", "--kind", "natural", "--out", "order.json"],
        ["report", "runs", "--html", "page.html"],
        ["run", EVIL, *run, *quick],
    ):
        text = printed(*words)
        assert SEEN in text or words[0] == "order", words
        assert not CONTROL.search(text), words
    assert "[2Jbad" in printed("report", "runs")
    assert json.loads(printed("inspect", "a.h5", "--json"))["provenance"]["source"]["name"] == EVIL
    page = (place / "page.html").read_text("utf-8")
    assert not CONTROL.search(page)
    assert "<script" not in page
    assert page.count(SEEN.replace("<", "&lt;").replace(">", "&gt;")) > 3


def test_bars_take_text(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def console(*, stderr: bool) -> Console:
        return Console(stderr=stderr, force_terminal=True, width=120)

    monkeypatch.setattr("rich.console.Console", console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar("cells", quiet=False) as advance:
        advance(EVIL, 1, 2)
    printed = capfd.readouterr().err
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed)
    assert SEEN in plain
    assert " 1/2 " in plain
    assert "\x07" not in printed
    assert printed.endswith("\x1b[2K")  # the bar is gone
    note(f"{EVIL}\nb")
    assert capfd.readouterr().err == f"{SEEN}\nb\n"
    with fetching(quiet=False) as how:  # counts megabytes
        _ = how["progress"](3_700_000, 7_200_000), how["notify"]("kept")
    assert re.search("kept(.|\n)*3/7", capfd.readouterr().err)
