"""Files of stores that fsspec reads."""

from collections.abc import Iterator

import fsspec
import pytest
from file_helpers import refusal

from embedbench.files.remote import remote_servers
from embedbench.files.remote.fetch import local, pin_name
from embedbench.files.remote.uri import Name

pytestmark = pytest.mark.usefixtures("cache")
URL = "memory://bucket/small.h5"


@pytest.fixture
def stored(small: bytes) -> Iterator[bytes]:
    store = fsspec.filesystem("memory")
    store.pipe_file("/bucket/small.h5", small)
    yield small
    store.rm("/bucket", recursive=True)


def test_memory(stored: bytes) -> None:
    path = local(URL)
    assert path.read_bytes() == stored
    assert local(URL) == path
    assert local(pin_name(URL)) == path
    missing = "memory://bucket/none.h5"
    assert f"there is no {missing}" in refusal(local, missing)
    assert "is no file of a known size; name a file" in refusal(local, "memory://bucket")


def test_pieces(stored: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_servers, "STORE_PIECE", 1000)
    remote = remote_servers.ask_store(Name.parse(URL))
    pieces = list(remote.read(500, 3600))
    assert [len(p) for p in pieces] == [1000, 1000, 1000, 100]
    assert b"".join(pieces) == stored[500:3600]
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", lambda *_, **__: b"x")
    assert "changed while" in refusal(list, remote.read(500, 3600))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (PermissionError, "no permission for"),
        (RuntimeError, "could not be reached (RuntimeError)"),
        (OSError, "could not be reached (OSError)"),
    ],
)
def test_a_store_that_fails(
    stored: bytes, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], sentence: str
) -> None:
    """The text of its error may hold anything."""

    def raises(*_: object, **__: object) -> None:
        raise kind("key AKIASECRET")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", raises)
    said = refusal(local, URL)
    assert sentence in said
    assert "AKIASECRET" not in said


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (10**18, "is no file of a known size"),
        (-1, "is no file of a known size"),
        ("1" * 5000, "could not be reached"),
    ],
)
def test_a_store_that_says_another_size(
    stored: bytes, monkeypatch: pytest.MonkeyPatch, size: object, sentence: str
) -> None:
    kind = type(fsspec.filesystem("memory"))
    with monkeypatch.context() as patch:
        patch.setattr(kind, "info", lambda *_, **__: {"size": size, "type": "file"})
        patch.setattr(kind, "ukey", lambda *_: "1")
        assert sentence in refusal(local, URL)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", absent)
    for scheme, remedy in (("s3", "pip install s3fs"), ("smb", "what fsspec's list")):
        said = refusal(local, f"{scheme}://bucket/small.h5")
        assert f"{scheme}:// needs one more package; " in said
        assert remedy in said
