"""One thread: the tests' matrices are small, and threads that wait for each other take longer."""

import gc
import os
import sys

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch and NumPy are imported


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Undo what a run in an earlier test has set."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests' entries out of the user's cache directory."""
    os.environ["EMBEDBENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def pytest_collection_finish() -> None:
    """The garbage collector need not walk over thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()
