"""One team's runs and their pack, made once; a file to push; a hub."""

from collections.abc import Iterator
from pathlib import Path

import hub_server
import pytest
from file_helpers import PROVENANCE, make_features, make_samples
from hub_server import Hub
from packs import members, runs_of, write_members

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.write_file import write_file
from embedbench.sharing.pack import pack


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file `e.h5`, `runs` on it, and their pack `a.zip`."""
    folder = tmp_path_factory.mktemp("jane-doe")
    pack(runs_of(folder), folder / "a.zip", by="Team A", date="2026-11-22")
    return folder


@pytest.fixture(scope="session")
def lean(team: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack with the runs of seed 0 alone: of ncm, slda and chance."""
    kept = {n: d for n, d in members(team / "a.zip").items() if "/seed-" not in n or "seed-0/" in n}
    return write_members(tmp_path_factory.mktemp("lean") / "a.zip", kept)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddingFile:
    """A file of 60 samples; the picture of a push is not drawn, which is slow."""
    content = "embedbench.sharing.push_file.picture"
    monkeypatch.setattr(content, lambda file: file.digests["content"].encode())
    return write_file(tmp_path / "a.h5", make_samples(60), make_features(60), PROVENANCE)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, file: EmbeddingFile) -> Iterator[Hub]:
    with hub_server.serving() as hub:
        hub_server.use(monkeypatch, hub)
        yield hub
