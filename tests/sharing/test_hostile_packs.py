"""Zip archives that no `runs pack` wrote: one sentence each, and nothing is written."""

import stat
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packs import members

from embedbench.errors import UserError
from embedbench.sharing.pack import merge_packs, unpack

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
    "above": member("../evil.json"),
    "above inside": member("runs/../../evil/record.json"),
    "absolute": member("/tmp/evil/record.json"),
    "backslash": member("runs\\..\\..\\record.json"),
    "backslash inside": member("runs/..\\x/record.json"),
    "drive": member("runs/C:/record.json"),
    "hidden": member("runs/.seed-0.lease/record.json"),
    "no name": member(""),
    "400 bytes": member(f"runs/{'é' * 200}/l/record.json"),
    "NUL": member(f"{RUN}\0.txt"),
    "NUL before": member("runs/s\0/l/seed-7/predictions.h5"),
    **{
        f"name {name!a}": member(f"runs/s/{name}/record.json")
        for name in (
            *("a\u202eb", "\u2066a", "a\tb", "a*", "a?", 'a"', "a<b", "a|b", "\u0436" * 101),
        )
    },
    "NUL behind": member("pack.json\0"),
    "nameless": member("runs//x/record.json"),
    "long": member(f"runs/{'x' * 201}/record.json"),
    "deep": member(f"runs/{'x/' * 12}record.json"),
    "at the top": member("runs/record.json"),
    "run in a file": member("runs/record.json/record.json"),
    "link": member(RUN, mode=stat.S_IFLNK | 0o777),
    "device": member(RUN, mode=stat.S_IFCHR | 0o666),
    "directory": member("runs/s/", data=b""),
    "code": member("runs/s/learner.py"),
    "checkpoint": member("files/x.safetensors"),
    "bomb": deflated,
    "twice": twice,
}


def spoilt(team: Path, out: Path, edit: Edit) -> Path:
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members(team / "a.zip").items():
            archive.writestr(name, data)
        edit(archive)
    return out


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", CASES)
def test_a_member_that_no_pack_has(team: Path, tmp_path: Path, case: str) -> None:
    path = spoilt(team, tmp_path / "bad.zip", CASES[case])
    with pytest.raises(UserError) as caught:
        merge_packs([path], tmp_path / "out")
    assert "is not that of a pack; embedbench" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.zip"]


@pytest.mark.parametrize("place", ["x", "x" * 200, "/".join("x" * 11)])
def test_names_up_to_the_limits_are_read(team: Path, tmp_path: Path, place: str) -> None:
    name = f"runs/{place}/record.json"
    with unpack(spoilt(team, tmp_path / "a.zip", member(name))) as made:
        assert (made.folder / name).read_bytes() == b"x"


def field(archive: bytes, name: str, at: int, form: str, *values: int) -> bytes:
    """An archive with other numbers in a member's central entry, `at` bytes from its start."""
    data = bytearray(archive)
    start = data.rindex(name.encode()) - 46
    assert data[start : start + 4] == b"PK\x01\x02"
    struct.pack_into(form, data, start + at, *values)
    return bytes(data)


@pytest.mark.parametrize(
    ("at", "form", "values", "why"),
    [
        (8, "<H", [1], "is not that of a pack"),
        (24, "<I", [2**31], "is not that of a pack"),
        (20, "<II", [2**31, 2**31], "whose members overlap"),
        (42, "<I", [0], "whose members overlap"),
    ],
)
def test_a_directory_that_lies(
    team: Path, tmp_path: Path, at: int, form: str, values: list[int], why: str
) -> None:
    path = spoilt(team, tmp_path / "bad.zip", member(RUN))
    path.write_bytes(field(path.read_bytes(), RUN, at, form, *values))
    with pytest.raises(UserError, match=why):
        merge_packs([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_large_and_many_members(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = members(team / "a.zip")
    largest = len(values["pack.json"])
    for bound, most, why in (
        ("SMALL", largest, "is not that of a pack"),
        ("MOST", len(values), f"has {len(values)} members, and a pack has at most"),
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
    (tmp_path / "damaged.zip").write_bytes(data)
    (tmp_path / "cut.zip").write_bytes(data[:-100])
    (tmp_path / "text.zip").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.zip", "w"):
        pass
    said = {"damaged": "is damaged at", "cut": "zip", "text": "zip", "other": "holds no pack.json"}
    for name, sentence in said.items():
        with pytest.raises(UserError, match=sentence):
            merge_packs([tmp_path / f"{name}.zip"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


NEWER = '{"schema": "embedbench-pack/2.0", "teams": []}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "bad.zip: pack.json"),
        ("[]", "bad.zip: pack.json"),
        ('{"schema": "other/1.0"}', "bad.zip: pack.json"),
        ('{"schema": "embedbench-pack/1.0", "by": 3}', "bad.zip: pack.json"),
        (NEWER, "has schema 'embedbench-pack/2.0', and this .* update embedbench"),
    ],
)
def test_what_a_pack_says_of_itself(tmp_path: Path, text: str, why: str) -> None:
    """A newer version is named even where it has members that this one does not know."""
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("pack.json", text)
        archive.writestr("runs/s/l/seed-7/answers.parquet", "x")
    with pytest.raises(UserError, match=why):
        merge_packs([tmp_path / "bad.zip"], tmp_path / "out")


def test_the_workflow_reads_a_last_line_without_its_end(tmp_path: Path) -> None:
    """The loop of board.yml, as bash runs it."""
    text = (Path(__file__).parents[2] / "docs" / "board.yml").read_text()
    loop = text[text.index("data=()") : text.index("code=0")]
    (tmp_path / "data.txt").write_text("a.h5\n\nhf://datasets/x/y/b.h5")
    said = subprocess.run(
        ["bash", "-c", f'{loop}\nprintf "%s " "${{data[@]}}"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["--data", "a.h5", "--data", "hf://datasets/x/y/b.h5"]
