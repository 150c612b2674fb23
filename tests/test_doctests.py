"""The examples in docstrings run, and there are some."""

import doctest
import importlib
import os
import pkgutil

import pytest

import embedbench

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(embedbench.__path__, "embedbench.")
    if not m.ispkg and not m.name.endswith("__main__")
)
# The example of a learner trains it: without THOROUGH=1 a third of them is run.
LEARNERS = [name for name in MODULES if name.startswith("embedbench.models.")]
LATER = {n for i, n in enumerate(LEARNERS) if i % 3 and os.environ.get("THOROUGH") != "1"}


@pytest.mark.parametrize("name", [name for name in MODULES if name not in LATER])
def test_examples_of(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples_to_run() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [t for name in MODULES for t in finder.find(importlib.import_module(name))]
    assert sum(len(t.examples) for t in found) >= 5
    assert {"embedbench.cli.app", "embedbench.models.ncm", "embedbench.extract.open_source"} <= set(
        MODULES
    )
