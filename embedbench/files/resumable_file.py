"""Write an embedding file block by block; interrupted work resumes.

Unfinished work is a directory `.NAME.partial` beside the file, which holds:

===================  =============================================================================
`job.json`           what determines the rows
`block-000000.bin`   a complete block, with its checksum
`work.lease`         which process is at it, see `embedbench.storage.leases`
===================  =============================================================================
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import safetensors.numpy
from safetensors import SafetensorError

from embedbench.array_types import Array
from embedbench.config.format_versions import check_version
from embedbench.config.json_records import parse_json
from embedbench.errors import DamagedFileError, UserError
from embedbench.storage import leases, safe_hdf5
from embedbench.storage.atomic_write import write_safely, writing
from embedbench.storage.regular_files import explain_errors, open_regular, read_text

from . import file_digests, hdf5_layout
from .embedding_file import EmbeddingFile
from .sample_metadata import Samples
from .write_file import assemble, check_rows, check_target

VERSION = "1"  # of unfinished work; a later one says so in `job.json`, as `partial_version`


class Partial:
    """Unfinished work on an embedding file: a directory `.NAME.partial` beside it.

    Every block is one file with its own checksum, written under a temporary name and renamed. Work
    that was killed at any moment therefore resumes with the complete blocks. One process is at it
    at a time, see `begun`; it may have blocks written by others, which take what `joined` gives.

    Parameters
    ----------
    job : mapping
        What determines the rows of all blocks (recipe, block size), as plain JSON; of which samples
        a block is, is for its note to say.
    """

    BLOCK = hdf5_layout.BLOCK

    def __init__(self, path: Path, job: Mapping[str, Any], *, overwrite: bool) -> None:
        self.path, self.overwrite = path, overwrite
        self.directory = path.with_name(f".{path.name}.partial")
        self._text = file_digests.canonical_json(job)
        self._job = hashlib.sha256(self._text.encode()).hexdigest()
        self._notes: dict[int, Any] = {}

    @classmethod
    @contextmanager
    def begun(
        cls, path: Path, job: Mapping[str, Any], *, overwrite: bool = False
    ) -> Iterator[Self]:
        """Work that is begun, or gone on with; no other process is at it meanwhile.

        Raises
        ------
        UserError
            Another process is at it; or, without `overwrite`, the file exists, or unfinished work
            of another job is there.
        """
        work = cls(path, job, overwrite=overwrite)
        check_target(path, overwrite=overwrite)
        with explain_errors(f"cannot write in {path.parent}"):
            work.directory.mkdir(exist_ok=True)
        at = work.directory / "work.lease"
        lease = leases.take(at)
        if lease is None:
            raise UserError(
                f"{leases.holder(at) or 'another process'} is at work on {path}",
                "wait for it, or choose another name. One command shares its work by --engine.",
            )
        with lease:
            stored = work._stored()
            if stored != work._text:
                work._check_version(stored)
                if stored and not overwrite:
                    raise UserError(
                        f"{work.directory} holds unfinished work of another job"
                        f"{_differences(stored, work._text)}",
                        "repeat that job to finish it, or drop it with --overwrite",
                    )
                for block in work.directory.glob("block-*"):
                    block.unlink()
                write_safely(work.directory / "job.json", work._text)
            yield work

    @classmethod
    def joined(cls, path: Path, job: Mapping[str, Any]) -> Self:
        """Return the work that another process has begun, to write blocks of it."""
        work = cls(path, job, overwrite=False)  # whoever began it writes the file
        if work._stored() != work._text:
            raise UserError(
                f"{work.directory}, which the command made, is not there",
                "to extract on several machines, write the file to a directory that they share",
            )
        return work

    def _stored(self) -> str:
        """The job of the work that is there; empty if it cannot be read."""
        with suppress(UserError):
            return read_text(self.directory / "job.json")
        return ""

    def _check_version(self, stored: str) -> None:
        """Refuse the work of a later version, which says so; with `overwrite` it is dropped."""
        job = None
        with suppress(UserError):
            job = parse_json(stored, "the job")
        if isinstance(job, dict) and "partial_version" in job and not self.overwrite:
            version = job["partial_version"]
            check_version(str(self.directory), version, [VERSION], "drop it with --overwrite")

    def kept(self) -> list[int]:
        """Return the numbers of all blocks that are there, also those behind the last row."""
        numbers = [file.stem.removeprefix("block-") for file in self.directory.glob("block-*.bin")]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def missing(self, n: int) -> list[int]:
        """Return the blocks of n rows that are not there yet."""
        return [block for block in range(-(-n // self.BLOCK)) if not self.is_whole(block)]

    def is_whole(self, block: int) -> bool:
        """Whether a block is complete, whichever process made it."""
        if block not in self._notes:
            with suppress(DamagedFileError):
                self._notes[block] = read_block(self._file(block), self._job)[1]
        return block in self._notes

    def note(self, block: int) -> Any:
        """Return the note that was written with a complete block."""
        return self._notes.get(block)

    def drop(self, block: int) -> None:
        """Forget a complete block, which is missing then."""
        self._notes.pop(block, None)
        with explain_errors(f"cannot write in {self.directory}"):
            self._file(block).unlink(missing_ok=True)

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
        for name, rows in arrays.items():
            check_rows(name, rows, 0, ())
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
        """
        provenance = {**provenance, "skipped": list(skipped), "job_sha256": self._job}
        check_target(self.path, overwrite=self.overwrite)
        with writing(self.path, within=self.directory) as temporary:
            assemble(temporary, samples, provenance, self._blocks(), columns=columns)
        safe_hdf5.trust(self.path)
        shutil.rmtree(self.directory, ignore_errors=True)
        return EmbeddingFile.open(self.path)

    def _file(self, block: int) -> Path:
        return self.directory / f"block-{block:06d}.bin"

    def _blocks(self) -> Iterator[Mapping[str, Array]]:
        """The tables of all blocks: of those whose notes were read, and no later ones."""
        for number in range(len(self.kept())):
            tables, note = read_block(self._file(number), self._job)
            known = self._notes.get(number, note)
            if file_digests.canonical_json(note) != file_digests.canonical_json(known):
                raise UserError(
                    f"{self._file(number)} was written anew by another process meanwhile",
                    "end that process, and run the command again",
                )
            yield tables


def _differences(stored: str, wanted: str) -> str:
    """Return in brackets what differs between two jobs; empty if the stored one cannot be read."""
    try:
        there = parse_json(stored, "the job")
        here = parse_json(wanted, "the job")
        names = sorted(key for key in {*there, *here} if there.get(key) != here.get(key))
    except (UserError, AttributeError, TypeError):
        return ""
    return f" (another {', '.join(names)})"


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
            f"{path} is damaged ({error})", "run the same command again to redo it"
        ) from error
