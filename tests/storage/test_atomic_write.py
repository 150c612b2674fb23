"""Files are written whole or not at all, and only by `embedbench/storage/atomic_write.py`."""

import errno
import os
import re
from pathlib import Path

import pytest
from file_helpers import failing, refusal

from embedbench.storage import atomic_write
from embedbench.storage.atomic_write import create, temporary_name, write_safely, writing


def test_a_taken_name_keeps_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that was free stays so where the disk is full."""
    taken, free = tmp_path / "taken", tmp_path / "free"

    def full(path: Path, _: str) -> object:
        path.touch()
        return open("/dev/full", "wb", buffering=0)

    assert create(taken, b"first")
    assert not create(taken, b"second")
    assert "taken/below" in refusal(create, taken / "below", b"")
    no_handle_is_left = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(atomic_write, "open", failing(no_handle_is_left), raising=False)
    assert "Too many open" in refusal(create, taken, b"second")
    monkeypatch.setattr(atomic_write, "open", full, raising=False)
    assert "No space left" in refusal(create, free, b"x")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("taken", b"first")]


def test_text_and_bytes_and_an_error_in_the_middle(tmp_path: Path) -> None:
    path, work = tmp_path / "a", tmp_path / "work"
    work.mkdir()
    for data, stored in (("Ω\n", "Ω\n".encode()), (b"\0", b"\0")):
        write_safely(path, data)
        assert path.read_bytes() == stored

    def crash() -> None:
        with writing(path, within=work) as temporary:
            temporary.write_text("half of the new")
            assert temporary.parent == work
            assert path.read_bytes() == b"\0"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    assert path.read_bytes() == b"\0"
    assert sorted(tmp_path.rglob("*")) == [path, work]


def test_a_temporary_name_is_of_one_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process; on two hosts with one process id; and never a name that a pattern finds."""
    path = Path("block-1.bin")
    assert len({temporary_name(path) for _ in range(100)}) == 100
    monkeypatch.setattr(atomic_write.secrets, "token_hex", lambda _: "0")
    monkeypatch.setattr(atomic_write.os, "getpid", lambda: 1)
    monkeypatch.setattr(atomic_write.platform, "node", lambda: f"n.{'x' * 40}")
    assert temporary_name(path) == Path(f".block-1.bin.n-{'x' * 30}-1-0.tmp")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        assert "or a device" in refusal(write_safely, path, "x")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
    assert f"make {tmp_path}/no first" in refusal(write_safely, tmp_path / "no" / "a", "text")


def test_what_a_disk_refuses_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(atomic_write.os, "fsync", failing(full))
    said = refusal(write_safely, path, "new")
    assert said.startswith(f"cannot write {path} (No space left")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


def test_file_and_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it has its name, the directory after."""
    path, names, files = tmp_path / "a", [], os.listdir("/proc/self/fd")
    monkeypatch.setattr(atomic_write.os, "fsync", lambda _: names.append(path.exists()))
    write_safely(path, "text", sync=False)
    assert names == []
    path.unlink()
    write_safely(path, "text")
    assert names == [False, True]
    with writing(path) as temporary:
        temporary.write_text("other")
    assert len(names) == 4
    assert os.listdir("/proc/self/fd") == files


WRITES = re.compile(
    r"\.(write_text|write_bytes|touch|tofile|copyfile|symlink_to|hardlink_to|savefig|dump)\("
    r"|\b(imsave|savetxt|np\.save\w*|torch\.save|save_file|(os|shutil)\.(replace|rename|link|move))\("
    r"|(open|File)\((?:[^()]|\([^()]*\))*?[\"'][rbt]*[wxa+][rwxabt+]*[\"']"
    r"|\b(NamedTemporaryFile|mkstemp)\("
)
# Of lines that write to another name than `temporary`, as `writing` gives: to memory, to an archive
# that lies at one, and elsewhere; and of sentences with lines to type.
ALLOWED = {
    ("figure_style.py", "savefig"),
    ("not_read_here.py", "`np.save"),
    ("numpy_files.py", "`np.savez({new!r}"),
    ("numpy_files.py", "`np.savez({path.stem"),
    ("safetensors_and_torch.py", "save them by name: torch.save("),
    ("export_features.py", "np.savez(target"),
    ("push_file.py", "store.open"),
    ("safe_hdf5.py", "h5py.File(target"),
    ("standard_streams.py", "os.devnull"),
    ("decoding_processes.py", "os.memfd_create"),
    ("decoding_processes.py", "pickle.dump("),  # into a pipe
    ("decoding_worker.py", "os.dup(1)"),
    ("decoding_worker.py", "pickle.dump(worker.answer"),
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
    for line in ("path.open(mode='ab')", "open(str(path), 'w')", "np.savez(path)", "os.move(a, b)"):
        assert writers(line)
