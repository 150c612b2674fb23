"""Files to a folder by its URL: s3, gs, sftp, memory and the other kinds that fsspec writes."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.files.remote.fsspec_files import PACKAGES, lacks_package
from embedbench.storage.atomic_write import writing
from embedbench.storage.leases import alone

from .hub_upload import Content, Place, check_replaced, open_content

_CHUNK = 2**20


def send(files: Mapping[str, Content], place: Place, *, overwrite: bool) -> list[str]:
    """Bring files to a folder: all of them, or none where the store can undo.

    Returns
    -------
    list of str
        Names of the files that were sent; those with the same content are there already.

    Raises
    ------
    UserError
        A package is missing, the store refuses, or a file of the same name has other content.
    """
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    with explain_store_errors(place), ExitStack() as stack:
        store, root = url_to_fs(place.url)
        store.invalidate_cache()
        new = _new(store, root, files, place, overwrite)
        folders = {f"{root}/{name}".rpartition("/")[0] for name in new}
        # stores of buckets have no folders, and a bucket that is missing is a slip of the pen
        if place.url.partition("://")[0] not in PACKAGES:
            for folder in sorted(folders):
                store.makedirs(folder, exist_ok=True)
        if isinstance(store, LocalFileSystem):
            for name in sorted(new):  # in one order, so that no two pushes wait for each other
                stack.enter_context(alone(Path(root, name)))
            new = _new(store, root, files, place, overwrite)  # another push may have ended
            _write_here(store, {Path(root, name): files[name] for name in new}, stack)
        else:
            stack.enter_context(store.transaction)
            for name in new:
                _write(store.open(f"{root}/{name}", "wb"), files[name])
    return new


def _new(
    store: Any, root: str, files: Mapping[str, Content], place: Place, overwrite: bool
) -> list[str]:
    """Names of the files that are not there with this content; none is replaced unasked."""
    states = {name: _is_there(store, f"{root}/{name}", files[name]) for name in files}
    check_replaced([n for n, same in states.items() if same is False], place.url, overwrite)
    return [name for name, same in states.items() if not same]


def _write_here(store: Any, files: dict[Path, Content], stack: ExitStack) -> None:
    """Write files beside their places, and compare them; they get their names as `stack` ends."""
    # what is entered first is renamed last: the page
    made = {path: stack.enter_context(writing(path)) for path in reversed(files)}
    for path, temporary in made.items():
        _write(temporary.open("wb"), files[path])
        if not _is_there(store, str(temporary), files[path]):
            raise UserError(f"{path} was not written as it is sent; is the disk in order?")


def _write(file: Any, content: Content) -> None:
    with file, open_content(content) as source:
        shutil.copyfileobj(source, file, _CHUNK)


def _is_there(store: Any, path: str, content: Content) -> bool | None:
    """Whether a file has this content; None if there is no such file."""
    try:
        size = store.info(path)["size"]
    except FileNotFoundError:
        return None
    with open_content(content) as mine:
        if mine.seek(0, os.SEEK_END) != size:
            return False
        mine.seek(0)
        with store.open(path, "rb") as theirs:
            return _sha256(mine) == _sha256(theirs)


def _sha256(file: Any) -> bytes:
    return hashlib.file_digest(file, "sha256").digest()


@contextmanager
def explain_store_errors(place: Place) -> Iterator[None]:
    """Turn what a store raises into one sentence; its text may hold anything and is not printed."""
    try:
        yield
    except UserError:
        raise
    except ImportError:
        raise lacks_package(place.url) from None
    except Exception as error:  # each store has errors of its own
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            raise UserError(
                f"no permission to write to {place.url}; log in the way this store has for it "
                "(such as AWS_PROFILE)"
            ) from None
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise UserError(
            f"cannot write to {place.url} ({reason}); is the address right, and the network there?"
        ) from None
