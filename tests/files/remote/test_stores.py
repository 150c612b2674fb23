"""Files of stores that fsspec reads."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import s3_server
from file_helpers import make_small

from embedbench.errors import UserError
from embedbench.files.remote import remote_servers
from embedbench.files.remote.fetch import local, pin_name
from embedbench.files.remote.remote_inspection import peek
from embedbench.files.remote.uri import Name

URL = "memory://bucket/small.h5"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    data = make_small(tmp_path / "s.h5").read_bytes()
    store = fsspec.filesystem("memory")
    store.pipe_file("/bucket/small.h5", data)
    yield data
    store.rm("/bucket", recursive=True)


def test_memory(small: bytes, tmp_path: Path) -> None:
    card = peek(URL)
    assert card.shape == (300, 5)
    assert not (tmp_path / "cache").exists()
    path = local(URL)
    assert path.read_bytes() == small
    assert local(URL) == path
    assert local(pin_name(URL)) == path
    assert peek(URL).digests == card.digests
    with pytest.raises(UserError, match=r"there is no file memory://bucket/none.h5"):
        local("memory://bucket/none.h5")
    with pytest.raises(UserError, match="is a directory; name a file in it"):
        local("memory://bucket")


def test_pieces(small: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_servers, "STORE_PIECE", 1000)
    remote = remote_servers.ask_store(Name.parse(URL))
    pieces = list(remote.read(500, 3600))
    assert [len(p) for p in pieces] == [1000, 1000, 1000, 100]
    assert b"".join(pieces) == small[500:3600]


def test_a_store_that_fails(small: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of its error may hold anything."""

    def fail(kind: type[Exception]) -> str:
        def raises(*_: object, **__: object) -> None:
            raise kind("key AKIASECRET")

        monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", raises)
        with pytest.raises(UserError) as error:
            local(URL)
        assert "AKIASECRET" not in str(error.value)
        return str(error.value)

    assert "is not given to everybody" in fail(PermissionError)
    assert "could not be reached (RuntimeError)" in fail(RuntimeError)
    assert "could not be reached (OSError)" in fail(OSError)


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (10**25, "a size that no file has"),
        (-1, "a size that no file has"),
        ("1" * 5000, "could not be reached"),
    ],
)
def test_a_store_that_says_another_size(
    small: bytes, monkeypatch: pytest.MonkeyPatch, size: object, sentence: str
) -> None:
    kind = type(fsspec.filesystem("memory"))
    with monkeypatch.context() as patch:
        patch.setattr(kind, "info", lambda *_, **__: {"size": size, "type": "file"})
        patch.setattr(kind, "ukey", lambda *_: "1")
        for read in (local, peek):
            with pytest.raises(UserError, match=sentence):
                read(URL)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", absent)
    with pytest.raises(UserError, match=r"s3:// needs one more package: pip install s3fs"):
        local("s3://bucket/small.h5")
    with pytest.raises(UserError, match=r"smb:// needs one more package: see fsspec's list"):
        local("smb://host/share/small.h5")


def test_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against moto's server: the same bytes, and the sentences for what is missing or closed."""
    with s3_server.serving(monkeypatch):
        monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
        path = make_small(tmp_path / "s.h5")
        store = fsspec.filesystem("s3")
        store.mkdir("bucket")
        store.put_file(str(path), "bucket/a/small.h5")
        assert peek("s3://bucket/a/small.h5").shape == (300, 5)
        assert local("s3://bucket/a/small.h5").read_bytes() == path.read_bytes()
        with pytest.raises(UserError, match=r"there is no file s3://bucket/none.h5"):
            local("s3://bucket/none.h5")
        texts = [p.read_bytes() for p in (tmp_path / "cache").rglob("*") if p.is_file()]
        assert not any(
            s3_server.KEY.encode() in text or s3_server.SECRET.encode() in text for text in texts
        )
