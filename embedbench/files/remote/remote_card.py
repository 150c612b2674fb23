"""The card of a file elsewhere, read by ranges; the file is not fetched.

The bytes are of other people and were never verified. HDF5 reads them in a process of its own with
bounded memory and time, as in `embedbench.storage.hdf5_check`; it asks this process for every
range.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

from embedbench.config.json_types import parse_json
from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.inspect import Card, card
from embedbench.storage.atomic_write import continuing

from . import card_process
from .download import find_cached
from .fetch import ask, find_here, local, origin, parse_name
from .remote_file import LostError, Remote

LONGEST = 2**26  # bytes of a range, and of an answer


def peek(text: str) -> Card:
    """The card of a file, by its name.

    A file in the cache is read there. Where a server sends no ranges, the file is fetched.

    Raises
    ------
    UserError
        The file cannot be had, or it is no embedding file.
    """
    path = find_here(text)
    found = origin(text) if path is None else None
    if path is None and found is None:
        name = parse_name(text)
        remote = ask(name)
        found = find_cached(name, remote)
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
        [sys.executable, "-P", "-m", card_process.__name__, str(path)],
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
