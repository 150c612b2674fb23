"""Write an embedding file block by block; interrupted work resumes, several processes share it."""

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import safetensors.numpy
from safetensors import SafetensorError

from embedbench.array_types import Array
from embedbench.config.json_records import parse_json
from embedbench.errors import DamagedFileError, UserError
from embedbench.storage import leases, safe_hdf5
from embedbench.storage.atomic_write import sync_path, temporary_name, write_safely, writing
from embedbench.storage.regular_files import open_regular
from embedbench.system.callback_types import Notify

from . import file_digests, hdf5_layout
from .embedding_file import EmbeddingFile
from .output_path import Target, drop, made_at, read_text, text_digest
from .sample_metadata import Samples
from .write_file import assemble, check_rows


class Partial:
    """Unfinished work on an embedding file: a directory `.NAME.partial` beside it.

    Every block is one file with its own checksum, written under a temporary name and renamed. Work
    that was killed at any moment therefore resumes with the complete blocks. Several processes may
    share the directory: leases say who is at which block, and the file gets its name by one rename.

    Parameters
    ----------
    job : mapping
        What determines the rows (digest of the sources, recipe, block size), as plain JSON.

    Raises
    ------
    UserError
        The file exists, or unfinished work of another job is there. With `target.overwrite` that is
        dropped, unless a living process is at it.
    """

    BLOCK = hdf5_layout.BLOCK

    def __init__(self, target: Target, job: Mapping[str, Any]) -> None:
        self.target, self.path, self.directory = target, target.path, target.directory
        self._text = file_digests.canonical_json(job)
        self._job = text_digest(self._text)
        self._notes: dict[int, Any] = {}
        if not self.is_published():
            target.check_free()
            self._join()
        self.origin = read_text(self.directory / "origin")

    @classmethod
    def joined(cls, target: Target, job: Mapping[str, Any], origin: str) -> Self:
        """Return the work that another process began, to help it; `origin` is that of its work."""
        if read_text(target.directory / "origin") != origin:
            raise UserError(
                f"{target.directory}, which the command made, is not there; to extract on several "
                "machines, write the file to a directory that all of them share."
            )
        return cls(target, job)

    def is_published(self) -> bool:
        """Whether this job has made the file since the target was checked."""
        made = made_at(self.path)
        return made is not None and made[0] == self._job and made[1] != self.target.before

    def is_gone(self) -> bool:
        """Whether another process has removed the directory."""
        return not self.origin or read_text(self.directory / "origin") != self.origin

    def at_work(self) -> leases.Lease:
        """A lease with which no other process drops the directory, as a context manager."""
        lease = leases.take(self.directory / f"{secrets.token_hex(8)}.lease")
        assert lease is not None  # nobody else has this name
        return lease

    def lease(self, block: int) -> Path:
        """The lease on a block."""
        return self.directory / f"block-{block:06d}.lease"

    def is_whole(self, block: int) -> bool:
        """Whether a block is complete, whichever process made it."""
        if block not in self._notes and self._file(block).is_file():
            with suppress(DamagedFileError):
                self._notes[block] = read_block(self._file(block), self._job)[1]
        return block in self._notes

    def note(self, block: int) -> Any:
        """Return the note that was written with a complete block."""
        return self._notes.get(block)

    def write(self, block: int, arrays: Mapping[str, Array], *, note: Any = None) -> None:
        """Keep one block of consecutive rows.

        Parameters
        ----------
        block : int
            Number of the block, from 0; blocks may be written in any order.
        arrays : mapping
            `features` and `layers/NAME`, (n, D) float32 or float16 with the same n; or only
            `features`, images as in `write_file`.
        note : object
            Plain JSON kept with the block, such as which samples were skipped.
        """
        if len({len(rows) for rows in arrays.values()}) != 1:
            raise UserError(f"block {block}: every table needs the same number of rows.")
        for name, rows in arrays.items():
            check_rows(name, rows, 0, ())
        if self.is_gone():
            raise UserError(f"another process has dropped {self.directory}; start again.")
        head = file_digests.canonical_json({"note": note, "job": self._job}).encode()
        body = head + b"\n" + safetensors.numpy.save(dict(arrays))
        digest = hashlib.sha256(body).hexdigest().encode()  # stands before what it is of
        write_safely(self._file(block), digest + b"\n" + body)
        self._notes[block] = note

    def finish(
        self,
        samples: Samples,
        provenance: Mapping[str, Any],
        *,
        skipped: Sequence[Any] = (),
        columns: Mapping[str, Array] | None = None,
        notify: Notify = lambda _: None,
    ) -> EmbeddingFile:
        """Put the blocks together into the embedding file, and remove the directory.

        Parameters
        ----------
        samples : Samples
            The rows of all blocks, in order; skipped samples are not among them.
        provenance, columns : mapping, mapping or None
            As in `write_file`.
        skipped : sequence of object
            Samples that were left out, and why, as plain JSON; kept in the provenance.
        notify : callable
            Called with a message while another process puts them together; this one waits for it.
        """
        provenance = {**provenance, "skipped": list(skipped), "job_sha256": self._job}
        at = self.directory / "finish.lease"
        lease = leases.wait(at, self.is_published, str(self.path), notify)
        if lease is not None:
            with lease:
                self.target.check_free()
                with writing(self.path, within=self.directory) as temporary:
                    assemble(temporary, samples, provenance, self._blocks(), columns=columns)
                safe_hdf5.trust(self.path)
                with suppress(UserError):
                    drop(self.directory)
        return EmbeddingFile.open(self.path)

    def _file(self, block: int) -> Path:
        return self.directory / f"block-{block:06d}.bin"

    def _blocks(self) -> Iterator[Mapping[str, Array]]:
        for number in range(len([*self.directory.glob("block-*.bin")])):
            if not self._file(number).is_file():
                raise UserError(f"block {number} is missing in {self.directory}; resume the work.")
            yield read_block(self._file(number), self._job)[0]

    def _join(self) -> None:
        """Share the directory of this job, or make it."""
        while self.directory.exists() or not self._make():
            stored = read_text(self.directory / "job.json")
            if stored == self._text:
                return
            self._check_other(stored)
            held = [p for p in self.directory.glob("*.lease") if not leases.is_free(p)]
            if read_text(self.directory / "job.json") != stored:
                continue  # it is another directory by now
            if held:
                raise UserError(
                    f"{leases.holder(held[0]) or 'another process'} is at work on another file "
                    f"{self.path}; wait for it, choose another name, or remove {self.directory} "
                    "if that process has ended."
                )
            drop(self.directory)

    def _make(self) -> bool:
        """Make the directory; False if another process was first."""
        made = temporary_name(self.directory)
        try:
            made.mkdir()
        except OSError as error:
            raise UserError(f"cannot write in {made.parent} ({error.strerror}).") from error
        try:
            write_safely(made / "job.json", self._text)
            write_safely(made / "origin", f"{secrets.token_hex(8)}\n{self.target.before}")
            made.rename(self.directory)
        except (OSError, UserError) as error:
            swept = not made.exists()
            shutil.rmtree(made, ignore_errors=True)
            if swept or self.directory.exists():
                return False
            raise UserError(f"cannot make {self.directory} ({error}).") from error
        sync_path(made.parent)
        return True

    def _check_other(self, stored: str) -> None:
        """Refuse work of another job, unless it may be dropped or does not say of which job."""
        try:
            there = parse_json(stored, "job.json")
        except UserError:
            return
        if isinstance(there, dict) and not self.target.overwrite:
            job = json.loads(self._text)
            keys = sorted(key for key in {*job, *there} if job.get(key) != there.get(key))
            raise UserError(
                f"{self.directory} holds unfinished work of another job (it differs in "
                f"{', '.join(keys)}); repeat that job to finish it, or drop it with --overwrite."
            )


def read_block(path: Path, job: str) -> tuple[dict[str, Array], Any]:
    """Return the tables and the note of a block."""
    try:
        with open_regular(path) as file:
            digest, _, body = file.read().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ValueError("its checksum is wrong")
        line, _, data = body.partition(b"\n")
        head = parse_json(line, "its first line")
        if head["job"] != job:
            raise ValueError("it belongs to another job")
        return safetensors.numpy.load(data), head["note"]
    except (UserError, OSError, LookupError, TypeError, ValueError, SafetensorError) as error:
        raise DamagedFileError(
            f"{path} is damaged ({error}); run the same command again to redo it."
        ) from error
