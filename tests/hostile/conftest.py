"""The hostile suite: cases drawn from seeds, run in processes of their own.

`make test` runs a small share of each kind, `make fuzz` all of them.
"""

from collections.abc import Iterator

import pytest
from victim import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Runs commands."""
    with Server() as running:
        yield running
