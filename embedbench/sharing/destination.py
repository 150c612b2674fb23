"""Destinations of pushed files: a data set of the Hugging Face hub, or a folder by its URL."""

import re
from dataclasses import dataclass
from typing import Self

from embedbench.errors import UserError, short
from embedbench.files.remote.uri import HUB, WEB, Name

DATASETS = f"{HUB}://datasets/"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Place:
    """A repository or folder that gets files.

    Parameters
    ----------
    url : str
        As it was given, without a slash at the end.
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
            Files cannot be pushed to it, or it holds a secret.
        """
        plain = url.rstrip("/")
        scheme, colon, rest = plain.partition("://")
        if not colon or not rest:
            raise UserError(
                f"expected hf://datasets/ORG/NAME or the URL of a folder, such as "
                f"s3://bucket/folder or file:///shared/folder, got {short(url)}."
            )
        if scheme in WEB:
            raise UserError(
                f"{scheme}:// can be read and not written; push to hf://datasets/ORG/NAME, or to a "
                "folder such as s3://bucket/folder."
            )
        if scheme != HUB:
            Name.parse(f"{plain}/file.h5")  # refuses what is unknown or holds a secret
            return cls(plain)
        repository = plain.removeprefix(DATASETS)
        if not _REPOSITORY.fullmatch(repository):
            raise UserError(
                f"expected hf://datasets/ORG/NAME, got {short(url)}; the file keeps its name, and "
                "a push goes to the branch main."
            )
        return cls(plain, repository)
