"""`embedbench push`: a file, its page and a picture, to a place that others can name.

It is a data set of the Hugging Face hub, or a folder that fsspec writes. Nothing is replaced
unasked: that, and errors in one sentence without secrets, is what the libraries lack. The login is
that of the hub (`hf auth login`, or HF_TOKEN); it is not kept here.
"""

import hashlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError, short
from embedbench.files import hdf5_layout, inspect, provenance, sample_metadata
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.remote import remote_servers, uri
from embedbench.storage import user_cache
from embedbench.storage.atomic_write import writing
from embedbench.storage.leases import alone

from .dataset_card import DATASETS, HUB_SPLITS, card_page, data_licence, is_stated, rows_on_file

if TYPE_CHECKING:
    from huggingface_hub import HfApi


PAGE = "README.md"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Place:
    """A folder that gets files, its URL without a slash at the end; on the hub also ORG/NAME."""

    url: str
    repository: str = ""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL."""
        plain = url.rstrip("/")
        scheme, colon, rest = plain.partition("://")
        if not colon or not rest:
            raise UserError(
                f"expected hf://datasets/ORG/NAME or the URL of a folder, such as "
                f"s3://bucket/folder or file:///shared/folder, got {short(url)}."
            )
        if scheme in uri.WEB:
            raise UserError(
                f"{scheme}:// can be read and not written; push to hf://datasets/ORG/NAME, or to a "
                "folder such as s3://bucket/folder."
            )
        if scheme != uri.HUB:
            uri.Name.parse(f"{plain}/file.h5")  # refuses what is unknown or holds a secret
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
_CHANGED = "{} was changed by another commit meanwhile; run the command again."
_REFUSALS = {
    401: f"the hub does not accept the login for {{}}; {_LOGIN}.",
    403: f"no permission to write to {{}}; {_LOGIN} there.",
    409: _CHANGED,
    412: _CHANGED,
}


@dataclass(frozen=True)
class How:
    """Options of a push.

    Parameters
    ----------
    licence : str
        Licence of the data, for a file that states none; "unknown" if nobody knows it.
    runs : Path or None
        Runs on the file, for the table of baselines.
    parquet : bool or None
        Also send the rows as Parquet, one file a split, which the hub's viewer shows. None: to the
        hub, of an embedding file.
    """

    licence: str = ""
    runs: Path | None = None
    parquet: bool | None = None
    private: bool = False
    overwrite: bool = False
    quiet: bool = True


PLAIN = How()


@dataclass(frozen=True)
class PushResult(JsonRecord):
    """The result of a push.

    Parameters
    ----------
    url : str
        The name of the file, to run or inspect it; on the hub with the commit.
    commit : str
        The commit on the hub; "" elsewhere.
    sent, unchanged : tuple of str
        Files that were sent, and those that were there with the same content.
    """

    url: str
    commit: str
    sent: tuple[str, ...]
    unchanged: tuple[str, ...]


def push(
    path: str | os.PathLike[str],
    url: str,
    how: How = PLAIN,
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> PushResult:
    """Send an embedding file with its page and a picture.

    Parameters
    ----------
    path : str or PathLike
        An embedding file; it is verified first.
    url : str
        `hf://datasets/ORG/NAME`, or another URL of a folder.
    """
    place = Place.parse(url)
    if how.private and not place.repository:
        raise UserError(f"--private is for the hub; {place.url} has other permissions.")
    file = EmbeddingFile.open(path)
    _check_licence(file, how.licence)
    if place.repository:
        check_login(place.repository)
    if damage := verify(file.path):
        raise UserError(f"{file.path} is damaged and was not sent: {damage[0]}")
    if file.kind == hdf5_layout.EMBEDDING and not is_stated(
        provenance.read_weights_entry(file.provenance).licence
    ):
        notify("the licence of the weights is not stated; --weights-licence of extract states it")
    with TemporaryDirectory(prefix="embedbench-push-") as folder:
        files = _parcel(file, place, how, Path(folder), notify)
        if place.repository:
            message = f"{file.path.name}, content {file.digests['content'][:12]}"
            commit, sent = send_to_hub(files, place.repository, how, message)
        else:
            commit, sent = "", send_to_store(files, place, overwrite=how.overwrite)
    at = f"@{commit}" if commit else ""
    return PushResult(
        url=f"{place.url}{at}/{file.path.name}",
        commit=commit,
        sent=tuple(sent),
        unchanged=tuple(name for name in files if name not in sent),
    )


def _check_licence(file: EmbeddingFile, licence: str) -> None:
    stated = data_licence(file.provenance)
    if not stated and not licence:
        raise UserError(
            f"{file.path} states no licence of its data, so nobody could use it; add --licence "
            "NAME, or --licence unknown."
        )
    if stated and licence not in ("", stated):
        raise UserError(
            f"{file.path} states the licence {stated!r}, and --licence says {licence!r}; leave "
            "--licence out, or make the file again with the right one."
        )


def _parcel(
    file: EmbeddingFile, place: Place, how: How, folder: Path, notify: Callable[[str], None]
) -> dict[str, Content]:
    """All files of a push; the page comes last, so that it never speaks of what is not there."""
    rows = rows_on_file(how.runs, file, notify) if how.runs else []
    files: dict[str, Content] = {file.path.name: file.path}
    tables = {}
    if _sends_parquet(file, place, how, notify):
        from embedbench.files.export_features import write_parquet

        for number, split in enumerate(sample_metadata.SPLITS):
            if (file.split == number).any():
                tables[split] = f"data/{HUB_SPLITS[split]}.parquet"
                files[tables[split]] = write_parquet(file, folder / f"{split}.parquet", number)
    name = f"{file.path.stem}.png"
    files[name] = picture(file)
    page = card_page(
        inspect.card(file),
        licence=how.licence,
        rows=rows,
        place=place.url,
        picture=name,
        parquet=tables,
        sha256=user_cache.sha256(file.path),
    )
    return {**files, PAGE: page.encode()}


def _sends_parquet(
    file: EmbeddingFile, place: Place, how: How, notify: Callable[[str], None]
) -> bool:
    if how.parquet is not None:
        return how.parquet
    if not place.repository or file.kind != hdf5_layout.EMBEDDING:
        return False
    if find_spec("pyarrow") is None:
        notify(
            "the hub will show no rows, because Parquet needs pyarrow: pip install "
            "'embedbench-cl[parquet]'; --no-parquet leaves out this line"
        )
        return False
    return True


# --- the picture on the page ---


WIDTH, DPI = 4.5, 160  # inches, and dots to the inch: 720 of them


def picture(file: EmbeddingFile) -> bytes:
    """Return a PNG of a file, the one that `inspect --map` draws."""
    from embedbench.reports import figure_style, picture_of_file

    return figure_style.render_figure(picture_of_file.draw_file(file, WIDTH), "png", dpi=DPI)


# --- to the hub ---


def check_login(repository: str) -> None:
    """Refuse to begin without a login."""
    from huggingface_hub import get_token

    with explain_hub_errors(repository):
        if get_token() is None:
            raise UserError(f"no login of the hub, which pushing to {repository} needs; {_LOGIN}.")


def send_to_hub(
    files: Mapping[str, Content], repository: str, how: How, message: str
) -> tuple[str, list[str]]:
    """Bring files to a data set, which is made if it is missing; all in one commit.

    `files` are by their path in the repository. Returns the commit that has all of them, and the
    names of those that were sent.
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


def _head(api: "HfApi", repository: str, *, private: bool) -> str:
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


def open_content(content: Content) -> io.BytesIO | io.BufferedReader:
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
        status = error.response.status_code
        other = f"the hub answered {status} for {{}}; nothing was committed."
        raise UserError(_REFUSALS.get(status, other).format(repository)) from None
    except OfflineModeIsEnabled:
        raise UserError("HF_HUB_OFFLINE forbids the network; unset it to push.") from None
    except Exception as error:  # each version of the library raises others without a network
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise UserError(
            f"cannot push to {repository} at {constants.ENDPOINT} ({reason}); check the network "
            "and run the command again, nothing was committed."
        ) from None


# --- a folder of a store by its URL ---


def send_to_store(files: Mapping[str, Content], place: Place, *, overwrite: bool) -> list[str]:
    """Bring files to a folder, all or none where the store can undo; return names of those sent."""
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    with explain_store_errors(place), ExitStack() as stack:
        store, root = url_to_fs(place.url)
        store.invalidate_cache()
        new = _new(store, root, files, place, overwrite)
        folders = {f"{root}/{name}".rpartition("/")[0] for name in new}
        # stores of buckets have no folders, and a bucket that is missing is a slip of the pen
        if place.url.partition("://")[0] not in remote_servers.PACKAGES:
            for folder in sorted(folders):
                store.makedirs(folder, exist_ok=True)
        if isinstance(store, LocalFileSystem):
            for name in sorted(new):  # in one order, so that no two pushes wait for each other
                stack.enter_context(alone(Path(root, name)))
            new = _new(store, root, files, place, overwrite)  # another push may have ended
            # what is entered first is renamed last: the page
            made = {n: stack.enter_context(writing(Path(root, n))) for n in reversed(new)}
            for name, temporary in made.items():
                _write(temporary.open("wb"), files[name])
                if not _is_there(store, str(temporary), files[name]):
                    path = Path(root, name)
                    raise UserError(f"{path} was not written as it is sent; is the disk in order?")
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


def _write(file: Any, content: Content) -> None:
    with file, open_content(content) as source:
        shutil.copyfileobj(source, file, 2**20)


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
            a, b = (hashlib.file_digest(file, "sha256").digest() for file in (mine, theirs))
            return a == b


@contextmanager
def explain_store_errors(place: Place) -> Iterator[None]:
    """Turn what a store raises into one sentence; its text may hold anything and is not printed."""
    try:
        yield
    except UserError:
        raise
    except ImportError:
        raise remote_servers.lacks_package(place.url) from None
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
