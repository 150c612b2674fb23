"""Files are written whole or not at all, and only by `embedbench/storage/atomic_write.py`."""

import ast
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedbench.errors import UserError
from embedbench.storage import atomic_write
from embedbench.storage.atomic_write import temporary_name, write_safely, writing

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("embedbench", "extract", "models", "protocols")
# Calls that write to the name given as this argument.
WRITERS = {
    "savefig": 0,
    "imsave": 0,
    "savetxt": 0,
    "savez": 0,
    "savez_compressed": 0,
    "np.save": 0,
    "torch.save": 1,
    "save_file": 1,
    "dump": 1,
}
METHODS = {"write_text", "write_bytes", "touch", "tofile", "copyfile", "symlink_to", "hardlink_to"}
OPENERS = {"open", "fdopen", "File", "ZipFile", "TarFile", "NamedTemporaryFile", "mkstemp"}
RENAMERS = {"os.replace", "os.rename", "os.link", "shutil.move"}
# Beside what `writing` guards: `write_file` is called with a temporary name, a member is added to
# an archive that lies at one, and `push_file` writes elsewhere.
ALLOWED = {
    ("embedbench/files/write_file.py", "h5py.File"),
    ("embedbench/files/export_features.py", "archive.open"),
    ("embedbench/sharing/push_file.py", "store.open"),
    ("embedbench/sharing/push_file.py", "temporary.open"),  # of `writing`
}


def test_text_and_bytes(tmp_path: Path) -> None:
    write_safely(tmp_path / "a", "Ω\n")
    assert (tmp_path / "a").read_bytes() == "Ω\n".encode()
    write_safely(tmp_path / "a", b"\0")
    assert (tmp_path / "a").read_bytes() == b"\0"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(UserError, match="is a directory or a device; name a file"):
            write_safely(path, "x")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


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


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EACCES, "no permission to write there"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EIO, "is the disk in order?"),
    ],
)
def test_what_a_disk_refuses_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(atomic_write.os, "fsync", refuse)
    with pytest.raises(
        UserError, match=rf"cannot write .*a \({os.strerror(number)}\); .*"
    ) as caught:
        write_safely(path, "new")
    assert hint in str(caught.value)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it has its name, the directory after."""
    path, names = tmp_path / "a", []
    monkeypatch.setattr(atomic_write.os, "fsync", lambda _: names.append(path.exists()))
    write_safely(path, "text")
    assert names == [False, True]


def test_a_directory_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"make .*no first"):
        write_safely(tmp_path / "no" / "a", "text")


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


def guarded(tree: ast.AST) -> set[str]:
    """Names of `with writing(…) as name` and of files in memory."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.withitem) and node.optional_vars is not None:
            if ast.unparse(node.context_expr).startswith(("writing(", "atomic_write.writing(")):
                names.add(ast.unparse(node.optional_vars))
        elif isinstance(node, ast.Assign) and ast.unparse(node.value) in (
            "io.BytesIO()",
            "io.StringIO()",
        ):
            names.add(ast.unparse(node.targets[0]))
    return names


def writes(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that write to a file, but for those to guarded names."""
    names = guarded(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        texts = [ast.unparse(a) for a in node.args]
        place = WRITERS.get(name, WRITERS.get(last))
        if place is not None:
            if len(texts) <= place or texts[place] not in names:
                yield node
        elif last in OPENERS:
            modes = [a for a in (*node.args, *(k.value for k in node.keywords)) if is_mode(a)]
            if modes and not set(texts[:1]) & names:
                yield node
        elif last in METHODS or name in RENAMERS:
            yield node


def is_mode(node: ast.expr) -> bool:
    """Whether an argument is a mode that writes."""
    value = node.value if isinstance(node, ast.Constant) else None
    return (
        isinstance(value, str) and set(value) <= set("rwxabt+") and bool(set(value) & set("wxa+"))
    )


def test_nobody_else_writes_files() -> None:
    broken = set()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for call in writes(ast.parse(path.read_text(encoding="utf-8"))):
                where = (str(path.relative_to(ROOT)), ast.unparse(call.func))
                if where not in ALLOWED and where[0] != "embedbench/storage/atomic_write.py":
                    broken.add((f"{where[0]}:{call.lineno}", where[1]))
    assert not broken, "use embedbench.storage.atomic_write.write_safely or writing"


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("open(path, 'w')", True),
        ("path.open(mode='ab')", True),
        ("path.open('rb')", False),
        ("path.write_text(text)", True),
        ("os.replace(a, b)", True),
        ("h5py.File(path, 'w', libver='latest')", True),
        ("h5py.File(path, 'r')", False),
        ("torch.save(state, path)", True),
        ("file = io.BytesIO(); torch.save(state, file)", False),
        ("with writing(path) as t, h5py.File(t, 'w') as f: pass", False),
        ("with writing(path) as t: np.savez(t)", False),
        ("with writing(path) as t: np.savez(path)", True),
        ("with atomic_write.writing(path) as t, open(t, 'wb') as f: pass", False),
        ("with rewriting(path) as t, open(t, 'wb') as f: pass", True),
    ],
)
def test_this_test_sees_what_writes(line: str, caught: bool) -> None:
    assert bool(list(writes(ast.parse(line)))) is caught
