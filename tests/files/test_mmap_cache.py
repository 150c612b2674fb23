"""Copies of tables in the cache: verified, made once, and never believed after a change."""

import errno
import os
import time
from collections import namedtuple
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import damage, make_features, refusal, written
from numpy.typing import NDArray

from embedbench.errors import DamagedFileError
from embedbench.files import mmap_cache
from embedbench.files.mmap_cache import map_copy, mapped_table, read
from embedbench.storage import user_cache

pytestmark = pytest.mark.usefixtures("cache")
ROWS = make_features(700, 1100)  # 4,400 bytes a row: no row begins where a page does


def the_copy() -> Path:
    (path,) = (user_cache.directory() / "tables").glob("*.rows")
    return path


class Source:
    """Blocks of ROWS, and how often they were asked for."""

    def __init__(self, rows: NDArray[Any] = ROWS) -> None:
        self.rows, self.asked = rows, 0

    def blocks(self) -> Iterator[NDArray[Any]]:
        self.asked += 1
        yield from np.array_split(self.rows, 3)

    def map(self, key: str = "rows") -> NDArray[Any]:
        return map_copy(key, self.rows.dtype, self.rows.shape, self.blocks(), "a copy of it")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("compress", [False, True])
def test_a_copy_holds_the_rows_as_stored(tmp_path: Path, dtype: str, compress: bool) -> None:
    x, layer = make_features(2500).astype(dtype), make_features(2500, 3, 1).astype(np.float16)
    file = written(tmp_path / "a.h5", features=x, layers={"b": layer}, compress=compress)
    for table, expected in (("features", x), ("layers/b", layer)):
        rows = mapped_table(file, table)
        assert (rows.dtype, rows.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(rows, expected)
        assert not rows.flags.writeable


def test_a_copy_is_made_once_for_a_content_under_whatever_name(tmp_path: Path) -> None:
    for name in "ab":
        file = written(tmp_path / f"{name}.h5")
        mapped_table(file, "features")
    before = the_copy().stat()
    mapped_table(file, "features")
    assert the_copy().stat() == before
    assert before.st_mode & 0o077 == 0  # nobody else reads it


def test_a_damaged_file_is_not_copied(tmp_path: Path) -> None:
    file = written(tmp_path / "a.h5")
    damage(file.path, "features", 2000)
    with pytest.raises(DamagedFileError, match="rows 1024-2047 of features"):
        mapped_table(file, "features")
    assert not list((user_cache.directory() / "tables").glob("*.rows"))


def shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4400)


def a_byte(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(70_000)
        file.write(b"\xff")


def another_copy(path: Path) -> None:
    Source(-ROWS).map("others")
    (other,) = set(path.parent.glob("*.rows")) - {path}
    other.replace(path)


def test_a_copy_in_a_shared_cache_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines number the same disk otherwise; a copy made anew takes the other's away."""
    source, here = Source(), user_cache.identity
    source.map()
    monkeypatch.setattr(user_cache, "identity", lambda path: f"9{here(path)}")
    np.testing.assert_array_equal(source.map(), ROWS)
    assert source.asked == 1


@pytest.mark.parametrize("change", [shorter, a_byte, another_copy, Path.unlink])
def test_a_copy_that_has_changed_is_made_anew(change: Any) -> None:
    source = Source()
    np.testing.assert_array_equal(source.map(), ROWS)
    change(the_copy())
    np.testing.assert_array_equal(source.map(), ROWS)
    assert source.asked == 2


def test_what_a_killed_process_left_is_removed() -> None:
    source = Source()
    source.map()
    left = the_copy().with_name(f".{the_copy().name}.host-1-ab.tmp")
    left.write_bytes(b"half of it")
    the_copy().unlink()
    source.map()
    assert not left.exists()


def map_slowly(folder: Path) -> None:
    def blocks() -> Iterator[NDArray[Any]]:
        (folder / f"{os.getpid()}.made").touch()
        for k in range(4):
            time.sleep(0.05)
            yield np.full((2, 3), k, np.float32)

    assert map_copy("two", np.dtype("<f4"), (8, 3), blocks(), "it").sum() == 36


def test_three_processes_make_one_copy(tmp_path: Path) -> None:
    fork = get_context("fork")
    processes = [fork.Process(target=map_slowly, args=(tmp_path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(list(tmp_path.glob("*.made"))) == 1


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")(1000)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: usage)
        said = refusal(Source().map)
        assert "a copy of it needs 0.0 GB in" in said
        assert "EMBEDBENCH_CACHE" in said

    def full() -> Iterator[NDArray[Any]]:
        yield ROWS[:2]
        raise OSError(errno.ENOSPC, "No space left on device")

    assert "No space left" in refusal(map_copy, "rows", ROWS.dtype, ROWS.shape, full(), "a copy")
    assert not [p for p in (user_cache.directory() / "tables").iterdir() if p.is_file()]
    np.testing.assert_array_equal(Source().map(), ROWS)


def test_rows_that_are_missing_are_noticed() -> None:
    short = iter([ROWS[:2]])
    assert "expected" in refusal(map_copy, "rows", ROWS.dtype, ROWS.shape, short, "a copy")


def test_a_cache_that_cannot_be_made_is_one_sentence(cache: Path) -> None:
    cache.write_text("a file")
    said = refusal(Source().map)
    assert "where a copy of it belongs" in said
    assert "EMBEDBENCH_CACHE" in said


@pytest.mark.parametrize("seed", range(3))
def test_read_takes_any_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    rows = Source().map()
    monkeypatch.setattr(mmap_cache, "_reads_disk", lambda: True)
    monkeypatch.setattr(mmap_cache, "_advise", lambda _, __, *where: asked.append(where))
    draw = np.random.default_rng(seed)
    wanted = draw.permutation(700)[: draw.integers(0, 60)]
    for chosen in (wanted, np.arange(699, 700), np.arange(0)):
        asked.clear()
        np.testing.assert_array_equal(read(rows, chosen), ROWS[chosen])
        there = np.zeros(rows.nbytes, np.bool_)
        for first, length in asked:
            assert first % mmap_cache.PAGE == 0
            assert 0 < length <= rows.nbytes - first
            there[first : first + length] = True
        assert there.reshape(700, -1)[chosen].all()  # every byte that is read was asked for
