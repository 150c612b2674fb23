"""The user's cache directory: facts about files are kept there, so that none is read twice.

No result depends on it. What is missing or damaged there is made again. Where the directory cannot
be written no fact is kept, and large tables are refused (`files.mmap_cache`). It never lies in a
directory of runs.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedbench.errors import UserError

from .atomic_write import write_safely

FRESH = 2.0  # seconds; a younger file can change again and keep its times


def directory() -> Path:
    """The directory: $EMBEDBENCH_CACHE, or `embedbench` in the user's directory of caches."""
    if given := os.environ.get("EMBEDBENCH_CACHE"):
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "embedbench"


def make_directory(kind: str, what: str) -> Path:
    """Make a private directory in it, unless it is there; a UserError says that `what` needs it."""
    place = directory() / kind
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make {place} ({error.strerror}), where {what} belongs",
            "name another directory with EMBEDBENCH_CACHE",
        ) from error
    return place


def check_room(place: Path, needed: int, what: str) -> None:
    """Refuse to begin what the disk of a directory cannot hold, in bytes."""
    free = shutil.disk_usage(place).free
    if needed > free:
        raise UserError(
            f"{what} needs {needed / 1e9:,.1f} GB in {place}, and {free / 1e9:,.1f} GB are free",
            "free some space, or name another directory with EMBEDBENCH_CACHE",
        )


def is_mine(path: Path) -> bool:
    """Whether this user wrote a file; what another one wrote is not believed."""
    return path.lstat().st_uid == os.getuid()


def identity(path: Path | int) -> str:
    """Device, inode, size and times of a file, or of an open one by its descriptor.

    The text changes whenever the file does.
    """
    s = os.stat(path)
    return f"{s.st_dev}-{s.st_ino}-{s.st_size}-{s.st_mtime_ns}-{s.st_ctime_ns}"


def state(path: Path | int) -> str:
    """`identity` without the device, which has another number on each machine."""
    return identity(path).partition("-")[2]


def is_changed(path: Path, before: str) -> bool:
    """Whether a file has another identity than `before`; one that is not there has ""."""
    return _identity_if_there(path) != before


def check_unchanged(path: Path, before: str) -> None:
    """Refuse a file that is not the one any more that had the identity `before`."""
    check_identities(path, {str(path): before})


@contextlib.contextmanager
def refuse_changes(*paths: Path) -> Iterator[None]:
    """Refuse what is read inside where a file changes meanwhile; of a folder, any file in it.

    What reads a file twice, or several files that belong together, reads them in here: otherwise
    half of what it returns may come from one file, and half from another that took its place.
    """
    before = [(path, identities(path)) for path in paths]
    yield
    for path, earlier in before:
        check_identities(path, earlier)


def check_identities(path: Path, before: dict[str, str]) -> None:
    """Refuse a file, or a folder, of which a file is not as it was; new files do not matter."""
    for file, earlier in before.items():
        if is_changed(Path(file), earlier):
            raise UserError(f"{path} changed while it was read", "run the command again")


def identities(path: Path) -> dict[str, str]:
    """The identity of a file; of a folder, that of each file below it, by path in that order.

    What is not there has "".
    """
    files = [path]
    if path.is_dir():
        files = []
        for here, _, names in os.walk(path):
            files += [Path(here, name) for name in names]
    return {str(file): _identity_if_there(file) for file in sorted(files)}


def _identity_if_there(path: Path) -> str:
    try:
        return identity(path)
    except OSError:
        return ""


def load(kind: str, key: str) -> Any | None:
    """A value that `save` kept, as JSON values; None if there is none.

    What another user wrote is not believed.
    """
    try:
        if not is_mine(_place(kind, key)):
            return None
        return json.loads(_place(kind, key).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def save(kind: str, key: str, value: Any) -> None:
    """Keep JSON values for `load`; do nothing where that fails.

    `kind` names a directory, `key` is any text on which the value depends.
    """
    place = _place(kind, key)
    with contextlib.suppress(OSError, UserError):
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_safely(place, json.dumps(value), sync=False)


def recall(kind: str, path: Path, version: str = "") -> Any | None:
    """The value that `remember` kept of a file that is unchanged since; None if there is none."""
    return load(kind, f"{version} {identity(path)}")


def remember(kind: str, path: Path, value: Any, before: str, version: str = "") -> None:
    """Keep a fact about a file, unless the file is so young that its times may not tell.

    `before` is its `identity` before it was read: if that has changed, nothing is kept. `version`
    is that of the code that found the fact.
    """
    with contextlib.suppress(OSError):
        s = path.stat()
        young = time.time() - max(s.st_mtime, s.st_ctime) < FRESH
        if not young and identity(path) == before:
            save(kind, f"{version} {before}", value)


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; of a file that was hashed before it is looked up."""
    kept = recall("sha256", path)
    if isinstance(kept, str):
        return kept
    before = identity(path)
    with path.open("rb") as file:
        value = hashlib.file_digest(file, "sha256").hexdigest()
    remember("sha256", path, value, before)
    return value


def _place(kind: str, key: str) -> Path:
    name = hashlib.sha256(key.encode()).hexdigest()
    return directory() / kind / name[:2] / f"{name[2:]}.json"
