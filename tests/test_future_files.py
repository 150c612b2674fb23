"""Files of a version from the future, one of each format: refused in one way, and never touched.

The files in `golden/future` were made once, when their versions were the next ones.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from commands import Call
from file_helpers import make_small

from embedbench.config.format_versions import NewerFormatError, check_schema, check_version
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.resumable_file import Partial
from embedbench.interop import exported_stream
from embedbench.learning import pretraining
from embedbench.papers.result_files import PaperResults
from embedbench.runs import run_dirs
from embedbench.runs.checkpoint import CheckpointDirectory
from embedbench.runs.merge_runs import merge
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import load_any
from embedbench.sharing.pack import unpack
from embedbench.streams.class_order import class_order

GOLDEN = Path(__file__).parent / "golden"
FUTURE = GOLDEN / "future"


def read_record(path: Path) -> None:
    place = path.parent / "run"
    place.mkdir()
    shutil.move(path, place / "record.json")
    record_files.load(place)


def read_pack(path: Path) -> None:
    with unpack(path):
        pass


def read_order(path: Path) -> None:
    class_order(str(path), EmbeddingFile.open(GOLDEN / "v1.0.h5"), 0)


def go_on_with_run(path: Path) -> None:
    CheckpointDirectory(path, {}, seconds=0).open()


def go_on_with_pretraining(path: Path) -> None:
    pretraining._take_up(path, {"trunk": "resnet8"}, {}, overwrite=False)


def go_on_with_extraction(path: Path) -> None:
    path.rename(path.parent / ".f.h5.partial")
    with Partial.begun(path.parent / "f.h5", {"source": "p"}):
        pass


READERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "embedding-1.2.h5": (EmbeddingFile.open, "1.2", "1.1"),
    "predictions-1.2.h5": (load_any, "1.2", "1.1"),
    "label-sets-1.1.h5": (load_any, "1.1", "1.0"),
    "record-1.1.json": (read_record, "1.1", "1.0"),
    "pack-1.1.zip": (read_pack, "1.1", "1.0"),
    "stream-1.2": (exported_stream.load, "1.2", "1.1"),
    "order-1.1.json": (read_order, "1.1", "1.0"),
    "results-2.json": (PaperResults.read, "2", "1"),
    "checkpoint-3": (go_on_with_run, "3", "2"),
    "pretraining-2.checkpoint": (go_on_with_pretraining, "2", "1"),
    "partial-2": (go_on_with_extraction, "2", "1"),
}


def contents(folder: Path) -> list[bytes]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lease"))
    return [path.read_bytes() for path in files]


def test_every_golden_file_is_read_here() -> None:
    assert {path.name for path in FUTURE.iterdir()} == {*READERS}


@pytest.mark.parametrize("name", READERS)
def test_a_newer_file_is_said_to_be_one_and_stays(tmp_path: Path, name: str) -> None:
    read, version, newest = READERS[name]
    copy = shutil.copytree if (FUTURE / name).is_dir() else shutil.copy
    copy(FUTURE / name, tmp_path / name)
    before = contents(tmp_path)
    with pytest.raises(NewerFormatError) as refused:
        read(tmp_path / name)
    said = str(refused.value)
    assert f"was written by a newer embedbench: it is of format version {version}, and" in said
    assert f"this one reads {newest} at most" in said
    assert not any(word in said for word in ("overwrite", "damaged", "again", "delete"))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("version", ["1.2", "1.10", "2.0", "10.0", "1.2.1", 3, "2"])
def test_later_versions_are_newer(version: object) -> None:
    with pytest.raises(NewerFormatError):
        check_version("it", version, ["1.0", "1.1"], "mend it")


@pytest.mark.parametrize(
    "version",
    [
        None,
        "",
        "0.9",
        "1.05",
        "1.1 ",
        "v1.2",
        "1.x",
        "-2.0",
        "٢.0",
        "1e9",
        True,
        1.2,
        ["2.0"],
    ],
)
def test_what_is_no_later_version_is_a_fault_of_the_file(version: object) -> None:
    with pytest.raises(
        UserError, match=r"says .* version.* expected 1.0 or 1.1; mend it"
    ) as refused:
        check_version("it", version, ["1.0", "1.1"], "mend it")
    assert not isinstance(refused.value, NewerFormatError)


@pytest.mark.parametrize("schema", [None, 1, "embedbench-pack/1.1", "embedbench-record", "1.1"])
def test_another_schema_is_no_newer_one(schema: object) -> None:
    with pytest.raises(UserError, match=r"expected 'embedbench-record/1\.0'") as refused:
        check_schema("it", schema, "embedbench-record/1.0", "mend it")
    assert not isinstance(refused.value, NewerFormatError)


# --- a directory of runs that a newer embedbench has written to ---


@pytest.fixture
def newer(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of `ncm`, whose record says that a newer version wrote it."""
    monkeypatch.chdir(tmp_path)
    make_small(tmp_path / "e.h5")
    assert call(*words()).code == 0
    (place,) = Path("runs").glob("*/ncm-*/seed-0")
    record = json.loads((place / "record.json").read_text())
    (place / "record.json").write_text(json.dumps({**record, "schema": "embedbench-record/1.1"}))
    return place


def words(*more: str) -> list[str]:
    given = ["run", "e.h5", "--protocol", "incremental-class", "--learner", "ncm", "--quiet"]
    return [*given, "--set", "references=0", "--out", "runs", *more]


SAID = "was written by a newer embedbench: it is of format version"


def test_a_run_of_a_newer_version_is_kept(newer: Path, call: Call) -> None:
    before = contents(newer)
    done = call(*words())
    assert done.code == 2
    assert contents(newer) == before
    assert SAID in done.err
    assert "--overwrite" not in done.err


def test_new_predictions_beside_a_record_of_today_are_kept(newer: Path, call: Call) -> None:
    record = json.loads((newer / "record.json").read_text())
    with h5py.File(newer / "predictions.h5", "r+", libver=("v108", "v108")) as file:
        file.attrs["format_version"] = "1.2"
    known = {**record, "schema": "embedbench-record/1.0", "digests": {**record["digests"]}}
    known["digests"].pop("predictions", None)
    known.pop("predictions_sha256", None)
    (newer / "record.json").write_text(json.dumps(known))
    before = contents(newer)
    for command in (words(), ["score", "runs"], ["report", "runs"]):
        done = call(*command)
        assert SAID in done.out + done.err
        assert "--overwrite" not in done.out + done.err
    assert contents(newer) == before


def test_overwrite_is_the_users_word_and_is_said(newer: Path, call: Call) -> None:
    done = call(*words("--overwrite"))
    assert done.code == 0
    assert f"--overwrite replaces {newer}: " in done.err
    assert SAID in done.err
    assert record_files.load(newer).learner == "ncm"


def test_a_checkpoint_of_a_newer_version_is_kept(newer: Path, call: Call) -> None:
    shutil.rmtree(newer)
    checkpoint = run_dirs.checkpoint_path(newer)
    shutil.copytree(FUTURE / "checkpoint-3", checkpoint)
    before = contents(checkpoint)
    done = call(*words())
    assert done.code == 2
    assert contents(checkpoint) == before
    assert not newer.exists()
    assert "failed: ncm seed 0: the checkpoint" in done.err
    assert SAID in done.err


def test_the_others_of_a_directory_are_merged(newer: Path, tmp_path: Path) -> None:
    merged = merge([Path("runs")], tmp_path / "all")
    (sentence,) = merged.left_out
    assert SAID in sentence
    assert merged.copied == 1


@pytest.mark.parametrize("read", [load_any, EmbeddingFile.open])
def test_a_newer_file_of_another_structure_is_newer_not_damaged(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    """A link breaks a rule of the gate, before which nothing of a file is looked at."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["format"] = "embedbench-predictions"
        file.attrs["format_version"] = "2.0"
        file["link"] = h5py.SoftLink("/elsewhere")
    with pytest.raises(NewerFormatError, match=r"version 2\.0, and this one reads 1\.1 at"):
        read(path)
