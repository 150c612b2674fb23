"""Download a file: continued after an interruption, verified, and only then named.

By hand, since the hub's client and fsspec begin anew, and name a file before it is verified.
"""

import hashlib
import os
from functools import partial
from pathlib import Path

from embedbench.errors import DamagedFileError, UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.verify import verify
from embedbench.storage import leases, user_cache
from embedbench.storage.atomic_write import continuing
from embedbench.system.callback_types import Notify, Progress

from . import download_cache
from .download_cache import FetchedFile, find_version
from .remote_servers import LostError, Remote, ask, file_changed
from .uri import Name

ATTEMPTS = 3  # without a new byte


def download(
    name: Name,
    remote: Remote,
    *,
    progress: Progress = lambda *_: None,
    notify: Notify = lambda _: None,
) -> FetchedFile:
    """Fetch a file that is not in the cache; of several processes one fetches, the others wait.

    `progress` and `notify` are as in `fetch.local`.

    Raises
    ------
    UserError
        The file does not arrive, or is not what it should be. What has arrived is kept, unless it
        is wrong.
    """
    place = download_cache.directory()
    mark = hashlib.sha256(download_cache.key(remote.url, remote.version).encode()).hexdigest()
    path = place / f"{mark[:32]}.partial"
    lease = leases.wait(
        path.with_suffix(".lease"),
        lambda: find_version(name, remote) is not None,
        name.url,
        notify,
    )
    if lease is None:
        return find_version(name, remote) or download(
            name, remote, progress=progress, notify=notify
        )
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
        made = download_cache.put(path, about, name)
    download_cache.remember(remote, sha256)
    return made


def _arrive(path: Path, name: Name, remote: Remote, progress: Progress) -> str:
    """Write the bytes that are missing of a partial file; return the SHA-256 of all."""
    with continuing(path, f"{remote.url} to the cache") as file:
        sha, have = hashlib.sha256(), 0
        if not remote.version or os.fstat(file.fileno()).st_size > remote.size:
            file.truncate(0)  # nothing says that it is the same file
        for piece in iter(partial(file.read, 2**20), b""):
            sha.update(piece)
            have += len(piece)
        user_cache.check_room(path.parent, remote.size - have, remote.url)
        now, left = remote, ATTEMPTS
        while have < remote.size:
            before = have
            try:
                for piece in now.read(have, remote.size):
                    if have + len(piece) > remote.size:
                        raise UserError(f"{remote.url} is longer than its server said")
                    file.write(piece)
                    sha.update(piece)
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
    return sha.hexdigest()


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
        reason = str(error).replace(str(path), url)
        raise type(error)(f"{reason} It was fetched, and is not kept.") from None
