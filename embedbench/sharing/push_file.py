"""`embedbench push`: a file, its page and a picture, to a place that others can name.

It is a data set of the Hugging Face hub, or a folder that fsspec writes. Nothing is replaced
unasked: that, and errors in one sentence without secrets, is what the libraries lack. The login is
that of the hub (`hf auth login`, or HF_TOKEN); it is not kept here.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError, short
from embedbench.files import hdf5_layout, inspect, provenance, sample_metadata
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.files.export_features import write_parquet
from embedbench.files.remote import remote_servers, uri
from embedbench.storage import user_cache
from embedbench.storage.atomic_write import write_safely, writing

from .dataset_card import DATASETS, HUB_SPLITS, card_page, data_licence, is_stated

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
        scheme, _, rest = plain.partition("://")
        repository = plain.removeprefix(DATASETS) if scheme == uri.HUB else ""
        wrong = not _REPOSITORY.fullmatch(repository) if scheme == uri.HUB else scheme in uri.WEB
        if wrong or not rest:
            raise UserError(
                "the place",
                expected="hf://datasets/ORG/NAME or the URL of a folder that can be written, such "
                "as s3://bucket/folder or file:///shared/folder",
                got=url,
            )
        if not repository:
            uri.Name.parse(f"{plain}/file.h5")  # refuses what is unknown or holds a secret
        return cls(plain, repository)


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
    *,
    licence: str = "",
    private: bool = False,
    overwrite: bool = False,
    quiet: bool = True,
    notify: Callable[[str], None] = lambda _: None,
) -> PushResult:
    """Send an embedding file with its page and a picture; to the hub with its rows as Parquet.

    Parameters
    ----------
    path : str or PathLike
        An embedding file; it is verified first.
    url : str
        `hf://datasets/ORG/NAME`, or another URL of a folder.
    licence : str
        Licence of the data, for a file that states none; "unknown" if nobody knows it.
    private : bool
        Whether a repository that is made is private.
    """
    place = Place.parse(url)
    if private and not place.repository:
        raise UserError(f"--private is for the hub; {place.url} has other permissions")
    file = EmbeddingFile.open(path)
    stated = data_licence(file.provenance)
    if not licence and not stated:
        raise UserError(
            f"{file.path} states no licence of its data, and who gets it needs one",
            "give --licence NAME, or --licence unknown if nobody knows it",
        )
    if licence and stated and licence != stated:
        raise UserError(
            f"{file.path} states the licence {short(stated)}, and --licence says {short(licence)}",
            "leave --licence out, or make the file again with the other licence",
        )
    if damage := verify(file.path):
        raise UserError(f"{file.path} is damaged and was not sent: {damage[0]}")
    if file.kind == hdf5_layout.EMBEDDING and not is_stated(
        provenance.read_weights_entry(file.provenance).licence
    ):
        notify(
            "the licence of the weights is not stated; extract and import have --weights-licence"
        )
    with TemporaryDirectory(prefix="embedbench-push-") as folder:
        files = _parcel(file, place, licence, Path(folder))
        if place.repository:
            message = f"{file.path.name}, content {file.digests['content'][:12]}"
            commit, sent = send_to_hub(
                files, place, message, private=private, overwrite=overwrite, quiet=quiet
            )
            _check_sent(file, place)
        else:
            check = partial(_check_sent, file, place)
            commit = ""
            sent = send_to_store(files, place, overwrite=overwrite, check=check)
    at = f"@{commit}" if commit else ""
    return PushResult(
        url=f"{place.url}{at}/{file.path.name}",
        commit=commit,
        sent=tuple(sent),
        unchanged=tuple(name for name in files if name not in sent),
    )


def _check_sent(file: EmbeddingFile, place: Place) -> None:
    """Refuse to have sent other bytes than those that were verified, and that the page is of."""
    try:
        file.check_unchanged()
    except UserError as error:
        raise UserError(
            f"{file.path} changed while it was sent, and {place.url} may have bytes of two files",
            "run the command again with --overwrite",
        ) from error


def _parcel(file: EmbeddingFile, place: Place, licence: str, folder: Path) -> dict[str, Path]:
    """All files of a push; the page comes last, so that it never speaks of what is not there."""
    files = {file.path.name: file.path}
    tables = {}
    has_rows = file.kind == hdf5_layout.EMBEDDING
    if place.repository and has_rows:
        for number, split in enumerate(sample_metadata.SPLITS):
            if (file.split == number).any():
                tables[split] = f"data/{HUB_SPLITS[split]}.parquet"
                files[tables[split]] = write_parquet(file, folder / f"{split}.parquet", number)
    name = f"{file.path.stem}.png" if has_rows else ""
    page = card_page(
        inspect.card(file),
        licence=licence,
        place=place.url,
        picture=name,
        parquet=tables,
        sha256=file.sha256(),
    )
    pictures = {name: picture(file)} if has_rows else {}
    for made, content in (pictures | {PAGE: page.encode()}).items():
        files[made] = folder / made
        write_safely(files[made], content, sync=False)
    return files


# --- the picture on the page ---


WIDTH, DPI = 4.5, 160  # inches, and dots to the inch: 720 of them


def picture(file: EmbeddingFile) -> bytes:
    """Return a PNG of a file, the one that `inspect --map` draws."""
    from embedbench.reports import figure_style, picture_of_file

    return figure_style.render_figure(picture_of_file.draw_file(file, WIDTH), "png", dpi=DPI)


# --- to the hub ---


def send_to_hub(
    files: Mapping[str, Path],
    place: Place,
    message: str,
    *,
    private: bool,
    overwrite: bool,
    quiet: bool,
) -> tuple[str, list[str]]:
    """Bring files to a data set, which is made if it is missing; all in one commit.

    `files` are by their path in the repository. Returns the commit that has all of them, and the
    names of those that were sent.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if quiet or not sys.stderr.isatty():
        disable_progress_bars()
    api = HfApi()
    name = place.repository
    kind = "dataset"
    try:
        api.create_repo(name, repo_type=kind, private=private or None, exist_ok=True)
        info = api.repo_info(name, repo_type=kind)
        if private and not info.private:
            raise UserError(
                f"{name} is there already and public",
                "push to another name, or make it private in its settings",
            )
        head = str(info.sha)
        there = api.get_paths_info(name, list(files), repo_type=kind, revision=head)
        same = {i.path: _is_same(i, files[i.path]) for i in there if isinstance(i, RepoFile)}
        new = check_replaced(files, same, place, overwrite)
        if not new:
            return head, []
        parts = [CommitOperationAdd(path, files[path]) for path in new]
        commit = api.create_commit(
            name, parts, commit_message=message, repo_type=kind, parent_commit=head
        )
    except UserError:
        raise
    except Exception as error:  # each version of the library raises others without a network
        raise remote_servers.hub_refused(place.url, name, error) from None
    return str(commit.oid), new


def _is_same(there: Any, content: Path) -> bool:
    """Whether a file of the hub has this content; small files go by git's SHA-1."""
    from huggingface_hub.utils.sha import git_hash

    if there.lfs:
        return bool(there.lfs.sha256 == user_cache.sha256(content))
    return bool(there.blob_id == git_hash(content.read_bytes()))


def check_replaced(
    files: Mapping[str, Path], same: Mapping[str, bool], place: Place, overwrite: bool
) -> list[str]:
    """The names of the files that are to be sent; none is replaced, unless `--overwrite` was given.

    `same` says of those that are there whether they have the same content.
    """
    new = [name for name in files if not same.get(name)]
    if (names := [name for name in new if name in same]) and not overwrite:
        raise UserError(
            f"{place.url} has {', '.join(names)} with other content",
            "push to another place, or add --overwrite",
        )
    return new


# --- a folder of a store by its URL ---


def send_to_store(
    files: Mapping[str, Path], place: Place, *, overwrite: bool, check: Callable[[], None]
) -> list[str]:
    """Bring files to a folder, one after the other; return the names of those that were sent.

    `check` is called when the bytes of a file have been read; what it raises ends the work. In a
    folder of this machine the file has not got its name yet.
    """
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    with remote_servers.explain_store_errors(place.url):
        store, root = url_to_fs(place.url)
        store.invalidate_cache()
        same = {}
        for name, content in files.items():
            with suppress(FileNotFoundError), store.open(f"{root}/{name}", "rb") as file:
                there = hashlib.file_digest(file, "sha256").hexdigest()
                same[name] = there == user_cache.sha256(content)
        new = check_replaced(files, same, place, overwrite)
        # stores of buckets have no folders, and a bucket that is missing is a slip of the pen
        if place.url.partition("://")[0] not in remote_servers.PACKAGES:
            store.makedirs(root, exist_ok=True)
        for name in new:
            if isinstance(store, LocalFileSystem):
                with writing(Path(root, name)) as temporary:
                    shutil.copyfile(files[name], temporary)
                    check()
            else:
                store.put_file(str(files[name]), f"{root}/{name}")
                check()
    return new
