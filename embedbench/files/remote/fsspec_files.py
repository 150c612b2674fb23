"""Files of object stores and other servers that fsspec reads: `s3://…`, `gs://…`, `memory://…`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from embedbench.errors import UserError

from .remote_file import Remote, access_denied, file_changed, lost, missing
from .uri import Name

PIECE = 2**22  # bytes of a request
LARGEST = 10**18  # bytes; no file has as many
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
PACKAGES |= dict.fromkeys(("abfs", "abfss", "adl", "az"), "adlfs")


def ask(name: Name) -> Remote:
    """Ask a store for the facts of a file.

    Raises
    ------
    UserError
        A package is missing, or the file cannot be had; the sentence says why.
    """
    from fsspec.core import url_to_fs

    try:
        store, path = url_to_fs(name.url)
        store.invalidate_cache()
        info = store.info(path)
        version = str(store.ukey(path))
        size = None if info.get("size") is None else int(info["size"])
    except ImportError:
        raise lacks_package(name.url) from None
    except Exception as error:  # each store has errors of its own
        raise _refused(name.url, error) from None
    if info.get("type") == "directory" or size is None:
        raise UserError(f"{name.url} is a directory; name a file in it")
    if not 0 <= size < LARGEST:
        raise UserError(f"the store of {name.url} says a size that no file has")
    read = partial(_read, name.url, store, path)
    return Remote(name.url, version, size, read)


def _read(url: str, store: Any, path: str, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, PIECE):
        wanted = min(PIECE, end - at)
        try:
            piece = store.cat_file(path, start=at, end=at + wanted)  # s3fs orders them otherwise
        except Exception as error:  # each store has errors of its own
            raise _refused(url, error) from None
        if len(piece) != wanted:
            raise file_changed(url)
        yield piece


def lacks_package(url: str) -> UserError:
    """The error of a store whose package is not installed."""
    scheme = url.partition("://")[0]
    package = PACKAGES.get(scheme)
    which = f"pip install {package}" if package else "see fsspec's list of file systems"
    return UserError(f"{scheme}:// needs one more package: {which}")


def _refused(url: str, error: Exception) -> UserError:
    """The sentence for an error of a store; its text may hold anything and is not printed."""
    if isinstance(error, FileNotFoundError):
        return missing(url)
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        return access_denied(url, "log in the way this store has for it (such as AWS_PROFILE)")
    return lost(url, type(error).__name__)
