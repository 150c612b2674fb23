"""One team's runs and their pack, made once."""

from pathlib import Path

import pytest
from packs import runs_of

from embedbench.sharing.pack import pack


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file `e.h5`, `runs` on it, and their pack `a.zip`."""
    folder = tmp_path_factory.mktemp("jane-doe")
    pack(runs_of(folder), folder / "a.zip", by="Team A", date="2026-11-22")
    return folder
