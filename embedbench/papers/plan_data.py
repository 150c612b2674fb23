"""The data sets of a paper's plan, with what several papers share."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def read_shared() -> dict[str, Any]:
    """`shared.toml`: rates, and data sets that several papers have."""
    text = (Path(__file__).parent / "shared.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def plan_data(paper: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the data sets of a paper's plan, with what several papers share."""
    shared = read_shared()["data"]
    return [{**shared.get(given.get("shared"), {}), **given} for given in paper["plan"]["data"]]
