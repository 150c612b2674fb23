"""The `paper.toml` of every paper: citation, learners, plan, printed tables."""

import importlib
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from embedbench.errors import UserError

PACKAGE = "embedbench.papers"


def folders() -> dict[str, Path]:
    """Return the `paper.toml` of every folder, by the folder's name."""
    places = importlib.import_module(PACKAGE).__path__
    paths = (path for place in places for path in Path(place).glob("*/paper.toml"))
    return {path.parent.name: path for path in sorted(paths)}


@cache
def read_paper(path: Path) -> dict[str, Any]:
    """Return the content of a `paper.toml`.

    Raises
    ------
    UserError
        It is not TOML, or has no name, citation or stem.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as e:
        raise UserError(f"{path} must be TOML ({e})") from None
    if missing := [key for key in ("name", "citation", "stem") if key not in data]:
        raise UserError(f"{path} must hold name, citation and stem; {missing[0]} is missing")
    return data
