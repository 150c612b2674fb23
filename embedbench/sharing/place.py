"""Where files are pushed to: a data set of the Hugging Face hub, or a folder by its URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from embedbench.errors import UserError, short, unknown

HUB = "hf://datasets/"
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"


@dataclass(frozen=True)
class Place:
    """A repository or folder that gets files.

    Parameters
    ----------
    url : str
        As it was given, without a slash at the end; it may hold a password.
    repository : str
        ORG/NAME of a data set on the hub; "" elsewhere.
    """

    url: str
    repository: str = ""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL.

        Raises
        ------
        UserError
            It is none that files can be pushed to.
        """
        plain = url.rstrip("/")
        scheme, colon, rest = plain.partition("://")
        if not colon or not rest:
            raise UserError(
                f"expected hf://datasets/ORG/NAME or another URL of a folder, such as "
                f"s3://bucket/folder, got {short(url)}; to copy a file on this machine use cp."
            )
        if scheme == "hf":
            match = re.fullmatch(f"{HUB}({_PART}/{_PART})", plain)
            if match is None:
                raise UserError(
                    f"expected hf://datasets/ORG/NAME, got {short(url)}; the file keeps its name, "
                    "and a push goes to the branch main."
                )
            return cls(plain, match[1])
        if scheme in ("http", "https"):
            raise UserError(
                f"{scheme}:// can be read and not written; push to hf://datasets/ORG/NAME or to a "
                "folder of yours, such as s3://bucket/folder."
            )
        import fsspec

        if scheme not in fsspec.available_protocols():
            raise unknown("kind of URL", scheme, {"hf", *fsspec.available_protocols()})
        return cls(plain)

    @property
    def public(self) -> str:
        """The URL without a user, a password or a query, for pages and messages."""
        scheme, _, rest = self.url.partition("://")
        server, slash, path = rest.partition("/")
        return f"{scheme}://{server.rpartition('@')[2]}{slash}{path.partition('?')[0]}"
