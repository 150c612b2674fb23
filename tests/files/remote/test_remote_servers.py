"""Files of a web server and of stores: fetched once, continued, verified; faults are sentences."""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import pytest
from file_helpers import failing, make_features, make_small, refusal, says
from file_server import Served, serving

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote import download_cache, remote_servers
from embedbench.files.remote.fetch import fetch, local, origin, pin_name
from embedbench.files.remote.uri import Name
from embedbench.storage import user_cache

pytestmark = pytest.mark.usefixtures("cache")
PATH = "/data/small.h5"


@pytest.fixture
def web(small: bytes) -> Iterator[Served]:
    with serving({PATH: small}) as served:
        yield served


@pytest.fixture
def other(tmp_path: Path) -> bytes:
    return make_small(tmp_path / "other.h5", seed=1).read_bytes()


def kept() -> list[str]:
    """Names of the files in the cache of files; hidden ones and leases apart."""
    root = user_cache.directory() / "files"
    return sorted(p.name for p in root.rglob("*") if p.is_file() and p.name[0] != ".")


def test_fetched_once(web: Served, small: bytes, other: bytes, monkeypatch: Any) -> None:
    url, root, synced = web.address + PATH, user_cache.directory() / "files", list[Path]()
    monkeypatch.setattr(download_cache.atomic_write, "sync_path", synced.append)
    with ThreadPoolExecutor(2) as pool:  # by two at once
        path, again = pool.map(local, [url] * 2)
    assert len([r for r in web.asked_for(PATH) if r != "bytes=0-0"]) == 1
    assert path == again == root / hashlib.sha256(small).hexdigest() / "small.h5"
    assert path.read_bytes() == small
    assert synced[1] == path.parent  # after the file
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (root, path.parent, path)]
    assert modes == [0o700, 0o700, 0o600]
    (root / "notes.txt").write_text("mine")
    (entry,) = download_cache.entries()
    assert entry.url == url
    assert entry.path == str(path)
    assert entry.digests == fetch(url).digests
    web.asked.clear()
    assert local(url) == path
    assert web.asked_for(PATH) == ["bytes=0-0"]  # only what it is now
    web.files[PATH] = other
    assert local(url).read_bytes() == other != path.read_bytes()


def test_a_fixed_name_asks_nothing(web: Served, small: bytes, cache: Path) -> None:
    assert (local("a/b.h5"), pin_name("./a//b.h5")) == (Path("a/b.h5"), "a/b.h5")
    assert not cache.exists()  # paths cost nothing
    url, sha256, none = web.address + PATH, hashlib.sha256(small).hexdigest(), "0" * 64
    fixed = f"{url}#sha256={sha256}"
    for text in ("a/b.h5", "known:emoji-vit", fixed):
        assert origin(text) is None  # not fetched
    said = refusal(local, f"{url}#sha256={none}")
    assert said.startswith(f"{url} has the SHA-256 {sha256}, expected {none};")
    assert kept() == []
    assert pin_name(url) == fixed
    web.asked.clear()
    came = origin(fixed)
    assert came.url == url
    assert came.commit is None
    assert came.size == len(small)
    assert origin(url) is None  # may mean another file by now
    assert local(fixed).read_bytes() == small
    assert pin_name(fixed) == fixed
    assert web.asked == []
    other = f"http://127.0.0.1:9/elsewhere/{'b' * 9}.h5#sha256={sha256}"  # the same bytes
    assert local(other).read_bytes() == small
    assert "(Connection refused)" in refusal(local, "http://127.0.0.1:9/a.h5")
    assert "a..b/a.h5 is no address" in refusal(local, "http://a..b/a.h5")


@pytest.mark.parametrize("share", [0.11, 0.5])
def test_cut_off_again_and_again(web: Served, small: bytes, share: float) -> None:
    size = int(share * len(small))
    starts = range(0, len(small), size)
    web.faults[PATH] = f"cut {size}"
    counts: list[tuple[int, int]] = []
    path = local(web.address + PATH, progress=lambda *count: counts.append(count))
    assert path.read_bytes() == small
    assert counts == [(min(at + size, len(small)), len(small)) for at in starts]
    begun = [r for r in web.asked_for(PATH) if r != "bytes=0-0"]
    assert begun == [f"bytes={at}-{len(small) - 1}" for at in starts]


@pytest.mark.parametrize("fault", ["", "no-ranges"])
def test_killed(web: Served, small: bytes, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    web.faults[PATH] = "cut 5000"
    with pytest.raises(KeyboardInterrupt):
        local(web.address + PATH, progress=failing(KeyboardInterrupt()))
    (begun,) = (user_cache.directory() / "files").glob("*.partial")
    assert begun.stat().st_size == 5000
    monkeypatch.setattr(remote_servers, "PIECE", 701 if fault else len(small))
    web.faults[PATH] = fault
    web.asked.clear()
    counts: list[tuple[int, int]] = []
    path = local(web.address + PATH, progress=lambda *count: counts.append(count))
    assert path.read_bytes() == small
    assert web.asked_for(PATH) == ["bytes=0-0", f"bytes=5000-{len(small) - 1}"]
    assert fault or counts == [(len(small), len(small))]  # what was there counts


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("404", "there is no "),
        ("410", "there is no "),
        ("429", "(status 429)"),
        ("500", "(status 500)"),
        ("mute", "(RemoteDisconnected)"),
        ("499", "with status 499"),
        ("redirect ftp://127.0.0.1/x", "with status 302"),
        (f"redirect {PATH}", "with status 302"),
        ("late", "sent other bytes"),
        ("less", "ended after"),
        ("no-length", "say how long"),
        (f"says 1{'0' * 5000}", "say how long"),
        (f"says {2**63 - 1}", "say how long"),
        ("says 123456789012345678", "GB are free"),
        (f"no-ranges says 1{'0' * 24}", "say how long"),
        ("chunk -5", "(ValueError)"),
        ("reset", "(Connection reset"),
    ],
)
def test_faults(web: Served, fault: str, sentence: str) -> None:
    web.faults[PATH] = fault
    said = refusal(local, web.address + PATH)
    assert all(part in said for part in (web.address + PATH, sentence))
    if fault == "less":
        size = len(web.files[PATH])
        assert f"ended after {size:,} of {size + 1:,} bytes" in said
    if fault == "reset":
        assert len(web.asked_for(PATH)) == 2 * 3  # attempts
    assert all(name.endswith(".partial") for name in kept())


@pytest.mark.parametrize("name", ["x" * 99 + ".h5", "ж" * 200, "日" * 90 + ".h5", "x" + "." * 99])
def test_a_long_name(web: Served, small: bytes, name: str) -> None:
    """More bytes than a file system takes, in fewer characters; a dot where it is cut."""
    web.files[f"/{quote(name)}"] = small
    for _ in range(2):
        path = local(f"{web.address}/{quote(name)}")
        assert path.read_bytes() == small
        assert len(path.name.encode()) <= 100
    assert len(web.asked_for(f"/{quote(name)}")) <= 3  # the second time nothing is fetched


def test_a_login_follows_to_its_own_server_alone(web: Served) -> None:
    web.files["/b.h5"] = web.files[PATH]
    with serving({"/c.h5": web.files[PATH]}) as other:
        for to, where in (("/b.h5", web), (f"{other.address}/c.h5", other)):
            web.faults[PATH] = f"redirect {to}"
            login = {"Authorization": "Bearer secret"}
            assert remote_servers.ask_server(web.address + PATH, "a file", login).size
            (asked,) = [given for path, _, given in where.asked if path.endswith(to[-5:])]
            assert asked == ("Bearer secret" if where is web else "")


def test_a_file_that_changes_in_the_middle(web: Served, other: bytes) -> None:
    web.faults[PATH] = "cut 5000"

    def change(*_: int) -> None:
        web.files[PATH] = other

    assert "changed while" in refusal(local, web.address + PATH, progress=change)
    web.faults.clear()
    assert local(web.address + PATH).read_bytes() == other
    remote = remote_servers.ask_server(web.address + PATH, "a file")
    assert b"".join(remote.read(3, 9)) == other[3:9]
    web.files[PATH] = bytes(len(other))
    assert "a file changed" in refusal(list, remote.read(3, 9))


def test_what_is_damaged_or_something_else_is_not_kept(web: Served, small: bytes) -> None:
    page, damaged = f"{web.address}/page.h5", f"{web.address}/damaged.h5"
    web.files["/page.h5"] = b"<html>Log in</html>"
    with pytest.raises(UserError, check=says(remedy="give an embedding file")) as error:
        local(page)
    assert str(error.value).startswith(f"{page} was fetched and is not kept: it is not an HDF5")
    row = make_features(300)[0].tobytes()
    assert small.count(row) == 1
    web.files["/damaged.h5"] = small.replace(row, bytes([row[0] ^ 1]) + row[1:])
    said = refusal(local, damaged)
    assert all(part in said for part in (f"{damaged} was fetched", "rows 0 to 299 of features"))
    assert kept() == []


def test_a_full_disk(web: Served, small: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: usage._replace(free=10))
        assert "GB are free" in refusal(local, web.address + PATH)

    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr("embedbench.storage.atomic_write.os.fsync", failing(full))
        assert "No space left" in refusal(local, web.address + PATH)
    assert [name.rpartition(".")[2] for name in kept()] == ["partial"]
    (begun,) = (user_cache.directory() / "files").glob("*.partial")
    begun.write_bytes(small + b"x")  # what is too long is begun anew, and what is whole is taken
    for fetched in (["bytes=0-0", f"bytes=0-{len(small) - 1}"], ["bytes=0-0"]):
        web.asked.clear()
        path = local(web.address + PATH)
        assert path.read_bytes() == small
        assert web.asked_for(PATH) == fetched
        path.rename(begun)


def test_a_file_that_was_damaged_since_is_fetched_again(web: Served, small: bytes) -> None:
    """Under whatever name it is asked for; the other names of the content mean it, too."""
    pin = f"#sha256={hashlib.sha256(small).hexdigest()}"
    web.files |= {"/a.h5": small, "/b.h5": small}
    local(f"{web.address}/a.h5{pin}").write_bytes(b"other")
    for name in "bba":
        assert local(f"{web.address}/{name}.h5{pin}").read_bytes() == small
    assert [p for p, *_ in web.asked] == ["/a.h5"] * 2 + ["/b.h5"] * 2
    assert kept() == ["b.h5"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users")
def test_nothing_of_another_user_is_believed(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    local(web.address + PATH)
    monkeypatch.setattr("os.getuid", lambda: 12345)
    assert download_cache.entries() == []
    assert "to another user" in refusal(local, web.address + PATH)


URL = "memory://bucket/small.h5"


@pytest.fixture
def stored(small: bytes) -> Iterator[bytes]:
    store = fsspec.filesystem("memory")
    store.pipe_file("/bucket/small.h5", small)
    yield small
    store.rm("/bucket", recursive=True)


def test_memory(stored: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = local(URL)
    assert path.read_bytes() == stored
    assert local(URL) == path
    assert local(pin_name(URL)) == path
    missing = "memory://bucket/none.h5"
    assert f"there is no {missing}" in refusal(local, missing)
    assert "no file of" in refusal(local, "memory://bucket")
    monkeypatch.setattr(remote_servers, "STORE_PIECE", 1000)
    remote = remote_servers.ask_store(Name.parse(URL))
    pieces = list(remote.read(500, 3600))
    assert [len(p) for p in pieces] == [1000, 1000, 1000, 100]
    assert b"".join(pieces) == stored[500:3600]
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", lambda *_, **__: b"x")
    assert "changed while" in refusal(list, remote.read(500, 3600))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (PermissionError("key AKIASECRET"), "no permission for"),
        (type("NoCredentialsError", (Exception,), {})("key AKIASECRET"), "no permission for"),
        (OSError("key AKIASECRET"), "(OSError)"),
        (10**18, "no file of"),
        (None, "no file of"),
        ("1" * 5000, "not be reached"),
    ],
)
def test_stores(stored: bytes, monkeypatch: pytest.MonkeyPatch, answer: Any, sentence: str) -> None:
    """The text of its error may hold anything."""
    kind = type(fsspec.filesystem("memory"))
    if isinstance(answer, Exception):
        monkeypatch.setattr(kind, "cat_file", failing(answer))
    else:
        monkeypatch.setattr(kind, "info", lambda *_, **__: {"size": answer, "type": "file"})
    monkeypatch.setattr(kind, "ukey", lambda *_: "1")
    said = refusal(local, URL)
    monkeypatch.undo()  # what the fixture needs
    assert sentence in said
    assert "AKIASECRET" not in said


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsspec.core.url_to_fs", failing(ImportError("Install s3fs to access S3")))
    for scheme, remedy in (("s3", "install s3fs"), ("az", "install adlfs"), ("smb", "what fsspec")):
        said = refusal(local, f"{scheme}://bucket/small.h5")
        assert all(part in said for part in (f"{scheme}:// needs ", remedy))


def test_a_version_of_another_size_is_fetched_again(
    web: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may call two contents by one version, such as one date in whole seconds."""
    monkeypatch.setattr(remote_servers, "ask", _one_version(remote_servers.ask))
    monkeypatch.setattr(download_cache, "ask", remote_servers.ask)
    name = f"{web.address}{PATH}"
    first = EmbeddingFile.open(local(name))
    web.files[PATH] = make_small(tmp_path / "b.h5", n=200).read_bytes()
    assert (first.shape[0], EmbeddingFile.open(local(name)).shape[0]) == (300, 200)


def _one_version(ask: Any) -> Any:
    return lambda name: replace(ask(name), version="Sun, 29 Nov 2026 00:00:00 GMT")
