"""Known files: the embedding files that the package ships, by the name `known:NAME`."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from embedbench.config.json_records import JsonRecord, parse_toml
from embedbench.errors import unknown

from .uri import KNOWN

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
