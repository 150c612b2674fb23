"""The board: honest packs and others, and pages that hold nothing but text of packs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packs import edited, edited_record, forged, runs_of

from embedbench.errors import UserError
from embedbench.scores import record
from embedbench.scores.predictions import Predictions
from embedbench.sharing.board import board
from embedbench.sharing.board_pages import write_board
from embedbench.sharing.board_parts import Board
from embedbench.sharing.pack import pack
from embedbench.sharing.unpack import unpacked

NCM, SLDA = "ncm-", "slda-"


def perfect(predictions: Predictions) -> Predictions:
    """The labels are what was answered at last."""
    return replace(predictions, y=predictions.answer[-1].astype(np.int64))


def better(values: Any) -> None:
    values["metrics"]["final_accuracy"] = 0.99


@pytest.fixture(scope="module")
def five(team: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A pack, and four others: one is honest and on another file."""
    folder = tmp_path_factory.mktemp("packs")
    a = team / "a.zip"
    other = folder / "other"
    other.mkdir()
    pack(runs_of(other, "ncm", width=12), folder / "other.zip")
    return {
        "honest": a,
        "metric": edited_record(a, folder / "metric.zip", NCM, better),
        "predictions": edited(
            a, folder / "predictions.zip", SLDA, lambda data: data[:-1] + bytes([data[-1] ^ 1])
        ),
        "forged": forged(a, folder / "forged.zip", NCM, perfect),
        "other": folder / "other.zip",
    }


@pytest.fixture(scope="module")
def made(five: dict[str, Path], team: Path) -> Board:
    return board([*five.values()], [team / "e.h5"])


def test_what_fails_is_named_and_left_out(made: Board, five: dict[str, Path]) -> None:
    left = {s.pack: [(x.run, x.reason) for x in s.left_out] for s in made.submissions}
    assert left["a.zip"] == left["other.zip"] == []
    ((run, reason),) = left["metric.zip"]
    assert NCM in run
    assert re.fullmatch(
        r"metrics.final_accuracy is 0.99 in its record and 0\.\d+ from its predictions", reason
    )
    ((run, reason),) = left["predictions.zip"]
    assert SLDA in run
    assert "predictions.h5 is not the file that its record was made from" in reason
    assert len(left["forged.zip"]) == 2
    for run, reason in left["forged.zip"]:
        assert NCM in run
        assert reason == "its true labels are not those of the stream rebuilt from e.h5"
    assert not any("/tmp" in reason for each in left.values() for _, reason in each)
    counts = {s.pack: (s.runs, s.compared) for s in made.submissions}
    assert counts["a.zip"][0] == counts["a.zip"][1] == counts["metric.zip"][0] + 1
    assert counts["other.zip"][1] == 0
    (why,) = made.submissions[-1].not_compared
    assert why == "e.h5 with its digests is not here; --data FILE gives it"


def test_runs_on_other_features_have_a_page_of_their_own(made: Board) -> None:
    assert len(made.streams) == 2
    first, other = sorted(made.streams, key=lambda s: -len(s.entries))
    assert {e.by for e in first.entries} == {"Team A", "Forger"}
    assert {e.pack for e in other.entries} == {made.submissions[-1].sha256}
    assert not any(e.compared for e in other.entries)
    assert all(e.compared for e in first.entries)
    labels = [e.label for e in first.entries]
    assert len(set(labels)) == len(labels)
    # one ncm of the metric pack is left, and none of the forger's
    assert sorted(e.n for e in first.entries if e.learner == "ncm") == [1, 2, 2]


def test_the_numbers_are_recomputed(made: Board, team: Path) -> None:
    """Those of the original runs, from the predictions alone."""
    first = max(made.streams, key=lambda s: len(s.entries))
    for name in ("ncm", "slda"):
        places = [p for p in record.find(team / "runs") if p.parent.name.startswith(f"{name}-")]
        records = [record.evaluate(record.load(p), p, team / "runs") for p in places]
        (entry,) = [
            e for e in first.entries if e.learner == name and e.pack == made.submissions[0].sha256
        ]
        expected = {
            "final_accuracy": [r.metrics["final_accuracy"] for r in records],
            "omega_all": [r.metrics["omega_all"] for r in records],
            "raa": [np.nanmean((r.curves or {})["raa"]) for r in records],
            "memory": [r.footprint["total"] for r in records],
            "seconds": [r.seconds.learn for r in records],
        }
        for metric, values in expected.items():
            np.testing.assert_allclose(entry.metrics[metric].values, values, rtol=1e-12)
            assert entry.metrics[metric].mean == pytest.approx(np.mean(values))
    ranked = [e for e in first.entries if e.learns]
    assert [e.metrics["final_accuracy"].mean for e in ranked] == sorted(
        (e.metrics["final_accuracy"].mean for e in ranked), reverse=True
    )
    same = [e for e in ranked if e.learner == "slda" and e.n == 2]
    assert len({e.ranks["final_accuracy"] for e in same}) == 1


def test_less_memory_is_better(made: Board) -> None:
    ranking = max(made.streams, key=lambda s: len(s.entries)).rankings["memory"]
    means = [learner.mean for learner in ranking.learners]
    assert means == sorted(means)
    assert means[0] < means[-1]


def test_a_forged_reference_gives_no_omega(team: Path, tmp_path: Path) -> None:
    """α_ideal would be 1; without the offline runs Ω is undefined, whatever the records say."""
    path = forged(team / "a.zip", tmp_path / "b.zip", "offline", perfect)
    made = board([path], [team / "e.h5"])
    (stream,) = made.streams
    left = made.submissions[0].left_out
    assert left
    assert all("references/" in one.run for one in left)
    for entry in stream.entries:
        assert np.isnan(entry.metrics["omega_all"].mean)
        assert not np.isnan(entry.metrics["final_accuracy"].mean)


def test_digests_of_another_stream(team: Path, tmp_path: Path) -> None:
    def other(values: Any) -> None:
        values["digests"]["eval"] = "0" * 64

    path = edited_record(team / "a.zip", tmp_path / "b.zip", NCM, other)
    for data, why in (
        ([team / "e.h5"], "its digest 'eval' is not that of the stream rebuilt from e.h5"),
        ([], "its training or test data are not those of the other runs on this stream"),
    ):
        (left,) = board([path], data).submissions[0].left_out
        assert left.reason == why


def test_nothing_that_a_record_names_is_opened_or_imported(
    team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o.json").write_text("[0, 1, 2, 3, 4, 5]")
    (tmp_path / "evil.py").write_text("raise SystemExit(7)")
    changes = {
        "its protocol reads a file": {"protocol_params": {"order": "o.json"}},
        "its protocol has sessions=": {"protocol_params": {"sessions": 10**9}},
        "is code of others, which is not run": {"protocol": "evil:Mine"},
    }
    for why, change in changes.items():
        path = edited_record(
            team / "a.zip", tmp_path / "b.zip", SLDA, lambda values, c=change: values.update(c)
        )
        submission = board([path], [team / "e.h5"]).submissions[0]
        assert any(why in reason for reason in submission.not_compared), submission


def test_a_pack_that_cannot_be_read_is_listed(team: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_text("no archive")
    said: list[str] = []
    made = board([tmp_path / "bad.zip", team / "a.zip"], [team / "e.h5"], said.append)
    assert "cannot be read as a zip archive" in str(made.submissions[0].refused)
    assert len(said) == 1
    with pytest.raises(UserError, match="no run of these packs is left"):
        board([tmp_path / "bad.zip"])


class Tags(HTMLParser):
    """The tags of a page, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.loaded, self.bold = 0, list[str](), 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.bold += tag == "marquee"
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href") and not str(value).endswith((".html", "board.json")):
                self.loaded.append(str(value))


EVIL = '<marquee onclick=x></marquee><script>alert("x")</script>\x1b[31m{{ 7*7 }}'


def test_pages_hold_texts_of_packs_as_text(team: Path, tmp_path: Path) -> None:
    def evil(values: Any) -> None:
        values["learner_params"] = {EVIL: EVIL}
        values["learner"] = f"a:{EVIL}"
        values["command"] = EVIL
        values["environment"] = {"embedbench": EVIL, "device": EVIL}
        values["flags"] = []
        values["packages"] = {"learner": {"name": EVIL, "version": EVIL}}
        values["protocol_params"] = {EVIL: EVIL}
        values["files"][0]["name"] = EVIL
        values["digests"]["recipe"] = "../../../x"

    path = edited_record(team / "a.zip", tmp_path / "<b>.zip", NCM, evil)
    info = {"schema": "embedbench-pack/1.0", "by": EVIL}
    path = edited(path, tmp_path / "<i>.zip", "pack.json", lambda _: json.dumps(info).encode())
    made = board([path, team / "a.zip"])
    pages = write_board(made, tmp_path / "site")
    assert {p.parent for p in pages} == {tmp_path / "site"}
    for page in pages:
        text = page.read_text()
        assert "\x1b" not in text
        if page.suffix == ".html":
            tags = Tags(text)
            assert (tags.scripts, tags.bold) == (int(page.name != "index.html"), 0)
            assert tags.loaded == []
            assert "49" not in text.replace("{{ 7*7 }}", "") or "7*7" in text
            assert "http" not in text
    assert any("&lt;marquee" in page.read_text() for page in pages)


def test_the_json_beside_has_all_numbers(made: Board, tmp_path: Path) -> None:
    index, *_ = write_board(made, tmp_path / "site")
    text = (tmp_path / "site" / "board.json").read_text()
    assert Board.from_json(json.loads(text)).to_json() == made.to_json()
    assert "recomputed, not re-run" in index.read_text()
    for stream in made.streams:
        page = (tmp_path / "site" / stream.page).read_text()
        assert stream.page in index.read_text()
        for entry in stream.entries:
            assert f'data-sort="{entry.metrics["final_accuracy"].mean!r}"' in page


def test_a_site_is_replaced_only_if_it_is_one(made: Board, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files and no board"):
        write_board(made, tmp_path, overwrite=True)
    site = tmp_path / "site"
    write_board(made, site)
    with pytest.raises(UserError, match="--overwrite"):
        write_board(made, site)
    (site / "stream-old.html").write_text("")
    (site / "CNAME").write_text("")
    write_board(made, site, overwrite=True)
    assert not (site / "stream-old.html").exists()
    assert (site / "CNAME").exists()


def test_the_packs_are_untouched(five: dict[str, Path], team: Path) -> None:
    before = five["honest"].read_bytes()
    with unpacked(five["honest"]) as one:
        folder = one.folder
    assert not folder.exists()
    assert five["honest"].read_bytes() == before
