"""Open HDF5 files safely: there is no other way to read one, and to write one.

A file that was not seen before is first examined in a process of its own, with bounded memory and
time (`embedbench.storage.untrusted_files`). A file that has not changed since it passed is opened
at once.
"""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from embedbench.config.format_versions import refuse_newer
from embedbench.errors import DamagedFileError, UserError

from . import untrusted_files, user_cache
from .regular_files import explain_errors, open_regular

SIGNATURE = b"\x89HDF\r\n\x1a\n"
VERSION = f"4 {h5py.version.hdf5_version}"  # of the gate; change the number with its rules
_passed: set[str] = set()  # identities of files that need not be examined again
_passed_foreign: set[str] = set()


@contextmanager
def open_hdf5(
    path: Path,
    *,
    what: str = "an HDF5 file",
    remedy: str = "copy or make it again",
    versions: Sequence[str] = (),
    foreign: bool = False,
) -> Iterator[h5py.File]:
    """Open a file for reading, after the gate; for messages, `what` it should be and the `remedy`.

    A file of a later version than `versions`, those that can be read, may be of another structure:
    it is said to be newer, not damaged.

    It is refused if it breaks a rule of `embedbench.storage.untrusted_files`; a `foreign` one, of
    another program, may hold tables of types that are not read. Every error that HDF5
    raises while the file is open is reported as a DamagedFileError.
    """
    before = _identified(path, what, foreign=foreign)
    kind = "foreign" if foreign else "hdf5"
    passed = _passed_foreign if foreign else _passed
    if before not in passed:
        if user_cache.recall(kind, path, VERSION) is not True:
            _examine(path, kind, what, remedy, versions)
            user_cache.remember(kind, path, True, before, VERSION)
        passed.add(before)
    try:
        with h5py.File(path, "r", locking=False) as file:
            if user_cache.identity(file.id.get_vfd_handle()) != before:
                raise UserError(f"{path} changed while it was opened", "try again")
            yield file
    except UserError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise _damaged(path, untrusted_files.reason(error), remedy) from error


def trust(path: Path) -> None:
    """Open a file from now on without examining it: this process has just written it itself."""
    _passed.add(user_cache.identity(path))


def attribute(item: h5py.Group | h5py.Dataset, key: str) -> str:
    """Return a text attribute, stored as bytes or as text; KeyError or ValueError if it is none."""
    kept = item.attrs.get_id(key)
    if not isinstance(kept.get_type(), h5py.h5t.TypeStringID) or kept.shape != ():
        raise ValueError(f"attribute {key!r} is not a text")
    value = item.attrs[key]
    return value.decode() if isinstance(value, bytes) else str(value)


def _identified(path: Path, what: str, *, foreign: bool) -> str:
    """The identity of a regular HDF5 file; nothing else is opened."""
    with explain_errors(f"{path} cannot be read", f"give {what}"), open_regular(path) as file:
        before = user_cache.identity(file.fileno())
        begins = file.read(len(SIGNATURE))
        if foreign and untrusted_files.MATLAB.startswith(begins):
            file.seek(untrusted_files.MATLAB_BLOCK)
            begins = file.read(len(SIGNATURE))
    if begins != SIGNATURE:
        raise UserError(
            f"{path} is not an HDF5 file (or its first bytes are damaged)", f"give {what}"
        )
    return before


def _damaged(path: Path, reason: str, remedy: str) -> DamagedFileError:
    return DamagedFileError(f"{path} is damaged or incomplete ({reason})", remedy)


def _examine(path: Path, kind: str, what: str, remedy: str, versions: Sequence[str]) -> None:
    """Raise an error unless a file passes the gate."""
    answer = untrusted_files.ask(kind, path)
    if versions and "version" in answer:
        refuse_newer(str(path), answer["version"], versions)
    if "ended" in answer:
        raise _damaged(path, f"HDF5 {answer['ended']}", remedy)
    if "refused" in answer:
        raise UserError(f"{path} cannot be opened as {what}: {answer['refused']}", remedy)
    if "damaged" in answer:
        raise _damaged(path, answer["damaged"], remedy)


# --- writing ---


LIBVER = ("v108", "v108")  # of HDF5: this version's structure has checksums


def create_small_hdf5(temporary: Path) -> h5py.File:
    """Write a new file, like `create_hdf5`, that is made in memory and written when it is closed.

    Its bytes are those that HDF5 itself writes.
    """
    return h5py.File(temporary, "w", libver=LIBVER, driver="core", backing_store=True)


@contextmanager
def create_hdf5(temporary: Path) -> Iterator[h5py.File]:
    """Write a new file, not under its final name; whatever its size, it is not in memory.

    A disk that is full is an OSError. HDF5 alone would crash the process: it cannot close a file
    of which it cannot write the rest.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    with open(temporary, "w+b", buffering=0) as file:
        target = _Target(file)
        with h5py.File(target, "w", libver=LIBVER) as made:
            yield made
        if target.error is not None:
            raise target.error


class _Target(io.RawIOBase):
    """A file for HDF5 whose every write succeeds: after one that failed, it is to nowhere.

    Parameters
    ----------
    file : RawIOBase
        The file.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self.error: OSError | None = None  # the first one

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; what was never written is zeros."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and (n := self._file.readinto(view[filled:])):
            filled += n
        view[filled:] = bytes(len(view) - filled)
        return len(view)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view) and self.error is None:
                done += self._file.write(view[done:]) or 0
        except OSError as error:
            self.error = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            if self.error is None:
                self._file.truncate(size)
        except OSError as error:
            self.error = error
        return size or 0
