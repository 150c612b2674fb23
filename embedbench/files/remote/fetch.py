"""Fetch a file by its name: from the cache, or else by a download; paths stay paths."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from embedbench.config.json_records import JsonRecord, parse_toml
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError, unknown
from embedbench.storage import user_cache
from embedbench.storage.regular_files import check_regular, explain_errors
from embedbench.system.callback_types import Callbacks, Notify, Progress

from .uri import KNOWN, LOCAL, Name, as_written, is_name

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


def find_here(text: str) -> Path | None:
    """The path of a name that is never fetched: of a file of the package, or `file:///…`."""
    if text.startswith(KNOWN):
        return find_known(text)
    name = Name.parse(text)
    if name.scheme not in LOCAL:
        return None
    path = Path(name.path).expanduser()
    with explain_errors(f"{path} cannot be read", "check the name"):
        check_regular(path.stat().st_mode)
        sha256 = user_cache.sha256(path) if name.sha256 else None
    if sha256 != name.sha256:
        raise UserError(
            f"{path} has the SHA-256 {sha256}, expected {name.sha256}; it is another file than the "
            "one that was named"
        )
    return path


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


# --- the embedding files that the package ships, by the name `known:NAME` ---


ASSETS = Path(str(resources.files("embedbench") / "assets"))


@dataclass(frozen=True, kw_only=True)
class CatalogEntry(JsonRecord):
    """An entry of `assets/known.toml`: what a file holds, its licence, bytes and digests."""

    what: str
    licence: str
    size: int
    sha256: str
    content: str
    samples: str
    recipe: str


def known_files() -> dict[str, CatalogEntry]:
    """All known files by name."""
    tables = parse_toml((ASSETS / "known.toml").read_text(encoding="utf-8"), "known.toml")
    return {name: CatalogEntry.from_json(values, name) for name, values in tables.items()}


def find_known(text: str) -> Path:
    """The path of the known file that `known:NAME` names; a UserError if there is none."""
    files, name = known_files(), text.removeprefix(KNOWN)
    if name not in files:
        raise unknown("file", name, files)
    return ASSETS / f"{name}.h5"
