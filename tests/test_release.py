"""What a release says of itself agrees in all places."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

from embedbench.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def test_version_and_licence_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == citation["version"] == __version__
    assert project["license"] == citation["license"]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
