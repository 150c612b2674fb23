"""The board and its commands: honest packs beside others, pages with nothing but text of packs."""

import json
import re
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import refusal
from packs import Forgery, edited, edited_record, forged, runs_of
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.protocols.permutation import Permutation
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.verdict_sentence import verdict
from embedbench.scores import record_files
from embedbench.scores.run_record import FileInfo
from embedbench.sharing.board import Board, _unique, _whereabouts, board, write_board
from embedbench.sharing.pack import pack, unpack
from embedbench.sharing.verify_pack import Submission
from embedbench.storage.value_digest import digest

NCM, SLDA = "ncm-", "slda-"
EMOJI = "1b26db379e36d6df4f869cc85ec8c60c256b696c6e4338184231fc5d16affa54"


def spoilt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.fixture(scope="module")
def three(team: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A pack, one with damaged predictions, and an honest one on another file."""
    folder = tmp_path_factory.mktemp("packs")
    (other := folder / "other").mkdir()
    pack(runs_of(other, "ncm", width=12, references=0), folder / "other.zip", by="Team B")
    bad = edited(team / "a.zip", folder / "damaged.zip", SLDA, spoilt)
    return {"honest": team / "a.zip", "damaged": bad, "other": folder / "other.zip"}


@pytest.fixture(scope="module")
def made(three: dict[str, Path], team: Path) -> Board:
    return board([*three.values()], [team / "e.h5"])


def test_what_does_not_agree_is_named(made: Board) -> None:
    honest, damaged, other = made.submissions
    assert honest.unranked == ()
    assert honest.ranked == 6
    assert (honest.chance, damaged.chance) == (3, 3)
    assert damaged.repeated == 5
    (one,) = damaged.unranked
    assert SLDA in one.run
    assert "its record was" in one.reason
    assert damaged.ranked == 0
    assert other.ranked == 0  # without its file nothing is ranked
    assert len(other.unranked) == 6
    assert all("--data FILE" in one.reason for one in other.unranked)
    assert not any("/tmp" in one.reason for s in made.submissions for one in s.unranked)


def test_runs_on_other_features_have_their_page(three: dict[str, Path], team: Path) -> None:
    data = [team / "e.h5", three["other"].parent / "other" / "e.h5"]
    both = board([three["honest"], three["other"]], data)
    assert not any(one.unranked for one in both.submissions)
    other, first = both.streams  # of one title, by the names of their pages
    assert {e.by for e in first.entries} == {"Team A"}
    assert {e.by for e in other.entries} == {"Team B"}
    assert [e.verdict for e in other.entries] == [None, None]  # ncm alone, and chance


def test_the_numbers_are_recomputed(made: Board, team: Path) -> None:
    """Those of the original runs, from the predictions alone."""
    (first,) = made.streams
    for name in ("ncm", "slda"):
        places = sorted((team / "runs").glob(f"*/{name}-*/seed-*"))
        records = [record_files.evaluate(record_files.load(p), p, team / "runs") for p in places]
        (entry,) = (e for e in first.entries if e.learner == name)
        expected = {
            "final_accuracy": [r.metrics["final_accuracy"] for r in records],
            "omega_all": [r.metrics["omega_all"] for r in records],
            "raa": [(r.curves or {})["raa"][-1] for r in records],
            "memory": [r.footprint["total"] for r in records],
            "seconds": [r.seconds.learn for r in records],
        }
        for metric, values in expected.items():
            np.testing.assert_allclose(entry.metrics[metric].values, values, rtol=1e-12)
            assert entry.metrics[metric].mean == pytest.approx(np.mean(values))
        assert entry.n == 3
        assert entry.left_out == 0
        assert first.sessions == len(records[0].n_train)
        assert first.classes == 6
    assert [e.learns for e in first.entries] == [True, True, False]
    ranked = first.entries[:2]
    finals = [e.metrics["final_accuracy"].mean for e in ranked]
    assert finals == sorted(finals, reverse=True)
    verdicts = [e.verdict for e in ranked if e.verdict]
    # differences are equal in all seeds, and the answers are not
    assert [v.parts for v in verdicts] == [("test sample",)] * 2
    assert all(v.ranks[0] <= v.rank <= v.ranks[1] and v.groups > 1 for v in verdicts)
    assert not verdicts[0].behind


def test_a_page_names_the_score_that_it_ranks_by(made: Board, tmp_path: Path) -> None:
    write_board(made, tmp_path / "site")
    stream = made.streams[0]
    page = (tmp_path / "site" / stream.page).read_text()
    assert stream.score == "accuracy"
    assert "accuracy %</button>" in page
    assert "Rank, by the final accuracy:" in page


def stream_page(made: Board, tmp_path: Path) -> str:
    write_board(made, tmp_path / "site")
    return (tmp_path / "site" / made.streams[0].page).read_text()


def test_a_page_has_the_sentence_that_report_prints(
    made: Board, team: Path, tmp_path: Path
) -> None:
    sentence = verdict(collect(team / "runs"))
    assert f'<p class="verdict">verdict: {sentence}</p>' in stream_page(made, tmp_path)


def test_the_command_of_an_entry_has_all_its_seeds(made: Board) -> None:
    """It was that of seed 0, beside n = 3."""
    commands = {e.learner: e.command for e in made.streams[0].entries}
    assert all(commands[name].endswith(f"--learner {name} --seeds 0,1,2") for name in commands)


def test_the_command_of_one_seed_is_as_it_was_given(lean: Path, team: Path) -> None:
    (stream,) = board([lean], [team / "e.h5"]).streams
    assert all(entry.command.endswith("--seed 0") for entry in stream.entries)


def test_accuracy_comes_before_wider_columns(made: Board, tmp_path: Path) -> None:
    """A telephone shows the first three columns."""
    heads = re.findall(r'<button type="button">([^<]*)<', stream_page(made, tmp_path))
    assert heads[:5] == ["learner", "rank", "accuracy %", "n", "behind by (95 %)"]


def test_long_lines_of_the_last_columns_wrap(made: Board, tmp_path: Path) -> None:
    page = stream_page(made, tmp_path)
    assert page.count('<td class="text wrap"') == 2 * len(made.streams[0].entries)


@pytest.mark.parametrize(
    ("content", "url", "where"),
    [
        (EMOJI, None, "ships with embedbench as known:emoji-vit"),
        (EMOJI, "known:emoji-vit", "ships with embedbench as known:emoji-vit"),
        ("e" * 64, "https://a.org/e.h5", "can be had at https://a.org/e.h5"),
        ("e" * 64, None, "not stated where it can be had"),
    ],
)
def test_where_a_file_can_be_had(content: str, url: str | None, where: str) -> None:
    assert _whereabouts(FileInfo(name="a.h5", digests={"content": content}, url=url)) == where


def test_the_board_has_one_number_for_chance(made: Board) -> None:
    stream = made.streams[0]
    (chance,) = (entry for entry in stream.entries if entry.learner == "chance")
    assert chance.metrics["final_accuracy"].mean == pytest.approx(1 / stream.classes)


def test_labels_say_whose_they_are_where_that_is_needed() -> None:
    who = [Submission(f"{name}.zip", "", None if name == "c" else "A") for name in "abdce"]
    labels = ["ncm · A", "ncm · A (2)", "ncm · A (3)", "ncm · c.zip", "slda"]
    assert _unique(["ncm", "ncm", "ncm", "ncm", "slda"], who) == labels


def test_entries_without_a_seed_in_common_have_no_verdict(team: Path, tmp_path: Path) -> None:
    """Two packs, each with one learner: seed 0 here, seeds 1 and 2 there."""
    parts = {}
    for learner in ("ncm", "slda"):
        with unpack(team / "a.zip") as one:
            for place in record_files.find(one.runs):
                other = learner not in str(place) or (learner == "slda") == (place.name == "seed-0")
                if other and "chance" not in str(place):
                    (place / "record.json").unlink()
            parts[learner] = tmp_path / f"{learner}.zip"
            pack(one.runs, parts[learner])
    made = board([*parts.values()], [team / "e.h5"])
    (stream,) = made.streams
    assert {e.learner: e.n for e in stream.entries if e.learns} == {"ncm": 1, "slda": 2}
    assert [e.verdict for e in stream.entries] == [None] * len(stream.entries)
    page = write_board(made, tmp_path / "site")[2].read_text()
    # without a verdict neither a rank nor a distance to the best
    assert page.count('<td data-sort="">–</td>') == 2 * len(stream.entries)
    assert not re.search(r"\bnan\b", page)


def test_nothing_that_a_record_names_is_opened_or_imported(
    team: Path, lean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o.json").write_text("[0, 1, 2, 3, 4, 5]")
    (tmp_path / "e.h5").write_bytes((team / "e.h5").read_bytes())
    (tmp_path / "evil.py").write_text("raise SystemExit(7)")
    mlp = {"learner": "mlp", "learner_params": {"images": {"weights": "hub"}}}
    order = {"kind": "x", "name": "o.json", "digest": "0" * 64}
    changes: dict[str, dict[str, Any]] = {
        "file, order='o.json'": {"protocol_params": {"order": "o.json"}},
        "sessions=10001": {"protocol_params": {"sessions": 10_001}},
        "protocol 'evil:Mine' is": {"protocol": "evil:Mine"},
        "learner 'evil:Mine' is": {"learner": "evil:Mine"},
        "file, images.weights=": mlp,
        "of a file, 'o.json'": {"order": order},
        "seed must be": {"seed": "x"},
        "is not here": {},  # though a file of its name is
    }
    for why, change in changes.items():
        path = edited_record(lean, tmp_path / "b.zip", SLDA, lambda v, c=change: v.update(c))
        made = board([path], [team / "e.h5"] if change else [])
        reasons = [one.reason for one in made.submissions[0].unranked]
        assert any(why in reason for reason in reasons), (why, reasons)


def test_records_without_later_settings_are_ranked(team: Path, lean: Path, tmp_path: Path) -> None:
    """Runs that were made before a setting was added have its earlier value."""

    def earlier(values: Any) -> None:
        del values["protocol_params"]["loss"], values["protocol_params"]["embedding"]
        values["learner_params"].pop("average", None)
        values["learner_params"].get("mlp", {}).get("stop", {}).pop("perfect", None)

    path = forged(lean, tmp_path / "b.zip", {"/": Forgery(said=earlier)})
    (one,) = board([path], [team / "e.h5"]).submissions
    assert one.ranked == 2
    assert one.unranked == ()


def test_the_order_of_digests_in_a_record_is_no_matter(team: Path, tmp_path: Path) -> None:
    """Other programs write the keys of JSON in another order."""

    def turn_round(values: Any) -> None:
        for file in values["files"]:
            file["digests"] = dict(reversed(file["digests"].items()))

    path = edited_record(team / "a.zip", tmp_path / "b.zip", NCM, turn_round)
    (one,) = board([path], [team / "e.h5"]).submissions
    assert one.ranked == 6
    assert one.unranked == ()


def test_a_small_pack_builds_no_large_stream(
    team: Path, lean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest of the recipe and the number of sessions are compared before a stream is built."""

    def built(*args: object, **more: object) -> None:
        raise AssertionError("a stream was built")

    monkeypatch.setattr(Permutation, "build", built)
    many = Permutation(sessions=10_000)
    for recipe, why in ((digest(many.recipe()), "10000 sessions"), ("0", "recipe")):
        said = {"protocol": "permutation", "protocol_params": asdict(many)}

        def large(values: Any, said: Any = said, recipe: str = recipe) -> None:
            values.update(said)
            values["digests"]["recipe"] = recipe

        path = edited_record(lean, tmp_path / "b.zip", SLDA, large)
        (one,) = board([path], [team / "e.h5"]).submissions[0].unranked
        assert why in one.reason


def test_a_bad_pack_costs_that_pack_alone(team: Path, lean: Path, tmp_path: Path) -> None:
    bad, said = tmp_path / "bad.zip", list[str]()
    bad.write_text("no archive")
    made = board([bad, lean], [team / "e.h5"], said.append)
    assert "a zip archive" in str(made.submissions[0].refused)
    assert len(said) == 1
    assert len(made.streams) == 1
    assert made.submissions[0].ranked == 0
    write_board(board([bad]), tmp_path / "site")  # nothing to rank is no error
    assert "none.zip" in refusal(board, [tmp_path / "none.zip"])


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.all = list[tuple[str, dict[str, str | None]]]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))


EVIL = '<marquee onclick=x></marquee><script>alert("x")</script>\x1b[31m{{ 7*7 }}'


def test_pages_hold_texts_of_packs_as_text(team: Path, lean: Path, tmp_path: Path) -> None:
    def evil(values: Any) -> None:
        values["learner_params"] = {EVIL: EVIL}
        values["learner"] = f"a:{EVIL}"
        values["command"] = EVIL
        values["environment"] = {"embedbench": EVIL, "device": EVIL}
        values["flags"] = []
        values["packages"] = {"learner": {"name": EVIL, "version": EVIL}}
        values["files"][0]["name"] = EVIL

    path = edited_record(lean, tmp_path / "<b>.zip", NCM, evil)
    info = {"schema": "embedbench-pack/1.0", "by": EVIL}
    path = edited(path, tmp_path / "<i>.zip", "pack.json", lambda _: json.dumps(info).encode())
    pages = write_board(board([path, lean], [team / "e.h5"]), tmp_path / "site")
    assert {p.parent for p in pages} == {tmp_path / "site"}
    texts = {page.name: page.read_text() for page in pages}
    assert "&lt;marquee" in texts["index.html"]
    for name, text in texts.items():
        assert "\x1b" not in text
        if name == "board.json":
            continue
        assert "7*7" in text or "49" not in text
        assert "http" not in text
        assert name == "index.html" or "\n &#34;" in text
        tags = Tags(text).all
        names = [tag for tag, _ in tags]
        assert names.count("script") == int(name.startswith("stream-"))
        assert "marquee" not in names
        for _, values in tags:
            loaded = {values.get("src"), values.get("href")} - {None}
            assert all(x.endswith((".html", "board.json", "#unranked")) for x in map(str, loaded))
            assert not any(key.startswith("on") for key in values)


def test_the_json_beside_has_all_numbers(made: Board, tmp_path: Path) -> None:
    site = tmp_path / "site"
    index = write_board(made, site)[0].read_text()
    text = (site / "board.json").read_text()
    assert Board.from_json(json.loads(text)).to_json() == made.to_json()
    assert '3 packs · 6 runs ranked, 6 of chance, <a href="#unranked">7 not</a>' in index
    for stream in made.streams:
        page = (site / stream.page).read_text()
        assert stream.page in index
        level = [e.label for e in stream.entries[1:] if e.verdict and not e.verdict.behind]
        assert (f"{', '.join(level)} may be level" in index) == bool(level)
        for entry in stream.entries:
            final, omega = (entry.metrics[name] for name in ("final_accuracy", "omega_all"))
            half = f"<small>± {100 * final.half:.1f}<" if entry.learns else "<"  # no seed is in it
            assert f'{final.mean!r}">{100 * final.mean:.1f}{half}' in page
            assert f'data-sort="{omega.mean!r}">{omega.mean:.3f}<' in page


def test_a_site_is_replaced_only_if_it_is_one(made: Board, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "kept.txt"):
        assert "a new directory" in refusal(write_board, made, place, overwrite=True)
    site = tmp_path / "site"
    write_board(made, site)
    assert "--overwrite" in refusal(write_board, made, site)
    (site / "stream-old.html").write_text("")
    (site / "CNAME").write_text("")
    write_board(made, site, overwrite=True)
    assert not (site / "stream-old.html").exists()
    assert (site / "CNAME").exists()


def command(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, words)))
    if isinstance(result.exception, UserError):
        raise result.exception
    return result.exit_code, result.output


def test_from_runs_to_a_board(team: Path, lean: Path, tmp_path: Path) -> None:
    zipped, site, runs = tmp_path / "b.zip", tmp_path / "site", tmp_path / "runs"
    code, text = command("runs", "merge", lean, "--out", runs, "--json")
    assert code == 0
    assert json.loads(text)["left_out"] == []
    assert command("score", runs)[0] == 0
    words = ["runs", "pack", runs, "--out", zipped, "--by", "Team B"]
    code, text = command(*words)
    assert code == 0
    assert "SHA-256" in text
    assert "is there already" in refusal(command, *words)
    report = ["--site", site, "--data", team / "e.h5"]
    code, text = command("report", zipped, *report)
    assert code == 0
    assert f"wrote {site / 'index.html'}" in text
    made = json.loads((site / "board.json").read_text())
    assert [(s["ranked"], s["unranked"]) for s in made["submissions"]] == [(2, [])]


def test_equal_answers_of_a_second_team_are_a_confirmation(team: Path, tmp_path: Path) -> None:
    """Named beside the first team's, no further measurement, and no failure."""
    second, site = tmp_path / "b.zip", tmp_path / "site"
    pack(team / "runs", second, by="Team B")
    code, text = command("report", team / "a.zip", second, "--data", team / "e.h5", "--site", site)
    assert code == 0
    assert (
        "b.zip: runs ranked: 0, not ranked: 0, of chance: 3, equal answers of an earlier pack: 6"
        in text
    )
    (stream,) = json.loads((site / "board.json").read_text())["streams"]
    assert [e["also_by"] for e in stream["entries"]] == [{"Team B": 3}, {"Team B": 3}, {}]
    assert [e["n"] for e in stream["entries"]] == [3, 3, 3]
    page = (site / stream["page"]).read_text()
    assert page.count("equal answers, also sent by Team B<") == 2


def test_options_that_do_not_go_together(team: Path, tmp_path: Path) -> None:
    site = ["--site", tmp_path / "site"]
    for words, why in (
        ([team / "runs", *site], "--site takes packs"),
        ([team / "a.zip", "--data", team / "e.h5"], "add --site DIR"),
        ([team / "a.zip", *site, "--compare"], "--site makes pages"),
        ([team / "a.zip", *site, "--data", tmp_path / "no.h5"], "no.h5"),
    ):
        assert why in refusal(command, "report", *words)
    assert not list(tmp_path.iterdir())
