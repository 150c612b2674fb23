"""Published values that ship with the package."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def published(paper: str) -> dict[str, Any]:
    """The published values of a paper: tables by their names, and known misprints."""
    asset = resources.files("embedbench") / "assets" / f"{paper}.json"
    found: dict[str, Any] = json.loads(asset.read_text(encoding="utf-8"))
    return found
