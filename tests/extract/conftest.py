"""Images, and weights of the smallest backbone, made once for the tests that only read them."""

from pathlib import Path

import pytest
from tiny_images import TINY, images, weights


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder `in` of twelve images."""
    return str(images(tmp_path_factory.mktemp("pictures") / "in", 12))


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of weights of `TINY`."""
    return weights(tmp_path_factory.mktemp("weights") / "w.safetensors", TINY)
