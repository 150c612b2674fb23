"""Writing embedding files, at once or block by block; interrupted work can resume.

docs/format.md describes the format. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.disk import write_safely, writing
from embedbench.errors import DamagedFileError, UserError

from . import layout
from .assemble import assemble, check_rows
from .file import EmbeddingFile
from .samples import Samples

BLOCK = layout.BLOCK


def write_file(
    path: str | os.PathLike[str],
    samples: Samples,
    features: NDArray[Any],
    provenance: Mapping[str, Any],
    *,
    layers: Mapping[str, NDArray[Any]] | None = None,
    overwrite: bool = False,
    compress: bool = False,
) -> EmbeddingFile:
    """Write an embedding file under a temporary name, and rename it when it is complete.

    Parameters
    ----------
    path : str or PathLike
        Path of the file.
    samples : Samples
        Ids, labels, splits and hierarchy of the N rows.
    features : array
        (N, D) float32 or float16; for a pixel file, images, (N, H, W, C) uint8.
    provenance : mapping
        What made the features, as plain JSON; `date_utc` and `made_by` are filled in.
    layers : mapping or None
        (N, D_l) float32 or float16 of each intermediate embedding.
    overwrite : bool
        Replace an existing file.
    compress : bool
        Store features with gzip; it pays for pixels, not for embeddings.

    Raises
    ------
    UserError
        The file exists, its directory does not, or the samples or the features are not valid.
    """
    path = Path(path)
    check_target(path, overwrite=overwrite)
    tables = {"features": features, **{f"layers/{k}": v for k, v in (layers or {}).items()}}
    chunks = _chunks(tables, len(samples.ids))
    with writing(path) as temporary:
        assemble(temporary, samples, provenance, chunks, compress=compress)
    return EmbeddingFile.open(path)


def _chunks(tables: Mapping[str, NDArray[Any]], n: int) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield whole tables of n rows block by block."""
    for name, values in tables.items():
        if len(values) != n:
            raise UserError(
                f"{name} has {len(values)} rows for {n} sample ids; give one row per sample."
            )
    for first, end in layout.block_ranges(n):
        yield {name: values[first:end] for name, values in tables.items()}


class Partial:
    """Unfinished work on an embedding file: a directory `.NAME.partial` beside it.

    Every block is one file with its own checksum, written under a temporary name and renamed. Work
    that was killed at any moment therefore resumes with the complete blocks.

    Parameters
    ----------
    path : str or PathLike
        Path of the embedding file.
    job : mapping
        What determines the rows (digest of the sources, recipe, block size), as plain JSON.
    overwrite : bool
        Replace an existing embedding file, and drop unfinished work of another job.

    Raises
    ------
    UserError
        The file exists, its directory does not, or unfinished work of another job is there.
    """

    BLOCK = BLOCK

    def __init__(
        self, path: str | os.PathLike[str], job: Mapping[str, Any], *, overwrite: bool = False
    ) -> None:
        self.path = Path(path)
        check_target(self.path, overwrite=overwrite)
        self.directory = _directory(self.path)
        self._notes: dict[int, Any] = {}
        text = layout.canonical_json(job)
        if self.directory.exists():
            self._check_job(json.loads(text), overwrite=overwrite)
        if not self.directory.exists():
            self.directory.mkdir()
            write_safely(self.directory / "job.json", text)

    def _check_job(self, job: dict[str, Any], *, overwrite: bool) -> None:
        """Keep unfinished work of this job; refuse that of another, or drop it if `overwrite`."""
        try:
            stored = json.loads((self.directory / "job.json").read_text())
        except (OSError, ValueError):  # killed before job.json was written, or damaged
            shutil.rmtree(self.directory)
            return
        if stored == job:
            return
        if overwrite:
            shutil.rmtree(self.directory)
            return
        keys = sorted(key for key in {*job, *stored} if job.get(key) != stored.get(key))
        raise UserError(
            f"{self.directory} holds unfinished work of another job (it differs in "
            f"{', '.join(keys)}); repeat that job to finish it, or drop it with --overwrite."
        )

    def done(self) -> set[int]:
        """Return the numbers of the complete blocks; damaged ones are removed."""
        whole = set()
        for path in self._block_files():
            try:
                block = int(path.stem.removeprefix("block-"))
                self._notes[block] = _read_block(path)[1]
            except (DamagedFileError, ValueError):
                path.unlink()
            else:
                whole.add(block)
        return whole

    def note(self, block: int) -> Any:
        """Return the note that was written with a block of `done()`."""
        return self._notes.get(block)

    def write(
        self,
        block: int,
        arrays: Mapping[str, NDArray[Any]],
        *,
        ids: Sequence[str] = (),
        note: Any = None,
    ) -> None:
        """Keep one block of consecutive rows.

        Parameters
        ----------
        block : int
            Number of the block, from 0; blocks may be written in any order.
        arrays : mapping
            `features` and `layers/NAME`, (n, D) float32 or float16 with the same n; or only
            `features`, images as in `write_file`.
        ids : sequence of str
            Ids of the n samples, to name one whose features are not finite.
        note : object
            Plain JSON kept with the block, such as which samples were skipped.
        """
        if len({len(rows) for rows in arrays.values()}) != 1:
            raise UserError(f"block {block}: every table needs the same number of rows.")
        for name, rows in arrays.items():
            check_rows(name, rows, 0, ids)
        tables = [[name, rows.dtype.name, list(rows.shape)] for name, rows in arrays.items()]
        head = layout.canonical_json({"tables": tables, "note": note}).encode() + b"\n"
        body = head + b"".join(
            rows.astype(layout.FEATURE_TYPES[rows.dtype.name], copy=False).tobytes()
            for rows in arrays.values()
        )
        digest = hashlib.sha256(body).hexdigest().encode()
        write_safely(self.directory / f"block-{block:06d}.bin", digest + b"\n" + body)
        self._notes[block] = note

    def finish(
        self,
        samples: Samples,
        provenance: Mapping[str, Any],
        *,
        skipped: Sequence[Any] = (),
        compress: bool = False,
    ) -> EmbeddingFile:
        """Put the blocks together into the embedding file, and remove the directory.

        Parameters
        ----------
        samples : Samples
            The rows of all blocks, in order; skipped samples are not among them.
        provenance : mapping
            What made the features, as plain JSON.
        skipped : sequence of object
            Samples that were left out, and why, as plain JSON; kept in the provenance.
        compress : bool
            Store features with gzip; it pays for pixels, not for embeddings.
        """
        provenance = {**provenance, "skipped": list(skipped)}
        with writing(self.path, within=self.directory) as temporary:
            assemble(temporary, samples, provenance, self._blocks(), compress=compress)
        shutil.rmtree(self.directory)
        return EmbeddingFile.open(self.path)

    def _block_files(self) -> list[Path]:
        return sorted(self.directory.glob("block-*.bin"))

    def _blocks(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        for number, path in enumerate(self._block_files()):
            if path.name != f"block-{number:06d}.bin":
                raise UserError(f"block {number} is missing in {self.directory}; resume the work.")
            yield _read_block(path)[0]


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise UserError where `path` cannot be written."""
    _drop_leftover(path)
    if path.is_dir():
        raise UserError(f"{path} is a directory; give a file name, such as {path / 'features.h5'}.")
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists; choose another name, or replace it with --overwrite.")
    if not path.parent.is_dir():
        raise UserError(f"there is no directory {path.parent}; make it first (mkdir -p).")


def _directory(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _drop_leftover(path: Path) -> None:
    """Remove the directory of work that was killed just after the file was complete.

    In that case the file exists, and nothing in the directory is newer than the file.
    """
    directory = _directory(path)
    if path.is_file() and directory.is_dir():
        newest = max((file.stat().st_mtime_ns for file in directory.iterdir()), default=0)
        if newest <= path.stat().st_mtime_ns:
            shutil.rmtree(directory, ignore_errors=True)


def _read_block(path: Path) -> tuple[dict[str, NDArray[Any]], Any]:
    """Return the tables and the note of a block file, or raise DamagedFileError."""
    digest, _, body = path.read_bytes().partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise DamagedFileError(f"{path} is damaged; run the same command again to redo it.")
    line, _, data = body.partition(b"\n")
    head = json.loads(line)
    arrays = {}
    offset = 0
    for name, dtype, shape in head["tables"]:
        rows = np.frombuffer(data, layout.FEATURE_TYPES[dtype], int(np.prod(shape)), offset)
        arrays[name] = rows.reshape(shape)
        offset += rows.nbytes
    return arrays, head["note"]
