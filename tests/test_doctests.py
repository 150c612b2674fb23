"""The examples in docstrings run, and there are some."""

import doctest
import importlib
import pkgutil

import pytest

import embedbench

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(embedbench.__path__, "embedbench.")
    if not m.ispkg and not m.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
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
