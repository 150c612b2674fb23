"""Memory-mapped copies of large tables, in the user's cache, shared by processes.

A copy holds the plain rows of one table as stored, without a header. It is made once, under a
lease, from blocks that match their checksums; machines that share a cache share it too. A copy that
has changed since, in any byte or only in its times, is made anew.
"""

import contextlib
import hashlib
import mmap
import os
import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Ints
from embedbench.errors import UserError
from embedbench.storage import leases, user_cache
from embedbench.storage.atomic_write import writing

from .embedding_file import EmbeddingFile

KIND = "tables"  # the copies' directory in the cache
VERSION = "2"  # of the facts about copies; those of 1 may be of a file that was replaced
PAGE = mmap.PAGESIZE
PIECE = 32 * PAGE  # bytes; the system reads no more at one request than a disk takes


def mapped_table(file: EmbeddingFile, table: str) -> Array:
    """Map a table of a file, `features` or `layers/NAME`, (N, …) as stored, read-only."""
    dtype, shape = file.form(table)
    key = f"{file.digests['content']} {table}"
    blocks = (rows for _, rows in file.blocks(table))
    return map_copy(key, dtype, shape, blocks, f"a copy of {file.path}")


def map_copy(
    key: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    blocks: Iterator[Array],
    what: str,
) -> Array:
    """Map the rows (N, …) that a text names, read-only.

    `blocks` gives them in order if they are not in the cache. `what` is the copy, for messages.
    """
    name = hashlib.sha256(key.encode()).hexdigest()
    path = user_cache.directory() / KIND / f"{name}.rows"
    size = int(np.prod([dtype.itemsize, *shape], dtype=object))
    is_there = partial(_is_whole, path, name, size)
    if not is_there():
        user_cache.make_directory(KIND, what)
        lease = leases.wait(path.with_suffix(".lease"), is_there, what, lambda _: None)
        if lease is not None:
            with lease:
                _make(path, name, size, blocks, what)
    rows = np.memmap(path, dtype, "r", shape=shape)
    _advise(rows, "MADV_RANDOM")  # otherwise each row that is read brings its neighbours
    return rows


def _is_whole(path: Path, name: str, size: int) -> bool:
    """Whether a copy is there, and as it was when it was written."""
    try:
        return path.stat().st_size == size and user_cache.load(KIND, _fact(path)) == name
    except OSError:
        return False


def _make(path: Path, name: str, size: int, blocks: Iterator[Array], what: str) -> None:
    """Write a copy; the lease on it is held."""
    leases.sweep(path)
    path.unlink(missing_ok=True)
    user_cache.check_room(path.parent, size, what)
    with writing(path) as temporary, open(temporary, "wb") as out:
        os.fchmod(out.fileno(), 0o600)
        for rows in blocks:
            out.write(np.ascontiguousarray(rows).data)
    if path.stat().st_size != size:
        raise UserError(f"{what} has {path.stat().st_size:,} bytes, expected {size:,}")
    # unlike `cache.remember`, however young it is: nobody else writes to this file
    user_cache.save(KIND, _fact(path), name)


def _fact(path: Path) -> str:
    """The key of a copy's fact; the same on machines that share the cache."""
    return f"{VERSION} {user_cache.state(path)}"


def read(values: Array, rows: Ints) -> Array:
    """Return the given rows (n,) of a table, (n, …); the table may be a memory map."""
    if isinstance(values, np.memmap) and _reads_disk():
        each = values[:1].nbytes
        for row in np.sort(rows).tolist():  # all are asked for before the first is waited for
            for a in range(row * each // PAGE * PAGE, (row + 1) * each, PIECE):
                _advise(values, "MADV_WILLNEED", a, min(PIECE, (row + 1) * each - a))
    return np.asarray(values).take(rows, axis=0)


_input = 0  # what this process had read from disks at the last look


def _reads_disk() -> bool:
    """Whether this process has read from a disk since the last call.

    If not, what it needs is in memory, and asking for each row would cost more than reading it.
    """
    global _input
    before = _input
    _input = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
    return _input != before


def _advise(values: Array, advice: str, *where: int) -> None:
    source: Any = values.base  # the mmap.mmap
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not on every system
        source.madvise(getattr(mmap, advice), *where)
