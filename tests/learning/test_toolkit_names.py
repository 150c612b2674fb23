"""Modules that import a name when it is first used: type checkers see the same names."""

import ast
from pathlib import Path
from typing import Any

import pytest

import embedbench
from embedbench import api, extract, learning


@pytest.mark.parametrize("module", [api, embedbench, extract, learning])
def test_every_name_of_the_list_is_known(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (hidden,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {a.name for node in hidden.body for a in getattr(node, "names", [])}
    listed = getattr(module, "_HOMES", names)
    assert names == {n for n in listed if getattr(module, n) is not None}
    with pytest.raises(AttributeError, match="has no attribute 'Lerner'"):
        module.Lerner  # noqa: B018
