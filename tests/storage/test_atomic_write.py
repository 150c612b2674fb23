"""Files are written whole or not at all, and only by `embedbench/storage/atomic_write.py`."""

import errno
import os
import re
from pathlib import Path

import pytest
from file_helpers import refusal

from embedbench.storage import atomic_write
from embedbench.storage.atomic_write import create, temporary_name, write_safely, writing


def test_text_and_bytes(tmp_path: Path) -> None:
    write_safely(tmp_path / "a", "Ω\n")
    assert (tmp_path / "a").read_bytes() == "Ω\n".encode()
    write_safely(tmp_path / "a", b"\0")
    assert (tmp_path / "a").read_bytes() == b"\0"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_name_that_is_taken_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    assert create(taken, b"first")
    assert not create(taken, b"second")
    assert "taken/below" in refusal(create, taken / "below", b"")

    def no_handle_is_left(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(atomic_write, "open", no_handle_is_left, raising=False)
    assert "Too many open files" in refusal(create, taken, b"second")
    assert taken.read_bytes() == b"first"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        assert "is a directory or a device; name a file" in refusal(write_safely, path, "x")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
    assert f"make {tmp_path}/no first" in refusal(write_safely, tmp_path / "no" / "a", "text")


def test_an_error_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path, half = tmp_path / "a", []

    def crash() -> None:
        with writing(path) as temporary:
            temporary.write_text("half of the new")
            half.append(path.read_text())
            raise ZeroDivisionError

    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        crash()
    assert [*half, path.read_text()] == ["old", "old"]
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_disk_refuses_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(atomic_write.os, "fsync", refuse)
    said = refusal(write_safely, path, "new")
    assert said.startswith(f"cannot write {path} (No space left on device); free some space")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it has its name, the directory after."""
    path, names = tmp_path / "a", []
    monkeypatch.setattr(atomic_write.os, "fsync", lambda _: names.append(path.exists()))
    write_safely(path, "text", sync=False)
    assert names == []
    path.unlink()
    write_safely(path, "text")
    assert names == [False, True]
    with writing(path) as temporary:
        temporary.write_text("other")
    assert len(names) == 4


def test_what_is_not_whole_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: str) -> object:
        path.touch()
        return open("/dev/full", "wb", buffering=0)

    monkeypatch.setattr(atomic_write, "open", full, raising=False)
    assert "No space left" in refusal(create, tmp_path / "a", b"x")
    assert not list(tmp_path.iterdir())


def test_two_writers_have_two_temporary_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process; on two hosts with one process id; and never a name that a pattern finds."""
    path = tmp_path / "block-1.bin"
    names = {temporary_name(path) for _ in range(100)}
    assert len(names) == 100
    assert not any(name.match("block-*") for name in names)
    monkeypatch.setattr(atomic_write.secrets, "token_hex", lambda _: "0")
    monkeypatch.setattr(atomic_write.os, "getpid", lambda: 1)
    both = []
    for host in ("north", "south"):
        monkeypatch.setattr(atomic_write.platform, "node", lambda host=host: host)
        both.append(temporary_name(path))
    assert both[0] != both[1]


def test_work_can_lie_in_another_directory(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with writing(tmp_path / "a", within=tmp_path / "work") as temporary:
        assert temporary.parent == tmp_path / "work"
        temporary.write_text("text")
    assert (tmp_path / "a").read_text() == "text"
    assert not list((tmp_path / "work").iterdir())


# --- all writing goes through this module

WRITES = re.compile(
    r"\.(write_text|write_bytes|touch|tofile|copyfile|symlink_to|hardlink_to|savefig|dump)\("
    r"|\b(imsave|savetxt|np\.save\w*|torch\.save|save_file|(os|shutil)\.(replace|rename|link|move))\("
    r"|(open|File)\((?:[^()]|\([^()]*\))*?[\"'][rbt]*[wxa+][rwxabt+]*[\"']"
    r"|\b(NamedTemporaryFile|mkstemp)\("
)
# Of lines that write to another name than `temporary`, as `writing` gives: to memory, to an archive
# that lies at one, and elsewhere; and `write_file`, which is called with one.
ALLOWED = {
    ("figure_style.py", "savefig"),
    ("export_features.py", "np.savez(target"),
    ("push_file.py", "store.open"),
    ("write_file.py", "h5py.File"),
}


def writers(text: str) -> list[str]:
    """The lines that write, but for those to `temporary` and for examples."""
    numbers = [text[: m.start()].count("\n") for m in WRITES.finditer(text)]
    lines = [text.splitlines()[number].strip() for number in numbers]
    return [line for line in lines if "temporary" not in line and not line.startswith(">>>")]


def test_nobody_else_writes_files() -> None:
    root = Path(__file__).resolve().parents[2]
    broken = [
        (path.name, line)
        for room in ("embedbench", "extract", "models", "protocols")
        for path in sorted((root / room).rglob("*.py"))
        for line in writers(path.read_text("utf-8"))
        if not any(path.name == name and part in line for name, part in ALLOWED)
    ]
    assert not [b for b in broken if b[0] != "atomic_write.py"], "use write_safely or writing"
    assert broken  # what `atomic_write` does is seen, and so is this
    for line in (
        "path.open(mode='ab')",
        "open(str(path), 'w')",
        "np.savez(path)",
        "File(\n  path, 'w')",
        "os.replace(a, b)",
    ):
        assert writers(line)
