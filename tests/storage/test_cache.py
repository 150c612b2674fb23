"""Facts in the cache are private."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from file_helpers import refusal

from embedbench.storage import user_cache


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "a" / "cache"))
    return tmp_path / "a" / "cache"


def test_nobody_else_reads_or_writes_facts(place: Path) -> None:
    user_cache.save("kind", "key", {"a": 1})
    assert user_cache.load("kind", "key") == {"a": 1}
    assert user_cache.load("kind", "another") is None
    (fact,) = place.rglob("*.json")
    for folder in (place, fact.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_where_it_lies_and_what_fits_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDBENCH_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for home, expected in ((tmp_path / "x", "x/embedbench"), ("", ".cache/embedbench")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        assert user_cache.directory() == tmp_path / expected
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=10))
    user_cache.check_room(tmp_path, 10, "it")
    assert "it needs" in refusal(user_cache.check_room, tmp_path, 11, "it")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no user numbers here")
def test_facts_of_another_user_are_not_believed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_cache.save("kind", "key", 1)
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    assert user_cache.load("kind", "key") is None
