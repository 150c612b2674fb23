"""Known files: names of published files, `known:NAME`, from TOML files.

The package ships one, `assets/known.toml`; `EMBEDBENCH_KNOWN` names more, with `:` between them.
docs/files.md describes an entry.
"""

import os
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from embedbench.config.json_records import JsonRecord, parse_toml
from embedbench.errors import UserError, unknown
from embedbench.storage.regular_files import read_text

from .uri import KNOWN, LOCAL, Name

SHIPPED = "shipped:"  # of a URL: a file of the package
_TEXT = r".*\S.*", "a text; where it is not known, unknown"
_DIGEST = r"[0-9a-f]{64}", "64 hexadecimal digits"
_RULES = {
    "url": _TEXT,
    "what": _TEXT,
    "licence": _TEXT,
    "size": (r"[1-9]\d*", "a number of bytes"),
    "name": (r"[a-z0-9][a-z0-9._-]*", "of small letters, digits, '.', '_' and '-'"),
}


@dataclass(frozen=True, kw_only=True)
class CatalogEntry(JsonRecord):
    """A known file: its name (`shipped:FILE` in the package), bytes and digests, what it holds."""

    url: str
    what: str
    licence: str
    size: int
    sha256: str
    content: str
    samples: str
    recipe: str


def known_files() -> dict[str, CatalogEntry]:
    """All known files by name; a later file's entry replaces an earlier one's."""
    more = filter(None, os.environ.get("EMBEDBENCH_KNOWN", "").split(os.pathsep))
    paths = [_assets() / "known.toml", *map(Path, more)]
    return {name: entry for path in paths for name, entry in read(path).items()}


def read(path: Path) -> dict[str, CatalogEntry]:
    """Read and check a file of entries."""
    tables = parse_toml(read_text(path, 2**22), str(path))
    return {name: _checked(values, name, f"{path}: {name}") for name, values in tables.items()}


def entry(text: str) -> CatalogEntry:
    """The known file that `known:NAME` names; a UserError if there is none."""
    files, name = known_files(), text.removeprefix(KNOWN)
    if name not in files:
        raise unknown("file", name, files)
    return files[name]


def find_shipped(text: str) -> Path | None:
    """The path of a known file that the package ships; None for other names."""
    if not text.startswith(KNOWN):
        return None
    url = entry(text).url
    return _assets() / url.removeprefix(SHIPPED) if url.startswith(SHIPPED) else None


def _assets() -> Path:
    return Path(str(resources.files("embedbench") / "assets"))


def _checked(values: object, name: str, where: str) -> CatalogEntry:
    """An entry whose values can be true."""
    known = CatalogEntry.from_json(values, where)
    for key, value in {"name": name, **vars(known)}.items():
        rule, words = _RULES.get(key, _DIGEST)
        if not re.fullmatch(rule, str(value), re.DOTALL):
            raise UserError(f"{where}: {key} must be {words}")
    shipped = known.url.removeprefix(SHIPPED)
    if shipped == known.url:
        try:
            scheme = Name.parse(known.url).scheme
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if scheme in LOCAL:
            raise UserError(f"{where}: {known.url!r} is on one machine only; name it elsewhere")
    elif "/" in shipped or not (_assets() / shipped).is_file():
        raise UserError(f"{where}: the package ships no file {shipped!r}")
    return known
