"""Files to a folder by its URL: s3, gs, sftp, memory and the other kinds that fsspec writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from embedbench.errors import UserError

from .hub import Content, check_replaced, chunks
from .place import Place

_CHUNK = 2**20
# They have no folders to make; and a bucket that is missing is a slip of the pen.
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss"}


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

    with explained(place):
        store, root = url_to_fs(place.url)
        store.invalidate_cache()
        states = {name: _is_there(store, f"{root}/{name}", files[name]) for name in files}
        check_replaced([n for n, same in states.items() if same is False], place.public, overwrite)
        new = [name for name, same in states.items() if not same]
        folders = {f"{root}/{name}".rpartition("/")[0] for name in new}
        if place.url.partition("://")[0] not in _BUCKETS:
            for folder in sorted(folders):
                store.makedirs(folder, exist_ok=True)
        with store.transaction:
            for name in new:
                with store.open(f"{root}/{name}", "wb") as out:
                    for part in chunks(files[name]):
                        out.write(part)
    return new


def _is_there(store: Any, path: str, content: Content) -> bool | None:
    """Whether a file has this content; None if there is no such file."""
    try:
        size = store.info(path)["size"]
    except FileNotFoundError:
        return None
    mine = hashlib.sha256()
    for part in chunks(content):
        mine.update(part)
    if size != (len(content) if isinstance(content, bytes) else content.stat().st_size):
        return False
    theirs = hashlib.sha256()
    with store.open(path, "rb") as file:
        while part := file.read(_CHUNK):
            theirs.update(part)
    return mine.digest() == theirs.digest()


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Turn what a store raises into one sentence."""
    try:
        yield
    except UserError:
        raise
    except ImportError as error:
        raise UserError(
            f"{place.public.partition('://')[0]}:// needs a package that is not installed "
            f"({_first(error)})"
        ) from error
    except PermissionError as error:
        raise UserError(
            f"no permission to write to {place.public}; ask its owner, or log in."
        ) from error
    except Exception as error:  # each store raises others
        raise UserError(
            f"cannot write to {place.public} ({_first(error)}); is the address right, and the "
            "network there?"
        ) from error


def _first(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0] or type(error).__name__
