"""Pushing to folders by their URL: memory, a folder of this machine, S3."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import s3_server
from file_helpers import refusal

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.remote.fetch import local, pin_name
from embedbench.sharing.push_file import push


@pytest.fixture
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


def test_memory(file: EmbeddingFile, memory: Any) -> None:
    result = push(file.path, "memory://shared/files/")
    assert (result.url, result.commit) == ("memory://shared/files/a.h5", "")
    assert memory.cat_file("shared/files/a.h5") == file.path.read_bytes()
    page = memory.cat_file("shared/files/README.md")
    assert b"embedbench inspect memory://shared/files/a.h5" in page
    again = push(file.path, "memory://shared/files")
    assert (again.sent, again.unchanged) == ((), result.sent)
    with pytest.raises(UserError, match="--private is for the hub"):
        push(file.path, "memory://shared/files", private=True)


def test_other_content_is_replaced_only_if_asked(file: EmbeddingFile, memory: Any) -> None:
    memory.pipe_file("shared/a.h5", bytes(len(file.path.read_bytes())))  # of the same size
    with pytest.raises(UserError, match=r"memory://shared has a\.h5 with other content"):
        push(file.path, "memory://shared")
    assert not memory.exists("shared/README.md")
    push(file.path, "memory://shared", overwrite=True)
    assert memory.cat_file("shared/a.h5") == file.path.read_bytes()


def test_a_folder_of_this_machine(file: EmbeddingFile, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    url = push(file.path, f"file://{place}/").url
    assert url == f"file://{place}/a.h5"
    assert (place / "a.h5").read_bytes() == file.path.read_bytes()
    assert sorted(p.name for p in place.iterdir()) == ["README.md", "a.h5", "a.png"]
    (pinned,) = re.findall(r"embedbench run '(.*)'", (place / "README.md").read_text())
    assert pinned.startswith(f"{url}#sha256=")
    for name in (url, pinned):  # what was printed can be named
        assert local(name) == place / "a.h5"
        assert pin_name(name) == str(place / "a.h5")
    with pytest.raises(UserError, match=r"has the SHA-256 .*, expected 0000"):
        local(f"{url}#sha256={'0' * 64}")
    with pytest.raises(UserError, match=r"none\.h5 cannot be read"):
        local(f"file://{place}/none.h5")


def test_a_full_disk(file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file appears, and what was there stays; the next push sends all of it."""

    def full(*given: Any, **_: object) -> None:
        if len(given) == 2:
            Path(given[1]).write_bytes(b"some")  # a copy from another disk
        raise OSError(errno.ENOSPC, "No space left on device")

    def rename(source: Any, target: Any, to: Any = os.rename) -> None:
        if Path(source).parent != Path(target).parent:
            raise OSError(errno.EXDEV, "another disk")
        to(source, target)

    place = tmp_path / "full"
    place.mkdir()
    (place / "README.md").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        patch.setattr(shutil, "copyfile", full)
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"cannot write .* \(No space left on device\)"):
            push(file.path, f"file://{place}", overwrite=True)
    assert [(p.name, p.read_text()) for p in place.iterdir()] == [("README.md", "before")]
    assert len(push(file.path, f"file://{place}", overwrite=True).sent) == 3


def test_no_permission_and_a_missing_package(
    file: EmbeddingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("AccessDenied: key AKIA0123")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(UserError, match="no permission for s3://b/a; log in") as error:
        push(file.path, "s3://b/a")
    assert "AKIA" not in str(error.value)
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda _: __import__("no_such_package"))
    with pytest.raises(UserError, match="s3:// needs one more package; pip install s3fs"):
        push(file.path, "s3://b/a")


def test_s3(file: EmbeddingFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server.serving(monkeypatch):
        monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
        with pytest.raises(UserError, match="there is no s3://team/files; check the name"):
            push(file.path, "s3://team/files")  # no such bucket
        fsspec.filesystem("s3").mkdir("team")
        result = push(file.path, "s3://team/files")
        assert result.url == "s3://team/files/a.h5"
        assert push(file.path, "s3://team/files").sent == ()
        path = local(result.url)
        assert path.read_bytes() == file.path.read_bytes()
        files = [p for p in tmp_path.rglob("*") if p.is_file()]
        for secret in (s3_server.KEY, s3_server.SECRET):
            assert not any(secret.encode() in p.read_bytes() for p in files)
        assert "there is no s3://team/none.h5" in refusal(local, "s3://team/none.h5")
