"""The folders of papers: their `paper.toml` and `paper.py`, by the paper's name or alias.

Names and plans are read from the TOML, because importing a paper takes seconds (torch).
"""

import importlib
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.errors import unknown

if TYPE_CHECKING:
    from .paper import Paper


@cache
def _folders() -> dict[str, dict[str, Any]]:
    """The `paper.toml` of every folder: citation, learners, plan, printed tables."""
    paths = sorted(Path(__file__).parent.glob("*/paper.toml"))
    return {path.parent.name: tomllib.loads(path.read_text("utf-8")) for path in paths}


def names() -> dict[str, tuple[str, ...]]:
    """Return the name and then the aliases of every paper, by folder.

    >>> names()["fscil"]
    ('tang2024', 'fscil')
    """
    return dict(_names())


@cache
def _names() -> dict[str, tuple[str, ...]]:
    """The same, from what stands before the first table of each file: every command asks."""
    result = {}
    for path in sorted(Path(__file__).parent.glob("*/paper.toml")):
        head, _, _ = path.read_text("utf-8").partition("\n[")
        given = tomllib.loads(head)
        result[path.parent.name] = (given["name"], *given.get("aliases", ()))
    return result


def paper(name: str) -> "Paper":
    """Return the paper with this name or alias."""
    module = importlib.import_module(f"{__package__}.{folder_of(name)}.paper")
    result: Paper = module.PAPER
    return result


def facts(name: str) -> dict[str, Any]:
    """Return the `paper.toml` of the paper with this name or alias; nothing slow is imported."""
    return _folders()[folder_of(name)]


def folder_of(name: str) -> str:
    """Return the folder of the paper with this name or alias."""
    folders = {known: folder for folder, of_folder in names().items() for known in of_folder}
    if name not in folders:
        raise unknown("paper", name, list(folders))
    return folders[name]
