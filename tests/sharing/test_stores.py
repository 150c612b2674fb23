"""Pushing to folders by their URL: memory, a folder of this machine, S3."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import s3_server
from file_helpers import PROVENANCE, make_features, make_samples
from fsspec.implementations.local import LocalFileOpener

from embedbench.errors import UserError
from embedbench.fetching.local import local
from embedbench.files.file import EmbeddingFile
from embedbench.files.writer import write_file
from embedbench.sharing.push import How, push


@pytest.fixture
def file(tmp_path: Path) -> EmbeddingFile:
    return write_file(tmp_path / "a.h5", make_samples(60), make_features(60), PROVENANCE)


@pytest.fixture(autouse=True)
def _no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is slow, and has tests of its own."""
    monkeypatch.setattr("embedbench.sharing.push.picture", lambda f: f.digests["content"].encode())


@pytest.fixture
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


def test_memory(file: EmbeddingFile, memory: Any) -> None:
    result = push(file.path, "memory://shared/files/")
    assert result.url == "memory://shared/files/a.h5"
    assert result.commit == ""
    assert memory.cat_file("shared/files/a.h5") == file.path.read_bytes()
    assert b"embedbench inspect memory://shared/files/a.h5" in memory.cat_file(
        "shared/files/README.md"
    )
    assert push(file.path, "memory://shared/files").sent == ()
    with pytest.raises(UserError, match="--private is for the hub"):
        push(file.path, "memory://shared/files", How(private=True))


def test_other_content_is_replaced_only_if_asked(file: EmbeddingFile, memory: Any) -> None:
    memory.pipe_file("shared/a.h5", bytes(len(file.path.read_bytes())))  # of the same size
    with pytest.raises(UserError, match=r"memory://shared has a\.h5 with other content"):
        push(file.path, "memory://shared")
    assert not memory.exists("shared/README.md")
    push(file.path, "memory://shared", How(overwrite=True))
    assert memory.cat_file("shared/a.h5") == file.path.read_bytes()


def test_a_folder_of_this_machine_and_a_full_disk(
    file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "shared"
    assert push(file.path, f"file://{place}").url == f"{place}/a.h5"
    assert (place / "a.h5").read_bytes() == file.path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalFileOpener, "write", full, raising=False)
    with pytest.raises(UserError, match=r"cannot write to .* \(No space left on device\)"):
        push(file.path, f"file://{tmp_path}/full")
    assert list((tmp_path / "full").iterdir()) == []


def test_no_permission_and_a_missing_package(
    file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("AccessDenied: key AKIA0123")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(UserError, match="no permission to write to s3://b/a; log in") as error:
        push(file.path, "s3://b/a")
    assert "AKIA" not in str(error.value)
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda _: __import__("no_such_package"))
    with pytest.raises(UserError, match="s3:// needs one more package: pip install s3fs"):
        push(file.path, "s3://b/a")


def test_s3(file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server.serving(monkeypatch):
        monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
        with pytest.raises(UserError, match="cannot write to s3://team/files"):
            push(file.path, "s3://team/files")  # no such bucket
        fsspec.filesystem("s3").mkdir("team")
        result = push(file.path, "s3://team/files")
        assert result.url == "s3://team/files/a.h5"
        assert push(file.path, "s3://team/files").sent == ()
        path = local(result.url)
        assert path.read_bytes() == file.path.read_bytes()
        files = [p for p in tmp_path.rglob("*") if p.is_file()]
        assert not any(s3_server.SECRET.encode() in p.read_bytes() for p in files)
