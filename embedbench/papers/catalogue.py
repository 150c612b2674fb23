"""The papers that can be reproduced: every folder here with a `paper.toml` and a `paper.py`.

Names and plans are read from the TOML, because importing a paper takes seconds (torch).
"""

import importlib
from typing import TYPE_CHECKING, Any

from embedbench.errors import UserError, unknown

from .paper_facts import PACKAGE, folders, read_paper

if TYPE_CHECKING:
    from .paper import Paper


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


def paper(name: str) -> "Paper[Any]":
    """Return the paper with this name or alias.

    Raises
    ------
    UserError
        No paper has this name, or its folder has no paper.
    """
    result: Paper[Any] = importlib.import_module(f"{PACKAGE}.{_folder(name)}.paper").PAPER
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
