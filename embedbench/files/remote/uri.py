"""URIs of files that lie elsewhere: `hf://…`, `https://…`, `s3://…`, `known:NAME`.

`file:///…` names a file of this machine: what `push` to a folder prints.

A name is fixed if it can only mean one content: a hub name with a whole commit as its revision, or
any name that ends with `#sha256=` and the SHA-256 of the file's bytes.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from embedbench.errors import UserError, short, unknown

KNOWN = "known:"
HUB = "hf"
LOCAL = ("file", "local")  # paths of this machine
WEB = ("http", "https")
# Stores that fsspec reads; s3, gs and most others need a package more.
STORES = (
    *("abfs", "abfss", "adl", "az", "ftp", "gcs", "gs", "hdfs", "memory", "oci", "oss", "s3"),
    *("s3a", "sftp", "smb", "ssh", "webhdfs"),
)
LONGEST = 100  # bytes of a plain file name
_NAME = re.compile(r"known:|[A-Za-z][A-Za-z0-9+.-]+://")
_SECRET = re.compile(r"token|signature|sig|secret|passw|credential|api_?key|access_?key", re.I)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HUB_NAME = re.compile(
    r"hf://datasets/(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/]+))?/(?P<path>.+)"
)


@dataclass(frozen=True)
class Name:
    """A name of a file that lies elsewhere.

    Parameters
    ----------
    url : str
        Where the file lies, without the SHA-256.
    sha256 : str or None
        SHA-256 of the file's bytes, if the name says it.
    """

    url: str
    sha256: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name as it was written."""
        url, _, fragment = text.partition("#")
        scheme = url.partition("://")[0].lower()
        if scheme not in (HUB, *LOCAL, *WEB, *STORES):
            raise unknown("scheme", scheme, (HUB, "file", *WEB, *STORES))
        key, _, sha256 = fragment.partition("=")
        if fragment and not (key == "sha256" and _SHA256.fullmatch(sha256)):
            raise UserError(
                f"{short(text)}: the part after #",
                expected="sha256= and 64 hexadecimal digits",
                got=fragment,
            )
        if scheme not in LOCAL:
            _check_no_secret(url)
        name = cls(scheme + url[len(scheme) :], sha256 or None)
        if scheme == HUB:
            name.hub  # noqa: B018  # refuses what is incomplete
        elif not name.path.strip("/"):
            raise UserError(f"{short(text)} names no file", "give the whole address")
        return name

    def __str__(self) -> str:
        return f"{self.url}#sha256={self.sha256}" if self.sha256 else self.url

    @property
    def scheme(self) -> str:
        """The part before `://`."""
        return self.url.partition("://")[0]

    @property
    def path(self) -> str:
        """The path within its server, store or repository."""
        if self.scheme == HUB:
            return self.hub.path
        if self.scheme in LOCAL:
            return self.url.partition("://")[2]
        parts = urlsplit(self.url)
        return parts.path if self.scheme in WEB else f"{parts.netloc}{parts.path}"

    @property
    def basename(self) -> str:
        """The last part of the path, as a plain file name."""
        last = unquote(self.path).rstrip("/").rpartition("/")[2]
        plain = re.sub(r"[^\w.+-]", "_", last).encode()[-LONGEST:].decode(errors="ignore")
        return plain.lstrip(".-") or "file.h5"

    @property
    def hub(self) -> "HubName":
        """The parts of a hub name."""
        return HubName.parse(self.url)

    @property
    def commit(self) -> str | None:
        """The commit of a hub name that names a whole one."""
        revision = self.hub.revision if self.scheme == HUB else ""
        return revision if _COMMIT.fullmatch(revision) else None


class HubName(NamedTuple):
    """`hf://datasets/ORG/NAME@REV/path` in parts."""

    repo: str  # ORG/NAME
    revision: str  # a branch, a tag or a commit; `main` unless given
    path: str  # of the file within the repository

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL with the scheme `hf`."""
        match = _HUB_NAME.fullmatch(url)
        if match is None or ".." in match["path"].split("/"):
            raise UserError(
                "the name of a hub's file",
                expected="hf://datasets/ORG/NAME@REVISION/FILE",
                got=url,
            )
        return cls(match["repo"], unquote(match["revision"] or "main"), match["path"])

    def at(self, commit: str) -> str:
        """The same file at one commit, as a URL."""
        return str(self._replace(revision=commit))

    def __str__(self) -> str:
        return f"hf://datasets/{self.repo}@{self.revision.replace('/', '%2F')}/{self.path}"


def is_name(text: str) -> bool:
    """Whether a text names a file that lies elsewhere, and not a path.

    >>> [is_name(x) for x in ("a.h5", "C:/a.h5", "s3://b/a.h5", "known:emoji")]
    [False, False, True, True]
    """
    return _NAME.match(text) is not None


def as_written(text: str) -> str:
    """A name as it is, and a path in its shortest form.

    >>> as_written("./a//b.h5"), as_written("hf://datasets/o/n/b.h5")
    ('a/b.h5', 'hf://datasets/o/n/b.h5')
    """
    return text if is_name(text) else str(Path(text))


def _check_no_secret(url: str) -> None:
    """Refuse a URL with a password or a signature: names are kept in records and printed."""
    try:
        parts = urlsplit(url)
        secret = parts.password or (parts.username and url.startswith("http"))
    except ValueError:
        raise UserError(
            "an address between [ and ] is no IPv6 address", "correct the name"
        ) from None
    keys = [key for key, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if secret or any(_SECRET.search(key) for key in keys):
        raise UserError(
            f"the name of a file on {parts.hostname} holds a password or a signature, and names "
            "are kept in records",
            "leave it out, and log in the way the server or store has for it",
        )
