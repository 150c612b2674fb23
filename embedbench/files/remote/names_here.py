"""Names of files that are on this machine: `known:NAME` of the package, `file:///…`; no network."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from embedbench.config.json_records import JsonRecord, parse_toml
from embedbench.errors import UserError, unknown
from embedbench.storage import user_cache
from embedbench.storage.regular_files import check_regular, explain_errors

from .uri import KNOWN, LOCAL, Name

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
    columns: str | None = None


def known_files() -> dict[str, CatalogEntry]:
    """All known files by name."""
    tables = parse_toml((ASSETS / "known.toml").read_text(encoding="utf-8"), "known.toml")
    return {name: CatalogEntry.from_json(values, name) for name, values in tables.items()}


def find_known(text: str) -> Path:
    """The path of the known file that `known:NAME` names; a UserError if there is none."""
    files = known_files()
    name = text.removeprefix(KNOWN)
    if name not in files:
        raise unknown("file", name, files)
    return ASSETS / f"{name}.h5"


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


def as_known(path: Path) -> str:
    """A path as it is written, and that of a known file as its name, which every machine has."""
    is_known = path.parent == ASSETS and path.stem in known_files()
    return f"{KNOWN}{path.stem}" if is_known else str(path)
