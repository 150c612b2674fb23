"""Packs: what is in them, what is not, and what comes out of them again."""

import json
import platform
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packs import edited_record, members

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.verified_records import rescore
from embedbench.sharing.pack import (
    INFO,
    merge_packs,
    pack,
    text_without_paths,
    unpack,
    without_paths,
)
from embedbench.storage.atomic_write import temporary_name


def places(root: Path) -> list[str]:
    return [str(p.relative_to(root)) for p in record_files.find(root, references=True)]


def test_the_bytes_are_those_of_the_runs_wherever_they_lie(team: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "of-another-user"
    shutil.copytree(team / "runs", other / "results")
    shutil.copy(team / "e.h5", other)
    for path in (other / "results").rglob("record.json"):
        text = path.read_text()
        here, there = (json.dumps(str(folder / "runs"))[1:-1] for folder in (team, other))
        assert here in text
        path.write_text(text.replace(here, there))
        (path.parent / ".seed-9.partial").mkdir()
    (other / "results" / ".plan-1.json").write_text("{}")
    result = pack(other / "results", tmp_path / "b.zip", by="Team A", date="2026-11-22")
    found = ["references/" in place for place in places(other / "results")]
    assert (result.runs, result.references) == (found.count(False), found.count(True))
    assert (tmp_path / "b.zip").read_bytes() == (team / "a.zip").read_bytes()
    pack(other / "results", tmp_path / "c.zip", by="Team B", date="2026-11-22")
    assert (tmp_path / "c.zip").read_bytes() != (team / "a.zip").read_bytes()


def test_what_is_in_a_pack_names_no_place_and_no_machine(team: Path) -> None:
    values = members(team / "a.zip")
    runs = [f"runs/{place}" for place in places(team / "runs")]
    both = {f"{run}/{name}" for run in runs for name in ("record.json", "predictions.h5")}
    assert {*values} == {*both, INFO}
    for name, data in values.items():
        for secret in (str(team), "jane", str(Path.home()) + "/"):
            assert secret.encode() not in data, (name, secret)
        if name.endswith(".json"):
            assert not re.search(rf"\b{re.escape(platform.node())}\b", data.decode()), name
    made = json.loads(values[next(name for name in values if "ncm" in name and "rec" in name)])
    assert " e.h5 " in made["command"]
    assert "--out runs " in made["command"]
    said = {"schema": "embedbench-pack/1.0", "by": "Team A", "date": "2026-11-22"}
    assert values[INFO].decode() == json.dumps(said, indent=1) + "\n"
    with zipfile.ZipFile(team / "a.zip") as archive:
        for one in archive.infolist():
            form = one.date_time, one.create_system, one.external_attr, one.compress_type
            assert form == ((1980, 1, 1, 0, 0, 0), 3, 0o100644 << 16, zipfile.ZIP_STORED)


def test_merged_runs_have_equal_numbers(team: Path, tmp_path: Path) -> None:
    merged = merge_packs([team / "a.zip"], tmp_path / "out")
    assert (merged.copied, merged.there, merged.left_out) == (len(places(team / "runs")), 0, ())
    assert places(tmp_path / "out") == places(team / "runs")
    for place in record_files.find(tmp_path / "out", references=True):
        original = team / "runs" / place.relative_to(tmp_path / "out")
        kept, made = record_files.load(original), record_files.load(place)
        assert rescore(place, tmp_path / "out").agrees
        assert plain(made.metrics) == plain(kept.metrics)
        assert made.predictions_sha256 == kept.predictions_sha256
        assert without_paths(kept.to_json()) == made.to_json()
    again = merge_packs([team / "runs", team / "a.zip"], tmp_path / "out")
    assert (again.copied, again.filled) == (0, 0)
    pack(tmp_path / "out", tmp_path / "again.zip", by="Team A", date="2026-11-22")
    runs = {n: data for n, data in members(team / "a.zip").items() if n.startswith("runs/")}
    assert runs.items() <= members(tmp_path / "again.zip").items()  # stripped once is stripped


def test_what_a_killed_pack_leaves_is_cleared_up(team: Path, tmp_path: Path) -> None:
    """And nothing of other names, or while another process packs."""
    out = tmp_path / "a.zip"
    temporary_name(out).write_text("half")
    other = temporary_name(tmp_path / "a.zip.zip")
    other.write_text("of another pack")
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: pack(team / "runs", out, by="Team A"), range(3)))
    assert len({m.sha256 for m in made}) == 1
    assert {p.name for p in tmp_path.iterdir()} == {"a.zip", other.name}


def test_a_run_that_is_not_its_records_is_refused(team: Path, tmp_path: Path) -> None:
    shutil.copytree(team / "runs", tmp_path / "runs")
    first = record_files.find(tmp_path / "runs")[0]
    (first / "predictions.h5").write_bytes(b"other")
    with pytest.raises(UserError, match="not the file that its record was made from"):
        pack(tmp_path / "runs", tmp_path / "b.zip")
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]


def test_a_damaged_run_of_a_pack_is_named_by_the_pack(team: Path, tmp_path: Path) -> None:
    change = {"predictions_sha256": "0" * 64}
    bad = edited_record(team / "a.zip", tmp_path / "bad.zip", "ncm", lambda v: v.update(change))
    (sentence,) = merge_packs([bad], tmp_path / "out").left_out
    assert sentence.startswith(f"{bad}/incremental-class-")


def test_a_name_and_a_date(team: Path, tmp_path: Path) -> None:
    for by, date, what in (
        (None, "22.11.2026", "the date must be written as 2026-11-30, got '22.11.2026'"),
        ("", None, "1 to 200 characters"),
        (" ", None, "1 to 200 characters"),
        ("x" * 201, None, "1 to 200 characters"),
    ):
        with pytest.raises(UserError, match=what):
            pack(team / "runs", tmp_path / "b.zip", by=by, date=date)
    assert not list(tmp_path.iterdir())
    pack(team / "runs", tmp_path / "b.zip", by="x" * 200)
    with unpack(tmp_path / "b.zip") as made:
        assert made.info.by == "x" * 200


def test_no_runs_and_a_single_run(team: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no finished run"):
        pack(tmp_path, tmp_path / "b.zip")
    with pytest.raises(UserError, match="is a single run"):
        pack(record_files.find(team / "runs")[0], tmp_path / "b.zip")
    with pytest.raises(UserError, match="none first"):
        pack(team / "runs", tmp_path / "none" / "a.zip")


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("/home/a/x.h5", "x.h5"),
        ("~/x.h5", "x.h5"),
        (r"C:\Users\a b\x.h5", "x.h5"),
        (r"\\server\a\x.h5", "x.h5"),
        ("file:///home/a/x.h5", "x.h5"),
        ("hf://datasets/org/name@v1/x.h5", "hf://datasets/org/name@v1/x.h5"),
        ("https://host/x.h5", "https://host/x.h5"),
        ("my.module:Class", "my.module:Class"),
        ("ratio 1/2", "ratio 1/2"),
        ("references/offline-1/seed-0", "references/offline-1/seed-0"),
        ("see '/home/a/x.h5', or /tmp/b", "see 'x.h5', or b"),
    ],
)
def test_texts(text: str, stripped: str) -> None:
    assert text_without_paths(text) == stripped
    assert text_without_paths(stripped) == stripped


def test_commands_and_classes() -> None:
    made = without_paths(
        {
            "command": "embedbench run '/home/a b/x.h5' hf://o/n/y.h5 --out ~/r --set "
            "protocol.order=/home/a/o.json --set mlp.lr=1e-3,1e-4 --learner my.mod:Mine",
            "classes": [["/m/09x0r"]],
            "learner_params": {"images": {"weights": "/home/a/w.safetensors"}},
        }
    )
    assert made == {
        "command": "embedbench run x.h5 hf://o/n/y.h5 --out r --set protocol.order=o.json "
        "--set mlp.lr=1e-3,1e-4 --learner my.mod:Mine",
        "classes": [["/m/09x0r"]],
        "learner_params": {"images": {"weights": "w.safetensors"}},
    }
