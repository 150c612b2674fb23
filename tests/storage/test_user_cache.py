"""Facts in the cache are private."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from file_helpers import refusal, says

from embedbench.errors import UserError
from embedbench.storage import user_cache


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no user numbers here")
def test_nobody_else_reads_or_writes_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of another user are not believed."""
    place = tmp_path / "a" / "cache"
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(place))
    assert [user_cache.save("kind", "key", value) for value in (0, {"a": 1})] == [None, None]
    assert user_cache.load("kind", "key") == {"a": 1}
    assert user_cache.load("kind", "another") is None
    (fact,) = place.rglob("*.json")
    assert fact.parents[2] == place
    for folder in (place, fact.parent, *(user_cache.make_directory("a", "it") for _ in range(2))):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    assert user_cache.load("kind", "key") is None


def test_where_it_lies_and_what_fits_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDBENCH_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for home, expected in ((tmp_path / "x", "x/embedbench"), ("", ".cache/embedbench")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        assert user_cache.directory() == tmp_path / expected
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=3 * 10**9))
    user_cache.check_room(tmp_path, 3 * 10**9, "it")
    assert refusal(user_cache.check_room, tmp_path, 4 * 10**9, "it").startswith(
        f"it needs 4.0 GB in {tmp_path}, and 3.0 GB are free; "
    )


def test_a_fact_is_of_a_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that changed meanwhile, or is so young that its times may not tell, has none."""
    path = tmp_path / "a"
    path.write_text("1")
    before = user_cache.identity(path)
    user_cache.remember("kind", path, "young", before)
    assert user_cache.recall("kind", path) is None
    changed = path.stat().st_ctime
    for age, kept in ((user_cache.FRESH - 0.1, None), (user_cache.FRESH + 0.1, "old")):
        monkeypatch.setattr(user_cache.time, "time", lambda age=age: changed + age)
        user_cache.remember("kind", path, "old", before, "v2")
        assert user_cache.recall("kind", path, "v2") == kept
    assert user_cache.recall("kind", path) is None  # of another version of the code
    user_cache.remember("kind", path, "other", f"{before}0")
    assert user_cache.recall("kind", path) is None


def test_what_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    with (
        pytest.raises(UserError, check=says(what=f"{path} changed while it was read")),
        user_cache.refuse_changes(path),
    ):
        path.write_text("22")


def test_a_folder_changes_with_any_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("1")
    with (
        pytest.raises(UserError, check=says(what=f"{tmp_path} changed while it was read")),
        user_cache.refuse_changes(tmp_path),
    ):
        (tmp_path / "in/a").write_text("22")


def test_what_stays_as_it_is_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    with user_cache.refuse_changes(tmp_path, tmp_path / "a"):
        (tmp_path / "a").read_text()


def test_a_file_that_became_a_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    before = user_cache.identities(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, check=says(what=f"{path} changed while it was read")):
        user_cache.check_identities(path, before)
