"""Facts in the cache are private."""

import os
import stat
from pathlib import Path

import pytest

from embedbench.storage import user_cache


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "a" / "cache"))
    return tmp_path / "a" / "cache"


def test_nobody_else_reads_or_writes_facts(place: Path) -> None:
    user_cache.save("kind", "key", {"a": 1})
    assert user_cache.load("kind", "key") == {"a": 1}
    assert user_cache.load("kind", "another") is None
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no user numbers here")
def test_facts_of_another_user_are_not_believed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_cache.save("kind", "key", 1)
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    assert user_cache.load("kind", "key") is None
