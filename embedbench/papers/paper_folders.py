"""The folders of papers: their `paper.toml` and `paper.py`, by the paper's name or alias.

Names and plans are read from the TOML, because importing a paper takes seconds (torch).
"""

import importlib
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.errors import UserError, unknown

if TYPE_CHECKING:
    from .paper import Paper

PACKAGE = "embedbench.papers"


def folders() -> dict[str, Path]:
    """Return the `paper.toml` of every folder, by the folder's name."""
    places = importlib.import_module(PACKAGE).__path__
    paths = (path for place in places for path in Path(place).glob("*/paper.toml"))
    return {path.parent.name: path for path in sorted(paths)}


@cache
def read_paper(path: Path) -> dict[str, Any]:
    """Return a `paper.toml`: citation, learners, plan, printed tables."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as e:
        raise UserError(f"{path} must be TOML ({e})") from None
    if missing := [key for key in ("name", "citation", "stem") if key not in data]:
        raise UserError(f"{path} must hold name, citation and stem; {missing[0]} is missing")
    return data


def names() -> dict[str, tuple[str, ...]]:
    """Return the name and then the aliases of every paper, by folder; none if it is unreadable.

    >>> names()["fscil"]
    ('tang2024', 'fscil')
    """
    result: dict[str, tuple[str, ...]] = {}
    for folder, path in folders().items():
        try:
            data = read_paper(path)
        except UserError:
            result[folder] = ()
        else:
            result[folder] = (data["name"], *data.get("aliases", ()))
    return result


def paper(name: str) -> "Paper":
    """Return the paper with this name or alias."""
    result: Paper = importlib.import_module(f"{PACKAGE}.{_folder(name)}.paper").PAPER
    return result


def facts(name: str) -> dict[str, Any]:
    """Return the `paper.toml` of the paper with this name or alias; nothing slow is imported."""
    return read_paper(folders()[_folder(name)])


def _folder(name: str) -> str:
    """The folder of the paper with this name or alias."""
    known = names()
    for folder, of_folder in known.items():
        if name in of_folder:
            return folder
    if (path := folders().get(name.replace("-", "_"))) is not None:
        read_paper(path)  # says what is wrong with it
    raise unknown("paper", name, [n for of_folder in known.values() for n in of_folder])
