"""Small images in class folders, and their pixel file."""

from pathlib import Path

import pytest
from image_files import colour_folder

from embedbench.extract.pipeline import extract
from embedbench.files.embedding_file import EmbeddingFile

SIZE = 16


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of four noisy colours, ten of each."""
    return colour_folder(tmp_path_factory.mktemp("images"), "abcd", each=10, size=SIZE)


@pytest.fixture(scope="session")
def pixels(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    """Their bytes, a fifth for testing."""
    out = tmp_path_factory.mktemp("pixels") / "pixels.h5"
    return extract(str(folder), out, backbone="none", size=SIZE, split="0.2", device="cpu")
