"""Servers of files (web, hub, stores): the facts on one file, and how its bytes are read.

Web servers are read by ranges (RFC 9110) by the standard library, since fsspec's reader follows any
redirect and does not see that a file has changed. The hub's client resolves names, also on a server
that speaks its protocol (`HF_ENDPOINT`), and logs in; it begins an interrupted download anew, so
bytes are read as from a web server. Stores (`s3://…`, `gs://…`, `memory://…`) are read by fsspec.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException, HTTPMessage
from types import MappingProxyType
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from embedbench.errors import UserError
from embedbench.text.printable_text import printable
from embedbench.version import __version__

from . import slow_servers
from .uri import HUB, WEB, Name

PIECE = 2**20  # bytes read at a time


@dataclass(frozen=True)
class Remote:
    """A file elsewhere, as it is now.

    Parameters
    ----------
    url : str
        Its name; of a file of the hub with the commit.
    version : str
        Changes whenever the file does: a commit, an ETag, …; "" where the server says nothing.
    size : int
        Bytes.
    read : callable
        (start, end) → pieces of the bytes from `start` to before `end`. It ends early where the
        server does.
    sha256 : str or None
        SHA-256 of the bytes, where the server says it.
    """

    url: str
    version: str
    size: int
    read: Callable[[int, int], Iterator[bytes]]
    commit: str | None = None
    sha256: str | None = None


class LostError(UserError):
    """A connection that failed; another attempt may succeed."""


def lost(url: str, reason: object) -> LostError:
    """The error of a connection that failed, for a reason: an exception or a text."""
    short = getattr(reason, "strerror", None) or type(reason).__name__
    why = printable(reason if isinstance(reason, str) else str(short))
    return LostError(
        f"{url} could not be reached ({why}); check the network, and run the command again: what "
        "has arrived is kept"
    )


def missing(url: str) -> UserError:
    """The error of a name that means nothing."""
    return UserError(f"there is no {url}", "check the name")


def file_changed(url: str) -> UserError:
    """The error of a file that is another one than at the first question."""
    return UserError(f"{url} changed while it was read", "run the command again")


def ask(name: Name) -> Remote:
    """Ask a server or store for the facts of a file."""
    if name.scheme == HUB:
        return ask_hub(name)
    return ask_server(name.url, name.url) if name.scheme in WEB else ask_store(name)


# --- web servers ---


SECONDS = 20.0  # without an answer
_SIZE = re.compile(r"[0-9]{1,18}")  # no file is larger
_RANGE = re.compile(rf"bytes ({_SIZE.pattern})-({_SIZE.pattern})/({_SIZE.pattern})")


def ask_server(url: str, name: str, login: Mapping[str, str] = MappingProxyType({})) -> Remote:
    """Ask a server for the facts of a file: one request for its first byte.

    Its version is the `ETag`, or else `Last-Modified`; without both it is not known whether the
    file changes. Each `read` of the result is a request of its own.

    Parameters
    ----------
    url : str
        What is asked. It may hold a signature and is never printed.
    name : str
        What the user named, for sentences.
    login : mapping
        Headers of each request; secret.

    Raises
    ------
    UserError
        The server does not answer or does not say the length; of `read`: the file has changed, the
        server sends other bytes, is too slow, or is lost.
    """
    with _answer(url, name, {**login, "Range": "bytes=0-0"}) as answer:
        _, size = _place(answer)
        tag = answer.headers.get("ETag", "")
        when = answer.headers.get("Last-Modified", "")
    if size is None:
        raise UserError(
            f"the server of {name} does not say how long the file is", "download it by hand"
        )
    version = tag or when

    def read(start: int, end: int) -> Iterator[bytes]:
        """Yield bytes; those before `start` are left out where a server knows no ranges."""
        with _answer(url, name, {**login, "Range": f"bytes={start}-{end - 1}"}) as answer:
            now = answer.headers.get("ETag") or answer.headers.get("Last-Modified", "")
            at, whole = _place(answer)
            if (version and now and now != version) or whole != size:
                raise file_changed(name)
            if at > start:
                raise UserError(f"the server of {name} sent other bytes than it was asked for")
            try:
                while at < end and (piece := _piece(answer, min(PIECE, end - at))):
                    if at + len(piece) > start:
                        yield piece[max(0, start - at) :]
                    at += len(piece)
            except slow_servers.SlowError:
                raise slow_servers.too_slow(name) from None
            except (OSError, HTTPException, ValueError) as error:  # the last: a chunk of length -5
                raise lost(name, error) from None

    return Remote(name, version, size, read)


def _piece(answer: Any, size: int) -> bytes:
    """The next bytes of an answer: `size`, or what comes before its end or before it is too slow.

    Raises
    ------
    SlowError
        It is too slow, and nothing has come.
    """
    if answer.chunked:
        return bytes(answer.read(size))
    parts = list[bytes]()
    left = size
    try:
        while left and (part := answer.read1(left)):
            parts.append(part)
            left -= len(part)
    except slow_servers.SlowError:
        if not parts:  # those that have come are kept, and the next call raises it again
            raise
    return b"".join(parts)


def _place(answer: Any) -> tuple[int, int | None]:
    """The first byte of an answer in its file, and the size of the file, where it is said."""
    if answer.status == 206:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        return (int(match[1]), int(match[3])) if match else (0, None)
    text = answer.headers.get("Content-Length", "")
    return 0, int(text) if _SIZE.fullmatch(text) else None


def _answer(url: str, name: str, headers: Mapping[str, str]) -> Any:
    """The answer to a request, open for reading."""
    agent = {"User-Agent": f"embedbench/{__version__}", "Accept-Encoding": "identity"}
    try:
        request = Request(url, headers={**agent, **headers})
        paced = slow_servers.PacedHTTP, slow_servers.PacedHTTPS
        return build_opener(_Redirects, *paced).open(request, timeout=SECONDS)
    except HTTPError as error:
        error.close()
        raise _status_refused(name, error.code) from None
    except URLError as error:
        if isinstance(error.reason, slow_servers.SlowError):
            raise slow_servers.too_slow(name) from None
        raise lost(name, error.reason) from None
    except slow_servers.SlowError:
        raise slow_servers.too_slow(name) from None
    except (OSError, HTTPException) as error:
        raise lost(name, error) from None
    except ValueError:
        raise UserError(f"{name} is no address", "check the name") from None


def _status_refused(name: str, code: int) -> UserError:
    """The error for a status."""
    if code in (404, 410):
        return missing(name)
    if code == 429 or code >= 500:
        return lost(name, f"status {code}")
    return UserError(f"the server of {name} answers with status {code}", "download it by hand")


class _Redirects(HTTPRedirectHandler):
    """Follows to web servers only, from https to https only, and takes a login to no other host."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request."""
        old = urlsplit(req.full_url)
        new = urlsplit(newurl)
        if new.scheme not in ("https", old.scheme):
            return None
        fp.close()  # or else all of it is read, however long it says that it is
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and old[:2] != new[:2]:
            request.remove_header("Authorization")
        return request


# --- the hub ---


def ask_hub(name: Name) -> Remote:
    """Ask the hub for the facts of a file; of a branch or a tag, for its commit now."""
    from huggingface_hub import get_hf_file_metadata, get_token, hf_hub_url

    part = name.hub
    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        url = hf_hub_url(
            part.repo, part.path, repo_type="dataset", revision=part.revision, endpoint=endpoint
        )
        about = slow_servers.in_time(
            lambda: get_hf_file_metadata(url, timeout=SECONDS), slow_servers.WINDOW
        )
    except slow_servers.SlowError:
        raise slow_servers.too_slow(name.url) from None
    except Exception as error:  # without a network, many kinds of errors occur
        raise hub_refused(name.url, part.repo, error) from None
    if about.commit_hash is None:
        raise UserError(f"{name.url} is on a server that does not name its commit", "use https://")
    same = urlsplit(about.location)[:2] == urlsplit(url)[:2]
    token = get_token() if same else None
    login = {"Authorization": f"Bearer {token}"} if token else {}
    fixed = part.at(about.commit_hash)
    remote = ask_server(about.location, fixed, login)
    sha256 = about.etag if about.etag and len(about.etag) == 64 else None
    if about.size not in (None, remote.size):
        raise UserError(f"{fixed} has {remote.size:,} bytes, and the hub says {about.size:,}")
    return replace(remote, version=about.commit_hash, commit=about.commit_hash, sha256=sha256)


def hub_refused(url: str, repo: str, error: Any) -> UserError:
    """The sentence for an error of the hub's client; its text may hold anything."""
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):
        return UserError(
            f"{url} is not there, or not for everybody",
            f"ask for access to {repo} on its page, and log in with `hf auth login`, or set "
            "HF_TOKEN; to push, with a token that may write",
        )
    if isinstance(error, errors.HFValidationError) or status == 404:
        return missing(url)
    if status in (409, 412):
        return UserError(f"{url} was changed by another commit meanwhile", "run the command again")
    return lost(url, error if status is None else f"status {status}")


# --- stores ---


STORE_PIECE = 2**22  # bytes of a request
LARGEST = 10**18  # bytes; no file has as many
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
PACKAGES |= dict.fromkeys(("abfs", "abfss", "adl", "az"), "adlfs")


def ask_store(name: Name) -> Remote:
    """Ask a store for the facts of a file."""
    from fsspec.core import url_to_fs

    with explain_store_errors(name.url):
        store, path = url_to_fs(name.url)
        store.invalidate_cache()
        info = slow_servers.in_time(lambda: store.info(path), slow_servers.WINDOW)
        version = str(store.ukey(path))
        size = 0 if info["type"] == "directory" else int(info.get("size") or 0)
    if not 0 < size < LARGEST:
        raise UserError(f"{name.url} is no file of a known size", "name a file")

    def read(start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, STORE_PIECE):
            wanted = min(STORE_PIECE, end - at)
            with explain_store_errors(name.url):  # by names, as s3fs has another order
                piece = slow_servers.in_time(
                    partial(store.cat_file, path, start=at, end=at + wanted),
                    slow_servers.WINDOW + wanted / slow_servers.SLOWEST,
                )
            if len(piece) != wanted:
                raise file_changed(name.url)
            yield piece

    return Remote(name.url, version, size, read)


@contextmanager
def explain_store_errors(url: str) -> Iterator[None]:
    """Turn what a store raises into one sentence; its text may hold anything and is not printed."""
    try:
        yield
    except UserError:
        raise
    except ImportError:
        scheme = url.partition("://")[0]
        package = PACKAGES.get(scheme, "what fsspec's list of file systems names")
        raise UserError(f"{scheme}:// needs one more package", f"pip install {package}") from None
    except FileNotFoundError:
        raise missing(url) from None
    except slow_servers.SlowError:
        raise slow_servers.too_slow(url) from None
    except Exception as error:  # each store has errors of its own
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            raise UserError(
                f"no permission for {url}",
                "log in the way this store has for it (such as AWS_PROFILE)",
            ) from None
        raise lost(url, type(error).__name__) from None
