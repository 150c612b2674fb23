"""Packs: what is in them and what comes out again; archives that no `runs pack` wrote."""

import json
import platform
import re
import shutil
import stat
import struct
import subprocess
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from file_helpers import refusal
from packs import edited_record, members, runs_of, write_members

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.verified_records import rescore
from embedbench.sharing.pack import merge_packs, pack, text_without_paths, unpack, without_paths
from embedbench.sharing.verify_pack import Rebuilder, verify
from embedbench.storage import user_cache
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
    assert result.runs == found.count(False)
    assert result.references == found.count(True)
    assert (tmp_path / "b.zip").read_bytes() == (team / "a.zip").read_bytes()


def test_what_is_in_a_pack_names_no_place_and_no_machine(team: Path) -> None:
    values = members(team / "a.zip")
    runs = [f"runs/{place}" for place in places(team / "runs")]
    both = {f"{run}/{name}" for run in runs for name in ("record.json", "predictions.h5")}
    assert {*values} == {*both, "pack.json"}
    for name, data in values.items():
        for secret in (str(team), "jane", str(Path.home()) + "/"):
            assert secret.encode() not in data, (name, secret)
        if name.endswith(".json"):
            assert not re.search(rf"\b{re.escape(platform.node())}\b", data.decode()), name
    made = json.loads(values[next(name for name in values if "ncm" in name and "rec" in name)])
    assert " e.h5 " in made["command"]
    assert "--out runs " in made["command"]
    said = {"schema": "embedbench-pack/1.0", "by": "Team A", "date": "2026-11-22"}
    assert values["pack.json"].decode() == json.dumps(said, indent=1) + "\n"
    with zipfile.ZipFile(team / "a.zip") as archive:
        for one in archive.infolist():
            form = one.date_time, one.create_system, one.external_attr, one.compress_type
            assert form == ((1980, 1, 1, 0, 0, 0), 3, 0o100644 << 16, zipfile.ZIP_STORED)


def test_merged_runs_have_equal_numbers(team: Path, tmp_path: Path) -> None:
    merged = merge_packs([team / "a.zip"], tmp_path / "out")
    assert merged.copied == len(places(team / "runs"))
    assert merged.there == 0
    assert merged.left_out == ()
    assert places(tmp_path / "out") == places(team / "runs")
    for place in record_files.find(tmp_path / "out", references=True):
        kept = record_files.load(team / "runs" / place.relative_to(tmp_path / "out"))
        assert rescore(place, tmp_path / "out").agrees
        assert without_paths(kept.to_json()) == record_files.load(place).to_json()
    again = merge_packs([team / "runs", team / "a.zip"], tmp_path / "out")
    assert again.copied == 0
    assert again.filled == 0
    pack(tmp_path / "out", tmp_path / "again.zip", by="Team A", date="2026-11-22")
    assert members(tmp_path / "again.zip") == members(team / "a.zip")  # stripped once is stripped


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


def test_what_is_not_packed(team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(team / "runs", tmp_path / "runs")
    shutil.copytree(team / "runs", tmp_path / "runs" / ".odd" / "a*b")
    first = record_files.find(tmp_path / "runs")[0]
    (first / "predictions.h5").write_bytes(b"other")
    (first / "none").mkdir()
    for runs, out, sentence in (
        (tmp_path / "runs", "b.zip", "its record was"),
        (first / "none", "b.zip", "no finished run"),
        (first, "b.zip", "is a single run"),
        (tmp_path / "runs" / ".odd", "b.zip", "packs cannot hold"),
        (team / "runs", "none/a.zip", "none first"),
    ):
        assert sentence in refusal(pack, runs, tmp_path / out)
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]
    change = {"predictions_sha256": "0" * 64}
    bad = edited_record(team / "a.zip", tmp_path / "bad.zip", "ncm", lambda v: v.update(change))
    (sentence,) = merge_packs([bad], tmp_path / "out").left_out
    assert sentence.startswith(f"{bad}/incremental-class-")
    monkeypatch.setattr("embedbench.sharing.pack.verify_predictions", lambda _: "")
    assert "changed while" in refusal(pack, team / "runs", tmp_path / "b.zip")


def test_a_name_and_a_date(team: Path, tmp_path: Path) -> None:
    for by, date, what in (
        (None, "22.11.2026", "2026-11-30, got '22.11.2026'"),
        (" ", None, "1 to 200 characters"),
        ("x" * 201, None, "1 to 200 characters"),
    ):
        assert what in refusal(pack, team / "runs", tmp_path / "b.zip", by=by, date=date)
    assert not list(tmp_path.iterdir())
    pack(team / "runs", tmp_path / "b.zip", by="x" * 200)
    with unpack(tmp_path / "b.zip") as made:
        assert made.info.by == "x" * 200


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("/home/a/x.h5", "x.h5"),
        ("~/x.h5", "x.h5"),
        (r"C:\Users\a b\x.h5", "x.h5"),
        (r"\\server\a\x.h5", "x.h5"),
        ("file:///home/a/x.h5", "x.h5"),
        ("hf://datasets/org/name@v1/x.h5", "hf://datasets/org/name@v1/x.h5"),
        ("my.module:Class", "my.module:Class"),
        ("references/offline-1/seed-0", "references/offline-1/seed-0"),
        ("see '/home/a/x.h5', or /tmp/b", "see 'x.h5', or b"),
    ],
)
def test_texts(text: str, stripped: str) -> None:
    assert text_without_paths(text) == stripped
    assert text_without_paths(stripped) == stripped


def test_commands_and_classes() -> None:
    assert without_paths({"command": "run 'a", "by": "it's"}) == {"command": "", "by": "it's"}
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


Edit = Callable[[zipfile.ZipFile], None]
RUN = "runs/s/l/seed-7/predictions.h5"


def member(name: str, *, mode: int = 0o100644, data: bytes = b"x") -> Edit:
    def add(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("tmp")
        info.filename = info.orig_filename = name  # ZipInfo would cut it at a NUL
        info.create_system, info.external_attr = 3, mode << 16
        archive.writestr(info, data)

    return add


def deflated(archive: zipfile.ZipFile) -> None:
    archive.writestr(RUN, bytes(2**24), zipfile.ZIP_DEFLATED)


def twice(archive: zipfile.ZipFile) -> None:
    archive.writestr("runs/s/l/seed-7/record.json", "{}")
    archive.writestr("runs/s/l/seed-7/record.json", "{}")


CASES: dict[str, Edit] = {
    "above inside": member("runs/../../evil/record.json"),
    "absolute": member("/tmp/evil/record.json"),
    "hidden": member("runs/.seed-0.lease/record.json"),
    "NUL": member(f"{RUN}\0.txt"),
    **{
        f"name {name!a}": member(f"runs/s/{name}/record.json")
        for name in ("a\u202eb", "..\\x", "C:", "a*", "\u0436" * 101)
    },
    "nameless": member("runs//x/record.json"),
    "long": member(f"runs/{'x' * 201}/record.json"),
    "deep": member(f"runs/{'x/' * 12}record.json"),
    "at the top": member("runs/record.json"),
    "run in a file": member("runs/record.json/record.json"),
    "link": member(RUN, mode=stat.S_IFLNK | 0o777),
    "code": member("runs/s/learner.py"),
    "checkpoint": member("files/x.safetensors"),
    "bomb": deflated,
    "twice": twice,
}


def spoilt(team: Path, out: Path, edit: Edit) -> Path:
    shutil.copy(team / "a.zip", out)
    with zipfile.ZipFile(out, "a") as archive:
        edit(archive)
    return out


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", CASES)
def test_a_member_that_no_pack_has(team: Path, tmp_path: Path, case: str) -> None:
    path = spoilt(team, tmp_path / "bad.zip", CASES[case])
    assert "its member " in refusal(merge_packs, [path], tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.zip"]


@pytest.mark.parametrize("place", ["x", "x" * 200, "/".join("x" * 11)])
def test_names_up_to_the_limits_are_read(team: Path, tmp_path: Path, place: str) -> None:
    name = f"runs/{place}/record.json"
    with unpack(spoilt(team, tmp_path / "a.zip", member(name))) as made:
        assert (made.folder / name).read_bytes() == b"x"


@pytest.mark.parametrize(
    ("at", "form", "values", "why"),
    [
        *((8, "<H", [flag], "its member ") for flag in (0x1, 0x20, 0x40)),
        (24, "<I", [2**31], "its member "),
        (20, "<II", [2**31, 2**31], "whose members overlap"),
        (42, "<I", [0], "whose members overlap"),
    ],
)
def test_a_directory_that_lies(
    team: Path, tmp_path: Path, at: int, form: str, values: list[int], why: str
) -> None:
    """Other numbers in a member's central entry, `at` bytes from its start."""
    path = spoilt(team, tmp_path / "bad.zip", member(RUN))
    data = bytearray(path.read_bytes())
    start = data.rindex(RUN.encode()) - 46
    assert data[start : start + 4] == b"PK\x01\x02"
    struct.pack_into(form, data, start + at, *values)
    path.write_bytes(data)
    assert why in refusal(merge_packs, [path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_large_and_many_members(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = members(team / "a.zip")
    records = max(len(data) for name, data in values.items() if name.endswith("record.json"))
    for bound, most, why in (
        ("SMALL", len(values["pack.json"]), r"pack\.json is not"),
        ("LARGEST", records, "member 'runs/"),
        ("MOST", len(values), f"{len(values)} members, .* {len(values) - 1}"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"embedbench.sharing.pack.{bound}", most)
            with unpack(team / "a.zip"):
                pass
            patch.setattr(f"embedbench.sharing.pack.{bound}", most - 1)
            with pytest.raises(UserError, match=why), unpack(team / "a.zip"):
                pass


def test_damaged_bytes_and_other_files(team: Path, tmp_path: Path) -> None:
    data = bytearray((team / "a.zip").read_bytes())
    data[data.index(b"predictions.h5") + 200] ^= 1
    head = {"pack.json": members(team / "a.zip")["pack.json"]}
    empty, no_runs = (write_members(tmp_path / "a", m).read_bytes() for m in ({}, head))
    for name, content, sentence in (
        ("damaged", data, "is damaged at"),
        ("cut", data[:-100], "cut.zip cannot be"),
        ("other", empty, "holds no pack.json"),
        ("bare", no_runs, "bare.zip has no"),
    ):
        path = tmp_path / f"{name}.zip"
        path.write_bytes(content)
        with pytest.raises(UserError, match=re.escape(sentence)) as error:
            merge_packs([path], tmp_path / "out")
    assert error.value.remedy.startswith("give the --out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "bad.zip: pack.json"),
        ('{"schema": "other/1.0"}', "bad.zip: pack.json"),
        ('{"schema": "embedbench-pack/1.0", "by": 3}', "bad.zip: pack.json"),
        (
            '{"schema": "embedbench-pack/2.0", "teams": []}',
            "a newer embedbench: it is of format version 2.0",
        ),
    ],
)
def test_what_a_pack_says_of_itself(tmp_path: Path, text: str, why: str) -> None:
    """A newer version is named even where it has members that this one does not know."""
    parts = {"pack.json": text.encode(), "runs/s/l/seed-7/answers.parquet": b"x"}
    path = write_members(tmp_path / "bad.zip", parts)
    assert why in refusal(merge_packs, [path], tmp_path / "out")


def test_the_workflow_reads_a_last_line_without_its_end(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "board.yml").read_text()
    loop = text[text.index("data=()") : text.index("code=0")]
    (tmp_path / "data.txt").write_text("a.h5\n\nhf://datasets/x/y/b.h5")
    script = f'{loop}\nprintf "%s " "${{data[@]}}"'
    said = subprocess.check_output(["bash", "-c", script], cwd=tmp_path, text=True)
    assert said.split() == ["--data", "a.h5", "--data", "hf://datasets/x/y/b.h5"]


def test_a_pack_has_the_record_that_its_predictions_were_checked_with(
    team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as while another process writes a record anew."""
    read = record_files.load
    loads: list[Path] = []

    def load(directory: Path) -> Any:
        made, again = read(directory), directory in loads
        loads.append(directory)
        return replace(made, predictions_sha256="0" * 64) if again else made

    monkeypatch.setattr(record_files, "load", load)
    with pytest.raises(UserError, match="seed-0 changed while it was packed"):
        pack(team / "runs", tmp_path / "p.zip")


def test_a_pack_that_is_replaced_while_it_is_verified(
    team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "p.zip", tmp_path / "other.zip"
    pack(team / "runs", path, by="a")
    pack(team / "runs", other, by="b")
    hashed = user_cache.sha256

    def replacing(file: Path) -> str:
        value = hashed(file)
        if file == path:
            other.replace(path)
        return value

    monkeypatch.setattr(user_cache, "sha256", replacing)
    submission, runs = verify(path, Rebuilder())
    assert submission.refused == "p.zip changed while it was read; run the command again"
    assert runs == []


@pytest.mark.parametrize("first", ["a.zip", "answers.zip"])
def test_answers_alone_of_a_run_are_that_run(first: str, team: Path, tmp_path: Path) -> None:
    shutil.copy(team / "a.zip", tmp_path)
    pack(team / "runs", tmp_path / "answers.zip", answers_only=True)
    names = sorted(["a.zip", "answers.zip"], key=lambda name: name != first)
    result = merge_packs([tmp_path / name for name in names], tmp_path / "out")
    assert (result.copied, result.there) == (10, 10)
    assert ("are answers alone" in result.sentence) is (first == "answers.zip")


def test_other_answers_of_a_run_are_refused_as_answers_alone_too(
    team: Path, tmp_path: Path
) -> None:
    pack(team / "runs", tmp_path / "answers.zip", answers_only=True)
    merge_packs([tmp_path / "answers.zip"], tmp_path / "out")
    run = record_files.find(tmp_path / "out")[0]
    made = record_files.load(run)
    answers = record_files.read_predictions(run, made)
    other = answers.answer.copy()
    other[-1, 0] = (other[-1, 0] + 1) % answers.seen.shape[1]
    sha256 = replace(answers, answer=other).save(run / "predictions.h5")
    values = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(values | {"predictions_sha256": sha256}))
    with pytest.raises(UserError, match="runs of one place with different predictions"):
        merge_packs([team / "a.zip"], tmp_path / "out")


URL = "https://files.example.org/e.h5"


def test_a_pack_names_where_its_file_can_be_had(team: Path, tmp_path: Path) -> None:
    result = pack(team / "runs", tmp_path / "p.zip", urls={"e.h5": URL})
    assert result.files == {"e.h5": URL}
    with unpack(tmp_path / "p.zip") as one:
        records = [record_files.load(place) for place in record_files.find(one.runs)]
    assert {file.url for made in records for file in made.files} == {URL}


def test_a_file_of_which_nothing_says_where_it_can_be_had_is_named(
    team: Path, tmp_path: Path
) -> None:
    result = pack(team / "runs", tmp_path / "p.zip")
    assert result.sentence.endswith("\nnothing says where e.h5 can be had; --url e.h5=URL does")


@pytest.mark.parametrize("url", ["file:///home/jane/e.h5", "FILE:///home/jane/e.h5#sha256=0"])
def test_a_path_of_this_machine_is_no_place_for_others(
    url: str, team: Path, tmp_path: Path
) -> None:
    result = pack(team / "runs", tmp_path / "p.zip", urls={"e.h5": url})
    assert (
        "\n--url e.h5 names a path of this machine, which is not kept\nnothing" in result.sentence
    )
    with unpack(tmp_path / "p.zip") as one:
        records = [record_files.load(place) for place in record_files.find(one.runs)]
    assert {file.url for made in records for file in made.files} == {None}


@pytest.mark.parametrize(
    ("urls", "sentence"),
    [
        ({"other.h5": URL}, "unknown file of these runs 'other.h5'"),
        ({"e.h5": "data/e.h5"}, "the URL of e.h5"),
    ],
)
def test_wrong_urls_of_files(
    team: Path, tmp_path: Path, urls: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        pack(team / "runs", tmp_path / "p.zip", urls=urls)
    assert not (tmp_path / "p.zip").exists()


def test_a_file_read_from_a_url_keeps_it(team: Path, tmp_path: Path) -> None:
    pack(team / "runs", tmp_path / "p.zip", urls={"e.h5": URL})
    merge_packs([tmp_path / "p.zip"], tmp_path / "runs")
    with pytest.raises(UserError, match=f"e.h5 was read from {URL}, and --url names https://other"):
        pack(tmp_path / "runs", tmp_path / "q.zip", urls={"e.h5": "https://other.example/e.h5"})


def test_one_url_is_not_given_to_two_files_of_one_name(tmp_path: Path) -> None:
    """Two teams' e.h5 in one directory of runs: the URL could be that of one alone."""
    for name, width in (("one", 10), ("two", 12)):
        (tmp_path / name).mkdir()
        runs_of(tmp_path / name, "ncm", width=width, references=0)
    both = tmp_path / "both"
    merge_packs([tmp_path / "one" / "runs", tmp_path / "two" / "runs"], both)
    with pytest.raises(UserError, match=r"--url e\.h5: the runs are on two files of this name"):
        pack(both, tmp_path / "p.zip", urls={"e.h5": URL})
    assert not (tmp_path / "p.zip").exists()
