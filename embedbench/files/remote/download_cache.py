"""The cache of downloaded files: `files/SHA256/NAME` in the user's cache directory.

They lie by the SHA-256 of their bytes, so that several names of one content are one file. Nobody
else can read them, what another user wrote is not believed, and a file that has changed since it
was fetched is fetched again.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from embedbench.config.json_records import UNWRITTEN, JsonRecord, parse_json
from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile, verify
from embedbench.storage import atomic_write, leases, regular_files, user_cache
from embedbench.storage.atomic_write import continuing
from embedbench.storage.user_cache import is_mine
from embedbench.system.callback_types import Notify, Progress

from .remote_servers import LostError, Remote, ask, file_changed
from .uri import Name

ABOUT = ".about.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class FetchedFile(JsonRecord):
    """A file that was fetched: its name (of the hub with the commit), bytes and digests."""

    url: str
    commit: str | None = None
    sha256: str
    size: int
    digests: dict[str, str]
    path: str = field(default="", metadata=UNWRITTEN)

    @property
    def fixed(self) -> str:
        """A name that can mean this content only."""
        return self.url if self.commit else str(Name(self.url, self.sha256))


def directory() -> Path:
    """The directory of the files; it is made if it is not there."""
    place = user_cache.make_directory("files", "a fetched file")
    if not is_mine(place):
        raise UserError(
            f"{place}, where fetched files lie, belongs to another user",
            "name another directory with EMBEDBENCH_CACHE",
        )
    return place


def find(name: Name, remote: Remote | None = None) -> FetchedFile | None:
    """The file that a server means now, or else that a fixed name means.

    None if it was not fetched, has changed since, or the name may mean another one.
    """
    now = remote or name
    version = remote.version if remote else name.commit
    sha256 = name.sha256 or (remote.sha256 if remote else None)
    if not sha256 and version:
        sha256 = user_cache.load("names", key(now.url, version))
    about = _about(user_cache.directory() / "files" / sha256) if isinstance(sha256, str) else None
    if about is None or user_cache.sha256(Path(about.path)) != sha256:
        return None
    if remote is not None and about.size != remote.size:
        return None  # what a server calls one version may be of two contents
    if remote is not None:
        remember(remote, sha256)
    return replace(about, url=now.url, commit=now.commit)


def remember(remote: Remote, sha256: str) -> None:
    """Keep what a name means in a version."""
    if remote.version:
        user_cache.save("names", key(remote.url, remote.version), sha256)


def key(url: str, version: str) -> str:
    """The key of what a URL means in one version: a commit, an ETag, …."""
    return f"{url} {version}"


def put(arrived: Path, about: FetchedFile, name: Name) -> FetchedFile:
    """Take in a file that was verified; it disappears from its place."""
    path = directory() / about.sha256 / name.basename
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for damaged in _files(path.parent):
        damaged.unlink()
    atomic_write.sync_path(arrived)
    arrived.replace(path)
    atomic_write.sync_path(path.parent)
    atomic_write.write_safely(path.parent / ABOUT, json.dumps(about.to_json()))
    return replace(about, path=str(path))


def entries() -> list[FetchedFile]:
    """All fetched files."""
    places = sorted((user_cache.directory() / "files").glob("*"))
    found = (_about(place) for place in places if _SHA256.fullmatch(place.name))
    return [file for file in found if file]


def _files(place: Path) -> list[Path]:
    """The file in a directory; earlier versions kept several names of it."""
    return sorted(p for p in place.iterdir() if not p.name.startswith("."))


def _about(place: Path) -> FetchedFile | None:
    """The facts of the file in a directory; None where something is missing or not ours."""
    about = place / ABOUT
    try:
        files = _files(place)
        if not files or not all(map(is_mine, (place, about, files[0]))):
            return None
        kept = FetchedFile.from_json(parse_json(regular_files.read_text(about), str(about)))
        return replace(kept, path=str(files[0]))
    except (OSError, UserError):
        return None


# --- downloads: continued after an interruption, verified, and only then named ---


ATTEMPTS = 3  # without a new byte


def download(
    name: Name,
    remote: Remote,
    *,
    progress: Progress = lambda *_: None,
    notify: Notify = lambda _: None,
) -> FetchedFile:
    """Fetch a file that is not in the cache; of several processes one fetches, the others wait.

    What has arrived is kept after an error, unless it is wrong. By hand, since the hub's client and
    fsspec begin an interrupted download anew, and name a file before it is verified.
    """
    place = directory()
    version = f"{remote.version} {remote.size}"
    mark = hashlib.sha256(key(remote.url, version).encode()).hexdigest()
    path = place / f"{mark[:32]}.partial"
    lease = leases.wait(
        path.with_suffix(".lease"),
        lambda: find(name, remote) is not None,
        name.url,
        notify,
    )
    if lease is None:
        return find(name, remote) or download(name, remote, progress=progress, notify=notify)
    with lease:
        sha256 = _arrive(path, name, remote, progress)
        expected = name.sha256 or remote.sha256
        if sha256 != expected and expected:
            path.unlink()
            raise UserError(
                f"{remote.url} has the SHA-256 {sha256}, expected {expected}; it is another file "
                "than the one that was named"
            )
        about = FetchedFile(
            url=remote.url,
            commit=remote.commit,
            sha256=sha256,
            size=remote.size,
            digests=_verified(path, remote.url),
        )
        made = put(path, about, name)
    remember(remote, sha256)
    return made


def _arrive(path: Path, name: Name, remote: Remote, progress: Progress) -> str:
    """Write the bytes that are missing of a partial file; return the SHA-256 of all."""
    with continuing(path, f"{remote.url} to the cache") as file:
        have = file.seek(0, os.SEEK_END)
        if not remote.version or have > remote.size:
            have = file.seek(file.truncate(0))  # nothing says that it is the same file
        user_cache.check_room(path.parent, remote.size - have, remote.url)
        now, left = remote, ATTEMPTS
        while have < remote.size:
            before = have
            try:
                for piece in now.read(have, remote.size):
                    file.write(piece)
                    have += len(piece)
                    progress(have, remote.size)
                if have < remote.size:
                    raise LostError(
                        f"{remote.url} ended after {have:,} of {remote.size:,} bytes; run the "
                        "command again to go on from there"
                    )
            except LostError:
                left = ATTEMPTS if have > before else left - 1
                if not left or not remote.version:
                    raise
                now = ask(name)  # its address may have been for a short time
                if (now.version, now.size) != (remote.version, remote.size):
                    raise file_changed(remote.url) from None
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verified(path: Path, url: str) -> dict[str, str]:
    """The digests of an embedding file that has arrived, after all of it was verified.

    What is none, or is damaged, is removed.
    """
    try:
        faults = verify(path)
        if faults:
            raise DamagedFileError(faults[0])
        return dict(EmbeddingFile.open(path).digests)
    except UserError as error:
        path.unlink(missing_ok=True)
        reason = str(error).replace(str(path), "it")
        sentence = f"{url} was fetched and is not kept: {reason}"
        raise error.reworded(sentence) from None
