"""A block of unfinished work on an embedding file: one file with its own checksum."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.disk import open_regular, write_safely
from embedbench.errors import DamagedFileError, UserError
from embedbench.typed import JsonRecord, parse_json

from . import layout


@dataclass(frozen=True)
class _Head(JsonRecord):
    """The first line: name, type and shape of each table, the note, and the digest of the job."""

    tables: tuple[tuple[Any, ...], ...]
    note: Any
    job: str


def write_block(path: Path, arrays: Mapping[str, NDArray[Any]], note: Any, job: str) -> None:
    """Write a block under a temporary name, and rename it.

    Parameters
    ----------
    path : Path
        The file.
    arrays : mapping
        The rows of every table.
    note : object
        Plain JSON that is kept with them.
    job : str
        Digest of the job that the block belongs to.
    """
    tables = [[name, rows.dtype.name, list(rows.shape)] for name, rows in arrays.items()]
    head = layout.canonical_json({"tables": tables, "note": note, "job": job}).encode() + b"\n"
    body = head + b"".join(
        rows.astype(layout.FEATURE_TYPES[rows.dtype.name], copy=False).tobytes()
        for rows in arrays.values()
    )
    digest = hashlib.sha256(body).hexdigest().encode()
    write_safely(path, digest + b"\n" + body)


def read_block(path: Path, job: str) -> tuple[dict[str, NDArray[Any]], Any]:
    """Return the tables and the note of a block.

    Raises
    ------
    DamagedFileError
        It is damaged, or a block of another job.
    """
    try:
        with open_regular(path) as file:
            digest, _, body = file.read().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ValueError("its checksum is wrong")
        line, _, data = body.partition(b"\n")
        head = _Head.from_json(parse_json(line, "its first line"), "its first line")
        if head.job != job:
            raise ValueError("it belongs to another job")
        arrays = {}
        offset = 0
        for name, dtype, shape in head.tables:
            rows = np.frombuffer(data, layout.FEATURE_TYPES[dtype], math.prod(shape), offset)
            arrays[str(name)] = rows.reshape(shape)
            offset += rows.nbytes
        return arrays, head.note
    except (UserError, OSError, LookupError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{path} is damaged ({error}); run the same command again to redo it."
        ) from error
