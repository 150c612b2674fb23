"""Writing: a file is there whole or not at all, and interrupted work resumes to the same file."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import (
    JOB,
    JOB_SHA256,
    PROVENANCE,
    begin,
    blocks,
    contents,
    done,
    flip,
    make_columns,
    make_features,
    make_samples,
    refusal,
    says,
    written,
)

from embedbench.errors import DamagedFileError, UserError
from embedbench.files import hdf5_layout
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.file_digests import canonical_json
from embedbench.files.resumable_file import Partial
from embedbench.files.write_file import write_file
from embedbench.version import __version__

OTHER = {**JOB, "recipe": {"size": 256}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


def whole(path: Path, n: int = 2500, **columns: Any) -> EmbeddingFile:
    """Write what ``blocks(n)`` holds at once."""
    layer = make_features(n, 2, seed=1).astype(np.float16)
    provenance = {**PROVENANCE, "job_sha256": JOB_SHA256}
    features, layers = make_features(n), {"b": layer}
    return write_file(path, make_samples(n), features, provenance, layers=layers, columns=columns)


def filled(path: Path, numbers: Sequence[int] = (0, 1, 2)) -> Partial:
    """Work with some blocks."""
    work = begin(path, JOB)
    for number in numbers:
        work.write(number, blocks()[number])
    return work


def test_dates_and_makers_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", None)  # as in a clone that is not installed
    samples, features = make_samples(5), make_features(5)
    bare = write_file(tmp_path / "a.h5", samples, features, {"source": {"name": "x"}}).provenance
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", bare.pop("date_utc"))
    assert bare == {
        "made_by": {"embedbench": __version__},
        "skipped": [],
        "source": {"name": "x", "sample_list_sha256": samples.digest()},
    }
    given = write_file(tmp_path / "b.h5", samples, features, PROVENANCE).provenance
    source = {**PROVENANCE["source"], "sample_list_sha256": samples.digest()}
    assert given == {**PROVENANCE, "skipped": [], "source": source}


@pytest.mark.parametrize(("row", "value"), [(0, np.nan), (1500, -np.inf), (2499, np.inf)])
def test_nan_names_the_row_and_leaves_nothing(tmp_path: Path, row: int, value: float) -> None:
    features = make_features()
    features[row, 3] = value
    said = refusal(written, tmp_path / "a.h5", features=features)
    assert re.search(rf"row {row} .*'größe/{row:05d}\.png'", said)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(path: Path, tmp_path: Path) -> None:
    path.write_text("mine")
    targets = {path: "exists", tmp_path: "is a directory", tmp_path / "no" / "a.h5": "mkdir"}
    for target, said in targets.items():
        assert said in refusal(whole, target)
        assert said in refusal(begin, target, JOB)
    assert path.read_text() == "mine"
    assert written(path, 5, overwrite=True).shape == (5, 5)
    before, features = path.read_bytes(), make_features()
    features[-1] = np.nan
    assert "NaN" in refusal(written, path, features=features, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


FEATURES, IMAGES = make_features(10), np.zeros((10, 4, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": FEATURES.astype(np.float64)}, "features .*not float64"),
        ({"features": FEATURES[:, :0]}, r"features .*\(10, 0\)"),
        ({"features": FEATURES[:9]}, "9 rows for 10"),
        ({"layers": {"b": make_features(11)}}, "layers/b .* 11 rows"),
        ({"layers": {"a/b": FEATURES}}, "layer name 'a/b'"),
        ({"features": IMAGES, "layers": {"b": FEATURES}}, "no layers beside"),
        ({"features": IMAGES, "layers": {"b": IMAGES}}, "layers/b .*not uint8"),
        ({"columns": {"domian": np.full(10, "a")}}, "'domian'.* 'domain'"),
        ({"columns": {"time": np.arange(11)}}, r"'time' .*\(11,\); .*one number"),
        ({"columns": {"domain": np.full((10, 1), "a")}}, r"'domain' .*\(10, 1\); .*one text"),
        ({"columns": {"domain": np.ones(10)}}, "'domain' is float64 .*one text"),
        ({"columns": {"time": np.full(10, "1")}}, "'time' is <U1 .*one number"),
        ({"columns": {"group": np.array([*"aaaaaaa", *[""] * 3])}}, "'group' .* row 7"),
        ({"columns": {"time": np.r_[np.zeros(9), np.nan]}}, "'time' has NaN .* row 9"),
        ({"columns": {"group": np.full(10, "a\0b")}}, "a zero byte"),
    ],
)
def test_other_forms_are_not_written(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        written(tmp_path / "a.h5", 10, **given)
    assert list(tmp_path.iterdir()) == []


def test_provenance(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = make_samples(5)
    for value, said in ((np.nan, "JSON"), ({1}, "JSON"), ("x" * 2**25, "33,554,432"), (3, "must")):
        assert said in refusal(write_file, path, samples, make_features(5), {"date_utc": value})
    for name in ("", "a\0b"):  # padding would lose them
        samples.ids[3] = name
        said = refusal(write_file, path, samples, make_features(5), PROVENANCE)
        assert "row 3 is empty" in said
    assert list(tmp_path.iterdir()) == []
    text = canonical_json(written(path, 5).provenance)
    monkeypatch.setattr(hdf5_layout, "PROVENANCE", len(text.encode()))
    written(path, 5, overwrite=True)  # just what a file holds


@pytest.mark.parametrize(("seed", "size"), [(0, 1024), (1, 333)])
def test_blocks_in_any_order(path: Path, tmp_path: Path, seed: int, size: int) -> None:
    """Interrupted after any block, in blocks of any size: the same data sets and digests."""
    parts = blocks(size=size)
    order = np.random.default_rng(seed).permutation(len(parts)).tolist()
    for number in order:
        work = begin(path, JOB)  # a new process each time
        assert number not in done(work)
        work.write(number, parts[number])
    assert done(work) == set(order)
    assert not path.exists()
    columns = make_columns(2500)
    begin(path, JOB).finish(make_samples(), PROVENANCE, columns=columns)
    assert list(tmp_path.iterdir()) == [path]
    whole(tmp_path / "b.h5", **columns)
    assert contents(path) == contents(tmp_path / "b.h5")


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_block_is_redone(path: Path, tmp_path: Path, seed: int) -> None:
    work = filled(path)
    victim = work.directory / "block-000001.bin"
    flip(victim, int(np.random.default_rng(seed).integers(victim.stat().st_size)))
    with pytest.raises(DamagedFileError, match="the same command"):
        work.finish(make_samples(), PROVENANCE)
    assert (work.directory / "job.json").exists()
    work = begin(path, JOB)
    assert done(work) == {0, 2}
    work.write(1, blocks()[1])
    assert work.finish(make_samples(), PROVENANCE).digests == whole(tmp_path / "b.h5").digests


def test_skipped_samples_and_notes_survive_an_interruption(path: Path) -> None:
    parts, samples = blocks(), make_samples()
    kept = np.delete(np.arange(2500), 1030)  # row 6 of block 1
    part = {name: np.delete(rows, 6, axis=0) for name, rows in parts[1].items()}
    begin(path, JOB).write(1, part, note={"skipped": [1030]})
    work = begin(path, JOB)
    assert done(work) == {1}
    for number in (0, 2):
        work.write(number, parts[number], note=number)
    assert [work.note(number) for number in range(4)] == [0, {"skipped": [1030]}, 2, None]
    columns = {name: getattr(samples, name)[kept] for name in ("ids", "labels", "split")}
    file = work.finish(replace(samples, **columns), PROVENANCE, skipped=["größe/01030.png"])
    assert file.provenance["skipped"] == ["größe/01030.png"]
    np.testing.assert_array_equal(file.read(), make_features()[kept])


def test_a_missing_block_is_named(path: Path) -> None:
    work = filled(path, [0, 2])
    assert "block-000001.bin is damaged" in refusal(work.finish, make_samples(), PROVENANCE)
    work.write(1, blocks()[1])
    assert "2500 rows for 2501" in refusal(work.finish, make_samples(2501), PROVENANCE)
    work.write(2, {"features": make_features(452, 6)})
    assert "rows from 2048" in refusal(work.finish, make_samples(), PROVENANCE)
    bad = make_features(4)
    bad[0] = np.nan
    assert "row 0 of features" in refusal(work.write, 0, {"features": bad})
    assert not path.exists()
    path.write_text("mine")  # it is there since the work was begun
    assert "exists" in refusal(work.finish, make_samples(), PROVENANCE)
    assert path.read_text() == "mine"


def test_one_process_is_at_work_on_a_file(path: Path) -> None:
    with Partial.begun(path, JOB) as late:
        late.write(0, blocks()[0])
        for job, overwrite in ((JOB, False), (OTHER, True)):
            said = refusal(begin, path, job, overwrite=overwrite)
            assert f"process {os.getpid()} on" in said
            assert f"work on {path};" in said
    said = refusal(begin, path, OTHER)
    assert "of another job" in said
    assert "--overwrite" in said
    assert done(begin(path, JOB)) == {0}
    work = begin(path, OTHER, overwrite=True)
    assert done(work) == set()
    late.write(0, blocks()[0])  # of a process that was taken for dead, and goes on
    assert done(work) == set()
    assert "to another job" in refusal(work.finish, make_samples(), PROVENANCE)


def test_others_write_blocks_where_they_see_the_directory(path: Path, tmp_path: Path) -> None:
    work = filled(path, [0])
    Partial.joined(path, JOB).write(2, blocks()[2])
    assert work.missing(2500) == [1]
    for other, job in ((tmp_path / "b.h5", JOB), (path, OTHER)):
        assert "that they share" in refusal(Partial.joined, other, job)
    for stored in (b"\xff", b""):  # work that does not say its job starts anew
        (work.directory / "job.json").write_bytes(stored)
        assert done(begin(path, JOB)) == set()
        begin(path, JOB).write(0, blocks()[0])


def test_work_that_was_left(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the file had its name, but before the directory was gone."""
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        made = filled(path).finish(make_samples(), PROVENANCE)
    assert "exists" in refusal(begin, path, JOB)
    again = begin(path, JOB, overwrite=True)
    assert again.missing(2500) == []
    assert again.finish(make_samples(), PROVENANCE).digests == made.digests
    assert list(tmp_path.iterdir()) == [path]


def test_a_dropped_block_is_missing(path: Path) -> None:
    work = filled(path)
    work.drop(1)
    assert begin(path, JOB).missing(2500) == [1]


def test_a_block_that_was_written_anew_is_not_put_into_the_file(path: Path) -> None:
    """Such as by a worker of an earlier command, of other contents."""
    with Partial.begun(path, JOB) as work:
        for number, block in enumerate(blocks()):
            work.write(number, block, note="of this command")
        Partial.joined(path, JOB).write(1, blocks()[1], note="of another one")
        with pytest.raises(UserError, match=r"block-000001\.bin was written anew by another"):
            work.finish(make_samples(), PROVENANCE)
    assert not path.exists()


def test_other_work_says_what_is_other(path: Path) -> None:
    filled(path)
    fault = f"{path.parent / '.a.h5.partial'} holds unfinished work of another job (another block)"
    with pytest.raises(UserError, check=says(what=fault)):
        begin(path, {**JOB, "block": 512})
