"""The hostile suite: cases drawn from seeds, run in processes of their own, and counted.

`make test` runs a small share of each kind, `make fuzz` all of them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from victim import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Runs commands."""
    with Server() as running:
        yield running


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many cases of each kind there were, and their faults."""
    cases: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "call":
                continue
            for name, value in getattr(report, "user_properties", ()):
                if name.startswith("hostile "):
                    cases[name.removeprefix("hostile ")] += value
    for name, n in sorted(cases.items()):
        terminalreporter.write_line(f"hostile: {n:5d} {name}")
