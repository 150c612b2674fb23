"""The card of a file elsewhere, by ranges."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from file_helpers import make_features, make_small, refusal, written
from file_server import Served, serving
from hostile_hdf5 import mutate

from embedbench.errors import DamagedFileError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.inspect import card
from embedbench.files.remote import remote_inspection
from embedbench.files.remote.fetch import local
from embedbench.files.remote.remote_inspection import BLOCK, Ranges, peek
from embedbench.storage import user_cache

pytestmark = pytest.mark.usefixtures("cache")
PATH = "/large.h5"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 2 MB: 4,000 rows of 128 values."""
    path = tmp_path_factory.mktemp("large") / "large.h5"
    return written(path, 4000, make_features(4000, 128)).path


@pytest.fixture
def web(large: Path) -> Iterator[Served]:
    with serving({PATH: large.read_bytes()}) as served:
        yield served


def test_the_same_card_by_few_bytes(web: Served, large: Path) -> None:
    url = web.address + PATH
    result = peek(url)
    local_card = card(EmbeddingFile.open(large), remote_inspection.ROWS)
    assert replace(result, path=str(large), transfer=None) == local_card
    assert result.path == url
    ranges = [r.split("=")[1].split("-") for r in web.asked_for(PATH)[1:]]
    cost = sum(int(end) - int(start) + 1 for start, end in ranges)
    assert result.transfer == {"bytes": cost, "requests": len(ranges)}
    assert len(ranges) <= 9
    assert cost < large.stat().st_size / 4
    assert not user_cache.directory().exists()  # nothing is fetched


def test_what_is_fetched_is_read_in_the_cache(web: Served, large: Path) -> None:
    url = web.address + PATH
    local(url)
    web.asked.clear()
    assert peek(url).norms.rows == 1024
    assert web.asked_for(PATH) == ["bytes=0-0"]


def test_without_ranges_the_file_is_fetched(web: Served) -> None:
    web.faults[PATH] = "no-ranges"
    assert peek(web.address + PATH).transfer is None
    assert local(web.address + PATH).is_file()


def damaged_name(data: bytes) -> bytes:
    at = data.index(b"animal")
    return data[:at] + b"b" + data[at + 1 :]


@pytest.mark.parametrize(
    "damaged",
    [damaged_name, lambda data: data[: len(data) // 2], lambda data: data[:8] + bytes(5000)],
    ids=["a class's name", "cut", "zeros"],
)
def test_damaged_metadata(web: Served, damaged: Callable[[bytes], bytes]) -> None:
    web.files[PATH] = damaged(web.files[PATH])
    with pytest.raises(DamagedFileError) as error:
        peek(web.address + PATH)
    assert web.address + PATH in str(error.value)
    assert "\n" not in str(error.value)


def test_no_hdf5(web: Served) -> None:
    web.files[PATH] = b"<html>"
    assert "large.h5 is not an HDF5 file" in refusal(peek, web.address + PATH)


@pytest.mark.parametrize("seed", [2, 4, 5, 7])
def test_hostile_files(web: Served, tmp_path: Path, seed: int) -> None:
    path = make_small(tmp_path / "hostile.h5")
    mutate(path, np.random.default_rng(seed))
    web.files[PATH] = path.read_bytes()
    refusal(EmbeddingFile.open, path)
    assert web.address in refusal(peek, web.address + PATH)


def test_a_process_that_ends(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_inspection, "__name__", "embedbench.no_such_module")
    with pytest.raises(DamagedFileError, match="HDF5 crashes or does not come to its end"):
        peek(web.address + PATH)


@pytest.mark.parametrize("seed", range(3))
def test_ranges_against_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.bytes(BLOCK * 4 + 321)
    asked: list[int] = []

    def fetch(start: int, end: int) -> bytes:
        asked.extend(range(start // BLOCK, -(-end // BLOCK)))
        return data[start:end]

    file = Ranges(len(data), fetch)
    for _ in range(30):
        at, length = int(rng.integers(len(data) + 10)), int(rng.integers(BLOCK * 2))
        file.seek(at)
        assert file.read(length) == data[at : at + length]
    file.seek(-5, 2)
    assert (file.tell(), file.read(9)) == (len(data) - 5, data[-5:])
    for at in (len(data), len(data) + BLOCK):  # nothing is there
        file.seek(at)
        assert file.read(9) == b""
    assert set(asked) == set(range(5))
