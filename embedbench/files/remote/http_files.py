"""Files of web servers, whole and by ranges (RFC 9110), by the standard library.

By hand, since fsspec's reader follows any redirect, and does not see that a file has changed.
"""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from embedbench.errors import UserError, printable
from embedbench.version import __version__

from .remote_file import PIECE, Remote, access_denied, file_changed, lost, missing

SECONDS = 20.0  # without an answer
_SIZE = re.compile(r"[0-9]{1,18}")  # no file is larger
_RANGE = re.compile(rf"bytes ({_SIZE.pattern})-({_SIZE.pattern})/({_SIZE.pattern})")


@dataclass(frozen=True)
class Address:
    """The address of requests, and the name that sentences give it.

    Parameters
    ----------
    url : str
        What is asked.
    name : str
        What the user named. `url` may hold a signature and is never printed.
    headers : mapping
        Headers of each request; secret.
    """

    url: str = field(repr=False)
    name: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def ask(address: Address) -> Remote:
    """Ask a server for the facts of a file: one request for its first byte.

    Raises
    ------
    UserError
        It cannot be had; the sentence says why.
    """
    with _answer(address, {"Range": "bytes=0-0"}) as answer:
        size, by_ranges = _size(answer), answer.status == 206
        tag, when = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
    if size is None:
        raise UserError(
            f"the server of {address.name} does not say how long the file is; download it by hand"
        )
    strong = tag if tag.startswith('"') else ""
    read = partial(_read, address, strong or ("" if tag else when), tag or when, size)
    return Remote(address.name, tag or when, size, read, by_ranges=by_ranges)


def _read(
    address: Address, condition: str, version: str, size: int, start: int, end: int
) -> Iterator[bytes]:
    """Yield bytes; those before `start` are read and left out where a server knows no ranges."""
    headers = {"Range": f"bytes={start}-{end - 1}"}
    with _answer(address, headers | ({"If-Range": condition} if condition else {})) as answer:
        now = answer.headers.get("ETag") or answer.headers.get("Last-Modified", "")
        if (version and now and now != version) or _size(answer) != size:
            raise file_changed(address.name)
        at = int(match[1]) if (match := _range(answer)) else 0
        if at > start:
            raise UserError(f"the server of {address.name} sent other bytes than it was asked for")
        try:
            while at < end and (piece := answer.read(min(PIECE, end - at))):
                if at + len(piece) > start:
                    yield piece[max(0, start - at) :]
                at += len(piece)
        except (OSError, HTTPException, ValueError) as error:  # the last: a chunk of length -5
            raise lost(address.name, error) from None


def _range(answer: Any) -> re.Match[str] | None:
    return (
        _RANGE.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
    )


def _size(answer: Any) -> int | None:
    """Bytes of the whole file."""
    if answer.status == 206:
        match = _range(answer)
        return int(match[3]) if match else None
    text = answer.headers.get("Content-Length", "")
    return int(text) if _SIZE.fullmatch(text) else None


def _answer(address: Address, headers: Mapping[str, str]) -> Any:
    """The answer to a request, open for reading."""
    agent = {"User-Agent": f"embedbench/{__version__}", "Accept-Encoding": "identity"}
    request = Request(address.url, headers={**agent, **address.headers, **headers})
    try:
        return build_opener(_Redirects(address.name)).open(request, timeout=SECONDS)
    except HTTPError as error:
        with error:
            raise _refused(address.name, error.code) from None
    except URLError as error:
        raise lost(address.name, error.reason) from None
    except (OSError, HTTPException) as error:
        raise lost(address.name, error) from None
    except ValueError:
        raise UserError(f"{address.name} is no address; check the name") from None


def _refused(name: str, code: int) -> UserError:
    """The error for a status."""
    if code in (401, 403, 407):
        return access_denied(name, f"the server refuses it (status {code}); download it by hand")
    if code in (404, 410):
        return missing(name)
    if code == 416:
        return UserError(f"{name} is empty; check the name")
    if 300 <= code < 400:
        return UserError(f"{name} leads from address to address without an end; check the name")
    if code == 429 or code >= 500:
        return lost(name, f"status {code}")
    return UserError(f"{name} cannot be had: the server answers with status {code}")


class _Redirects(HTTPRedirectHandler):
    """Follows to web servers only, and from https to https only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        """Follow, unless the next address is of another kind."""
        old, new = urlsplit(req.full_url), urljoin(req.full_url, headers.get("location", ""))
        scheme = urlsplit(new).scheme
        if scheme not in ("https", old.scheme):
            raise UserError(
                f"{self.name} leads to an address of the kind {printable(scheme)}://, which is not "
                "followed; name the file itself"
            )
        fp.close()  # or else all of it is read, however long it says that it is
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request; it takes a login to no other host."""
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and urlsplit(req.full_url)[:2] != urlsplit(newurl)[:2]:
            request.remove_header("Authorization")
        return request
