"""Writing: a file is there whole or not at all, and interrupted work resumes to the same file."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import (
    JOB,
    PROVENANCE,
    begin,
    blocks,
    contents,
    done,
    flip,
    make_features,
    make_samples,
)

from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.file_digests import canonical_json
from embedbench.files.output_path import check_target, text_digest
from embedbench.files.resumable_file import Partial
from embedbench.files.write_file import write_file
from embedbench.storage.atomic_write import write_safely


def whole(path: Path, n: int = 2500) -> EmbeddingFile:
    """Write what ``blocks(n)`` holds at once."""
    layer = make_features(n, 2, seed=1).astype(np.float16)
    provenance = {**PROVENANCE, "job_sha256": text_digest(canonical_json(JOB))}
    return write_file(path, make_samples(n), make_features(n), provenance, layers={"b": layer})


def test_dates_and_makers_are_filled_in_only_where_missing(tmp_path: Path) -> None:
    samples, features = make_samples(5), make_features(5)
    bare = write_file(tmp_path / "a.h5", samples, features, {"source": {"name": "x"}}).provenance
    assert bare["date_utc"].endswith("Z")
    assert bare["made_by"]["embedbench"]
    assert bare["source"] == {"name": "x", "sample_list_sha256": samples.digest()}
    given = write_file(tmp_path / "b.h5", samples, features, PROVENANCE).provenance
    assert given["date_utc"] == PROVENANCE["date_utc"]
    assert given["made_by"] == PROVENANCE["made_by"]


@pytest.mark.parametrize("row", [0, 1500, 2499])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_names_the_row_and_leaves_nothing(tmp_path: Path, row: int, value: float) -> None:
    features = make_features()
    features[row, 3] = value
    with pytest.raises(UserError, match=rf"row {row} of features \(sample 'größe/{row:05d}.png'\)"):
        write_file(tmp_path / "a.h5", make_samples(), features, PROVENANCE)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_overwrite_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    whole(path)
    before = path.read_bytes()
    features = make_features()
    features[-1] = np.nan
    with pytest.raises(UserError, match="NaN"):
        write_file(path, make_samples(), features, PROVENANCE, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_text("mine")
    for make in (lambda: whole(path), lambda: begin(path, JOB)):
        with pytest.raises(UserError, match=r"exists; .*--overwrite"):
            make()
    assert path.read_text() == "mine"
    write_file(path, make_samples(5), make_features(5), PROVENANCE, overwrite=True)
    assert EmbeddingFile.open(path).shape == (5, 5)


def test_impossible_targets_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "is a directory"), (tmp_path / "no" / "a.h5", "mkdir")):
        with pytest.raises(UserError, match=message):
            whole(path)
        with pytest.raises(UserError, match=message):
            begin(path, JOB)


@pytest.mark.parametrize(
    ("features", "layers", "message"),
    [
        (make_features(10).astype(np.float64), {}, "float32 or float16, or .*, not float64"),
        (make_features(10)[:, 0], {}, "must be"),
        (make_features(10)[:, :0], {}, "must be"),
        (make_features(9), {}, "9 rows for 10"),
        (make_features(10), {"b": make_features(11)}, "layers/b has 11 rows for 10"),
        (make_features(10), {"a/b": make_features(10)}, "layer name 'a/b'"),
        (make_features(10), {"": make_features(10)}, "layer name ''"),
    ],
)
def test_bad_features_are_refused(
    tmp_path: Path, features: Any, layers: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_file(tmp_path / "a.h5", make_samples(10), features, PROVENANCE, layers=layers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_padding_would_lose_are_refused(tmp_path: Path, name: str) -> None:
    samples = make_samples(10)
    samples.ids[3] = name or ""
    if name:  # NumPy itself drops nothing here: the zero byte stands inside
        assert samples.ids[3] == name
    with pytest.raises(UserError, match="row 3 is empty or holds a zero byte"):
        write_file(tmp_path / "a.h5", samples, make_features(10), PROVENANCE)


def test_provenance_must_be_json(tmp_path: Path) -> None:
    for value in (float("nan"), {1, 2}):
        with pytest.raises(UserError, match="plain JSON"):
            write_file(tmp_path / "a.h5", make_samples(5), make_features(5), {"x": value})
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
    file = begin(path, JOB).finish(make_samples(), PROVENANCE)
    assert list(tmp_path.iterdir()) == [path]
    assert file.digests == whole(tmp_path / "b.h5").digests
    assert contents(path) == contents(tmp_path / "b.h5")


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_block_is_redone(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.h5"
    work = begin(path, JOB)
    for number, part in enumerate(blocks()):
        work.write(number, part)
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
    path, parts = tmp_path / "a.h5", blocks()
    samples = make_samples()
    kept = np.delete(np.arange(2500), 1030)  # row 6 of block 1
    work = begin(path, JOB)
    part = {name: np.delete(rows, 6, axis=0) for name, rows in parts[1].items()}
    work.write(1, part, note={"skipped": [1030]})
    work = begin(path, JOB)
    assert done(work) == {1}
    assert work.note(1) == {"skipped": [1030]}
    for number in (0, 2):
        work.write(number, parts[number])
    rest = type(samples)(
        samples.ids[kept],
        samples.labels[kept],
        samples.split[kept],
        samples.classes,
        samples.parents,
    )
    file = work.finish(rest, PROVENANCE, skipped=["größe/01030.png"])
    assert file.provenance["skipped"] == ["größe/01030.png"]
    np.testing.assert_array_equal(file.read(), make_features()[kept])


def test_a_missing_block_is_named(tmp_path: Path) -> None:
    work = begin(tmp_path / "a.h5", JOB)
    for number in (0, 2):
        work.write(number, blocks()[number])
    with pytest.raises(UserError, match="block 1 is missing"):
        work.finish(make_samples(), PROVENANCE)
    work.write(1, blocks()[1])
    with pytest.raises(UserError, match="2500 rows for 2501"):
        work.finish(make_samples(2501), PROVENANCE)
    assert not (tmp_path / "a.h5").exists()


def test_bad_blocks_are_refused(tmp_path: Path) -> None:
    work = begin(tmp_path / "a.h5", JOB)
    bad = make_features(4)
    bad[2] = np.nan
    with pytest.raises(UserError, match=r"row 2 of features holds NaN"):
        work.write(0, {"features": bad})
    with pytest.raises(UserError, match="same number of rows"):
        work.write(0, {"features": make_features(4), "layers/b": make_features(5)})
    work.write(0, {"features": make_features(4, 5)})
    work.write(1, {"features": make_features(4, 6)})
    with pytest.raises(UserError, match=r"began as float32 of shape \(8, 5\)"):
        work.finish(make_samples(8), PROVENANCE)


def test_work_of_another_job_is_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    begin(path, JOB).write(0, blocks()[0])
    with pytest.raises(UserError, match=r"another job .it differs in recipe.; .*--overwrite"):
        begin(path, {**JOB, "recipe": {"size": 256}})
    assert done(begin(path, JOB)) == {0}
    assert done(begin(path, {**JOB, "recipe": {"size": 256}}, overwrite=True)) == set()


def test_overwrite_keeps_work_that_a_living_process_is_doing(tmp_path: Path) -> None:
    path, other = tmp_path / "a.h5", {**JOB, "recipe": {"size": 256}}
    work = begin(path, JOB)
    work.write(0, blocks()[0])
    with work.at_work(), pytest.raises(UserError, match=rf"process {os.getpid()} .* at work on"):
        begin(path, other, overwrite=True)
    assert done(begin(path, JOB)) == {0}
    begin(path, other, overwrite=True)  # it has ended


def test_a_process_whose_work_was_dropped_changes_no_other_work(tmp_path: Path) -> None:
    """It was taken for dead, and goes on."""
    path, other = tmp_path / "a.h5", {**JOB, "recipe": {"size": 256}}
    late = begin(path, JOB)
    late.write(0, blocks()[0])
    block = (late.directory / "block-000000.bin").read_bytes()
    work = begin(path, other, overwrite=True)
    assert (late.is_gone(), work.is_gone()) == (True, False)
    with pytest.raises(UserError, match="another process has dropped"):
        late.write(1, blocks()[1])
    (work.directory / "block-000000.bin").write_bytes(block)  # it was at it in that moment
    assert done(work) == set()
    with pytest.raises(DamagedFileError, match="it belongs to another job"):
        work.finish(make_samples(), PROVENANCE)


def test_who_comes_second_takes_the_file_that_the_first_has_made(tmp_path: Path) -> None:
    """Also where both replace a file of the same job."""
    path = tmp_path / "a.h5"
    for overwrite in (False, True):
        targets = [check_target(path, overwrite=overwrite) for _ in range(3)]
        first, second = (Partial(target, JOB) for target in targets[:2])
        assert not second.is_published()
        for number, part in enumerate(blocks()):
            first.write(number, part)
        provenance = {**PROVENANCE, "date_utc": f"2026-01-0{1 + overwrite}T00:00:00Z"}
        first.finish(make_samples(), provenance)
        made = path.stat().st_mtime_ns
        assert second.is_gone()
        assert second.is_published()
        assert Partial(targets[2], JOB).is_published()  # it has just begun
        assert list(tmp_path.iterdir()) == [path]
        assert path.stat().st_mtime_ns == made
    with pytest.raises(UserError, match="exists"):
        begin(path, JOB)


def test_a_directory_that_another_process_clears_up_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken for what a killed process left, while it is made."""
    path, cleared = tmp_path / "a.h5", []

    def write(name: Path, text: str) -> None:
        if not cleared:
            cleared.append(check_target(path, overwrite=False))
        write_safely(name, text)

    monkeypatch.setattr("embedbench.files.resumable_file.write_safely", write)
    begin(path, JOB).write(0, blocks()[0])
    assert done(begin(path, JOB)) == {0}
    assert [file.name for file in tmp_path.iterdir()] == [".a.h5.partial"]


def test_work_that_did_not_note_its_job_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    work = begin(path, JOB)
    work.write(0, blocks()[0])
    (work.directory / "job.json").unlink()
    assert done(begin(path, JOB)) == set()


def test_what_finished_work_left_behind_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the file had its name, but before the directory was gone."""
    path = tmp_path / "a.h5"
    work = begin(path, JOB)
    for number, part in enumerate(blocks()):
        work.write(number, part)
    with monkeypatch.context() as patch:
        patch.setattr("embedbench.files.resumable_file.drop", lambda _: None)
        work.finish(make_samples(), PROVENANCE)
    assert work.directory.exists()
    with pytest.raises(UserError, match="exists"):
        begin(path, JOB)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("time", [1e9, 4e9])
def test_an_interrupted_overwrite_is_not_taken_for_finished_work(
    tmp_path: Path, time: float
) -> None:
    """Whatever the time of the old file, which the same job has made."""
    path = tmp_path / "a.h5"
    whole(path)
    begin(path, JOB, overwrite=True).write(0, blocks()[0])
    os.utime(path, (time, time))
    with pytest.raises(UserError, match="exists"):
        begin(path, JOB)
    assert done(begin(path, JOB, overwrite=True)) == {0}


WORKER = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from file_helpers import JOB, PROVENANCE, begin, blocks, done, make_samples

    work = begin(Path(sys.argv[1]), JOB)
    there = done(work)
    print("started", flush=True)
    for number, part in enumerate(blocks(size=25)):
        if number not in there:
            work.write(number, part)
            time.sleep(0.001)
    work.finish(make_samples(), PROVENANCE)
    """
)


@pytest.mark.parametrize("seed", range(2))
def test_kill_at_random_moments_and_resume(tmp_path: Path, seed: int) -> None:
    """kill -9 while blocks are written or the file is put together; the result is the same."""
    path = tmp_path / "a.h5"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "helpers")}
    command = [sys.executable, "-c", WORKER, str(path)]
    rng = np.random.default_rng(seed)
    killed = 0
    for _ in range(10):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.04))
            process.kill()
            killed += process.wait() != 0
        if path.exists():
            break
    assert killed >= 3
    if not path.exists():
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    assert EmbeddingFile.open(path).digests == whole(tmp_path / "b.h5").digests
    assert contents(path) == contents(tmp_path / "b.h5")
