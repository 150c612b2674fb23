"""Fetch a file by its name: from the cache, or else by a download; paths stay paths."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError
from embedbench.system.callback_types import Callbacks, Notify, Progress

from .names_here import find_here
from .uri import KNOWN, Name, as_written, is_name

if TYPE_CHECKING:
    from embedbench.files.embedding_file import EmbeddingFile

    from .download_cache import FetchedFile


@check_arguments
def local(
    name: str | Path,
    *,
    progress: Progress = lambda *_: None,
    notify: Notify = lambda _: None,
) -> Path:
    """The path of a file, which is fetched if its name says that it lies elsewhere.

    A path stays a path, and costs nothing. The network is asked only for names, and not for a fixed
    one (see `files.remote.uri`) that was fetched before.

    Parameters
    ----------
    name : str or Path
        A path, or a name such as `hf://datasets/ORG/NAME@REV/file.h5`.
    progress : callable
        Takes the bytes that have arrived, and those of the file.

    Raises
    ------
    UserError
        The file cannot be had, or is not what its name says.
    """
    text = str(name)
    if not is_name(text):
        return Path(name)
    return find_here(text) or Path(fetch(text, progress=progress, notify=notify).path)


def open_file(name: str | Path, **calls: Unpack[Callbacks]) -> "EmbeddingFile":
    """Open the file of a path or a name; what is opened is what the name says."""
    from embedbench.files.embedding_file import EmbeddingFile

    path = local(name, **calls)
    file = EmbeddingFile.open(path)
    if is_name(str(name)) and local(name, **calls) != path:  # its SHA-256 is compared again
        raise UserError(f"{name} changed while it was opened", "run the command again")
    return file


def pin_name(name: str, **calls: Unpack[Callbacks]) -> str:
    """The name that can mean only what `name` means now; the file is fetched.

    Such a name needs no network on this machine, and means the same on another one. A path stays
    as it is.
    """
    if not is_name(name) or name.startswith(KNOWN):
        return as_written(name)
    return str(here) if (here := find_here(name)) else fetch(name, **calls).fixed


def fetch(text: str, **calls: Unpack[Callbacks]) -> "FetchedFile":
    """Fetch the file of a name, unless it is in the cache; see `local`."""
    from .download_cache import download, find
    from .remote_servers import ask

    name = Name.parse(text)
    if (result := find(name)) is None:
        remote = ask(name)
        result = find(name, remote) or download(name, remote, **calls)
    return result


def origin(name: str) -> "FetchedFile | None":
    """The origin of a file that was fetched by a fixed name; None for paths."""
    from .download_cache import find

    return None if not is_name(name) or find_here(name) else find(Name.parse(name))
