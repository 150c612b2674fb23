"""Files to a data set of the Hugging Face hub: one commit, nothing replaced unasked.

The login is that of the hub (`hf auth login`, or HF_TOKEN); it is not kept here.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from embedbench.errors import UserError, short
from embedbench.files.remote.uri import HUB, WEB, Name

if TYPE_CHECKING:
    from huggingface_hub import HfApi


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


Content = Path | bytes
_LOGIN = "log in with `hf auth login`, with a token that may write"


def check_login(repository: str) -> None:
    """Refuse to begin without a login.

    Raises
    ------
    UserError
        Nobody is logged in.
    """
    from huggingface_hub import get_token

    with explain_hub_errors(repository):
        if get_token() is None:
            raise UserError(f"no login of the hub, which pushing to {repository} needs; {_LOGIN}.")


@dataclass(frozen=True)
class How:
    """Options of a push.

    Parameters
    ----------
    licence : str
        Licence of the data, for a file that states none; "unknown" if nobody knows it.
    runs : Path or None
        Runs on the file, for the table of baselines.
    parquet : bool
        Also send the rows as Parquet, one file a split; the hub shows these.
    private : bool
        Make a new repository on the hub private.
    overwrite : bool
        Replace files of other content.
    quiet : bool
        No bars of progress.
    """

    licence: str = ""
    runs: Path | None = None
    parquet: bool = False
    private: bool = False
    overwrite: bool = False
    quiet: bool = True


PLAIN = How()


def send(
    files: Mapping[str, Content], repository: str, how: How, message: str
) -> tuple[str, list[str]]:
    """Bring files to a data set, which is made if it is missing; all in one commit.

    `files` are by their path in the repository. Returns the commit that has all of them, and the
    names of those that were sent.

    Raises
    ------
    UserError
        No network, no permission, or a file of the same name has other content.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if how.quiet or not sys.stderr.isatty():
        disable_progress_bars()
    with explain_hub_errors(repository):
        api = HfApi()
        head = _head(api, repository, private=how.private)
        there = api.get_paths_info(repository, list(files), repo_type="dataset", revision=head)
        files_there = [item for item in there if isinstance(item, RepoFile)]
        digests = {f.path: f.lfs.sha256 if f.lfs else f.blob_id for f in files_there}
        new = [name for name in files if digests.get(name) not in _digests(files[name])]
        check_replaced(
            [n for n in new if n in digests], f"hf://datasets/{repository}", how.overwrite
        )
        if not new:
            return head, []
        operations = [
            CommitOperationAdd(name, c if isinstance(c := files[name], bytes) else str(c))
            for name in new
        ]
        commit = api.create_commit(
            repository,
            operations,
            commit_message=message,
            repo_type="dataset",
            parent_commit=head,
        )
    return str(commit.oid), new


def check_replaced(names: list[str], place: str, overwrite: bool) -> None:
    """Refuse to replace files, unless `--overwrite` was given."""
    if names and not overwrite:
        raise UserError(
            f"{place} has {', '.join(names)} with other content; push to another place, or add "
            "--overwrite."
        )


def _head(api: HfApi, repository: str, *, private: bool) -> str:
    """The latest commit of a repository, which is made if it is missing."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        info = api.repo_info(repository, repo_type="dataset")
    except RepositoryNotFoundError as error:
        if error.response.status_code == 401:
            raise
        api.create_repo(repository, repo_type="dataset", private=private or None)
        info = api.repo_info(repository, repo_type="dataset")
    if private and not info.private:
        raise UserError(
            f"{repository} is there already and public; push to another name, or make it private "
            "in its settings."
        )
    return str(info.sha)


def _digests(content: Content) -> tuple[str, str]:
    """SHA-256 of a content, as LFS names it, and SHA-1 with its size, as git does."""
    with open_content(content) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        blob = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        git = hashlib.file_digest(file, lambda: blob)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), git.hexdigest()


def open_content(content: Content) -> BinaryIO:
    """Open a content for reading."""
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


@contextmanager
def explain_hub_errors(repository: str) -> Iterator[None]:
    """Turn what the hub's library raises into one sentence."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield
    except UserError:
        raise
    except HfHubHTTPError as error:
        raise UserError(_answer(error.response.status_code, repository)) from None
    except OfflineModeIsEnabled:
        raise UserError("HF_HUB_OFFLINE forbids the network; unset it to push.") from None
    except Exception as error:  # each version of the library raises others without a network
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise UserError(
            f"cannot push to {repository} at {constants.ENDPOINT} ({reason}); check the network "
            "and run the command again, nothing was committed."
        ) from None


def _answer(status: int, repository: str) -> str:
    if status == 401:
        return f"the hub does not accept the login for {repository}; {_LOGIN}."
    if status == 403:
        return f"no permission to write to {repository}; {_LOGIN} there."
    if status in (409, 412):
        return f"{repository} was changed by another commit meanwhile; run the command again."
    return f"the hub answered {status} for {repository}; nothing was committed."
