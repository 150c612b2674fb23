"""Inspect a remote file without downloading it: its card is read by ranges.

The bytes were never verified. HDF5 reads them in a process of its own, this module run as a script,
with bounded memory and time as in `storage.untrusted_files`. It writes lines of JSON: `read`, a
range whose bytes it then takes from stdin; at last `card`, or `error` and whether it is `damaged`.
Of fsspec's caches none asks for more with each part that follows the one before.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from embedbench.config.json_records import parse_json
from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.inspect import Card, card
from embedbench.storage import safe_hdf5, untrusted_files
from embedbench.storage.atomic_write import continuing

from .download_cache import find_version
from .fetch import find_here, local, origin, parse_name
from .remote_servers import LostError, Remote, ask

LONGEST = 2**26  # bytes of a range, and of an answer


def peek(text: str) -> Card:
    """The card of a file, by its name.

    A file in the cache is read there. Where a server sends no ranges, the file is fetched.
    """
    path = find_here(text)
    found = origin(text) if path is None else None
    if path is None and found is None:
        name = parse_name(text)
        remote = ask(name)
        found = find_version(name, remote)
        if found is None and remote.by_ranges:
            return _by_ranges(remote)
    path = path or Path(found.path if found else local(text))
    return replace(card(EmbeddingFile.open(path)), path=text)


def _by_ranges(remote: Remote) -> Card:
    """Let the process read what it asks for, until it has the card."""
    count, size = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file.h5"
        with continuing(path, remote.url) as file:
            file.truncate(remote.size)  # takes no room on the disk
        with _process(path) as process:
            source, sink = cast(IO[bytes], process.stdout), cast(IO[bytes], process.stdin)
            try:
                while "read" in (said := _said(source)):
                    start, end = said["read"]
                    if not 0 <= start < end <= remote.size or end - start > LONGEST:
                        raise UserError(f"{remote.url} is damaged; its parts lie outside of it")
                    data = b"".join(remote.read(start, end))
                    if len(data) != end - start:
                        raise LostError(f"{remote.url} ended too early; run the command again")
                    count, size = count + 1, size + len(data)
                    sink.write(data)
                    sink.flush()
            except BrokenPipeError:  # it ended while it was answered
                said = {}
            finally:
                process.kill()
    if "card" in said:
        result = Card.from_json(said["card"], remote.url)
        return replace(result, path=remote.url, transfer={"bytes": size, "requests": count})
    kind = DamagedFileError if said.get("damaged", True) else UserError
    reason = said.get("error", f"{path} is damaged (HDF5 crashes or does not come to its end).")
    raise kind(str(reason).replace(str(path), remote.url))


def _process(path: Path) -> subprocess.Popen[bytes]:
    """The process that reads the file; it takes no module from the working directory."""
    home = str(Path(__file__).resolve().parents[3])
    before = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([home, *([before] if before else [])])
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **one},
    )


def _said(source: IO[bytes]) -> dict[str, Any]:
    """One line of the process; nothing if it has ended."""
    line = source.readline(LONGEST)
    data = parse_json(line, "the answer") if line.endswith(b"\n") else {}
    return data if isinstance(data, dict) else {}


# --- the process that reads ---


BLOCK = 2**15  # bytes; a request takes whole blocks
AHEAD = 32  # blocks of a request, at most, where one part is read after the other
ROWS = 64  # whose norms are in the card
SECONDS = 30.0, 15.0  # without a request: by the clock, and of work; less for the gate


class Ranges(io.RawIOBase):
    """A file of `size` bytes that is read by ranges, each block once: `fetch(start, end)`."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch, self._at = size, fetch, 0
        self._blocks: dict[int, bytes] = {}
        self._next, self._ahead = 0, 1  # the block after the last request, and how many it took

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._size)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from here on; the blocks that are missing come by one request."""
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        blocks = range(self._at // BLOCK, -(-end // BLOCK))
        missing = [k for k in blocks if k not in self._blocks]
        if missing:
            first, last = missing[0], missing[-1] + 1
            self._ahead = min(2 * self._ahead, AHEAD) if first == self._next else 1
            last = max(last, min(first + self._ahead, -(-self._size // BLOCK)))
            self._next = last
            data = self._fetch(first * BLOCK, min(last * BLOCK, self._size))
            for k in range(first, last):
                self._blocks[k] = data[(k - first) * BLOCK : (k - first + 1) * BLOCK]
        data = b"".join(self._blocks[k] for k in blocks)
        offset = self._at - blocks.start * BLOCK
        count = max(0, end - self._at)
        view[:count] = data[offset : offset + count]
        self._at += count
        return count


_limits: tuple[float, float] = untrusted_files.SECONDS


def _ask(start: int, end: int) -> bytes:
    """Take the bytes of a range from the other process; while they come, no time passes."""
    untrusted_files.alive((0, 0))
    print(json.dumps({"read": [start, end]}), flush=True)
    data = sys.stdin.buffer.read(end - start)
    untrusted_files.alive(_limits)
    if len(data) != end - start:
        sys.exit(1)
    return data


def _answer(path: Path) -> dict[str, Any]:
    """The card of the file, whose bytes `_ask` gives, or what is wrong with it."""
    global _limits
    size = path.stat().st_size
    source = cast(BinaryIO, Ranges(size, _ask))
    try:
        if source.read(len(safe_hdf5.SIGNATURE)) != safe_hdf5.SIGNATURE:
            raise UserError(f"{path} is not an HDF5 file; give an embedding file.")
        # the gate gets zeros, so it leaves compressed values unread; some are never used
        with path.open("rb") as zeros, safe_hdf5.lend(path, source, zeros):
            _limits = SECONDS
            untrusted_files.alive(_limits)
            return {"card": card(EmbeddingFile.open(path), ROWS).to_json()}
    except untrusted_files.RefusedError as error:
        return {
            "error": f"{path} cannot be opened as an embedding file: {error}.",
            "damaged": False,
        }
    except UserError as error:
        return {"error": str(error), "damaged": isinstance(error, DamagedFileError)}
    except Exception as error:  # HDF5 and NumPy raise many kinds on a damaged file
        return {"error": f"{path} is damaged or incomplete ({untrusted_files.reason(error)})."}


if __name__ == "__main__":
    untrusted_files.bound_memory()
    untrusted_files.alive()
    print(json.dumps(_answer(Path(sys.argv[1]))), flush=True)
