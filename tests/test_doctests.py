"""The examples in docstrings run."""

import doctest
import importlib
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(str(files("embedbench")))
FOLDERS = [path for path in ROOT.iterdir() if path.is_dir()]  # three are links
PATHS = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in folder.rglob("*.py"))]
MODULES = {
    path.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", ".")
    for path in PATHS
    if ">>> " in path.read_text(encoding="utf-8")
}
# Those of learners train; two of them run on every change, the others in CI.
LEARNERS = {name for name in MODULES if name.startswith("embedbench.models.")}
OFTEN = {"embedbench.models.ncm", "embedbench.models.mlp"}
SELDOM = [pytest.param(n, marks=pytest.mark.thorough) for n in sorted(LEARNERS - OFTEN)]


@pytest.mark.parametrize("name", [*sorted(MODULES - LEARNERS | OFTEN), *SELDOM])
def test_examples_of(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried > 0
