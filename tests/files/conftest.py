"""A cache of each test's own, one small file, and a hub that has it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from file_helpers import make_small
from file_server import Served, serving


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_small(tmp_path_factory.mktemp("small") / "small.h5").read_bytes()


@pytest.fixture
def hub(small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A hub that sends to `elsewhere` for its large files, and is a web server, too."""
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serving({"/lfs/small.h5": small}) as store, serving({"/small.h5": small}) as served:
        served.elsewhere = store
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        yield served
