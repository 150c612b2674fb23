"""Copies of tables in the cache: verified, made once, and never believed after a change."""

import errno
import os
import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import damage, make_features, refusal, written
from numpy.typing import NDArray

from embedbench.errors import UserError
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

    asked = 0

    def blocks(self, rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
        self.asked += 1
        yield from np.array_split(rows, 3)

    def map(self, key: str = "rows", rows: NDArray[Any] = ROWS) -> NDArray[Any]:
        return map_copy(key, rows.dtype, rows.shape, self.blocks(rows), "a copy of it")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("compress", [False, True])
def test_a_copy_holds_the_rows_as_stored(tmp_path: Path, dtype: str, compress: bool) -> None:
    x, layer = make_features(2500).astype(dtype), make_features(2500, 3, 1).astype(np.float16)
    file = written(tmp_path / "a.h5", features=x, layers={"b": layer}, compress=compress)
    for table, expected in (("features", x), ("layers/b", layer)):
        rows = mapped_table(file, table)
        assert rows.dtype == expected.dtype
        assert rows.shape == expected.shape
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
    left = the_copy().with_name(f".{the_copy().name}.host-1-ab.tmp")
    left.write_bytes(b"half of it")  # by a process that was killed
    the_copy().unlink()
    mapped_table(file, "features")
    assert not left.exists()
    the_copy().unlink()
    damage(file.path, "features", 2000)
    assert "rows 1024-2047 of features" in refusal(mapped_table, file, "features")
    assert not list((user_cache.directory() / "tables").glob("*.rows"))


def test_a_copy_that_has_changed_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    source, here = Source(), user_cache.identity

    def another_copy(path: Path) -> None:
        Source().map("others", -ROWS)
        (other,) = set(path.parent.glob("*.rows")) - {path}
        other.replace(path)

    changes: list[Callable[[Path], object]] = [
        lambda path: os.truncate(path, path.stat().st_size - 4400),
        lambda path: os.pwrite(os.open(path, os.O_RDWR), b"\xff", 70_000),
        another_copy,
        Path.unlink,
    ]
    with ThreadPoolExecutor(3) as pool:  # three at once make one copy
        for rows in pool.map(lambda _: source.map(), range(3)):
            np.testing.assert_array_equal(rows, ROWS)
    for number, change in enumerate(changes, 1):
        np.testing.assert_array_equal(source.map(), ROWS)
        assert source.asked == number
        change(the_copy())
    np.testing.assert_array_equal(source.map(), ROWS)
    # machines number the disk of a shared cache otherwise
    monkeypatch.setattr(user_cache, "identity", lambda path: f"9{here(path)}")
    np.testing.assert_array_equal(source.map(), ROWS)
    assert source.asked == 5


def test_what_is_not_copied_is_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")(1000)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: usage)
        assert "a copy of it needs 0.0 GB in" in refusal(Source().map)

    def full() -> Iterator[NDArray[Any]]:
        yield ROWS[:2]
        raise OSError(errno.ENOSPC, "No space left on device")

    short = iter([ROWS[:2]])
    for blocks, said in ((full(), "No space left"), (short, "8,800 bytes, expected 3,080,000")):
        assert said in refusal(map_copy, "rows", ROWS.dtype, ROWS.shape, blocks, "a copy")
    np.testing.assert_array_equal(Source().map(), ROWS)
    shutil.rmtree(cache)
    cache.write_text("a file")
    said = refusal(Source().map)
    assert "where a copy of it belongs" in said
    assert "EMBEDBENCH_CACHE" in said


def test_rows_are_asked_for_where_a_disk_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([5, 5, 7])
    usage = namedtuple("usage", "ru_inblock")
    monkeypatch.setattr(mmap_cache, "_input", 0)
    monkeypatch.setattr("resource.getrusage", lambda _: usage(next(turns)))
    assert [mmap_cache._reads_disk() for _ in range(3)] == [True, False, True]


@pytest.mark.parametrize("seed", range(3))
def test_read_takes_any_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    rows = Source().map()
    monkeypatch.setattr(mmap_cache, "_reads_disk", lambda: True)
    monkeypatch.setattr(mmap_cache, "_advise", lambda _, __, *where: asked.append(where))
    monkeypatch.setattr(mmap_cache, "PIECE", (1 + seed) * mmap_cache.PAGE)
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


def test_nothing_is_kept_of_a_file_that_was_replaced(tmp_path: Path) -> None:
    file, other = (
        written(tmp_path / f"{seed}.h5", features=make_features(seed=seed)) for seed in range(2)
    )
    other.path.replace(file.path)
    with pytest.raises(UserError, match=r"0\.h5 was replaced while it was read"):
        mapped_table(file, "features")
    assert not list((user_cache.directory() / "tables").glob("*.rows"))


def test_a_copy_that_an_earlier_version_made_is_made_anew(tmp_path: Path) -> None:
    file = written(tmp_path / "a.h5")
    mapped_table(file, "features")
    (path,) = [the_copy()]
    name = path.stem
    wrong = make_features(seed=9)
    path.write_bytes(wrong.tobytes())  # such as of a file that took the place of this one
    user_cache.save("tables", f"1 {user_cache.state(path)}", name)
    np.testing.assert_array_equal(mapped_table(file, "features"), make_features())
