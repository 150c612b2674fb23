"""Writing: a file is there whole or not at all, and interrupted work resumes to the same file."""

import os
import time
from dataclasses import replace
from importlib import metadata
from multiprocessing import get_context
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
    written,
)

from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.resumable_file import Partial
from embedbench.files.write_file import write_file
from embedbench.version import __version__

OTHER = {**JOB, "recipe": {"size": 256}}


def whole(path: Path, n: int = 2500, **columns: Any) -> EmbeddingFile:
    """Write what ``blocks(n)`` holds at once."""
    layer = make_features(n, 2, seed=1).astype(np.float16)
    provenance = {**PROVENANCE, "job_sha256": JOB_SHA256}
    features, layers = make_features(n), {"b": layer}
    return write_file(path, make_samples(n), features, provenance, layers=layers, columns=columns)


def begun(path: Path) -> Partial:
    """Work with one block."""
    work = begin(path, JOB)
    work.write(0, blocks()[0])
    return work


def filled(path: Path) -> Partial:
    """Work that lacks nothing but its end."""
    work = begun(path)
    for number in (1, 2):
        work.write(number, blocks()[number])
    return work


def test_dates_and_makers_are_filled_in_only_where_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "distribution", None)  # as in a clone that is not installed
    samples, features = make_samples(5), make_features(5)
    bare = write_file(tmp_path / "a.h5", samples, features, {"source": {"name": "x"}}).provenance
    assert bare["date_utc"].endswith("Z")
    assert bare["made_by"] == {"embedbench": __version__}
    assert bare["source"] == {"name": "x", "sample_list_sha256": samples.digest()}
    given = write_file(tmp_path / "b.h5", samples, features, PROVENANCE).provenance
    assert given["date_utc"] == PROVENANCE["date_utc"]
    assert given["made_by"] == PROVENANCE["made_by"]


@pytest.mark.parametrize(("row", "value"), [(0, np.nan), (1500, -np.inf), (2499, np.inf)])
def test_nan_names_the_row_and_leaves_nothing(tmp_path: Path, row: int, value: float) -> None:
    features = make_features()
    features[row, 3] = value
    said = refusal(written, tmp_path / "a.h5", features=features)
    assert f"row {row} of features (sample 'größe/{row:05d}.png')" in said
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_text("mine")
    for said in (refusal(whole, path), refusal(begin, path, JOB)):
        assert "exists" in said
        assert "--overwrite" in said
    assert path.read_text() == "mine"
    assert written(path, 5, overwrite=True).shape == (5, 5)
    before = path.read_bytes()
    features = make_features()
    features[-1] = np.nan
    assert "NaN" in refusal(written, path, features=features, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_impossible_targets_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "is a directory"), (tmp_path / "no" / "a.h5", "mkdir")):
        assert message in refusal(whole, path)
        assert message in refusal(begin, path, JOB)


FEATURES, IMAGES = make_features(10), np.zeros((10, 4, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": FEATURES.astype(np.float64)}, "float32 or float16, or .*, not float64"),
        ({"features": FEATURES[:, 0]}, "must be"),
        ({"features": FEATURES[:, :0]}, "must be"),
        ({"features": FEATURES[:9]}, "9 rows for 10"),
        ({"layers": {"b": make_features(11)}}, "layers/b has 11 rows for 10"),
        ({"layers": {"a/b": FEATURES}}, "layer name 'a/b'"),
        ({"layers": {"": FEATURES}}, "layer name ''"),
        ({"features": IMAGES, "layers": {"b": FEATURES}}, "images have no layers"),
        ({"features": IMAGES, "layers": {"b": IMAGES}}, r"layers/b must be \(N, D\)"),
        ({"columns": {"domian": np.full(10, "a")}}, "'domian'. Did you mean 'domain'"),
        ({"columns": {"time": np.arange(11)}}, r"is int64 of shape \(11,\); expected one number"),
        ({"columns": {"domain": np.full((10, 1), "a")}}, r"shape \(10, 1\); expected one text"),
        ({"columns": {"domain": np.ones(10)}}, "'domain' is float64 .* expected one text"),
        ({"columns": {"time": np.full(10, "1")}}, "'time' is <U1 .* expected one number"),
        (
            {"columns": {"group": np.array([*"aaaaaaa", "", "", ""])}},
            "'group' has no text in row 7",
        ),
        ({"columns": {"time": np.r_[np.zeros(9), np.nan]}}, "'time' has NaN .* in row 9"),
        ({"columns": {"group": np.full(10, "a\0b")}}, "holds a zero byte"),
    ],
)
def test_what_is_not_of_the_format_is_not_written(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        written(tmp_path / "a.h5", 10, **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_padding_would_lose_are_refused(tmp_path: Path, name: str) -> None:
    samples = make_samples(10)
    samples.ids[3] = name
    said = refusal(write_file, tmp_path / "a.h5", samples, make_features(10), PROVENANCE)
    assert "row 3 is empty or holds a zero byte" in said


@pytest.mark.parametrize(
    ("value", "said"),
    [(float("nan"), "JSON"), ({1, 2}, "JSON"), ("x" * 2**25, "at most 33,554,432")],
)
def test_provenance_must_be_json(tmp_path: Path, value: Any, said: str) -> None:
    path = tmp_path / "a.h5"
    assert said in refusal(write_file, path, make_samples(5), make_features(5), {"x": value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(4))
def test_blocks_in_any_order_give_the_file_written_at_once(tmp_path: Path, seed: int) -> None:
    """Interrupted after any block, in blocks of any size: the same data sets and digests."""
    size = [1024, 1024, 700, 333][seed]
    parts = blocks(size=size)
    order = np.random.default_rng(seed).permutation(len(parts)).tolist()
    path = tmp_path / "a.h5"
    for number in order:
        work = begin(path, JOB)  # a new process each time
        assert number not in done(work)
        work.write(number, parts[number])
    assert done(work) == set(order)
    assert not path.exists()
    columns = make_columns(2500)
    file = begin(path, JOB).finish(make_samples(), PROVENANCE, columns=columns)
    assert list(tmp_path.iterdir()) == [path]
    assert file.digests == whole(tmp_path / "b.h5", **columns).digests
    assert contents(path) == contents(tmp_path / "b.h5")


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_block_is_redone(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.h5"
    work = filled(path)
    victim = work.directory / "block-000001.bin"
    size = victim.stat().st_size
    flip(victim, int(np.random.default_rng(seed).integers(size)))
    with pytest.raises(DamagedFileError, match="run the same command again"):
        work.finish(make_samples(), PROVENANCE)
    assert (work.directory / "job.json").exists()
    work = begin(path, JOB)
    assert done(work) == {0, 2}
    work.write(1, blocks()[1])
    assert work.finish(make_samples(), PROVENANCE).digests == whole(tmp_path / "b.h5").digests


def test_skipped_samples_and_notes_survive_an_interruption(tmp_path: Path) -> None:
    path, parts, samples = tmp_path / "a.h5", blocks(), make_samples()
    kept = np.delete(np.arange(2500), 1030)  # row 6 of block 1
    part = {name: np.delete(rows, 6, axis=0) for name, rows in parts[1].items()}
    begin(path, JOB).write(1, part, note={"skipped": [1030]})
    work = begin(path, JOB)
    assert done(work) == {1}
    assert work.note(1) == {"skipped": [1030]}
    for number in (0, 2):
        work.write(number, parts[number])
    columns = {name: getattr(samples, name)[kept] for name in ("ids", "labels", "split")}
    file = work.finish(replace(samples, **columns), PROVENANCE, skipped=["größe/01030.png"])
    assert file.provenance["skipped"] == ["größe/01030.png"]
    np.testing.assert_array_equal(file.read(), make_features()[kept])


def test_a_missing_block_is_named(tmp_path: Path) -> None:
    work = begun(tmp_path / "a.h5")
    work.write(2, blocks()[2])
    assert "block-000001.bin is damaged" in refusal(work.finish, make_samples(), PROVENANCE)
    work.write(1, blocks()[1])
    assert "2500 rows for 2501" in refusal(work.finish, make_samples(2501), PROVENANCE)
    assert not (tmp_path / "a.h5").exists()
    (tmp_path / "a.h5").write_text("mine")  # it is there since the work was begun
    assert "exists" in refusal(work.finish, make_samples(), PROVENANCE)
    assert (tmp_path / "a.h5").read_text() == "mine"


def test_bad_blocks_are_refused(tmp_path: Path) -> None:
    work, bad = begin(tmp_path / "a.h5", JOB), make_features(4)
    bad[0] = np.nan
    assert "row 0 of features holds NaN" in refusal(work.write, 0, {"features": bad})
    work.write(0, {"features": make_features(4, 5)})
    work.write(1, {"features": make_features(4, 6)})
    said = refusal(work.finish, make_samples(8), PROVENANCE)
    assert "began as float32 of shape (8, 5)" in said


def test_work_of_another_job_is_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    begun(path)
    said = refusal(begin, path, OTHER)
    assert "of another job" in said
    assert "--overwrite" in said
    assert done(begin(path, JOB)) == {0}
    assert done(begin(path, OTHER, overwrite=True)) == set()


def test_one_process_is_at_work_on_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with Partial.begun(path, JOB) as work:
        work.write(0, blocks()[0])
        for job, overwrite in ((JOB, False), (OTHER, True)):
            said = refusal(begin, path, job, overwrite=overwrite)
            assert f"process {os.getpid()} on" in said
            assert f"is at work on {path}; wait for it" in said
    assert done(begin(path, JOB)) == {0}


def test_a_process_whose_work_was_dropped_changes_no_other_work(tmp_path: Path) -> None:
    """It was taken for dead, and goes on."""
    path = tmp_path / "a.h5"
    late = begun(path)
    work = begin(path, OTHER, overwrite=True)
    late.write(0, blocks()[0])
    assert done(work) == set()
    assert "it belongs to another job" in refusal(work.finish, make_samples(), PROVENANCE)


def test_others_write_blocks_where_they_see_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    work = begun(path)
    Partial.joined(path, JOB).write(2, blocks()[2])
    assert work.missing(2500) == [1]
    for other, job in ((tmp_path / "b.h5", JOB), (path, OTHER)):
        assert "a directory that all of them share" in refusal(Partial.joined, other, job)


@pytest.mark.parametrize("stored", [b"\xff", b""])
def test_work_that_does_not_say_its_job_starts_anew(tmp_path: Path, stored: bytes) -> None:
    (begun(tmp_path / "a.h5").directory / "job.json").write_bytes(stored)
    assert done(begin(tmp_path / "a.h5", JOB)) == set()


def test_finished_work_that_was_not_cleared_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the file had its name, but before the directory was gone."""
    path = tmp_path / "a.h5"
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        made = filled(path).finish(make_samples(), PROVENANCE)
    assert "exists" in refusal(begin, path, JOB)
    again = begin(path, JOB, overwrite=True)
    assert again.missing(2500) == []
    assert again.finish(make_samples(), PROVENANCE).digests == made.digests
    assert list(tmp_path.iterdir()) == [path]


def write_blocks(path: Path) -> None:
    """In a process of its own: do what is left."""
    work = begin(path, JOB)
    there = done(work)
    for number, part in enumerate(blocks(size=25)):
        if number not in there:
            work.write(number, part)
            time.sleep(0.001)  # so that kills meet work, however fast the machine
    work.finish(make_samples(), PROVENANCE)


def test_kill_at_random_moments_and_resume(tmp_path: Path) -> None:
    path, rng, killed = tmp_path / "a.h5", np.random.default_rng(0), 0
    for _ in range(10):
        process = get_context("fork").Process(target=write_blocks, args=(path,))
        process.start()
        process.join(rng.uniform(0, 0.08))
        process.kill()
        process.join()
        killed += process.exitcode != 0
        if path.exists():
            break
    assert killed >= 3
    if not path.exists():
        write_blocks(path)
    assert EmbeddingFile.open(path).digests == whole(tmp_path / "b.h5").digests
    assert contents(path) == contents(tmp_path / "b.h5")
