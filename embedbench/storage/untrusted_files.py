"""Checks before a file of others is opened: HDF5 files, those of torch.save and of MATLAB.

Run as a script, it is the process whose children examine unknown files for `storage.safe_hdf5`,
`storage.load_torch_file` and `files.formats.matlab_files`, so that what crashes, hangs or fills the
memory does it there. It imports nothing of embedbench.
"""

import argparse
import contextlib
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

import h5py
from h5py import h5a, h5d, h5g, h5l, h5o, h5s, h5t, h5z

OBJECTS, ATTRIBUTES, DEPTH, RANK = 20_000, 1_000, 4, 4  # the most of each
ATTRIBUTE = 2**16  # bytes of an attribute
MEMORY = 2**30  # bytes that the process may take beyond those of its start
SECONDS = 8.0  # without progress
RATE = 2**25  # bytes of a torch file for which a second of each is added
TENSORS = 2  # of what is asked of a torch file; change the number with its rules
PIECE = 2**16  # bytes read at a time
BEYOND = 2**26  # bytes that a damaged chunk may inflate to beyond those of a whole one
_SHUFFLE, _GZIP = h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE
# Of files that are not ours: what h5py and MATLAB write, too, and deeper groups.
_FOREIGN_FILTERS = {_SHUFFLE, _GZIP, h5z.FILTER_FLETCHER32, h5z.FILTER_LZF}
FOREIGN_DEPTH = 16
MATLAB, MATLAB_BLOCK = b"MATLAB 7.3 MAT-file", 512  # how its block of bytes begins; its length
ROWS_BYTES = 2**25  # of a foreign table that are read at a time


_WRAPPERS = {h5g.GroupID: h5py.Group, h5d.DatasetID: h5py.Dataset}  # others are types


class RefusedError(Exception):
    """A file that breaks a rule: which one, as a clause."""


def too_large(declared: int, there: int) -> bool:
    """Whether data of `declared` bytes cannot honestly come from compressed data of `there` bytes.

    Deflate makes at most 1,032 bytes of one. Half a gigabyte is always allowed below that, and
    beyond it 200 bytes of one, which no real data reaches.
    """
    return declared > 1032 * there + PIECE or declared > max(2**29, 200 * there)


def check(file: h5py.File, source: BinaryIO, *, foreign: bool = False) -> None:
    """Walk over everything in an open file without reading a table; `source` gives its bytes.

    A foreign file, of another program, may hold texts of any length, which are read here once, and
    tables of other types, which nobody reads; MATLAB's block of bytes may precede it.
    `alive` is called after each step. A broken rule is a RefusedError; HDF5 raises many others.
    """
    begins = source.read(len(MATLAB))
    is_matlab = foreign and file.userblock_size == MATLAB_BLOCK and begins == MATLAB
    if file.userblock_size and not is_matlab:
        raise RefusedError("it begins with a block of bytes that HDF5 skips")
    size = source.seek(0, os.SEEK_END)
    seen: set[int] = set()
    tables: list[_TableHeader] = []
    waiting: list[tuple[str, Any]] = [("", h5o.open(file.id, b"/"))]
    while waiting:
        alive()
        path, item = waiting.pop()
        address = h5o.get_info(item).addr
        if address in seen:
            raise RefusedError(f"{_quoted(path)} is a second name of one object")
        seen.add(address)
        _check_attributes(path, item)
        if isinstance(item, h5g.GroupID):
            waiting += _members(path, item, FOREIGN_DEPTH if foreign else DEPTH)
        elif isinstance(item, h5d.DatasetID):
            tables.append(_TableHeader(path, item, size, foreign=foreign))
        elif not foreign or not isinstance(item, h5t.TypeID):  # a type that has a name
            raise RefusedError(f"{_quoted(path)} is neither a group nor a table")
        if len(seen) + len(waiting) > OBJECTS:
            raise RefusedError(f"it holds more than {OBJECTS:,} objects")
    declared = sum(table.declared for table in tables)
    if sum(table.stored for table in tables) > size or too_large(declared, size):
        raise RefusedError(f"its {size:,} bytes cannot hold tables of {declared:,} bytes")
    texts = 0
    for table in tables:
        if foreign:
            texts = table.read_through(texts)
        elif table.chunks is not None:
            table.check_chunks(source)


def _quoted(path: str) -> str:
    return repr(path if len(path) <= 60 else f"{path[:59]}…")


def _members(path: str, group: h5g.GroupID, depth: int) -> Iterator[tuple[str, Any]]:
    """The objects in a group; every link must be a hard one."""
    if group.get_num_objs() > OBJECTS or path.count("/") >= depth:
        raise RefusedError(f"group {_quoted(path)} is too large or too deep")
    links: list[tuple[bytes, Any]] = []
    group.links.iterate(lambda name, link: links.append((name, link.type)), info=True)
    for name, kind in links:
        member = f"{path}/{_text(name)}"
        if kind != h5l.TYPE_HARD:
            raise RefusedError(f"{_quoted(member)} is a link to another place")
        if b"/" in name or name in (b"", b".", b".."):
            raise RefusedError(f"group {_quoted(path)} has a member of the name {_text(name)!r}")
        yield member, h5o.open(group, name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _check_attributes(path: str, item: Any) -> None:
    """Bound the attributes of an object; texts are read, other types may be there unread."""
    count = h5a.get_num_attrs(item)
    if count > ATTRIBUTES:
        raise RefusedError(f"{_quoted(path or '/')} has {count:,} attributes")
    for index in range(count):
        attribute = h5a.open(item, index=index)
        if attribute.get_storage_size() > ATTRIBUTE:
            raise RefusedError(f"an attribute of {_quoted(path or '/')} is longer than 64 kB")
        if isinstance(attribute.get_type(), h5t.TypeStringID):
            wrap = _WRAPPERS.get(type(item), h5py.Datatype)
            wrap(item).attrs[attribute.name]


class _TableHeader:
    """One table: how many bytes it declares, and how many are there."""

    def __init__(self, path: str, table: h5d.DatasetID, size: int, *, foreign: bool) -> None:
        self.name = _quoted(path)
        self.table = table
        self.size = size
        self.plan = table.get_create_plist()
        self.kind = table.get_type()
        if not foreign:
            self._check_type()
        space = table.get_space()
        layout = self.plan.get_layout()
        self.chunks: tuple[int, ...] | None = None
        self.shape: tuple[int, ...] = ()
        if foreign and space.get_simple_extent_type() == h5s.NULL:
            self.declared = self.stored = 0  # no value at all
            return
        self.shape = space.get_simple_extent_dims()
        if space.get_simple_extent_type() not in (h5s.SCALAR, h5s.SIMPLE):
            raise RefusedError(f"{self.name} is no plain table")
        if len(self.shape) > RANK and not foreign:
            raise RefusedError(f"{self.name} has {len(self.shape)} dimensions")
        if self.plan.get_external_count():
            raise RefusedError(f"{self.name} keeps its values in another file")
        if layout not in (h5d.CHUNKED, h5d.CONTIGUOUS, h5d.COMPACT):
            raise RefusedError(f"{self.name} takes its values from other tables")
        if layout == h5d.CHUNKED:
            self.chunks = self.plan.get_chunk()
        whole = self.shape
        if self.chunks is not None:
            whole = tuple(-(-n // k) * k for n, k in zip(self.shape, self.chunks, strict=True))
        self.declared = math.prod(whole) * self.kind.get_size()
        if self.chunks is not None:
            self.parts = self._parts(math.prod(self.chunks) * self.kind.get_size())
            self.stored = sum(part.size for part in self.parts)
            return
        self.stored = table.get_storage_size()
        end = (table.get_offset() or 0) + self.stored
        # what has no fixed length is longer on the disk: a reference to where it lies
        fixed = not self.kind.detect_class(h5t.VLEN) and not is_variable_text(self.kind)
        if (fixed and self.declared != self.stored) or end > size or self.stored < self.declared:
            raise RefusedError(self._lacking())

    def _lacking(self) -> str:
        return f"{self.name} declares {self.declared:,} bytes that are not all there"

    def _check_type(self) -> None:
        """Allow text of fixed length, and plain integers and floating-point numbers."""
        text = isinstance(self.kind, h5t.TypeStringID) and not is_variable_text(self.kind)
        if not text and not is_number(self.kind):
            raise RefusedError(f"{self.name} holds neither numbers nor text of fixed length")

    def read_through(self, texts: int) -> int:
        """Read a foreign table once, as whoever takes it will: what crashes or grows does it here.

        `texts`: bytes of all texts so far, returned with its own. The file must have room for them.
        """
        if {self.plan.get_filter(i)[0] for i in range(self.plan.get_nfilters())} - _FOREIGN_FILTERS:
            raise RefusedError(f"{self.name} is compressed by other filters than gzip and lzf")
        if not is_readable(self.table) or not all(self.shape):
            return texts
        if self.chunks is None and not is_variable_text(self.kind):
            return texts  # plain values, which are all there
        table = h5py.Dataset(self.table)
        count = self.shape[0] if self.shape else 1
        step = max(1, ROWS_BYTES * count // max(self.declared, 1))
        for first in range(0, count, step):
            rows = table[first : first + step].ravel() if self.shape else [table[()]]
            if is_variable_text(self.kind):
                texts += sum(map(len, rows))
            if too_large(texts, self.size):
                raise RefusedError(f"{self.name} is longer than its bytes can hold")
            alive()
        return texts

    def check_chunks(self, source: BinaryIO) -> None:
        """Every chunk is there once and holds as much as it should, when it is inflated."""
        filters = [self.plan.get_filter(i)[0] for i in range(self.plan.get_nfilters())]
        if filters not in ([], [_SHUFFLE], [_GZIP], [_SHUFFLE, _GZIP]):
            raise RefusedError(f"{self.name} is compressed by other filters than shuffle and gzip")
        assert self.chunks is not None
        each = math.prod(self.chunks) * self.kind.get_size()
        for part in self.parts:
            pairs = zip(part.chunk_offset, self.chunks, self.shape, strict=True)
            fits = all(at % step == 0 and at < whole for at, step, whole in pairs)
            length = part.size
            end = part.byte_offset + part.size
            # the file's own head lies at 0; HDF5 reads a chunk that is said to be there as zeros
            fits = fits and part.byte_offset > 0 and end <= self.size and not part.filter_mask
            if fits and _GZIP in filters and length <= each + each // 64 + 64:
                source.seek(part.byte_offset)
                length = _inflated(source, length, each)
            if not fits or length != each:
                raise RefusedError(f"a chunk of {self.name} is not what it declares")

    def _parts(self, each: int) -> list[Any]:
        """Where each chunk lies; all must be there, and none twice."""
        parts: dict[tuple[int, ...], Any] = {}
        number = self.declared // each

        def note(part: Any) -> bool | None:
            alive()
            known = len(parts)
            parts[part.chunk_offset] = part
            return True if len(parts) == known or known == number else None

        if number > self.size:
            raise RefusedError(self._lacking())
        if self.table.chunk_iter(note) or len(parts) != number:
            raise RefusedError(self._lacking())
        return list(parts.values())


def _inflated(source: BinaryIO, length: int, whole: int) -> int:
    """How many bytes the next `length` bytes inflate to; counting ends far beyond `whole`.

    Damaged data count as `whole`: HDF5 does not inflate them either, and whoever reads them gets
    its error.
    """
    inflate = zlib.decompressobj()
    count = 0
    while length > 0 and not inflate.eof and count <= whole + BEYOND:
        data = source.read(min(length, PIECE))
        length -= len(data) or length
        while data:  # at most 64 MiB come of one piece
            try:
                count += len(inflate.decompress(data, 2**22))
            except zlib.error:
                return whole
            data = inflate.unconsumed_tail
        alive()
    return count if inflate.eof or count > whole + BEYOND else whole


def is_variable_text(kind: h5t.TypeID) -> bool:
    """Whether a type is text of any length."""
    return isinstance(kind, h5t.TypeStringID) and bool(kind.is_variable_str())


def is_number(kind: h5t.TypeID) -> bool:
    """Whether a type is plain integers or floating-point numbers, which are read as they lie."""
    if not isinstance(kind, h5t.TypeIntegerID | h5t.TypeFloatID) or kind.get_size() > 8:
        return False
    try:
        return bool(kind.equal(h5t.py_create(kind.dtype)))
    except TypeError:  # of no type that NumPy has
        return False


def is_readable(table: h5d.DatasetID) -> bool:
    """Whether a table of a foreign file holds numbers, marks or texts, or MATLAB's references."""
    if table.get_space().get_simple_extent_type() == h5s.NULL:
        return False
    kind = table.get_type()
    if isinstance(kind, h5t.TypeStringID):
        return True
    try:
        dtype = kind.dtype
    except TypeError:  # of no type that NumPy has
        return False
    if isinstance(kind, h5t.TypeEnumID):
        return bool(dtype.kind == "b")
    return is_number(kind) or h5py.check_ref_dtype(dtype) is h5py.Reference


# --- MATLAB's files before version 7.3 ---


def examine_matlab(path: str) -> dict[str, str]:
    """Read one .mat file by scipy: `refused`, what is wrong with it; or nothing."""
    import scipy.io

    size = os.stat(path).st_size
    bound_memory(20 * size)
    alive(SECONDS + size / RATE)
    try:
        scipy.io.loadmat(path)
    except Exception as error:  # scipy and zlib raise many kinds on a damaged file
        return {"refused": reason(error)}
    return {}


# --- files of torch.save ---


def load_tensors(path: str) -> Any:
    """Load a file of torch.save: plain values and tensors, which are mapped where they can be.

    If it declares more than its bytes can hold, that is a RefusedError; torch raises many others.
    """
    import torch

    zipped = zipfile.is_zipfile(path)  # others are of a torch before 1.6
    if zipped:
        with zipfile.ZipFile(path) as archive:
            declared = sum(info.file_size for info in archive.infolist())
        if too_large(declared, os.stat(path).st_size):
            raise RefusedError("it declares more than its bytes can hold")
    # a namespace lies in timm's training checkpoints
    with torch.serialization.safe_globals([argparse.Namespace]):
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        except (EOFError, KeyError, IndexError, AttributeError, TypeError) as error:
            raise RefusedError("it is damaged, or no file of torch.save") from error
        except Exception as error:
            if type(error).__name__ != "UnpicklingError":  # of a module that is not imported here
                raise
            raise RefusedError(_objects_in(str(error))) from error


def _objects_in(message: str) -> str:
    """Return what torch would not unpickle; its own message is on how to run the file's code."""
    named = re.search(r"GLOBAL ([\w.]+)", message)
    if named:
        return f"it holds an object, {named[1]}, which would run code"
    return "it holds more than tensors, numbers and texts, or is no file of torch.save"


def check_tensors(loaded: Any) -> None:
    """Raise RefusedError unless every tensor in loaded values is a plain table of numbers."""
    import torch

    seen: dict[int, Any] = {}
    waiting = [("it", loaded)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, dict | list | tuple | set) and id(item) not in seen:
            seen[id(item)] = item
            pairs = item.items() if isinstance(item, dict) else ((name, part) for part in item)
            waiting += [(key if isinstance(key, str) else name, part) for key, part in pairs]
        if isinstance(item, torch.Tensor):
            plain = item.layout is torch.strided and item.device.type == "cpu"
            plain = plain and type(item) in (torch.Tensor, torch.nn.Parameter)
            plain = plain and not item.is_nested  # its layout is strided, and it has no shape
            if not plain or item.is_quantized or item.is_neg() or item.is_conj():
                raise RefusedError(f"{_quoted(name)} is no plain tensor of numbers")


# --- the process ---

_SERVERS: dict[int, subprocess.Popen[str]] = {}  # by the number of the process that asks


def ask(kind: str, path: str | os.PathLike[str]) -> dict[str, str]:
    """Examine a file of a kind, see `_answer`, in a process of its own.

    Returns the answer of the function of that kind; or how the file `ended` the process.
    """
    server = _SERVERS.pop(os.getpid(), None)  # nobody else has it, until it has answered
    if server is None or server.poll() is not None:
        server = _start()
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        server.stdin.write(json.dumps([kind, os.path.abspath(path)]) + "\n")
        server.stdin.flush()
        line = server.stdout.readline()
    except BaseException:  # such as Ctrl-C: a later file must not get this one's answer
        os.killpg(server.pid, signal.SIGKILL)
        raise
    code, said = json.loads(line or "[1, null]")
    if line:
        _SERVERS[os.getpid()] = server
    if code == 0:
        answer: dict[str, str] = json.loads(said)
        return answer
    return {"ended": "does not come to its end" if code == -signal.SIGALRM else "crashes"}


def _start() -> subprocess.Popen[str]:
    """A process that forks for each file: h5py is imported once. It ends with its input."""
    return subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        text=True,
        start_new_session=True,  # whoever asks is interrupted, and kills it with its children
    )


def serve() -> None:
    """Answer each line, a kind and a path, by the exit code of a child and what it prints."""
    for line in sys.stdin:
        kind, path = json.loads(line)
        if kind == "torch":
            import torch  # noqa: F401  (before its memory and time are counted)
        if kind == "matlab":
            import scipy.io  # noqa: F401
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _answer(kind, path, writer)
        os.close(writer)
        with open(reader, encoding="utf-8", errors="replace") as file:
            said = file.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([code, said]), flush=True)


def _answer(kind: str, path: str, writer: int) -> NoReturn:
    """Write the answer on a file as JSON, and end this process."""
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the pipes of all files are out of reach
        os.dup2(writer, 1)
        bound_memory()
        alive()
        known = {"hdf5": examine, "torch": examine_tensors, "matlab": examine_matlab}
        answer = examine(path, foreign=True) if kind == "foreign" else known[kind](path)
        alive(0)
        os.write(1, json.dumps(answer).encode())
        os._exit(0)
    finally:
        os._exit(1)


def examine(path: str, *, foreign: bool = False) -> dict[str, str]:
    """Examine a file: `refused`, the rule that it breaks; `damaged`, what HDF5 says; or nothing.

    With the first two comes the `version` that it says it is of.
    """
    try:
        with h5py.File(path, "r", locking=False) as file, open(path, "rb") as source:
            check(file, source, foreign=foreign)
    except RefusedError as error:
        return {"refused": str(error), **stated_version(path)}
    except Exception as error:  # HDF5 and NumPy raise many kinds on a damaged file
        return {"damaged": reason(error), **stated_version(path)}
    return {}


def stated_version(path: str) -> dict[str, str]:
    """The `version` that a file says it is of, if that can be read."""
    with contextlib.suppress(Exception), h5py.File(path, "r", locking=False) as file:
        value = file.attrs["format_version"]
        text = value.decode() if isinstance(value, bytes) else value
        if isinstance(text, str) and len(text) <= 20:
            return {"version": text}
    return {}


def examine_tensors(path: str) -> dict[str, str]:
    """Load one file of torch.save: `refused`, the rule that it breaks; or nothing."""
    size = os.stat(path).st_size
    bound_memory(2 * size)
    alive(SECONDS + size / RATE)
    try:
        check_tensors(load_tensors(path))  # values that crash when they are left do it here, too
    except Exception as error:  # torch, pickle and zip raise errors of their own
        return {"refused": reason(error)}
    return {}


def reason(error: Exception) -> str:
    """The first line of an error of HDF5, or its kind."""
    return str(error).partition("\n")[0] or type(error).__name__


def alive(seconds: float = SECONDS) -> None:
    """End this process after so many seconds, unless this is called again before; 0 is never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def bound_memory(more: int = 0) -> None:
    """Let this process take at most MEMORY and `more` bytes beyond now, where the system can."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY + more, most))


if __name__ == "__main__":
    serve()
